"""Streamed Markdown cut into pieces that can be rendered once and for all."""

import re
from collections.abc import Iterable, Iterator

import msgspec

MAX_LINES = 100
MAX_CHARACTERS = 16_000
"""Characters of a piece, and of a line: a longer one is wrapped."""
MAX_OPENING = 80
"""Characters of the line that opens a fence which are repeated where it continues."""
MAX_HEAD = 1_000
"""Characters of the head of a table up to which it is repeated where the table continues."""
TAB = 4
OUTSIDE = 3
"""Columns by which a fence may be indented where it is in no list."""

_FENCE = re.compile(
    r"(?P<quote>(?: {0,3}>){0,20})(?P<before>[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*)"
    r"(?P<mark>`{3,}(?=[^`]*$)|~{3,})"
)
_MARKER = re.compile(r"(?:[-*+]|\d{1,9}[.)])(?:\s|$)")
_PERHAPS_MARKER = re.compile(r"(?:[-*+]|\d{1,9}[.)]?)$")
_ITEM = re.compile(r" {0,3}(?:> {0,3}){0,20}(?:[-*+]|\d{1,9}[.)])(?:\s|$)")
_QUOTE = re.compile(r"(?: {0,3}>){0,20}")
_DELIMITERS = re.compile(r"\|? *:?-+:? *(?:\| *:?-+:? *)*\|?")
_NO_ROW = re.compile(r" {0,3}(?:#{1,6}\s|>|[-*+]\s|1[.)]\s|`{3}|~{3}|(?:[-*_] *){3,}$)")
_BAR = re.compile(r"(?<!\\)\|")


def split(text: str) -> tuple[tuple[str, ...], str]:
    """The finished pieces at the beginning of a text that still grows, and its open rest.

    A piece ends where a blank line is followed by a line at the margin that does not continue a
    list, and behind a code fence that is in no list and no quotation. A piece that becomes too long
    is cut between lines; a fence is closed and opened again there, the head of a table repeated.
    """
    finished: list[str] = []
    scan = _Scan(text)
    while (end := scan.next_end()) is not None:
        finished.append(scan.take(end))
    return tuple(piece for piece in finished if piece.strip()), scan.rest()


def at_margin(piece: str) -> str:
    """A piece, or the rest of a text that has ended, as it is to be rendered: what continues an
    indented fence or table is moved to the margin, where those begin outside of their list."""
    first, _, more = piece.partition("\n")
    indent = len(first) - len(first.lstrip(" "))
    second = more.partition("\n")[0].strip()
    opens = _FENCE.match(first) or (
        "|" in first and "|" in second and _DELIMITERS.fullmatch(second)
    )
    if not indent or not opens:
        return piece
    blanks = " " * indent
    return "\n".join(
        line[indent:] if line.startswith(blanks) else line.lstrip(" ") for line in piece.split("\n")
    )


class _Fence(msgspec.Struct, frozen=True):
    """An open fence. `before` is what comes before its mark where it is opened again; `column`
    that of the mark, within `quotes` quotations; `label` what is behind the mark."""

    mark: str
    before: str
    column: int
    quotes: int
    label: str

    def closed_by(self, body: str) -> bool:
        """True when a line, without the marks of the quotations, closes it."""
        stripped = body.strip()
        if len(stripped) < len(self.mark) or stripped.strip(self.mark[0]):
            return False
        return _indent(body) <= self.column + OUTSIDE


class _Piece:
    """Open blocks at the end of the lines read so far."""

    def __init__(self) -> None:
        self.lines = 0
        self.characters = 0
        self.fence: _Fence | None = None
        self.listed = False
        self.continued = False
        self.table: tuple[str, ...] = ()
        self._items = False
        self._before = ""

    @property
    def fullness(self) -> float:
        """1 where it becomes too long."""
        return max(self.lines / MAX_LINES, self.characters / MAX_CHARACTERS)

    def read(self, line: str) -> bool:
        """Takes the next line; whether the piece ends after it."""
        closed = self._read_fence(line)
        self.listed = self.listed or bool(_MARKER.match(line))
        self.lines += 1
        self.characters += len(line) + 1
        self._before = line
        return closed

    def goes_on(self, line: str) -> tuple[str, tuple[str, ...]]:
        """Text that closes the piece when it is cut before a line, and lines repeated before that
        line."""
        fence = self.fence
        if fence is not None:
            if len(fence.before) > MAX_OPENING:
                return "", ()
            opening = f"{fence.mark}{fence.label}"[:MAX_OPENING]
            return f"\n{fence.before}{fence.mark}", (f"{fence.before}{opening}",)
        if sum(map(len, self.table)) <= MAX_HEAD and self._is_row(line):
            return "", self.table
        return "", ()

    def closed_by(self, line: str) -> bool:
        """True when a line ends the fence that is open."""
        if self.fence is None:
            return False
        body = _within(line, self.fence.quotes)
        return body is None or self.fence.closed_by(body)

    def _read_fence(self, line: str) -> bool:
        fence = self.fence
        if fence is not None:
            body = _within(line, fence.quotes)
            if body is not None:
                if not fence.closed_by(body):
                    return False
                self.fence = None
                return not (self._items or self.continued or fence.quotes)
            self.fence = None
        self._items = self._items or bool(_ITEM.match(line))
        first = not self.lines
        self.fence = _opened(line, indented=self._items or first)
        self.continued = self.continued or bool(first and self.fence and self.fence.column)
        self._read_table(line)
        return False

    def _read_table(self, line: str) -> None:
        if self.table:
            if not self._is_row(line):
                self.table = ()
            return
        quotes = _quotes(line)
        body, head = _within(line, quotes) or "", _within(self._before, quotes)
        if head is None or "|" not in body or not _DELIMITERS.fullmatch(body.strip()):
            return
        if _cells(head) == _cells(body) and not _NO_ROW.match(head):
            self.table = (self._before, line)

    def _is_row(self, line: str) -> bool:
        """True when this line continues the open table. One with a row that has more
        cells than its head is none."""
        if not self.table:
            return False
        quotes = _quotes(self.table[1])
        body, head = _within(line, quotes), _within(self.table[0], quotes)
        if not body or not body.strip() or _NO_ROW.match(body):
            return False
        return head is not None and _cells(body) <= _cells(head)


