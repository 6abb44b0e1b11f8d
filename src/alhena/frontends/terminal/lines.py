"""Lines of styled text: what the view is made of, without a terminal.

A style is a name of `theme.STYLES`, or "" for plain text.
"""

from collections.abc import Iterable
from functools import lru_cache
from unicodedata import category, east_asian_width

import msgspec

from alhena.display_text import escaped

Span = tuple[str, str]
Line = tuple[Span, ...]
TAB = 4
ELLIPSIS = "…"


class Lines(msgspec.Struct, frozen=True):
    """Finished lines. What cannot be seen has been escaped in them. With `clip` they end where the
    terminal does; else they go on in its next row, and nothing of them is lost."""

    lines: tuple[Line, ...]
    clip: bool = False


class Markdown(msgspec.Struct, frozen=True):
    """A finished piece of Markdown, without control characters."""

    text: str


Block = Lines | Markdown
"""Something that is printed once and then belongs to the terminal's scrollback."""


def line(text: str, style: str = "") -> Line:
    """One line in one style; what acts on a terminal is escaped."""
    return ((style, safe(text)),)


def safe(text: str) -> str:
    """A text on one line as a terminal may show it."""
    return escaped(text.expandtabs(TAB))


def lines_of(text: str, style: str = "", indent: str = "") -> list[Line]:
    """The lines of a text, in one style."""
    return [(("", indent), (style, safe(each))) for each in text.split("\n")]


def plain(lines: Iterable[Line]) -> str:
    """The bare text of some lines."""
    return "\n".join("".join(text for _, text in each) for each in lines)


def width(text: str) -> int:
    """How many columns a text takes."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def clipped(given: Line, columns: int) -> Line:
    """A line that takes no more than `columns`, an ellipsis at its end where it was longer."""
    if sum(width(text) for _, text in given) <= columns:
        return given
    room = max(columns - 1, 0)
    kept: list[Span] = []
    for style, text in given:
        part = prefix(text, room)
        room -= width(part)
        kept.append((style, part))
        if part != text:
            break
    return (*kept, ("dim", ELLIPSIS if columns > 0 else ""))


def prefix(text: str, columns: int) -> str:
    """As much of the beginning of a text as `columns` hold."""
    if text.isascii():
        return text[:columns]
    used = 0
    for index, char in enumerate(text):
        used += _columns(char)
        if used > columns:
            return text[:index]
    return text


def wrapped(text: str, columns: int) -> list[str]:
    """A text without line breaks in pieces of at most `columns`, broken at blanks where it can."""
    pieces: list[str] = []
    while width(text) > columns:
        head = prefix(text, columns) or text[0]
        blank = head.rfind(" ")
        if blank > columns // 2 and len(head) < len(text) and text[len(head)] != " ":
            head = head[: blank + 1]
        pieces.append(head.rstrip(" "))
        text = text[len(head) :].removeprefix(" ")
    return [*pieces, text]


@lru_cache(maxsize=4096)
def _columns(char: str) -> int:
    if category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if east_asian_width(char) in "WF" else 1
