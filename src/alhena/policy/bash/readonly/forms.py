"""Programs and builtins whose table is not all: find, archives, sockets, printf."""

import re
from collections.abc import Sequence

from alhena.policy.bash.model import Word
from alhena.policy.bash.readonly.closed import reads_all
from alhena.policy.bash.readonly.grammar import Given, listed, one_word, surely_operand

_JQ_PAIRS = frozenset(["--arg", "--argjson", "--slurpfile", "--rawfile"])
_JQ_AROUND = r"(?:(?<![.\w$])|\.\.)(?:env|import|include)\b|\$\s*(?:ENV|__prog)"
_JQ_WORDS = r"\b(?:env|ENV|import|include|__prog)"
_PS_LETTERS = frozenset("aAcdfghHjlLmnNrsSTuvwxXZ")
_PS_VALUE_LETTERS = frozenset("kOoptU")


def without_jq_pairs(words: Sequence[Word]) -> list[Word] | str:
    """The words after `jq` without its options that take a name and a value, or a clause on what
    keeps them from being told."""
    kept: list[Word] = []
    at = 0
    while at < len(words):
        word = words[at]
        if not (word.literal and word.text in _JQ_PAIRS):
            kept.append(word)
            at += 1
            continue
        pair = words[at + 1 : at + 3]
        if len(pair) < 2 or not pair[0].literal or pair[0].text[:1] == "-":
            return f"{word.text} lacks its name and value"
        if not one_word(pair[1]):
            return f"{pair[1].source} could become several words; quote it"
        at += 3
    return kept


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


def refuse_date(given: Given) -> str | None:
    """An operand of date sets the clock, unless it is a format."""
    if all(word.text[:1] == "+" for word in given.operands):
        return None
    return "date with an operand other than +FORMAT sets the clock"


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
    """What looks through directories comes by /proc and /dev from the top."""
    if any(map(reads_all, given.operands[1:])):
        return "a search from / reads the environments of processes"
    return None


def refuse_tail(given: Given) -> str | None:
    """tail ends, unless it follows: an operand such as `+5cf` is an old way to say so."""
    for word in given.operands:
        if word.text[:1] == "+" and not (word.literal and word.text[1:].isdecimal()):
            return f"{word.source or word.text} may make tail follow its file"
    return None


def refuse_seq(given: Given) -> str | None:
    """seq ends, unless it counts to infinity."""
    for word in given.operands:
        if word.text.strip("+-")[:3].lower() in {"inf", "nan"}:
            return "seq without an end"
    return None


def refuse_sleep(words: Sequence[Word]) -> str | None:
    """sleep waits for plain numbers of seconds or minutes, an hour at most."""
    for word in words:
        number = word.text.removesuffix("s")
        minutes = number.endswith("m")
        whole, _, part = number.removesuffix("m").partition(".")
        if not (word.literal and whole.isdecimal() and (part.isdecimal() or not part)):
            return f"{word.source or word.text} is not a plain number of seconds"
        if len(whole) > 4 or int(whole) > (60 if minutes else 3600):
            return "sleep for more than an hour"
    return None if words else "sleep lacks its number"


def refuse_rust(words: Sequence[Word]) -> str | None:
    """rustup stands in for rustc and cargo, and runs the toolchain that a file in the folder names
    (even by its path), unless a toolchain is given."""
    texts = [word.text for word in words if word.literal]
    if len(texts) == len(words) == 2 and texts[1] in {"--version", "-V", "-vV"}:
        name, _, rest = texts[0].removeprefix("+").partition("-")
        number = name.replace(".", "")
        known = name in {"stable", "beta", "nightly"} or (number.isdecimal() and number.isascii())
        if texts[0][:1] == "+" and known and "/" not in rest:
            return None
    return "rustup runs what rust-toolchain.toml names; name a toolchain: rustc +stable --version"


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
    import re

    known = (
        r"%[-+ #0']*(?:\*|\d+)?(?:\.(?:\*|\d*))?(?:[hlLjztq]*[diouxXeEfFgGaAcsbqQ%]|\([^()]*\)T)"
    )
    return "%" not in re.sub(known, "", text)


