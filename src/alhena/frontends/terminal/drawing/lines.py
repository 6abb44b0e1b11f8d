"""Lines of styled text: what the view is made of, without a terminal.

A style is a name of `looks.theme.Theme.looks`, "" for plain text, or one of prompt_toolkit's own.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from alhena.coloured_text import Pen, coloured_parts
from alhena.display_text import escaped, sentence

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
OBJECT, MIN_OBJECT = "object", 8
"""The style of what a call is about, and the columns that it keeps on a narrow row."""
NAME_COLUMNS = 26
ROW_COLUMNS = NAME_COLUMNS + 3
"""Columns of a `row` before its text."""
MARK = 4
"""Columns of a mark, for which a long word is broken; for a column of names it is not."""
_MARKED = re.compile(r" *(?:[!?>·•■✓✗] +)?")


class Lines(msgspec.Struct, frozen=True):
    """Finished lines; invisible characters are escaped. Lines too long for the terminal are cut
    with `clip`, wrapped at blanks and indented with `fold`, broken at its edge and indented by
    `hang` columns, and else left to the terminal."""

    lines: tuple[Line, ...]
    clip: bool = False
    fold: bool = False
    hang: int = 0


class Markdown(msgspec.Struct, frozen=True):
    """A finished piece of Markdown, without control characters."""

    text: str


Block = Lines | Markdown
"""Something that is printed once and then belongs to the terminal's scrollback."""


def line(text: str, style: str = "") -> Line:
    """One line in one style; what acts on a terminal is escaped."""
    return ((style, safe(text)),)


def warning_line(text: str) -> Line:
    """A warning: its mark, and its words beginning with a capital letter."""
    return (("warning", "! "), ("warning", safe(sentence(text))))


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
    return lines + [
        warning_line(text) if tone == "warning" else line(text, tone)
        for tone, text in listing.notes
    ]


def safe(text: str) -> str:
    """A text on one line as a terminal may show it."""
    return escaped(text.expandtabs(TAB))


def coloured_lines(text: str, style: str) -> list[Line]:
    """The lines of a program's output as it coloured them; what has no colour in `style`."""
    rows: list[list[Span]] = [[]]
    for pen, part in coloured_parts(text):
        for number, piece in enumerate(part.split("\n")):
            if number:
                rows.append([])
            if piece:
                rows[-1].append((pen_style(pen) or style, safe(piece)))
    if len(rows) > 1 and not rows[-1]:
        rows.pop()
    return [tuple(each) for each in rows]


_ANSI_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "gray")
_BRIGHT = ("brightblack", *(f"bright{name}" for name in _ANSI_COLOURS[1:-1]), "white")
_LEVELS = (0, 95, 135, 175, 215, 255)
_MARKS = {"1": "bold", "2": "dim", "3": "italic", "4": "underline", "7": "reverse", "9": "strike"}


@lru_cache(maxsize=256)
def pen_style(pen: Pen) -> str:
    """A style of prompt_toolkit for how a program writes; "" for its usual way."""
    colour, ground = _colour_name(pen.colour), _colour_name(pen.ground)
    named = (colour and f"fg:{colour}", ground and f"bg:{ground}")
    return " ".join(filter(None, (*named, *(_MARKS[mark] for mark in pen.marks))))


def _colour_name(parameters: str) -> str:
    kind, *numbers = parameters.split(";")
    if not numbers:
        names = _BRIGHT if kind[:-1] in ("9", "10") else _ANSI_COLOURS
        return f"ansi{names[int(kind[-1])]}" if kind and kind[-1] in "01234567" else ""
    red, green, blue = (*(min(int(each), 255) for each in numbers[1:]), 0, 0)[:3]
    if len(numbers) > 2:
        return f"#{red:02x}{green:02x}{blue:02x}"
    if red < 16:
        return f"ansi{(*_ANSI_COLOURS, *_BRIGHT)[red]}"
    if red > 231:
        return "#" + f"{8 + 10 * (red - 232):02x}" * 3
    parts = (red - 16) // 36, (red - 16) // 6 % 6, (red - 16) % 6
    return "#" + "".join(f"{_LEVELS[each]:02x}" for each in parts)


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
    """A line that takes no more than `columns`: its OBJECT is shortened, where that is enough, else
    an ellipsis is at its end."""
    over = sum(width(text) for _, text in given) - columns
    if over <= 0:
        return given
    for index, (style, text) in enumerate(given):
        if style == OBJECT and width(text) - over > MIN_OBJECT:
            short = _shorten(text, width(text) - over)
            return (*given[:index], (style, short), *given[index + 1 :])
    room = max(columns - 1, 0)
    kept: list[Span] = []
    for style, text in given:
        part = prefix(text, room)
        room -= width(part)
        kept.append((style, part))
        if part != text:
            break
    return (*kept, ("dim", ELLIPSIS if columns > 0 else ""))


