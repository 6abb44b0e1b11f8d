"""Streamed Markdown cut into pieces that can be rendered once and for all."""

import re

MAX_LINES = 100
MAX_CHARACTERS = 16_000
MAX_OPENING = 80
"""Characters of the line that opens a fence which are repeated where it goes on."""

_FENCE = re.compile(r" *(`{3,}|~{3,})")
_MARKER = re.compile(r"(?:[-*+]|\d{1,9}[.)])(?:\s|$)")
_PERHAPS_MARKER = re.compile(r"(?:[-*+]|\d{1,9}[.)]?)$")


def split(text: str) -> tuple[tuple[str, ...], str]:
    """The finished pieces at the beginning of a text that still grows, and its open rest.

    A piece ends where a blank line is followed by a line at the margin that does not go on with a
    list, and behind a code fence. A piece that becomes too long is cut between lines; a fence is
    closed and opened again there.
    """
    finished: list[str] = []
    scan = _Scan(text)
    while (end := scan.next_end()) is not None:
        finished.append(scan.take(end))
    return tuple(piece for piece in finished if piece.strip()), scan.rest()


class _Scan:
    def __init__(self, text: str) -> None:
        *self._lines, self._open = text.split("\n")
        self._start = 0
        self._closing = ""

    def next_end(self) -> int | None:
        """The line before which the piece that begins at `_start` ends."""
        fence, listed, characters = "", False, 0
        self._closing = ""
        for index in range(self._start, len(self._lines)):
            current = self._lines[index]
            if fence:
                if _closes(current, fence):
                    return index + 1
            elif index > self._start and self._begins(index, listed=listed):
                return index
            elif found := _FENCE.match(current):
                fence = found[1]
            listed = listed or bool(_MARKER.match(current))
            characters += len(current) + 1
            over = max((index - self._start) / MAX_LINES, characters / MAX_CHARACTERS)
            if over > 2 or (over >= 1 and (fence or current[:1] not in (" ", "\t"))):
                return self._cut(index + 1, fence)
        if not fence and self._begins(len(self._lines), listed=listed):
            return len(self._lines)
        if len(self._open) > MAX_CHARACTERS:
            self._lines.append(self._open)
            self._open = ""
            return self._cut(len(self._lines), fence)
        return None

    def take(self, end: int) -> str:
        """The piece up to `end`."""
        piece = "\n".join(self._lines[self._start : end]) + self._closing
        self._start = end
        return piece.strip("\n")

    def rest(self) -> str:
        return "\n".join([*self._lines[self._start :], self._open])

    def _begins(self, index: int, *, listed: bool) -> bool:
        """Whether a new piece begins with this line, for all that is known of it."""
        if index <= self._start or self._lines[index - 1].strip():
            return False
        if not any(each.strip() for each in self._lines[self._start : index]):
            return False
        complete = index < len(self._lines)
        current = self._lines[index] if complete else self._open
        if not current.strip() or current[0] in " \t":
            return False
        if not listed:
            return True
        undecided = not complete and _PERHAPS_MARKER.match(current)
        return not _MARKER.match(current) and not undecided

    def _cut(self, end: int, fence: str) -> int:
        if fence:
            opening = next(each for each in self._lines[self._start :] if _FENCE.match(each))
            self._closing = f"\n{fence}"
            self._lines.insert(end, opening[:MAX_OPENING])
        return end


def _closes(text: str, fence: str) -> bool:
    stripped = text.strip()
    return len(stripped) >= len(fence) and not stripped.strip(fence[0])
