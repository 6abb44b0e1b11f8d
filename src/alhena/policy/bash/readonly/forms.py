"""Programs whose table is not all: what their operands or values may be."""

import re
from collections.abc import Sequence

from alhena.policy.bash.model import Word
from alhena.policy.bash.readonly.closed import reads_all
from alhena.policy.bash.readonly.grammar import Given
from alhena.policy.bash.readonly.words import one_word

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
