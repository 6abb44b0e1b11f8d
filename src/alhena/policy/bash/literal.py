"""Are the words of a rule's prefix plain text, word for word what they look like?

The reader here accepts a small part of what bash does and refuses the rest, so a prefix never
means something else to bash than to its reader. It needs no grammar: rules are checked on load.
"""

from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import re

MAX_PREFIX = 16 * 1024
_BLANKS = " \t"
_GRAMMAR = (
    "! { } [[ ]] if then elif else fi case esac for select while until do done in function coproc"
)
_RESERVED = frozenset(_GRAMMAR.split())


@lru_cache(maxsize=4096)
def prefix_words(prefix: str) -> tuple[str, ...] | None:
    """The words of a rule's `commandPrefix`, leading `NAME=value` words among them.

    None when bash would not take them for exactly these words: operators, expansions, globs,
    comments, reserved words, control characters, no words at all.
    """
    if len(prefix) > MAX_PREFIX:
        return None
    words: list[str] = []
    position, settings = 0, True
    text = prefix.strip(" \t\n")
    while position < len(text):
        if text[position] in _BLANKS:
            position += 1
            continue
        read = _word(text, position)
        if read is None:
            return None
        word, end = read
        if settings and _setting().match(text, position) is None:
            settings = False
            # The command word. One with a percent sign names a job, quoted or not.
            if not word or word[0] == "%" or "=" in word or word in _RESERVED:
                return None
        words.append(word)
        position = end
    return tuple(words) or None


class DividedPrefix(msgspec.Struct, frozen=True):
    """The words of a prefix: the `NAME=value` ones in front, and the command."""

    settings: tuple[str, ...]
    words: tuple[str, ...]


@lru_cache(maxsize=4096)
def divided_prefix(prefix: str) -> DividedPrefix | None:
    """`prefix_words` in two."""
    words = prefix_words(prefix)
    return None if words is None else DividedPrefix(*split_settings(words))


def split_settings(words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The leading `NAME=value` words of a prefix, and the others."""
    count = 0
    while count < len(words) and _is_setting(words[count]):
        count += 1
    return words[:count], words[count:]


def _is_setting(word: str) -> bool:
    return _setting().match(word) is not None


@lru_cache(maxsize=1)
def _setting() -> "re.Pattern[str]":
    import re

    return re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


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
        if text.startswith("{}", position):
            piece.append("{}")
            position += 2
            continue
        if text.startswith(("\\;", "\\+"), position):
            piece.append(text[position + 1])
            position += 2
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
