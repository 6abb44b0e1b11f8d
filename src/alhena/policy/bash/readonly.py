"""Does a command surely only read? Known options of known programs, never a list of bad ones.

What a table cannot say (git, archives, processes, printf) is judged by functions here.
"""

import re
from collections.abc import Callable, Sequence

from alhena.policy.bash.model import Effect, Part, Redirection, Word
from alhena.policy.bash.readonly_words import (
    Given,
    closed_place,
    could_begin_with,
    listed,
    one_word,
    read_words,
    reads_all,
    surely_operand,
)
from alhena.policy.bash.scripts import known_variable, strange_awk, strange_sed
from alhena.policy.programs import Program, main_name, matches, program, tells_version, why_absent

_JQ_AROUND = r"(?:(?<![.\w$])|\.\.)(?:env|import|include)\b|\$\s*(?:ENV|__prog)"
_JQ_WORDS = r"\b(?:env|ENV|import|include|__prog)"
_PS_LETTERS = frozenset("aAcdfghHjlLmnNrsSTuvwxXZ")
_PS_VALUE_LETTERS = frozenset("kOoptU")


def refuse_jq(given: Given) -> str | None:
    """A jq program reads and computes; what it says of the environment may be secret."""
    if given.has("-h", "--help", "-V", "--version"):
        return None
    if not given.operands:
        return "jq lacks its program"
    program = given.operands[0]
    if not program.literal:
        return f"{program.source} could be any program"
    if _jq_looks_around(program.text):
        return "the program shows the environment or reads modules"
    return None


def _jq_looks_around(program: str) -> bool:
    # A name right after a single dot is a field, after a dollar sign a variable; a comment may
    # stand between them.
    return re.search(_JQ_WORDS if "#" in program else _JQ_AROUND, program) is not None


def refuse_ps(given: Given) -> str | None:
    """ps shows processes, but not their environments (`e` as a letter without a dash)."""
    for value in given.values("-o", "-O", "-k", "--format", "--sort"):
        if "env" in value.text or not value.literal:
            return f"{value.source or value.text} may show the environment of processes"
    for value in given.values("-g", "-G", "-p", "-s", "-t", "-u", "-U", "-C"):
        # `-auxe` is `auxe` to a ps that knows no user of the name `xe`.
        if value.source[:1] == "-" and value.text.strip("x,0123456789"):
            return f"{value.source} may show the environment of processes"
    takes_value = False
    for word in given.operands:
        letters = set(word.text)
        if takes_value:
            if "env" in word.text or not word.literal:
                return f"{word.source or word.text} may show the environment of processes"
            takes_value = False
        elif not word.literal or not (
            word.text.isdigit() or letters <= _PS_LETTERS | _PS_VALUE_LETTERS
        ):
            return f"{word.source or word.text} may show the environment of processes"
        else:
            takes_value = word.text[-1:] in _PS_VALUE_LETTERS
    return None


def refuse_search(given: Given) -> str | None:
    """Refuses a search from the top, which comes by /proc and /dev."""
    if any(map(reads_all, given.operands[1:])):
        return "a search from / reads the environments of processes"
    return None


def refuse_rust(words: Sequence[Word]) -> str | None:
    """rustup runs in place of rustc and cargo, and runs the toolchain that a file in the folder
    names (even by its path), unless a toolchain is given."""
    texts = [word.text for word in words if word.literal]
    if len(texts) == len(words) == 2 and texts[1] in {"--version", "-V", "-vV"}:
        name, _, rest = texts[0].removeprefix("+").partition("-")
        number = name.replace(".", "")
        known = name in {"stable", "beta", "nightly"} or (number.isdecimal() and number.isascii())
        if texts[0][:1] == "+" and known and "/" not in rest:
            return None
    return "rustup runs what rust-toolchain.toml names; name a toolchain: rustc +stable --version"


def refuse_awk(given: Given) -> str | None:
    """The reason why an awk with these words may do more than print, as one clause, or None."""
    for value in given.values("-v"):
        name, _, _ = value.text.partition("=")
        if not known_variable(name):
            return f"{value.source or value.text} sets a variable that is not known"
    if not given.operands:
        return "awk lacks its program"
    program, files = given.operands[0], given.operands[1:]
    if not program.literal:
        return f"{program.source} could be any program"
    for file in files:
        if could_begin_with(file, "/inet"):
            return f"{file.source or file.text} could name a network connection"
    refused = strange_awk(program.text)
    return None if refused is None else f"{refused!r} is not known to only print in awk"


