"""Builtins that run code hidden in their arguments, or change what later words mean."""

import re
from collections.abc import Sequence

from alhena.policy.bash.model import Word


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


RESERVED = _words(
    "! { } [[ ]] if then elif else fi case esac for select while until do done function time coproc"
)
"""Words that are grammar where a command could stand."""

DECLARATIONS = _words("declare typeset local export readonly")

ASSIGNING = DECLARATIONS | _words("let read unset mapfile readarray getopts")
"""Builtins whose arguments may be assignments."""

_EVALUATING = _words("eval source . exec trap")
_CHANGING = _words("alias unalias enable hash bind complete compgen compopt shopt builtin fc")
_HARMLESS_SET = _words(
    "-e -u -x -eu -ex -ux -eux -o pipefail errexit nounset xtrace -eo -euo -exo -euxo -uo"
)
_BINARY = _words("= == != < > -eq -ne -lt -le -gt -ge -nt -ot -ef")
_RETURNING = re.compile(r"%[^%a-zA-Z]*n")


def doubt_about(words: Sequence[Word]) -> str | None:
    """Why a command whose first word is literal may do more than its words say, or None."""
    name = words[0].text
    if "/" in name:
        return None
    if name in {"command", "builtin"}:
        inner = next((i for i, w in enumerate(words) if i and not w.text.startswith("-")), None)
        if inner is not None and words[inner].literal:
            return doubt_about(words[inner:]) or _general(name)
    return _general(name) or _particular(name, words)


def _general(name: str) -> str | None:
    if name in ASSIGNING:
        return f"{name} sets variables"
    if name in _EVALUATING:
        return f"{name} runs code"
    if name in _CHANGING:
        return f"{name} changes what commands mean"
    if name in RESERVED:
        return f"{name} is not a command but a reserved word"
    return "a word with % names a job" if name.startswith("%") else None


def _particular(name: str, words: Sequence[Word]) -> str | None:
    if name == "printf":
        return _printf(words[1:])
    if name in {"test", "["}:
        closed = name == "[" and words[-1].literal and words[-1].text == "]"
        return _test(words[1:-1] if closed else words[1:])
    if name == "set" and any(not w.literal or w.text not in _HARMLESS_SET for w in words[1:]):
        return "set changes how the shell works"
    if name == "wait" and any(not w.literal or w.text.startswith("-") for w in words[1:]):
        return "wait can set a variable"
    if name == "jobs" and any(not w.literal or "x" in w.text for w in words[1:]):
        return "jobs can run a command"
    return None


def _printf(operands: Sequence[Word]) -> str | None:
    """`-v` names a variable, and so does what belongs to a `%n` in the format."""
    formats = [w for w in operands[:2] if not w.literal or w.text != "--"]
    if not formats:
        return None
    first = formats[0]
    if (
        first.text.startswith("-v")
        or not first.literal
        or _RETURNING.search(first.text.replace("%%", ""))
    ):
        return "printf can set a variable"
    return None


def _test(operands: Sequence[Word]) -> str | None:
    """A subscript behind `-v` or `-R` is evaluated, and a word that is not known may be either:
    one that may become several words, or one that stands where an operator can."""
    reason = "a test with -v or -R can run code hidden in data"
    if any(w.text in {"-v", "-R"} or (w.split and not w.literal) for w in operands):
        return reason
    if len(operands) == 2 and operands[0].literal and operands[0].text == "!":
        return None
    for index, word in enumerate(operands):
        if not word.literal and len(operands) > 1:
            before = operands[index - 1] if index else None
            after = operands[index + 1] if index + 1 < len(operands) else None
            if not (_operates(after, "") or _operates(before, "-")):
                return reason
    return None


def _operates(word: Word | None, start: str) -> bool:
    """Is it a literal operator, a binary one or one that begins with `start`?"""
    if word is None or not word.literal:
        return False
    return word.text in _BINARY or bool(start and word.text.startswith(start))
