"""The last rung: lines that differ a little from what the model gave, found within a bound.

A place is a run of as many lines. All its edits together may be a tenth of the characters that
were given (blanks at the ends of lines aside), all of them slips inside longer words, and no other
place within that bound may be nearly as close: at up to twice the distance neither is taken.

With at most k edits, one of any k + 1 pieces of the given lines stands unchanged in the place, so
that only lines around such pieces have to be compared. What would take too long is not tried.
"""

import re
from bisect import bisect_right
from itertools import accumulate, pairwise

from alhena.tools.distance import edit_distance
from alhena.tools.splicing import Span

MIN_LENGTH = 10
MAX_LENGTH = 8_000
"""Characters of the text that is looked for, blanks at the ends of lines aside."""

_PIECE = 5
_SLIPPED = 7
"""Characters of a word in which a letter may be missing, too much or out of place."""
_SHORTEST = 3
_COMMON = 2_000
_SEARCHED = 1_000_000_000
_COMPARED = 2_000_000


def fuzzy_place(text: str, old: str) -> Span | None:
    """The one place that is close to `old`; None when there is none, or more than one."""
    wanted = [line.strip() for line in old.strip().split("\n")]
    total = sum(map(len, wanted))
    if not MIN_LENGTH <= total <= MAX_LENGTH:
        return None
    bound = total // 10
    lines = text.split("\n")
    ends = list(accumulate(len(line) + 1 for line in lines))
    starts = _candidates(text, ends, wanted, bound + 1)
    near = _compared(lines, starts, wanted, bound)
    if not near or (len(near) > 1 and near[1][0] <= 2 * near[0][0]):
        return None
    at = near[0][1]
    here = lines[at : at + len(wanted)]
    if not _only_slips(here, wanted) or _names_another(text, here, wanted):
        return None
    return (ends[at - 1] if at else 0, ends[at + len(wanted) - 1] - 1)


def _candidates(text: str, ends: list[int], wanted: list[str], needed: int) -> list[int]:
    """The lines at which a place with fewer than `needed` edits can begin; none if unknown."""
    if needed * len(text) > _SEARCHED:
        return []
    starts: set[int] = set()
    for piece, line in _pieces(wanted):
        hits = _occurrences(text, piece)
        if hits is None:
            continue
        starts.update(bisect_right(ends, hit) - line for hit in hits)
        needed -= 1
        if not needed:
            last = len(ends) - len(wanted)
            return sorted(start for start in starts if 0 <= start <= last)
    return []


def _pieces(wanted: list[str]) -> list[tuple[str, int]]:
    """Pieces of the lines, the longest first, each with the number of its line."""
    found: list[tuple[str, int]] = []
    for number, line in enumerate(wanted):
        count = max(len(line) // _PIECE, 1)
        cuts = [len(line) * index // count for index in range(count + 1)]
        found += [(line[a:b], number) for a, b in pairwise(cuts) if b - a >= _SHORTEST]
    return sorted(found, key=lambda piece: -len(piece[0]))


def _occurrences(text: str, piece: str) -> list[int] | None:
    """Where `piece` stands; None when that is so often that it tells nothing."""
    found: list[int] = []
    at = text.find(piece)
    while at >= 0:
        if len(found) == _COMMON:
            return None
        found.append(at)
        at = text.find(piece, at + 1)
    return found


def _compared(
    lines: list[str], starts: list[int], wanted: list[str], bound: int
) -> list[tuple[int, int]]:
    """Distance and first line of the places within `bound`, the closest first; none if unknown."""
    near: list[tuple[int, int]] = []
    left = _COMPARED
    for start in starts:
        distance = 0
        for line, given in zip(lines[start : start + len(wanted)], wanted, strict=True):
            here = line.strip()
            if here == given:
                continue
            least = abs(len(here) - len(given)) or 1
            if distance + least > bound or not here or not given:
                distance = bound + 1
                break
            left -= max(len(here), len(given))
            if left < 0:
                return []
            distance += edit_distance(here, given)
            if distance > bound:
                break
        if distance <= bound:
            near.append((distance, start))
    return sorted(near)


def _only_slips(here: list[str], given: list[str]) -> bool:
    """Whether the lines differ in nothing but the spelling of longer words: the same words and
    signs in the same order with the same blanks between them, so that no operator, no number and
    no "not" is taken for another."""
    for line, wanted in zip(here, given, strict=True):
        ours = re.findall(r"(\s*)(\w+|[^\w\s])", line.strip())
        theirs = re.findall(r"(\s*)(\w+|[^\w\s])", wanted.strip())
        if [gap for gap, _ in ours] != [gap for gap, _ in theirs]:
            return False
        if not all(_is_slip(one, other) for (_, one), (_, other) in zip(ours, theirs, strict=True)):
            return False
    return True


def _names_another(text: str, here: list[str], given: list[str]) -> bool:
    """Does a word that is taken for a slip stand elsewhere in the file, and so is a name there?"""
    words = [set(re.findall(r"\w+", "\n".join(part))) for part in (here, given)]
    return any(re.search(rf"\b{word}\b", text) for word in words[1] - words[0])


def _is_slip(one: str, other: str) -> bool:
    """Is one long word the other with a letter too many or too few, or two neighbours swapped?

    What differs otherwise may well be another name: `get_value` and `set_value`, `user` and
    `users`, `synchronous` and `asynchronous`.
    """
    if one == other:
        return True
    if min(len(one), len(other)) < _SLIPPED or any(char.isdigit() for char in one + other):
        return False
    if len(one) == len(other):
        return _swapped(one, other)
    longer, shorter = sorted((one, other), key=len, reverse=True)
    if len(longer) != len(shorter) + 1:
        return False
    at = next((i for i, char in enumerate(shorter) if char != longer[i]), len(shorter))
    if longer[at + 1 :] != shorter[at:]:
        return False
    begins = at == 0 or longer[at - 1] == "_"
    ends = at == len(shorter) or shorter[at] == "_"
    return not begins and not (ends and longer[at] in "sd")


def _swapped(one: str, other: str) -> bool:
    differing = [at for at, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]
    return len(differing) == 2 and differing[1] == differing[0] + 1 and sorted(one) == sorted(other)
