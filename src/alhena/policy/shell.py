"""Is a shell command one plain command, word for word what it looks like?

Only such a command may be allowed by a rule that looks at it. The reader here accepts a small
language and refuses the rest, so what it does not know is never allowed. What a refused command
might run is the business of `pieces`.
"""

from functools import lru_cache
from typing import TYPE_CHECKING

from alhena.policy.wrappers import RESERVED, evaluates, is_wrapper

if TYPE_CHECKING:
    import re

MAX_COMMAND_BYTES = 64 * 1024
MAX_WORDS = 4096
_BLANKS = " \t"


def plain_words(command: str) -> tuple[str, ...] | None:
    """The words that bash would run, in order, or None when that is not certain.

    None for operators, expansions, globs, redirections, comments, assignments, reserved words,
    wrappers (`env`, `sudo`, `bash -c`, …), builtins that evaluate their arguments, control
    characters and anything over 64 KiB.
    """
    words = literal_words(command)
    if words is None:
        return None
    return None if is_wrapper(words) or evaluates(words) else words


def literal_words(command: str) -> tuple[str, ...] | None:
    """Like `plain_words`, but wrappers and evaluating builtins are words like any other."""
    if len(command.encode("utf-8", "surrogatepass")) > MAX_COMMAND_BYTES:
        return None
    words: list[str] = []
    position = 0
    text = command.strip(" \t\n")
    while position < len(text) and len(words) <= MAX_WORDS:
        if text[position] in _BLANKS:
            position += 1
            continue
        read = _word(text, position)
        if read is None:
            return None
        word, position = read
        words.append(word)
    if not words or len(words) > MAX_WORDS:
        return None
    first = words[0]
    # A first word with a percent sign names a job, quoted or not.
    uncertain = not first or first[0] == "%" or "=" in first or first in RESERVED
    return None if uncertain else tuple(words)


@lru_cache(maxsize=1024)
def prefix_words(prefix: str) -> tuple[str, ...] | None:
    """The words of a rule's prefix; None when it is no literal words, and only text."""
    return literal_words(prefix)


def hides_operators(words: tuple[str, ...]) -> bool:
    """Could a program that takes its arguments for shell code find more than one command there?"""
    return any(not _operator_free().fullmatch(word) for word in words)


@lru_cache(maxsize=1)
def _operator_free() -> "re.Pattern[str]":
    import re

    return re.compile(r"[^|&;<>()$`\\\n]*")


@lru_cache(maxsize=1)
def _bare() -> "re.Pattern[str]":
    import re

    return re.compile(r"[A-Za-z0-9_./:,@%+=^~#\-]+")


def _word(text: str, start: int) -> tuple[str, int] | None:
    """The word at `start` and where it ends; None when it is not certain to be literal."""
    piece: list[str] = []
    position = start
    while position < len(text) and text[position] not in _BLANKS:
        mark = text[position]
        if mark in "'\"":
            end = text.find(mark, position + 1)
            if end < 0:
                return None
            inner = text[position + 1 : end]
            if not (_is_literal_in_double(inner) if mark == '"' else _is_printable(inner)):
                return None
            piece.append(inner)
            position = end + 1
            continue
        found = _bare().match(text, position)
        bare = found.group() if found else mark
        if not _is_bare(bare, at_start=position == start, before="".join(piece)):
            return None
        piece.append(bare)
        position += len(bare)
    return "".join(piece), position


def _is_bare(text: str, *, at_start: bool, before: str) -> bool:
    if not text.isascii():
        return text.isalnum()
    if not _bare().fullmatch(text) or (at_start and text[0] in "~#%"):
        return False
    tilde = text.rfind("~")
    if tilde < 0:
        return True
    # Bash expands a tilde after "=" or ":" in words that look like assignments.
    return not any(mark in before + text[:tilde] for mark in "=:") and (bool(before) or tilde > 0)


def _is_literal_in_double(text: str) -> bool:
    if "$" in text or "`" in text or not _is_printable(text):
        return False
    # A closing quote was found by its character alone, so no backslash may stand before one.
    position = text.find("\\")
    while position >= 0:
        if text[position + 1 : position + 2] in {"", "\\", "\n"}:
            return False
        position = text.find("\\", position + 1)
    return True


def _is_printable(text: str) -> bool:
    """No control, format or surrogate characters; tab and newline are literal between quotes."""
    return text.isprintable() or all(c.isprintable() or c in "\t\n" for c in text)
