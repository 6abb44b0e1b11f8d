"""Lines of styled text: what the view is made of, without a terminal.

A style is a name of `looks.theme.Theme.looks`, or "" for plain text.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from alhena.display_text import escaped

if TYPE_CHECKING:
    from alhena.frontends.shared.listings import Listing

Span = tuple[str, str]
Line = tuple[Span, ...]
TAB = 4
BAR: Span = ("bar", "┃ ")
"""The beginning of each row of a person's own words."""
_JOINING = re.compile("[\u200d\ufe0e\ufe0f\u20e3\U0001f1e6-\U0001f1ff\U0001f3fb-\U0001f3ff]")
"""Without one of these, each character has a width of its own."""
ELLIPSIS = "…"
NAME_COLUMNS = 26
_MARKED = re.compile(r" *(?:[!?>·•■✓✗] +)?")


class Lines(msgspec.Struct, frozen=True):
    """Finished lines; invisible characters are escaped. Lines too long for the terminal are cut
    with `clip`, wrapped at blanks and indented with `fold`, and else left to the terminal."""

    lines: tuple[Line, ...]
    clip: bool = False
    fold: bool = False


class Markdown(msgspec.Struct, frozen=True):
    """A finished piece of Markdown, without control characters."""

    text: str


Block = Lines | Markdown
"""Something that is printed once and then belongs to the terminal's scrollback."""


def line(text: str, style: str = "") -> Line:
    """One line in one style; what acts on a terminal is escaped."""
    return ((style, safe(text)),)


def row(name: str, text: str) -> Line:
    """A row of a listing: a name and what belongs to it."""
    shown = escaped(name)
    blanks = " " * max(NAME_COLUMNS - width(shown), 0)
    return (("accent", f"  {shown}{blanks} "), ("", escaped(text)))


def list_lines(listing: "Listing") -> list[Line]:
    """A list with its notes, in styles."""
    lines = [line(listing.heading, "bold")] if listing.heading else []
    lines += (line(each) for block in listing.blocks for each in block.split("\n"))
    for each in listing.rows:
        if each.gap.strip() or each.mark:
            mark = ((each.tone, f"  {each.mark} "),) if each.mark else (("", "  "),)
            name = ("accent", escaped(each.label))
            lines.append((*mark, name, ("", escaped(f"{each.gap}{each.text}"))))
        else:
            lines.append(row(each.label, each.text))
        lines += (line(f"      {text}", tone) for tone, text in each.notes)
    if listing.none:
        lines.append(line(listing.none))
    notes = ((tone, f"! {text}" if tone == "warning" else text) for tone, text in listing.notes)
    return lines + [line(text, tone) for tone, text in notes]


def safe(text: str) -> str:
    """A text on one line as a terminal may show it."""
    return escaped(text.expandtabs(TAB))


def plain(lines: Iterable[Line]) -> str:
    """The bare text of some lines."""
    return "\n".join("".join(text for _, text in each) for each in lines)


def signs(text: str) -> Iterable[str]:
    """The pieces of a text that a terminal draws as one sign: characters, flags, joined emoji."""
    if text.isascii() or not _JOINING.search(text):
        return text
    from wcwidth import iter_graphemes

    return iter_graphemes(text)


def width(text: str) -> int:
    """The number of columns a text takes."""
    return len(text) if text.isascii() else sum(map(_columns, signs(text)))


def clip_line(given: Line, columns: int) -> Line:
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
    used = end = 0
    for sign in signs(text):
        used += _columns(sign)
        if used > columns:
            return text[:end]
        end += len(sign)
    return text


def wrap_text(text: str, columns: int) -> list[str]:
    """A text without line breaks in pieces of at most `columns`, broken at blanks where it can."""
    pieces: list[str] = []
    start = 0
    while (end := _row_end(text, start, columns)) < len(text):
        pieces.append(text[start:end].rstrip(" "))
        start = end + (text[end] == " ")
    return [*pieces, text[start:]]


def fold_line(given: Line, columns: int, hang: int | None = None) -> list[Line]:
    """A line as rows of at most `columns`, broken at blanks; those after the first begin with
    `hang` blanks (None: as many as precede the first one's text), if there is room."""
    text = plain([given])
    if width(text) <= columns:
        return [given]
    bar = given[:1] if given[0] == BAR else ()
    if bar:
        return [(*bar, *row) for row in fold_line(given[1:], max(columns - 2, 1), hang)]
    margin = len(text) - len(text.lstrip(" "))
    wanted = (_text_column(given), margin) if hang is None else (hang,)
    column = next((each for each in wanted if columns > 2 * each), 0)
    rows: list[Line] = []
    start = 0
    while start < len(text):
        end = _row_end(text, start, max(columns - (column if rows else 0), 1))
        indent: Line = (("", " " * column),) if rows else ()
        stop = start + len(text[start:end].rstrip(" "))
        rows.append((*indent, *_cut(given, start, stop)))
        while end < len(text) and text[end] == " ":
            end += 1
        start = end
    return rows


def _text_column(given: Line) -> int:
    """The column of a line's text: behind its indentation, its mark and its first column."""
    first = given[0][1] if given else ""
    if len(given) > 1 and first.endswith(" "):
        return width(first)
    found = _MARKED.match(first)
    return found.end() if found else 0


def _row_end(text: str, start: int, columns: int) -> int:
    """Index after the last character of the row that begins at `start`. Words are only broken where
    they are longer than a row."""
    piece = text[start : start + 4 * columns + 1]
    row = prefix(piece, columns) or piece[:1]
    end = start + len(row)
    blank = row.rfind(" ")
    if end < len(text) and text[end] != " " and row[: max(blank, 0)].strip():
        return start + blank + 1
    return end


def _cut(given: Line, start: int, end: int) -> Line:
    """The characters of a line from `start` to `end`."""
    spans: list[Span] = []
    at = 0
    for style, text in given:
        part = text[max(start - at, 0) : max(end - at, 0)]
        if part:
            spans.append((style, part))
        at += len(text)
    return tuple(spans)


@lru_cache(maxsize=4096)
def _columns(sign: str) -> int:
    from wcwidth import wcswidth

    return max(wcswidth(sign), 0)