def refuse_sed(given: Given) -> str | None:
    """The reason why a sed with these words may do more than print, as one clause, or None."""
    scripts = given.values("-e", "--expression")
    if not scripts:
        if given.has("--help", "--version"):
            return None
        if not given.operands:
            return "sed lacks its script"
        scripts = given.operands[:1]
    for script in scripts:
        if not script.literal:
            return f"{script.source} could be any script"
        refused = strange_sed(script.text)
        if refused is not None:
            return f"{refused!r} is not known to only print in sed"
    return None


_UNARY = frozenset(f"-{letter}" for letter in "bcdefghkLnNOGprsStuwxz")
_TEXT_BINARY = listed("= == != < > -nt -ot -ef")
_NUMBER_BINARY = listed("-eq -ne -lt -le -gt -ge")


def refuse_printf(words: Sequence[Word]) -> str | None:
    """printf prints, unless -v or a %n in the format assigns to a variable."""
    if words and words[0].literal and words[0].text == "--":
        words = words[1:]
    if not words:
        return "printf needs a format"
    form = words[0]
    if not form.literal:
        return f"{form.source} could be -v or a format with %n, which assign to a variable"
    if form.text[:1] == "-":
        return f"{form.text} may make printf assign to a variable"
    if "%" in form.text and not _plain_format(form.text):
        return "the format may make printf assign to a variable (%n)"
    return None


def _plain_format(text: str) -> bool:
    known = (
        r"%%|%[-+ #0']*(?:\*|\d+)?(?:\.(?:\*|\d*))?"
        r"(?:[hlLjzt]*[diouxXeEfFgGaAcsb]|[qQ]|\([^()]*\)T)"
    )
    return "%" not in re.sub(known, "", text)


def refuse_test(words: Sequence[Word]) -> str | None:
    """Tests of files, strings and plain numbers; `-v` and `-R` evaluate subscripts."""
    for word in words:
        if not one_word(word):
            return f"{word.source} could become several words; quote it"
    if len(words) <= 4:
        return _refuse_simple(words)
    start = 0
    for at, word in enumerate(words):
        if not word.literal:
            return f"{word.source} in a compound test could be an operator"
        if word.text in {"-a", "-o"}:
            refusal = _refuse_simple(words[start:at])
            if refusal:
                return refusal
            start = at + 1
    return _refuse_simple(words[start:])


def refuse_bracket(words: Sequence[Word]) -> str | None:
    """`[ … ]` is test."""
    if not words or not words[-1].literal or words[-1].text != "]":
        return "[ lacks its ]"
    return refuse_test(words[:-1])


def _refuse_simple(words: Sequence[Word]) -> str | None:
    if len(words) > 1 and words[0].literal and words[0].text == "!":
        words = words[1:]
    if len(words) <= 1:
        return None
    operator = words[-2]
    if operator.literal:
        if len(words) == 2 and operator.text in _UNARY:
            return None
        if len(words) == 3 and operator.text in _TEXT_BINARY:
            return None
        if len(words) == 3 and operator.text in _NUMBER_BINARY:
            return _refuse_numbers(words[0], words[2])
    return f"{operator.source or operator.text} is not a known operator of test"


def _refuse_numbers(*operands: Word) -> str | None:
    for word in operands:
        if not word.literal or not word.text.strip().lstrip("+-").isdigit():
            return f"{word.source or word.text} is not a plain number, and may be evaluated"
    return None


_TAR_LISTS = r"-?(?=[a-zJ]*t)[tvzjJ]{1,4}f"


def refuse_tar(words: Sequence[Word]) -> str | None:
    """`tar tf FILE`, `tar -tzvf FILE NAME…`: a name with a colon would be a host's."""
    if len(words) == 1 and words[0].literal and words[0].text == "--version":
        return None
    if not words or not words[0].literal or not re.fullmatch(_TAR_LISTS, words[0].text):
        return "tar may do more than list, unless its first word is like -tvf"
    if len(words) < 2 or not words[1].literal or ":" in words[1].text:
        return "the archive that tar lists may be another host's"
    option = next((word for word in words[1:] if not surely_operand(word)), None)
    return None if option is None else f"{option.source or option.text} could be an option"