def _shorten(text: str, columns: int) -> str:
    """The beginning of a text of some words; of one word, such as a path, the end."""
    if " " in text.strip():
        return f"{prefix(text, columns - 1)}{ELLIPSIS}"
    end = text.strip()
    while width(end) > columns - 2:
        end = end[1:]
    return f" {ELLIPSIS}{end}"


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


def narrow_row(given: Line, columns: int) -> list[Line]:
    """A `row` whose column of names leaves more than half of `columns` to the texts; a longer name
    has a line of its own. Other lines are as given."""
    if not given:
        return [given]
    style, name = given[0]
    room = columns * 3 // 8
    if room >= ROW_COLUMNS or width(name) < ROW_COLUMNS or not name.endswith(" "):
        return [given]
    name = name.rstrip(" ")
    if width(name) < room:
        return [((style, f"{name}{' ' * (room - width(name))}"), *given[1:])]
    return [((style, name),), (("", " " * room), *given[1:])]


def fold_line(given: Line, columns: int, hang: int | None = None) -> list[Line]:
    """A line as rows of at most `columns`, broken at blanks; those after the first begin with
    `hang` blanks (None: as many as precede the first one's text), if there is room."""
    first, *rest = narrow_row(given, columns)
    if rest:
        return [*fold_line(first, columns), *fold_line(rest[0], columns, width(rest[0][0][1]))]
    given = first
    text = plain([given])
    if width(text) <= columns:
        return [given]
    bar = given[:1] if given[0] == BAR else ()
    if bar:
        return [(*bar, *row) for row in fold_line(given[1:], max(columns - 2, 1), hang)]
    margin = len(text) - len(text.lstrip(" "))
    wanted = (_text_column(given), margin) if hang is None else (hang,)
    longest = max(map(width, text.split()), default=0)
    column = next(
        (
            each
            for each in wanted
            if columns > 2 * each and (each <= margin + MARK or longest <= columns - each)
        ),
        margin if hang is None and columns > 2 * margin else 0,
    )
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


def break_line(given: Line, columns: int, hang: int) -> list[Line]:
    """A line as rows of at most `columns`, broken anywhere; those after the first begin with `hang`
    blanks, if there is room."""
    text = plain([given])
    if width(text) <= columns:
        return [given]
    hang = hang if columns > 2 * hang else 0
    rows: list[Line] = []
    start = 0
    while start < len(text):
        room = max(columns - (hang if rows else 0), 1)
        end = start + max(len(prefix(text[start : start + 4 * room], room)), 1)
        rows.append((*((("", " " * hang),) if rows else ()), *_cut(given, start, end)))
        start = end
    return rows


def fit_lines(block: Lines, columns: int) -> tuple[Line, ...]:
    """The rows of a block on a terminal of so many columns."""
    if block.clip:
        return tuple(clip_line(each, columns) for each in block.lines)
    if block.fold:
        return tuple(row for each in block.lines for row in fold_line(each, columns))
    if block.hang:
        return tuple(row for each in block.lines for row in break_line(each, columns, block.hang))
    return block.lines


def _text_column(given: Line) -> int:
    """The column of a line's text: behind its indentation, its mark and its first column."""
    first = given[0][1] if given else ""
    if len(given) > 1 and first.endswith(" "):
        return width(first)
    found = _MARKED.match(plain([given[:2]]))
    return found.end() if found else 0


def _row_end(text: str, start: int, columns: int) -> int:
    """Index after the last character of the row that begins at `start`. Words are only broken where
    they are longer than a row."""
    piece = text[start : start + 4 * columns + 1]
    row = prefix(piece, columns) or piece[:1]
    end = start + len(row)
    if end >= len(text) or text[end] == " ":
        return end
    blank = row.rfind(" ")
    if row[: max(blank, 0)].strip(" !?✗✓·•■"):  # a mark does not stand alone
        return start + blank + 1
    slash = row.rfind("/")
    return start + slash + 1 if slash > len(row) // 2 else end


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
