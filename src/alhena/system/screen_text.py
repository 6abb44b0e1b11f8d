"""Reads the output of a program at a terminal as the text that its screen shows.

Carries out cursor movement, erasing, insertion, scroll regions and the alternate screen; drops
titles, and colours unless they are asked for. Text that scrolls off the top is final. As long as a
program only appends lines, they are one string; there are rows of cells only while it draws.
"""

import codecs
import re
from collections.abc import Callable
from unicodedata import combining, east_asian_width

import msgspec

from alhena.coloured_text import Pen, change_pen

_INERT = re.compile(
    r"\x1b(?:\[[0-9;:]*m|\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)|[()][0-9A-B])|[\x00\x07\x0e\x0f]"
)
"""Sequences that leave text and cursor as they are: colours, titles, character sets, the bell."""
_INERT_BUT_COLOURS = re.compile(rf"(?!\x1b\[[0-9;:]*m)(?:{_INERT.pattern})")
_DRAWS = re.compile(r"[\x01-\x08\x0b-\x1f\x7f-\x9f](?<!\x1b(?=\[[0-9;:]*m))")
_TOKEN = re.compile(
    r"\x1b\[(?P<private>[<-?]?)(?P<numbers>[0-9;:]*)[ -/]*(?P<final>[@-~])"
    r"|\x1b[\]PX^_][^\x1b\x07]*(?:\x07|\x1b\\)"
    r"|\x1b[ -/]*(?P<escape>[0-~])"
    r"|(?P<text>[^\x00-\x1f\x7f-\x9f]+)"
    r"|(?P<control>.)",
    re.DOTALL,
)
_UNFINISHED = re.compile(
    r"\x1b(?:\[[<-?]?[0-9;:]{0,256}[ -/]{0,16}|[\]PX^_][^\x1b\x07]{0,4096}\x1b?|[ -/]{0,16})?\Z"
)
_STRINGS = ("\x1b]", "\x1bP", "\x1bX", "\x1b^", "\x1b_")
"""Starts of sequences that may contain any text."""
TAB = 8
PENDING = 1 << 16
"""Characters from which on appended text is given out, except for what the screen still shows."""
ALTERNATE = frozenset({"47", "1047", "1049"})
_INITIAL = frozenset({"7", "25"})
"""Modes that are on at first: wrapping, a visible cursor."""


class _ScreenRow(msgspec.Struct):
    """Cells of a row: characters, `""` behind one that takes several. `wrapped`: the text continues
    in the next row; `redrawn`: something was overwritten, so blanks at the end mean nothing."""

    cells: list[str] = msgspec.field(default_factory=list[str])
    wrapped: bool = False
    redrawn: bool = False

    @property
    def text(self) -> str:
        shown = "".join(self.cells)
        return shown.rstrip(" ") if self.redrawn and not self.wrapped else shown

    def cut(self, start: int, end: int) -> None:
        """Parts characters that only half lie within cells `start` to `end`."""
        for at in (start, end):
            if at < len(self.cells) and not self.cells[at]:
                first = at
                while first and not self.cells[first]:
                    first -= 1
                self.cells[first] = " "
                while at < len(self.cells) and not self.cells[at]:
                    at += 1
                self.cells[first:at] = " " * (at - first)

    def put(self, at: int, cells: list[str]) -> None:
        """Writes over what is there."""
        missing = at - len(self.cells)
        if missing > 0:
            self.cells += " " * missing
        elif missing < 0:
            self.redrawn = True
            self.cut(at, at + len(cells))
        self.cells[at : at + len(cells)] = cells


PIPE_ROWS, PIPE_COLUMNS = 100, 1_000
"""Lines of a pipe that can still be redrawn, and characters of a line after which one breaks."""
PIPE_PENDING = 2_048
"""Characters of a pipe from which on lines that cannot be redrawn any more are given out."""
_MEANINGLESS = re.compile(
    r"\x1b(?:\[[0-9;:]{0,256}m"
    r"|[\]PX^_][^\x1b\x07]{0,4096}(?:\x07|\x1b\\)"
    r"|[()][0-9A-B]"
    r"|\[[0-9;:]{0,256}[Hfdr]|\[[23]J|c|\[\?[0-9;]{0,256}[hl]"
    r"|\[(?![<-?]?[0-9;:]{0,256}[ -/]{0,16}[@-~])|[\]PX^_]|(?![ -/]{0,16}[0-~]))"
    r"|[\x00\x07\x0e\x0f]"
)
"""Sequences without a meaning in a pipe: colours, titles, those that address a whole screen, broken
ones. Taking them out makes no sequences of their neighbours."""
_REPLACED_LINES = re.compile(r"(?:[^\n\x0b\x0c\x08\x1b]*\r\x1b\[[02]?K)+")
_MANY_STATES = 16
_NOT_ASCII_TEXT = re.compile(r"[^\t\r -~]")