_LISTING = ("--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at")
_NETWORK = listed("clone fetch ls-remote pull push remote-http send-pack")


def refuse_git(words: Sequence[Word]) -> str | None:
    """The reason why the words after `git` may do more than read, as one clause, or None."""
    table = program("git")
    given = read_words(table, "git", words) if table else "git is not known"
    if isinstance(given, str):
        return given
    if not all(word.literal for word in given.values("-C")):
        return "the directory after git -C is not known"
    if given.has("--version", "-v"):
        return None
    if not given.operands:
        return "git needs a subcommand"
    sub, *rest = given.operands
    return _refuse_subcommand(sub.text, rest)


def _refuse_subcommand(name: str, words: Sequence[Word]) -> str | None:
    table = None
    if words and words[0].literal:
        table = program(f"git {name} {words[0].text}")
    if table is not None and table.reads:
        name, words = f"{name} {words[0].text}", words[1:]
    else:
        table = program(f"git {name}")
    if table is None or not table.reads:
        if name in _NETWORK:
            return f"git {name} uses the network"
        return f"git {name} is not in the list of subcommands that only read"
    given = read_words(table, f"git {name}", words)
    if isinstance(given, str):
        return given
    check = _FORMS.get(name)
    return _refuse_formats(given) or (check(given) if check else None)


def _refuse_formats(given: Given) -> str | None:
    for value in given.values("--format", "--pretty", "--sort"):
        if not value.literal:
            return f"{value.source} could ask for signatures, for which git runs gpg"
        if "signature" in value.text or re.search(r"%[-+ ]?G", value.text):
            return "signatures make git run gpg"
    return None


def _refuse_branch(given: Given) -> str | None:
    if not given.operands or given.has(*_LISTING):
        return None
    patterns = all(word.literal and set("*?[") & set(word.text) for word in given.operands)
    if given.has("-l") and patterns:
        return None
    return "git branch with a name makes a branch; --list lists"


def _refuse_tag(given: Given) -> str | None:
    if not given.operands or given.has("-l", *_LISTING):
        return None
    return "git tag with a name makes a tag; --list lists"


def _refuse_config(given: Given) -> str | None:
    """Reading forms: `--list`, `--get… NAME [PATTERN]`, `NAME`, and the later `list`, `get NAME`
    (to an older git a name without a dot is an error)."""
    texts = [word.text for word in given.operands]
    if given.has("-l", "--list"):
        reads = not texts
    elif given.has("--get", "--get-all", "--get-regexp", "--get-urlmatch"):
        reads = bool(texts)
    elif len(texts) == 2:
        reads = texts[0] == "get" and given.operands[0].literal and "." in texts[1]
    else:
        reads = len(texts) == 1 and ("." in texts[0] or texts[0] == "list")
    return None if reads else "git config in this form may change the configuration"


_FORMS: dict[str, Callable[[Given], str | None]] = {
    "branch": _refuse_branch,
    "tag": _refuse_tag,
    "config": _refuse_config,
}


_PLACES = ("/bin/", "/usr/bin/", "/usr/local/bin/")
_MAX_UNKNOWN = 256
_SAYS_ONLY = frozenset(["echo", "expr", "true", "false", ":"])


def not_read_only(part: Part) -> str | None:
    """The reason why the command may do more than read, as one clause, or None when it surely only
    reads: writes no file, runs no program that its words or the folder's files name, uses no
    network, waits for nothing that may never come, shows no environment of a process. Whether its
    words can be trusted (doubts) and which directories it reads are not asked here; what a program
    keeps for itself (git's index) does not count."""
    if not part.words:
        return "no program is named"
    if part.assignments:
        return f"{part.assignments[0].source} changes the environment"
    for redirection in part.redirections:
        refusal = _refuse_redirection(redirection)
        if refusal is not None:
            return refusal
    first = part.words[0]
    name = program_name(first.text) if first.literal else None
    if name is None:
        return f"{first.source or first.text} is not the plain name of a program"
    return _refuse_program(name, part.words[1:])


