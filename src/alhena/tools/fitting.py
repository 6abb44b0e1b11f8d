"""What of a text fits into a result: whole lines, so that what is said about them stays true."""

import sys
from collections.abc import Iterable

MOST_CHARACTERS = 40_000
"""Characters of a result that is given whole where nobody says otherwise."""

REMARKS = 1_000
"""Characters kept free for what is said around the lines."""


def room_in(most: int) -> int:
    """Characters for lines in a result of `most`, beside remarks; 0 or less means no limit."""
    return most - min(REMARKS, most // 2) if most > 0 else sys.maxsize


def fitting(lines: Iterable[str], room: int) -> int:
    """How many of the first lines fit into so many characters, at least one."""
    count = 0
    for line in lines:
        room -= len(line) + 1
        if room < 0 and count:
            break
        count += 1
    return count
