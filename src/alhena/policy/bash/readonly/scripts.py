"""Scripts of sed and awk: which only print, and what the others do.

A script is accepted when each command is known and seds that differ on where a text ends (slashes
within brackets, labels, the text of `a`) agree here.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from alhena.policy.bash.readonly.grammar import Given, could_begin_with, listed

if TYPE_CHECKING:
    import re


_PIECE = (
    r"[ \t]+|(?P<newline>\n)|(?P<text>\"(?:[^\"\\\n]|\\[^\n])*+\")|(?P<number>[0-9]+(?:\.[0-9]*)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<mark>&&|\|\||!~|[<>=!+\-*/%]=|\+\+|--|[-+*/%!~<>=?:,;(){}\[\]$])"
)
_REGEX = (
    r"(?P<regex>/(?:[^/\\\n\[]|\\[^\n]"
    r"|\[\^?(?:\[:[a-z]+:\]|\\[a-z.\\-]|[^\[\]\\/\n])(?:\[:[a-z]+:\]|\\[a-z.\\-]|[^\[\]\\/\n])*+\])*+/)"
)
_MAX_PROGRAM = 8192
_VARIABLES = listed("NR NF FNR FS OFS RS ORS FILENAME RSTART RLENGTH SUBSEP")
_OWN_NAMES = listed(
    "acc arr avg cnt col count cur diff end found first hits idx key keys last len line lines max "
    "mean min name names out prev res result rows seen size start sum tmp tot total val value "
    "values word words"
)
_FUNCTIONS = listed("gsub index int length match split sprintf sqrt sub substr tolower toupper")
_KEYWORDS = listed("BEGIN END else exit for if in next print printf")
_BEFORE_REGEX_AWK = frozenset(["", "\n", "(", ",", "{", "}", ";", "!", "~", "!~", "&&", "||"])


def refuse_awk(given: Given) -> str | None:
    """The reason why an awk with these words may do more than print, as one clause, or None."""
    for value in given.values("-v"):
        name, _, _ = value.text.partition("=")
        if not _known_variable(name):
            return f"{value.source or value.text} sets a variable that is not known"
    if not given.operands:
        return "awk lacks its program"
    program, files = given.operands[0], given.operands[1:]
    if not program.literal:
        return f"{program.source} could be any program"
    for file in files:
        if could_begin_with(file, "/inet"):
            return f"{file.source or file.text} could name a network connection"
    if len(program.text) > _MAX_PROGRAM:
        return "the awk program is very long"
    refused = _refused(program.text)
    return None if refused is None else f"{refused!r} is not known to only print in awk"


def _known_variable(name: str) -> bool:
    single = len(name) == 1 and "a" <= name <= "z"
    return single or name in _VARIABLES or name in _OWN_NAMES


def _refused(program: str) -> str | None:
    """What in the program is not known, or None."""
    tokens = _tokens(program)
    if isinstance(tokens, str):
        return tokens
    parens = braces = 0
    for at, (kind, text) in enumerate(tokens):
        if kind == "name" and not _known_name(tokens, at):
            return text
        if kind == "mark":
            parens += (text == "(") - (text == ")")
            braces += (text == "{") - (text == "}")
            # Within an action `>` writes to a file, unless parentheses make it a comparison.
            if min(parens, braces) < 0 or (text == ">" and braces and not parens):
                return text
    return None


def _known_name(tokens: Sequence[tuple[str, str]], at: int) -> bool:
    name = tokens[at][1]
    following = tokens[at + 1][1] if at + 1 < len(tokens) else ""
    if name == "for":
        return [text for _, text in tokens[at + 3 : at + 4]] == ["in"]
    if name in _KEYWORDS or name == "length":
        return True
    if following == "(":
        return name in _FUNCTIONS
    return _known_variable(name)


def _tokens(program: str) -> list[tuple[str, str]] | str:
    """The program's tokens with their kinds, or its rest from the first unknown one on."""
    token, regex = _patterns()
    found: list[tuple[str, str]] = []
    at = 0
    while at < len(program):
        pattern = token
        if program[at] == "/":
            kind, before = found[-1] if found else ("", "")
            if before in _BEFORE_REGEX_AWK:
                pattern = regex
            elif not (kind == "number" or before == "]" or _divisible(kind, before)):
                return program[at : at + 40]
        match = pattern.match(program, at)
        if match is None or match[0] == "/=":
            return program[at : at + 40]
        at = match.end()
        if match.lastgroup:
            found.append((match.lastgroup, match[0]))
    return found