def _drop_states(text: str) -> str:
    """The text without states of lines that later ones replace completely."""
    if text.count("\r") < _MANY_STATES:
        return text
    text = _REPLACED_LINES.sub("\r\x1b[K", text)
    return "\n".join(map(_drop_covered, text.split("\n")))


def _drop_covered(line: str) -> str:
    """A line without the states that a later one covers; the first continues what is there."""
    first, *states = line.split("\r")
    if len(states) < _MANY_STATES or "\t" in line or _NOT_ASCII_TEXT.search(line):
        return line
    kept: list[str] = []
    covered = 0
    for state in reversed(states):
        if len(state) > covered:
            kept.append(state)
            covered = len(state)
    if len(kept) < sum(map(bool, states)):
        kept.append(" ")  # something was written over
    return "\r".join([first, *reversed(kept)])


class ScreenText:
    """The text of a screen of `rows` and `columns`. It does not depend on the division of the bytes
    into chunks. `modes` are the private modes that are on, `redrawn` is true once anything was not
    just appended. With `pipe` the output comes from a pipe: lines are redrawn as on a screen, but
    there is no screen to clear or to write all over, and NUL ends a line. With `colours` the text
    keeps the sequences of colours."""

    def __init__(
        self,
        rows: int = PIPE_ROWS,
        columns: int = PIPE_COLUMNS,
        *,
        pipe: bool = False,
        colours: bool = False,
    ) -> None:
        self.redrawn = False
        self._pipe = pipe
        self._inert = _INERT_BUT_COLOURS if colours else _INERT
        self.rows = max(rows, 1)
        self.columns = max(columns, 2)
        self.modes = set(_INITIAL)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self._left = ""
        self._text = ""
        self._drawing = _Drawing(self.rows, self.columns, self.modes, colours=colours)
        self._draws = False

    def resize(self, rows: int, columns: int) -> None:
        """Another size; what is on the screen stays."""
        self.rows, self.columns = max(rows, 1), max(columns, 2)
        self._drawing.resize(self.rows, self.columns)

    @property
    def shown(self) -> str:
        """The text on the screen now."""
        if self._draws:
            return self._drawing.text
        lines = self._text[-self.rows * self.columns :].split("\n")
        return "\n".join(lines[-self.rows :])

    @property
    def pending(self) -> str:
        """The text that `feed` has not returned yet."""
        return self._left + (self._drawing.text if self._draws else self._text)

    @property
    def at_margin(self) -> bool:
        """True when the cursor is in the first column."""
        if self._draws:
            return self._drawing.column == 0
        return not self._text or self._text.endswith("\n")

    def restore(self) -> str:
        """Carries out, and returns, sequences that undo what the program has left changed at its
        terminal. Text that leaves the screen by it is returned by the next `feed`."""
        undone = self._restoration
        self._left = self.feed(undone.encode("ascii"))
        return undone

    @property
    def _restoration(self) -> str:
        left = [f"\x1b[?{mode}l" for mode in sorted(self.modes - _INITIAL)]
        missing = [f"\x1b[?{mode}h" for mode in sorted(_INITIAL - self.modes)]
        margins = ["\x1b7\x1b[r\x1b8"] if self._drawing.margins else []
        return "".join([*margins, *left, *missing, "\x1b>\x1b(B\x0f\x1b[0m"])

    def feed(self, data: bytes, *, final: bool = False) -> str:
        """Returns the text that has left the screen; `final` also returns what is on it."""
        text = self._held + self._decoder.decode(data, final)
        self._held = ""
        unfinished = _unfinished_length(text)
        if unfinished and final and self._pipe and text[-unfinished:].startswith(_STRINGS):
            unfinished = 0  # the text of a string that never ends is text
        if unfinished:
            text, self._held = text[:-unfinished], "" if final else text[-unfinished:]
        out = [self._left]
        self._left = ""
        if "\r" in text:
            text = text.replace("\r\n", "\n")
        if self._pipe:
            text = text.replace("\0", "\n")
            text = _MEANINGLESS.sub("", text)
            text = _drop_states(text)
        if not self._draws:
            text = self._append(text)
        if text:
            self._draw(text, out.append)
        if final:
            self._end(out.append)
        elif len(self._text) > (PIPE_PENDING if self._pipe else PENDING):
            self._give(out.append)
        return "".join(out)

    def _append(self, text: str) -> str:
        """Appends text up to the first thing that draws; returns the rest."""
        if "\x1b" in text or "\x07" in text or "\0" in text:
            text = self._inert.sub("", text)
        found = _DRAWS.search(text)
        if found is None:
            self._text += text
            return ""
        self._text += text[: found.start()]
        return text[found.start() :]

    def _draw(self, text: str, out: Callable[[str], object]) -> None:
        self.redrawn = True
        if not self._draws:
            self._drawing.write(self._text, out)
            self._text, self._draws = "", True
        self._drawing.write(text, out)
        if self._drawing.appends:
            self._text, self._draws = self._drawing.take(), False

    def _give(self, out: Callable[[str], object]) -> None:
        """Gives out appended text that has scrolled away."""
        end = len(self._text)
        for _ in range(self.rows):
            end = self._text.rfind("\n", 0, end)
            if end < 0:
                break
        if end < 0 or len(self._text) - end > PENDING:  # long lines: whole rows of one
            end = len(self._text) - self.rows * self.columns - 1
            start = self._text.rfind("\n", 0, max(end, 0)) + 1
            end = start + (end - start) // self.columns * self.columns - 1
        if end >= 0:
            out(self._text[: end + 1])
            self._text = self._text[end + 1 :]

    def _end(self, out: Callable[[str], object]) -> None:
        if self._draws:
            self._drawing.leave_alternate()
            self._text, self._draws = self._drawing.take(), False
        out(self._text)
        self._text = ""