def refuse_command(words: Sequence[Word]) -> str | None:
    """`command -v NAME` says where a command is; all else runs it."""
    if len(words) > 1 and words[0].literal and words[0].text in {"-v", "-V"}:
        return None
    return "command runs what its words say"


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


_LEADING = listed("-H -L -P -E -s -x -O0 -O1 -O2 -O3")
_ALONE = listed(
    "! ( ) , -a -and -d -daystart -depth -empty -executable -false -follow -help "
    "-ignore_readdir_race -ls -mount -nogroup -noignore_readdir_race -noleaf -not -nouser -nowarn "
    "-o -or -print -print0 -prune -quit -readable -true -version -warn -writable -xdev --help "
    "--version"
)
_WITH_VALUE = listed(
    "-amin -anewer -atime -cmin -cnewer -context -ctime -fstype -gid -group -ilname -iname -inum "
    "-ipath -iregex -iwholename -links -lname -maxdepth -mindepth -mmin -mtime -name -newer -path "
    "-perm -printf -regex -regextype -samefile -size -type -uid -used -user -wholename "
    "-xtype"
)
_REASONS = {
    **dict.fromkeys(("-exec", "-execdir", "-ok", "-okdir"), "runs a program"),
    **dict.fromkeys(("-fprint", "-fprint0", "-fprintf", "-fls"), "writes to a file"),
    "-delete": "deletes files",
    "-files0-from": "reads the places to search from a file",
}
_NOT_A_PLACE = ("-", "(", "!", ")", ",")


def refuse_find(words: Sequence[Word]) -> str | None:
    """The reason why the words after `find` may do more than search and print, as one clause, or
    None."""
    at = 0
    while at < len(words) and words[at].literal and words[at].text in _LEADING:
        at += 1
    while at < len(words) and _is_place(words[at]):
        at += 1
    while at < len(words):
        word = words[at]
        if not word.literal:
            return f"{word.source} could be an option; ./ before a place rules that out"
        at += 1
        if _takes_value(word.text):
            if at >= len(words):
                return f"{word.text} lacks its value"
            if not one_word(words[at]):
                return f"{words[at].source} could become several words; quote it"
            at += 1
        elif word.text not in _ALONE:
            reason = _REASONS.get(word.text, "is not a known test of find")
            return f"{word.text} {reason}"
    return None


def _is_place(word: Word) -> bool:
    return surely_operand(word) and not word.text.startswith(_NOT_A_PLACE)


def _takes_value(text: str) -> bool:
    newer = (
        len(text) == 8 and text.startswith("-newer") and text[6] in "aBcm" and text[7] in "aBcmt"
    )
    return newer or text in _WITH_VALUE


_TAR_LISTS = r"-?(?=[a-zJ]*t)[tvzjJ]{1,4}f"
_TPUT = listed("bel bold cols colors dim lines longname rev rmso rmul setab setaf sgr0 smso smul")
_DATABASES = listed("group passwd protocols rpc services shells")
_PORT = r"(?:[46]?(?:tcp|udp)?)?(?::[0-9a-z,-]+)?"


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


def refuse_tput(given: Given) -> str | None:
    """tput asks the terminal's description; `init` and `reset` run what that says."""
    texts = [word.text if word.literal else "?" for word in given.operands]
    if texts and texts[0] in _TPUT and all(text.isdecimal() for text in texts[1:]):
        return None
    return "tput with this may do more than print"


def refuse_stty(given: Given) -> str | None:
    """stty shows settings; any other word changes them."""
    if all(word.literal and word.text in {"size", "speed"} for word in given.operands):
        return None
    return "stty with an operand changes the terminal"


def refuse_getent(given: Given) -> str | None:
    """getent reads the databases of this machine; those of hosts ask name servers."""
    if given.operands and given.operands[0].literal and given.operands[0].text in _DATABASES:
        return None
    return "getent may ask name servers"


def refuse_lsof(given: Given) -> str | None:
    """lsof lists sockets by port and protocol; a host's name would be looked up."""
    for word in (*given.operands, *given.values("-i")):
        if not word.literal or not re.fullmatch(_PORT, word.text.lower()):
            return f"{word.source or word.text} may be a host, a file, or an option of lsof"
    return None