def _divisible(kind: str, text: str) -> bool:
    return kind == "name" and _known_variable(text)


@lru_cache(maxsize=1)
def _patterns() -> "tuple[re.Pattern[str], re.Pattern[str]]":
    """Tokens, and the regular expressions between slashes (whether a slash divides is told by what
    stands before it; where awks could differ on that, the slash is unknown)."""
    import re

    return re.compile(_PIECE), re.compile(_REGEX)


_DELIMITERS = "/|#,@:!%+~=_;"
_BLANK = r"[ \t]*"


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
        refused = next(_refused_sed(script.text), None)
        if refused is not None:
            return f"{refused!r} is not known to only print in sed"
    return None


def _refused_sed(script: str) -> Iterator[str]:
    """The rest of the script from the first command on that is not known."""
    pattern = _commands()
    at = 0
    while at < len(script):
        match = pattern.match(script, at)
        if match is None or match.end() == at:
            yield script[at : at + 40]
            return
        at = match.end()


@lru_cache(maxsize=1)
def _commands() -> "re.Pattern[str]":
    """One command with its addresses, blanks, and what ends it. Every alternative begins with
    another character, and all repeats are possessive: matching takes linear time."""
    import re

    regex = _regex_until("/")
    address = rf"(?:[0-9]++(?:~[0-9]++)?|\$|/{regex}/[IM]*+)"
    second = rf"(?:,{_BLANK}(?:[+~][0-9]++|{address}))?+"
    label = r"[A-Za-z0-9_.]*+"
    commands = "|".join(
        [
            r"[pdPDgGhHxnN=zF]",
            rf"[qQlL]{_BLANK}[0-9]*+",
            rf"[btT]{_BLANK}{label}",
            *(_substitution(mark) for mark in _DELIMITERS),
        ]
    )
    end = rf"{_BLANK}(?:[;\n]|\Z|(?=\}}))"
    return re.compile(
        rf"(?:[ \t\n;]++"
        rf"|\#[^\n]*+(?:\n|\Z)"
        rf"|:{_BLANK}{label}{_BLANK}(?:[;\n]|\Z)"
        rf"|\}}{end}"
        rf"|(?:{address}{second})?+{_BLANK}(?:!{_BLANK})?+"
        rf"(?:\{{|[aic]{_BLANK}[^\\\n{{}};\s][^\\\n]*+(?:\n|\Z)|(?:{commands}){end}))"
    )


def _substitution(mark: str) -> str:
    import re

    quoted = re.escape(mark)
    text = rf"(?:[^\\\n{quoted}]|\\[^\n])*+"
    replaced = rf"s{quoted}{_regex_until(mark)}{quoted}{text}{quoted}[gpiIMm0-9]*+"
    return rf"{replaced}|y{quoted}{text}{quoted}{text}{quoted}"


def _regex_until(mark: str) -> str:
    """A regular expression that ends before `mark`, which no bracket in it holds."""
    import re

    quoted = re.escape(mark)
    inner = rf"(?:\[[:.=][a-z]*+[:.=]\]|\\[^\]\n{quoted}]|\[(?![:.=])|[^\[\]\\\n{quoted}])"
    bracket = rf"\[\^?+\]?+{inner}*+\]"
    return rf"(?:[^\\\n\[{quoted}]|\\[^\n]|{bracket})*+"
