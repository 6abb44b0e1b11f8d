"""Does a command surely only read? Known options of known programs, never a list of bad ones.

The program's table divides the words of a command into known options and operands; what is not
known is refused, abbreviations of long options too. What a table cannot say (git, archives,
processes, printf) is judged by functions here.
"""

import re
from collections.abc import Callable, Sequence

import msgspec

from alhena.shell.languages.builtins import one_word, refuse_bracket, refuse_printf, refuse_test
from alhena.shell.languages.sed_awk import known_variable, strange_awk, strange_sed
from alhena.shell.options import options_in
from alhena.shell.parse.model import Effect, Part, Word, WordKind
from alhena.shell.programs import (
    Arity,
    Program,
    listed,
    main_name,
    matches,
    program,
    tells_version,
    why_absent,
)
from alhena.shell.programs import Effect as OptionEffect

_PIPE = "<("
"""A process substitution becomes the name of a pipe, /dev/fd/63."""


def surely_operand(word: Word) -> bool:
    """Does nothing that the word expands to begin with a dash (`-` alone aside)?"""
    first = word.text[:1]
    match word.kind:
        case WordKind.LITERAL:
            return first != "-" or word.text == "-"
        case WordKind.EXPANSION:
            known = first not in {"", "-"} or word.source.startswith(_PIPE)
            return known and not word.split
        case WordKind.PATTERN:
            expands = "$" in word.source or "`" in word.source
            return not expands and (first not in {"", "-"} or word.source[:1] == "~")


def could_begin_with(word: Word, prefix: str) -> bool:
    """Could the text of a word that is not all known begin with `prefix`?"""
    if word.text:
        return word.text.startswith(prefix) or (
            not word.literal and prefix.startswith(word.text) and not _is_plain_glob(word)
        )
    return not (word.literal or word.source.startswith((_PIPE, "~", "*", "?", "[")))


def _is_plain_glob(word: Word) -> bool:
    return word.kind is WordKind.PATTERN and not word.text.startswith("/")


class Given(msgspec.Struct):
    """The words of a command, told apart. The `source` of an attached value begins with its
    option."""

    options: list[tuple[str, Word | None]]
    operands: list[Word]
    ended: int
    """The number of operands before `--`; those behind it are no options, whatever they become."""
    late: list[Word]
    """Values of options, words of their own, behind an operand: to programs that end their options
    there, they are operands."""

    def values(self, *names: str) -> list[Word]:
        """The values that options of these names have, in order."""
        return [word for name, word in self.options if name in names and word is not None]

    def has(self, *names: str) -> bool:
        """Is one of these options there?"""
        return any(name in names for name, _ in self.options)


def read_words(table: Program, program: str, words: Sequence[Word]) -> Given | str:
    """The words after the program's name (or subcommand) by its table, or one clause saying why
    they are not surely harmless."""
    reading = _Reading(table, program, words)
    reading.read()
    ended = len(reading.operands) if reading.ended is None else reading.ended
    return reading.refusal or Given(reading.options, reading.operands, ended, reading.late)


