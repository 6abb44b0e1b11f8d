"""Builtins of bash that only read in some forms: test, `[` and printf."""

import re
from collections.abc import Sequence

from alhena.shell.parse.model import Word


def one_word(word: Word) -> bool:
    """Is the word surely one word when bash has expanded it?"""
    return word.literal or not word.split


_UNARY = frozenset(f"-{letter}" for letter in "bcdefghkLnNOGprsStuwxz")
_TEXT_BINARY = frozenset(["=", "==", "!=", "<", ">", "-nt", "-ot", "-ef"])
_NUMBER_BINARY = frozenset(["-eq", "-ne", "-lt", "-le", "-gt", "-ge"])


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