def folder_may_run(part: Part) -> str | None:
    """The reason why the working directory's files can make a command that only reads run a
    program, as one clause, or None. Where a folder is not trusted, such a command is no read. For
    git that depends on whether there is a repository (`policy.places`)."""
    words = part.words
    name = program_name(words[0].text) if words and words[0].literal else None
    if name == "go":
        return "go fetches and runs the toolchain that go.mod names"
    return None


def program_name(text: str) -> str | None:
    """The program a literal command word names: a bare name, or one in a system's directory."""
    place = next((each for each in _PLACES if text.startswith(each)), "")
    text = text.removeprefix(place)
    return None if "/" in text or not text else text


def _refuse_redirection(redirection: Redirection) -> str | None:
    target = redirection.target
    if redirection.effect is Effect.WRITE:
        harm = "could open a network connection" if redirection.operator == "<" else "writes"
        return f"{redirection.source} {harm}"
    if redirection.effect is Effect.NONE or target is None:
        return None
    return closed_place(target)


def _refuse_program(name: str, words: Sequence[Word]) -> str | None:
    texts = [word.text for word in words if word.literal]
    if name in _SAYS_ONLY or (len(texts) == len(words) == 1 and tells_version(name, texts[0])):
        return None
    name = main_name(name)
    if name in _LANGUAGES:
        return _LANGUAGES[name](words)
    table = program(name)
    if texts and words[0].literal and table is not None and table.subcommands:
        key = f"{name} {texts[0]}"
        inner = program(key)
        if inner is not None and inner.reads:
            return _refuse_by_table(key, inner, words[1:])
        if not table.reads and any(map(_reads, table.subcommands)):
            return f"{key} is not in the list of commands that only read"
    if table is None or not table.reads:
        return why_absent(name)
    return _refuse_by_table(name, table, words)


def _reads(name: str) -> bool:
    table = program(name)
    return table is not None and table.reads


def _refuse_by_table(name: str, table: Program, words: Sequence[Word]) -> str | None:
    names = not table.form.isdisjoint(("names", "expression"))
    refusal = None if names else _refuse_places(words)
    if refusal is not None:
        return refusal
    given = read_words(table, name, words)
    if isinstance(given, str):
        return given
    if "names" in table.form:  # what an option names may be read all the same
        refusal = _refuse_places([value for _, value in given.options if value is not None])
        if refusal is not None:
            return refusal
    refusal = _refuse_by_patterns(table, given)
    return refusal or (CHECKS[table.check](given) if table.check else None)


def _refuse_by_patterns(table: Program, given: Given) -> str | None:
    for clause, pattern in table.operand_pattern.items():
        for word in given.operands:
            if not matches(pattern, word.text, known=word.literal):
                return f"{word.source or word.text} {clause}"
    for option, value in given.options:
        pattern = table.harmless.get(option)
        if pattern and value and not matches(pattern, value.text, known=value.literal):
            return f"{value.source or value.text} is not known to only read"
    return None


def _refuse_places(words: Sequence[Word]) -> str | None:
    if sum(not word.literal for word in words) > _MAX_UNKNOWN:
        return "there are very many patterns and expansions"
    return next(filter(None, map(closed_place, words)), None)


def _refuse_git(words: Sequence[Word]) -> str | None:
    return _refuse_places(words) or refuse_git(words)


def _refuse_tar(words: Sequence[Word]) -> str | None:
    return _refuse_places(words) or refuse_tar(words)


_LANGUAGES: dict[str, Callable[[Sequence[Word]], str | None]] = {
    "[": refuse_bracket,
    "cargo": refuse_rust,
    "git": _refuse_git,
    "printf": refuse_printf,
    "rustc": refuse_rust,
    "tar": _refuse_tar,
    "test": refuse_test,
}
CHECKS: dict[str, Callable[[Given], str | None]] = {
    "awk": refuse_awk,
    "jq": refuse_jq,
    "ps": refuse_ps,
    "search": refuse_search,
    "sed": refuse_sed,
}
"""Values of `check` in a table -> the function."""
