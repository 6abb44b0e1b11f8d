"""Lines of any length against a pattern: long ones in pieces, since a match may need hundreds of
bytes of memory for each character that it looks at."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regex import Pattern

PIECE = 100_000
"""Characters of a line that are looked through at once."""

OVERLAP = 20_000
"""Characters that a piece has in common with the next one: longer matches may be missed."""

_BEYOND = "\n\n"
"""What stands behind a piece when it is judged by itself: nothing that `$` or `\\Z` take for the
end, nor `.` for a character."""


def line_matches(pattern: "Pattern[str]", line: str, seconds: float) -> bool:
    """Whether the pattern matches somewhere in the line. Raises TimeoutError, MemoryError."""
    if len(line) <= PIECE:
        return pattern.search(line, timeout=seconds, concurrent=True) is not None
    end = time.monotonic() + seconds
    for start in range(0, len(line) - OVERLAP, PIECE - OVERLAP):
        stop = start + PIECE
        found = pattern.search(line, start, stop, timeout=_left(end), concurrent=True)
        if found is None:
            continue
        if found.end() < stop or stop >= len(line):
            return True
        # It reaches the end of the piece, which may have been taken for that of the line.
        piece = line[start:stop] + _BEYOND
        at = found.start() - start
        if pattern.search(piece, at, timeout=_left(end), concurrent=True) is not None:
            return True
    return False


def _left(end: float) -> float:
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def short_and_long(text: str) -> Iterator[tuple[str, bool]]:
    """The text cut at line ends: runs of lines, and each line longer than a piece by itself.

    The second tells which it is.
    """
    if len(text) <= PIECE:
        yield text, False
        return
    begin = at = 0
    while at + PIECE < len(text):
        feed = text.rfind("\n", at, at + PIECE + 1)
        if feed >= 0:
            at = feed + 1
            continue
        if at > begin:
            yield text[begin:at], False
        end = text.find("\n", at + PIECE) + 1 or len(text)
        yield text[at:end], True
        begin = at = end
    if begin < len(text):
        yield text[begin:], False