def _unfinished_length(text: str) -> int:
    """Length of what may be the beginning of a sequence or of a line break at the end."""
    last = text.rfind("\x1b")
    found = None
    if last >= 0:
        found = _UNFINISHED.search(text, max(0, text.rfind("\x1b", 0, last)))
    return len(text) - found.start() if found and found[0] else int(text.endswith("\r"))


class _Drawing:
    """Rows of a screen, and a cursor. `modes` is brought up to date. `pen` has the colours of what
    is written next, where they are kept."""

    def __init__(self, rows: int, columns: int, modes: set[str], *, colours: bool) -> None:
        self.pen = Pen() if colours else None
        self.margins: tuple[int, int] | None = None
        self.column = 0
        self._row = 0
        self._height = rows
        self._width = columns
        self._modes = modes
        self._rows = [_ScreenRow()]
        self._saved = (0, 0)
        self._main: tuple[list[_ScreenRow], int, int] | None = None
        self._last = ""
        self._out: Callable[[str], object] = str

    @property
    def text(self) -> str:
        """The text of all rows down to the last with any, or the cursor; of empty ones below only
        the line break."""
        end = len(self._rows)
        while end - 1 > self._row and not self._rows[end - 1].cells:
            end -= 1
        if end < len(self._rows):
            return "".join(map(_end_row, self._rows[:end]))
        return "".join(map(_end_row, self._rows[:-1])) + self._rows[-1].text

    def take(self) -> str:
        """Returns the text and begins again at the top."""
        text = self.text if self.pen is None else f"{self.text}{self.pen.sequence}"
        self._rows, self._row, self.column = [_ScreenRow()], 0, 0
        return text

    @property
    def appends(self) -> bool:
        """True when the cursor is behind all text, and nothing else is of account."""
        if self._main is not None or self.margins or self._row != len(self._rows) - 1:
            return False
        if any(row.redrawn for row in self._rows):
            return False
        end = len(self._rows[-1].cells)
        continues = self._row > 0 and self._rows[-2].wrapped
        return self.column == end < self._width and (end > 0 or not continues)

    def resize(self, rows: int, columns: int) -> None:
        """Another size. Rows beyond it scroll away with the next line break."""
        self._height, self._width = rows, columns
        self.margins = None
        self.column = min(self.column, columns)

    def leave_alternate(self) -> None:
        """Back to the main screen."""
        if self._main is not None:
            self._rows, self._row, self.column = self._main
            self._main = None

    def write(self, text: str, out: Callable[[str], object]) -> None:
        """Carries out text and sequences; `out` takes what scrolls off the top."""
        self._out = out
        for token in _TOKEN.finditer(text):
            kind = token.lastgroup
            if kind == "text":
                self._put(token["text"])
            elif kind == "control":
                self._control(token["control"])
            elif kind == "escape":
                self._escape(token["escape"])
            elif kind == "final":
                self._sequence(token["private"], token["numbers"], token["final"])

    def _put(self, text: str) -> None:
        cells = list(text) if text.isascii() else _cells(text)
        row = self._rows[self._row].cells
        if cells and _joins(cells[0][0]) and 0 < self.column <= len(row):
            at = self.column - 1
            while at > 0 and not row[at]:
                at -= 1
            row[at] += cells.pop(0)
        self._last = cells[-1] or cells[-2] if cells else self._last
        if self.pen is not None:
            cells = [cell and f"{self.pen.sequence}{cell}" for cell in cells]
        at = 0
        while at < len(cells):
            if self.column >= self._width:
                self._rows[self._row].wrapped = True
                self._break()
            end = min(at + self._width - self.column, len(cells))
            if end < len(cells) and not cells[end]:  # no room for a wide character
                end -= 1
            if end > at:
                self._rows[self._row].put(self.column, cells[at:end])
            self.column = self.column + end - at if end == len(cells) else self._width
            at = end

    def _control(self, char: str) -> None:
        match char:
            case "\n" | "\x0b" | "\x0c":
                self._rows[self._row].wrapped = False
                self._break()
            case "\r":
                self.column = 0
            case "\b":
                self.column = max(min(self.column, self._width) - 1, 0)
            case "\t":
                self._tab()
            case _:
                pass

    def _tab(self) -> None:
        stop = min((self.column // TAB + 1) * TAB, max(self._width - 1, self.column))
        row = self._rows[self._row]
        if self.column == len(row.cells) and stop > self.column:
            row.cells += ["\t", *[""] * (stop - self.column - 1)]
        self.column = stop

    def _break(self) -> None:
        """To the beginning of the next row; at the bottom the text scrolls."""
        self.column = 0
        top, bottom = self.margins or (0, self._height - 1)
        if self._row != bottom and self._row < self._height - 1:
            self._to(self._row + 1)
        elif self._row >= bottom:
            self._to(max(self._row, bottom))
            self._scroll(top, max(self._row, bottom))

    def _scroll(self, top: int, bottom: int) -> None:
        """Takes the row at the top away, and makes one at the bottom."""
        gone = self._rows.pop(top)
        if top == 0 and self._main is None:
            self._out(_end_row(gone))
        self._rows.insert(min(bottom, len(self._rows)), _ScreenRow())

    def _to(self, row: int) -> None:
        self._row = row
        while row >= len(self._rows):
            self._rows.append(_ScreenRow())

    def _escape(self, final: str) -> None:
        match final:
            case "7":
                self._saved = (self._row, self.column)
            case "8":
                self._move(*self._saved)
            case "D" | "E":
                self._control("\n")
            case "M":
                top, bottom = self.margins or (0, self._height - 1)
                if self._row == top:
                    self._insert_rows(1, bottom)
                else:
                    self._to(max(self._row - 1, 0))
            case "c":
                self._erase_display(2)
                self._move(0, 0)
            case _:
                pass

    def _move(self, row: int, column: int) -> None:
        self._to(min(max(row, 0), self._height - 1))
        self.column = min(max(column, 0), self._width - 1)

    def _sequence(self, private: str, numbers: str, final: str) -> None:
        if private:
            if private == "?" and final in "hl":
                for mode in numbers.split(";"):
                    self._mode(mode, on=final == "h")
            return
        given = [int(part[:6]) if part else 0 for part in re.split("[;:]", numbers)]
        first, count = given[0], max(given[0], 1)
        second = given[1] if len(given) > 1 else 0
        if final in "ABCDEFGHade`f":
            self._go(final, count, max(second, 1))
            return
        match final:
            case "s":
                self._saved = (self._row, self.column)
            case "u":
                self._move(*self._saved)
            case "b":
                self._put(self._last * min(count, self._width))
            case "r":
                self._set_margins(count - 1, second)
            case "m":
                self.pen = self.pen and change_pen(self.pen, numbers)
            case _:
                self._edit(final, first, count)

    def _go(self, final: str, count: int, column: int) -> None:
        """Sequences that move the cursor."""
        row, at = self._row, min(self.column, self._width - 1)
        match final:
            case "A" | "F":
                row -= count
            case "B" | "E" | "e":
                row += count
            case "C" | "a":
                at += count
            case "D":
                at -= count
            case "G" | "`":
                at = count - 1
            case "d":
                row = count - 1
            case _:
                row, at = count - 1, column - 1
        self._move(row, 0 if final in "EF" else at)

    def _edit(self, final: str, first: int, count: int) -> None:
        """Sequences that erase, insert and delete."""
        row = self._rows[self._row]
        at = min(self.column, self._width - 1)
        bottom = (self.margins or (0, self._height - 1))[1]
        match final:
            case "J":
                self._erase_display(first)
            case "K":
                self._erase_line(first)
            case "X":
                if at < len(row.cells):
                    row.put(at, list(" " * min(count, self._width - at)))
            case "P":
                row.cut(at, at + count)
                del row.cells[at : at + count]
                row.redrawn = True
            case "@" if at < len(row.cells):
                row.cut(at, at)
                row.cells[at:at] = " " * min(count, self._width)
                del row.cells[self._width :]
            case "L":
                self._insert_rows(count, bottom)
            case "M":
                for _ in range(min(count, self._height)):
                    del self._rows[self._row]
                    self._rows.insert(min(bottom, len(self._rows)), _ScreenRow())
                self._to(self._row)
            case "S":
                self._to(self._row)
                for _ in range(min(count, self._height)):
                    self._scroll((self.margins or (0, 0))[0], bottom)
                self._to(self._row)
            case _:
                pass

    def _insert_rows(self, count: int, bottom: int) -> None:
        for _ in range(min(count, self._height)):
            self._rows.insert(self._row, _ScreenRow())
            if len(self._rows) > bottom + 1:
                del self._rows[bottom + 1]

    def _erase_line(self, how: int) -> None:
        row = self._rows[self._row]
        row.redrawn = row.redrawn or bool(row.cells)
        if how == 0:
            row.cut(self.column, self.column)
            del row.cells[self.column :]
        elif how == 1:
            row.put(0, list(" " * min(self.column + 1, self._width)))
        else:
            row.cells.clear()
        row.wrapped = False
        row.redrawn = row.redrawn and bool(row.cells)

    def _erase_display(self, how: int) -> None:
        if how == 0:
            self._erase_line(0)
            del self._rows[self._row + 1 :]
        elif how == 1:
            self._rows[: self._row] = [_ScreenRow() for _ in range(self._row)]
            self._erase_line(1)
        elif how == 2:
            self._rows = [_ScreenRow() for _ in range(self._row + 1)]

    def _set_margins(self, top: int, bottom: int) -> None:
        bottom = min(bottom or self._height, self._height) - 1
        whole = top <= 0 and bottom == self._height - 1
        self.margins = None if whole or top >= bottom else (top, bottom)
        if self.margins is not None:
            at = self._row
            self._to(bottom)
            self._row = at
        self._move(0, 0)

    def _mode(self, mode: str, *, on: bool) -> None:
        (self._modes.add if on else self._modes.discard)(mode)
        if mode not in ALTERNATE:
            return
        if not on:
            self.leave_alternate()
        elif self._main is None:
            self._main = (self._rows, self._row, self.column)
            self._rows, self._row, self.column = [_ScreenRow()], 0, 0


def _end_row(row: _ScreenRow) -> str:
    return row.text if row.wrapped else f"{row.text}\n"


def _cells(text: str) -> list[str]:
    """A cell for each column that characters take; marks join the character before."""
    cells: list[str] = []
    for char in text:
        if cells and _joins(char):
            cells[-1 if cells[-1] else -2] += char
        else:
            cells.append(char)
            if east_asian_width(char) in "WF":
                cells.append("")
    return cells


def _joins(char: str) -> bool:
    """True for what takes no column of its own."""
    return bool(combining(char)) or char in "\u200b\u200c\u200d\ufe0e\ufe0f"