class _Reading:
    def __init__(self, table: Program, program: str, words: Sequence[Word]) -> None:
        self.table = table
        self.program = program
        self.words = words
        self.at = 0
        self.options: list[tuple[str, Word | None]] = []
        self.operands: list[Word] = []
        self.late: list[Word] = []
        self.ended: int | None = None
        self.refusal: str | None = None
        self.expression = "expression" in table.form
        self.guarded = "guarded" in table.form or table.operands is not None

    def read(self) -> None:
        words = self.words
        while self.at < len(words) and self.refusal is None:
            word = words[self.at]
            self.at += 1
            text = word.text
            if not word.literal and "subcommand" in self.table.form:
                self.refusal = f"{word.source} could be any subcommand"
            elif not word.literal:
                self._unknown(word)
            elif text[:1] != "-" or text == "-":
                self.operands.append(word)
                if "subcommand" in self.table.form:
                    self._rest()
            elif text == "--" and not self.expression:
                self.ended = len(self.operands)
                self._rest()
            elif "leading" in self.table.form and self.operands:
                self.refusal = f"{text} comes after an operand"
            else:
                self._options(word)
        if self.refusal is None:
            self._count()

    def _rest(self) -> None:
        """Takes all other words for operands."""
        self.operands.extend(self.words[self.at :])
        self.at = len(self.words)

    def _count(self) -> None:
        most = self.table.operands
        if most is not None and len(self.operands) > most:
            self.refusal = f"{self.program} with {_operands(len(self.operands))} may not only read"
        elif most is not None:
            many = next((word for word in self.operands if not one_word(word)), None)
            if many is not None:
                self.refusal = f"{many.source} could be more than one word"
        for names, clause in self.table.needs:
            if not any(name in names for name, _ in self.options):
                self.refusal = f"{self.program} without {' or '.join(sorted(names))} {clause}"

    def _unknown(self, word: Word) -> None:
        name, equals, text = word.text.partition("=")
        valued = equals and self._arity(name) not in {None, Arity.FLAG}
        if valued and (one_word(word) or word.kind is WordKind.PATTERN):
            self.options.append((name, Word(text, word.kind, word.source, word.split)))
        elif not self.guarded or surely_operand(word):
            self.operands.append(word)
        else:
            before = "./" if self.expression else "--"
            self.refusal = f"{word.source} could be an option; {before} before it rules that out"

    def _options(self, word: Word) -> None:
        for found in options_in(self.table, word):
            name = found.names[0] if len(found.names) == 1 else ""
            arity, value = self._arity(name), found.value
            if arity is None or name != found.shown:
                self._refuse(found.shown)
            elif arity == Arity.APART and value is None and word.text[-1] != name[1]:
                self.refusal = f"{word.text} has letters behind {name}, which takes the next word"
            elif value is None:
                self._option(name, arity)
            elif arity == Arity.FLAG:
                self.refusal = f"{name} takes no value"
            else:
                equals = "=" if name[:2] == "--" else ""
                self.options.append((name, Word(value.text, source=f"{name}{equals}{value.text}")))
            if self.refusal is not None:
                return

    def _option(self, name: str, arity: Arity) -> None:
        last = self.at >= len(self.words)
        if arity in {Arity.FLAG, Arity.ATTACHED} or (last and arity == Arity.UNLESS_LAST):
            self.options.append((name, None))
            return
        if last:
            self.refusal = f"{name} lacks its value"
            return
        if arity is Arity.PAIR:
            first = self.words[self.at]
            self.at += 1
            if self.at == len(self.words) or not first.literal or first.text[:1] == "-":
                self.refusal = f"{name} lacks its name and value"
                return
        value = self.words[self.at]
        self.at += 1
        if self.guarded and not one_word(value):
            self.refusal = f"{value.source} could be more than one word"
        elif self.guarded and arity != Arity.DASHED and _looks_like_option(value):
            self.refusal = f"{value.source or value.text} could be an option"
        self.options.append((name, value))
        if self.operands:
            self.late.append(value)

    def _arity(self, name: str) -> Arity | None:
        """The arity of an option that only reads; None for any other."""
        option = self.table.options.get(name)
        return option.arity if option is not None and option.reads else None

    def _refuse(self, name: str) -> None:
        option = self.table.options.get(name)
        clause = self.table.refuses.get(name) or (option.effect if option else OptionEffect.NONE)
        self.refusal = (
            f"{name} {clause}" if clause else f"{name} is not a known option of {self.program}"
        )


def _looks_like_option(word: Word) -> bool:
    text = word.text
    return text[:1] == "-" and text != "-" and not (word.literal and text[1:].isdigit())


def _operands(count: int) -> str:
    return "an operand" if count == 1 else f"{count} operands"


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


def refuse_go_env(given: Given) -> str | None:
    """Addresses and flags among Go's settings may hold credentials."""
    return _refuse_others(given, "go_settings", "all settings of Go may show secrets; name one")


def refuse_printenv(given: Given) -> str | None:
    """Only variables of these names hold no secrets."""
    return _refuse_others(
        given, "plain_variables", "printenv shows the environment; name variables"
    )


def _refuse_others(given: Given, names: str, without: str) -> str | None:
    """The reason why operands may show secrets: one is not in the list, or there is none."""
    if not given.operands:
        return without
    for word in given.operands:
        if not word.literal or word.text not in listed(names):
            return f"{word.source or word.text} may hold a secret"
    return None


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
_NETWORK = frozenset(["clone", "fetch", "ls-remote", "pull", "push", "remote-http", "send-pack"])


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
    key, table, words = _git_table(given.operands)
    if table is None or not table.reads:
        if key.removeprefix("git ") in _NETWORK:
            return f"{key} uses the network"
        return f"{key} is not in the list of subcommands that only read"
    given = read_words(table, key, words)
    if isinstance(given, str):
        return given
    check = _FORMS.get(key)
    refusal = _refuse_by_patterns(table, given) or _refuse_formats(given)
    return refusal or (check(given) if check else None)