class _Scan:
    def __init__(self, text: str) -> None:
        *self._lines, self._open = _short_lines(text)
        self._start = 0
        self._repeated: tuple[str, ...] = ()
        """Lines that stand before the one at `_start`."""
        self._closing = ""
        self._next: tuple[str, ...] = ()

    def next_end(self) -> int | None:
        """The line before which the piece that begins at `_start` ends."""
        piece = _Piece()
        for line in self._repeated:
            piece.read(line)
        for index in range(self._start, len(self._lines)):
            line = self._lines[index]
            if index > self._start and self._ends(piece, index):
                return index
            if piece.read(line):
                return index + 1
        if piece.fence is None and self._begins(len(self._lines), listed=piece.listed):
            return len(self._lines)
        return None

    def take(self, end: int) -> str:
        """The piece up to `end`."""
        piece = "\n".join([*self._repeated, *self._lines[self._start : end]]) + self._closing
        self._start, self._repeated = end, self._next
        self._closing, self._next = "", ()
        return at_margin(piece.strip("\n"))

    def rest(self) -> str:
        return "\n".join([*self._repeated, *self._lines[self._start :], self._open])

    def _ends(self, piece: _Piece, index: int) -> bool:
        """True when the piece ends before a line, being finished or too long."""
        line = self._lines[index]
        indented = line[:1] in (" ", "\t")
        if piece.fence is None:
            left = piece.continued and line.strip() and not indented
            if left or self._begins(index, listed=piece.listed):
                return True
        full = piece.fullness
        if full < 1 or piece.closed_by(line):
            return False
        if full <= 2 and indented and piece.fence is None:
            return False
        self._closing, self._next = piece.goes_on(line)
        return True

    def _begins(self, index: int, *, listed: bool) -> bool:
        """True when a new piece begins with this line, for all that is known of it."""
        if index <= self._start or self._lines[index - 1].strip():
            return False
        before = (*self._repeated, *self._lines[self._start : index])
        if not any(each.strip() for each in before):
            return False
        complete = index < len(self._lines)
        current = self._lines[index] if complete else self._open
        if not current.strip() or current[0] in " \t":
            return False
        if not listed:
            return True
        undecided = not complete and _PERHAPS_MARKER.match(current)
        return not _MARKER.match(current) and not undecided


def _short_lines(text: str) -> Iterable[str]:
    """The lines of a text; one that is too long in several, broken behind a blank where it can."""
    lines = text.split("\n")
    if max(map(len, lines)) <= MAX_CHARACTERS:
        return lines
    return (part for line in lines for part in _parts(line))


def _parts(line: str) -> Iterator[str]:
    start = 0
    while len(line) - start > MAX_CHARACTERS:
        end = start + MAX_CHARACTERS
        end = line.rfind(" ", start + MAX_CHARACTERS // 2, end) + 1 or end
        yield line[start:end]
        start = end
    yield line[start:]


def _opened(line: str, *, indented: bool) -> _Fence | None:
    """The fence that a line opens; `indented`: it may be indented as it likes."""
    found = _FENCE.match(line)
    if found is None:
        return None
    quote, before = found["quote"], found["before"].expandtabs(TAB)
    if not before.strip() and len(before) > OUTSIDE + bool(quote) and not indented:
        return None
    return _Fence(
        mark=found["mark"],
        before=quote + " " * len(before),
        column=len(before),
        quotes=quote.count(">"),
        label=line[found.end() :],
    )


def _quotes(line: str) -> int:
    """The number of quotations a line is in, by its own marks."""
    found = _QUOTE.match(line)
    return found[0].count(">") if found else 0


def _within(line: str, quotes: int) -> str | None:
    """A line without the marks of so many quotations; None where it is not in them."""
    for _ in range(quotes):
        stripped = line.lstrip(" ")
        if not stripped.startswith(">") or len(line) - len(stripped) > OUTSIDE:
            return None
        line = stripped[1:]
    return line


def _indent(line: str) -> int:
    expanded = line.expandtabs(TAB)
    return len(expanded) - len(expanded.lstrip(" "))


def _cells(row: str) -> int:
    stripped = row.strip()
    cells = _BAR.split(stripped)
    return len(cells) - (cells[0] == "") - (len(cells) > 1 and cells[-1] == "")
