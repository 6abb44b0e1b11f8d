"""The lines around matches, read as the search read them."""

import codecs
import os
from collections.abc import Iterator
from io import TextIOWrapper

from alhena.system.search import shown_line
from alhena.system.search_lines import LONGEST_LINE, open_for_search

_UTF16 = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


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
        start = file.read(2)
        file.seek(0)
        encoding = _UTF16.get(start, "utf-8-sig")
        text = TextIOWrapper(file, encoding=encoding, errors="replace", newline="\n")
        number = 1
        while line := text.readline(LONGEST_LINE):
            yield number, line.removesuffix("\n").removesuffix("\r")
            while line and not line.endswith("\n"):
                line = text.readline(LONGEST_LINE)
            number += 1