def _git_table(words: Sequence[Word]) -> tuple[str, Program | None, Sequence[Word]]:
    """The subcommand at the head of `words`, with its table and what follows."""
    key = f"git {words[0].text}"
    if len(words) > 1 and words[1].literal:
        longer = f"{key} {words[1].text}"
        table = program(longer)
        if table is not None and table.reads:
            return longer, table, words[2:]
    return key, program(key), words[1:]


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
    """Reading forms: `--get… NAME [PATTERN]`, `NAME`, and the later `get NAME` (to an older git a
    name without a dot is an error). `git config get` has the names that hold no secret."""
    texts = [word.text for word in given.operands]
    keys = given.operands
    if given.has("--get", "--get-all"):
        reads = bool(texts)
    elif len(texts) == 2:
        reads = texts[0] == "get" and given.operands[0].literal and "." in texts[1]
        keys = keys[1:]
    else:
        reads = len(texts) == 1 and "." in texts[0]
    if not reads:
        if texts == ["list"]:
            return "git config list may show secrets"
        return "git config in this form may change the configuration"
    table = program("git config get")
    return _refuse_by_patterns(table, Given([], keys[:1], 0, [])) if table else "no names are known"


_FORMS: dict[str, Callable[[Given], str | None]] = {
    "git branch": _refuse_branch,
    "git config": _refuse_config,
    "git tag": _refuse_tag,
}


_PLACES = ("/bin/", "/usr/bin/", "/usr/local/bin/")
_SAYS_ONLY = frozenset(["echo", "expr", "true", "false", ":"])


def not_read_only(part: Part) -> str | None:
    """The reason why the command may do more than read, as one clause, or None when it surely only
    reads: writes no file, runs no program that its words or the folder's files name, uses no
    network. Whether its words can be trusted (doubts) and which files it reads are not asked here
    (`working_directory`); what a program keeps for itself (git's index) does not count."""
    if not part.words:
        return "no program is named"
    if part.assignments:
        return f"{part.assignments[0].source} changes the environment"
    for each in part.redirections:
        if each.effect is Effect.WRITE:
            harm = "could open a network connection" if each.operator == "<" else "writes"
            return f"{each.source} {harm}"
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


def _refuse_program(name: str, words: Sequence[Word]) -> str | None:
    texts = [word.text for word in words if word.literal]
    if name in _SAYS_ONLY or (len(texts) == len(words) == 1 and tells_version(name, texts[0])):
        return None
    name = main_name(name)
    if name in _LANGUAGES:
        return _LANGUAGES[name](words)
    key, table, words = _table_of(name, words)
    if table is None or not table.reads:
        if table is not None and texts and words[0].literal and any(map(_reads, table.subcommands)):
            return f"{name} {texts[0]} is not in the list of commands that only read"
        return why_absent(name)
    return _refuse_by_table(key, table, words)


def _table_of(name: str, words: Sequence[Word]) -> tuple[str, Program | None, Sequence[Word]]:
    """The program or its subcommand, with its table and the words that belong to it."""
    table = program(name)
    if table is not None and table.subcommands and words and words[0].literal:
        key = f"{name} {words[0].text}"
        inner = program(key)
        if inner is not None and inner.reads:
            return key, inner, words[1:]
    return name, table, words


class Arguments(msgspec.Struct, frozen=True):
    """The words of a command that only reads, by the table of its program or subcommand, and the
    directories to which git goes first."""

    key: str
    table: Program
    given: Given
    moves: tuple[str, ...] = ()


def read_arguments(part: Part) -> Arguments | None:
    """The arguments of a command that only reads; None without a table that divides them."""
    words = part.words[1:]
    head = part.words[0] if part.words else None
    name = main_name(program_name(head.text) or "") if head and head.literal else ""
    table = program(name)
    moves: tuple[str, ...] = ()
    if name != "git" or table is None:
        key, table, words = _table_of(name, words)
    else:
        before = read_words(table, name, words)
        if isinstance(before, str) or not before.operands:
            return None
        moves = tuple(word.text for word in before.values("-C"))
        key, table, words = _git_table(before.operands)
    given = read_words(table, key, words) if table is not None and table.reads else ""
    if table is None or isinstance(given, str):
        return None
    return Arguments(key, table, given, moves)


def _reads(name: str) -> bool:
    table = program(name)
    return table is not None and table.reads


def _refuse_by_table(name: str, table: Program, words: Sequence[Word]) -> str | None:
    given = read_words(table, name, words)
    if isinstance(given, str):
        return given
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


_LANGUAGES: dict[str, Callable[[Sequence[Word]], str | None]] = {
    "[": refuse_bracket,
    "cargo": refuse_rust,
    "git": refuse_git,
    "printf": refuse_printf,
    "rustc": refuse_rust,
    "tar": refuse_tar,
    "test": refuse_test,
}
CHECKS: dict[str, Callable[[Given], str | None]] = {
    "awk": refuse_awk,
    "jq": refuse_jq,
    "go-env": refuse_go_env,
    "printenv": refuse_printenv,
    "ps": refuse_ps,
    "sed": refuse_sed,
}
"""Values of `check` in a table -> the function."""
