"""How much there is in a JSON text, found out without building it: how many values, how deep.

What a server sends may be all brackets, and building that, walking it and letting go of it again
holds up everybody for seconds. So a text is looked at first, a slice at a time, by what is done in
C: what stands in strings is taken out, and the brackets and commas that are left are counted.
"""

import asyncio
from array import array
from collections.abc import Iterator
from itertools import accumulate

MANY = 10_000
"""Values that are built at once, which takes milliseconds."""

MAX_DEPTH = 180
"""Levels of arrays and objects; the SDK's reader gives up at 200."""

_SLICE = 64 * 1024
_BRACKETS = b"[{]}"
_STEPS = bytes.maketrans(_BRACKETS, b"\x01\x01\xff\xff")
_OTHERS = bytes(each for each in range(256) if each not in _BRACKETS)


class Scan:
    """What has been found so far. `values` are not less than there are, and no more are counted
    than it takes to know that there are too many."""

    def __init__(self, most: int = MANY) -> None:
        self._most = most
        self._inside = False
        self._depth = 0
        self._deepest = 0
        self.values = 1

    @property
    def too_many(self) -> bool:
        """Whether there are more values than were asked about."""
        return self.values > self._most

    @property
    def too_deep(self) -> bool:
        """Whether anything is nested deeper than the reader goes."""
        return self._deepest > MAX_DEPTH

    def feed(self, piece: bytes) -> None:
        """Takes bytes of which the last is not the first half of an escape."""
        parts = piece.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        plain = b"".join(parts[1::2] if self._inside else parts[::2])
        self._inside ^= len(parts) % 2 == 0
        opening = plain.count(b"[") + plain.count(b"{")
        self.values += opening + plain.count(b",")
        if self._depth + opening > MAX_DEPTH:
            steps = array("b", plain.translate(_STEPS, _OTHERS))
            self._deepest = max(self._deepest, *accumulate(steps, initial=self._depth))
        self._depth += opening - plain.count(b"]") - plain.count(b"}")


def scanned(data: bytes, most: int = MANY) -> Scan:
    """A text that is short, or that nobody waits for."""
    scan = Scan(most)
    for piece in _slices(data):
        scan.feed(piece)
        if scan.too_many:
            break
    return scan


async def scanned_in_steps(data: bytes, most: int = MANY) -> Scan:
    """A text of any length, while others have their turns."""
    scan = Scan(most)
    for number, piece in enumerate(_slices(data)):
        if number:
            await asyncio.sleep(0)
        scan.feed(piece)
        if scan.too_many:
            break
    return scan


def _slices(data: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(data):
        piece = data[start : start + _SLICE]
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2:
            piece = data[start : start + _SLICE + 1]
        yield piece
        start += len(piece)
