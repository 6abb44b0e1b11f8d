"""sed: scripts that edit the stream and do nothing else.

A script is accepted when each command is known and seds that differ on where a text ends (slashes
within brackets, labels, the text of `a`) agree here.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from alhena.policy.bash.readonly.grammar import Given

if TYPE_CHECKING:
    import re

_DELIMITERS = "/|#,@:!%+~=_;"
_BLANK = r"[ \t]*"


def refuse_sed(given: Given) -> str | None:
    """Why a sed with these words may do more than print, as one clause, or None."""
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
        refused = next(_refused(script.text), None)
        if refused is not None:
            return f"{refused!r} is not known to only print in sed"
    return None


def _refused(script: str) -> Iterator[str]:
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
