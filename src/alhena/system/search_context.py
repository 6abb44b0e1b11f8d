"""The lines around matches, read as the search read them."""

import os
from collections.abc import Iterator
from io import TextIOWrapper

from alhena.system.search import shown_line
from alhena.system.search_lines import (
    LONGEST_LINE,
    codec_of,
    first_bytes,
    line_end,
    open_for_search,
)


def lines_around(path: str, numbers: list[int], before: int, after: int) -> dict[int, str]:
    """The lines up to so many before and after those with these numbers, which are left out.

    Ascending, cut as matches are. Raises OSError.
    """
    wanted = {near for n in numbers for near in range(max(1, n - before), n + after + 1)}
    wanted.difference_update(numbers)
    last = max(wanted, default=0)
    found: dict[int, str] = {}
    for number, line in _lines(path):
        if number > last:
            break
        if number in wanted:
            found[number] = shown_line(line)
    return found


def _lines(path: str) -> Iterator[tuple[int, str]]:
    descriptor = open_for_search(path)
    with os.fdopen(descriptor, "rb") as file:
        size = os.fstat(descriptor).st_size
        start = first_bytes(descriptor, size)
        codec = codec_of(start, whole=len(start) == size)
        if codec is None:
            return
        file.seek(len(codec.bom))
        end = line_end(start.removeprefix(codec.bom), codec)
        text = TextIOWrapper(file, encoding=codec.encoding, errors="replace", newline=end)
        number = 1
        while line := text.readline(LONGEST_LINE):
            yield number, line.removesuffix("\n").removesuffix("\r")
            while line and not line.endswith(end):
                line = text.readline(LONGEST_LINE)
            number += 1
