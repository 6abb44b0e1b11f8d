"""Finds the old text of an edit in a file, in steps from exact to nearly equal.

Each step is looser than the one before, and the first that finds any place decides: two exact
matches are never narrowed down to one by a looser step. A looser step also adapts the new text to
the file's form of the same lines; if that is uncertain it finds nothing. A fuzzy place has as many
lines as the old text. All its differences together may be a tenth of the given characters (trailing
blanks aside), all of them typos inside longer words, and no other place within that bound may be
nearly as close: with another place at up to twice the distance, neither is chosen.

With at most k edits, one of any k + 1 pieces of the given lines occurs unchanged in the place, so
only lines around such pieces are compared. Searches that would take too long are skipped.
"""

import re
from bisect import bisect_right
from collections.abc import Callable
from enum import StrEnum
from itertools import accumulate, pairwise

from alhena.system.encoding import LineEnding, TextFile
from alhena.tools.edit.splicing import Edit, Span, raw_spans
from alhena.values import Value

MAX_PLACES = 100_000
"""Number of places above which only files with uniform line endings are edited."""

LOOSE_LIMIT = 16_000_000
"""Maximum characters of a text for the looser steps."""


class Rung(StrEnum):
    """The step that found the old text."""

    EXACT = "exact"
    LINE_ENDINGS = "line_endings"
    WHITESPACE = "whitespace"
    TOKENS = "tokens"
    FUZZY = "fuzzy"
    CORRECTED = "corrected"


class Match(Value, frozen=True):
    """Result of a step: the number of places, the edits, and True for `overlapping` places.

    `edits` are in order and do not overlap; None when the count is not the expected one (or over
    100,000), so that nothing is edited. `spans` are the first places found.
    """

    rung: Rung
    count: int
    spans: list[Span]
    edits: list[Edit] | None
    overlapping: bool = False


def exact(text: str, old: str, limit: int = MAX_PLACES) -> list[Span]:
    """Non-overlapping exact occurrences of `old`; at most `limit`."""
    spans: list[Span] = []
    at = text.find(old)
    while at >= 0 and len(spans) < limit:
        spans.append((at, at + len(old)))
        at = text.find(old, at + len(old))
    return spans


def find(
    file: TextFile, old: str, new: str, *, expected: int | None = 1, fuzzy: bool = False
) -> Match | None:
    """Finds `old` (not empty) in the file; None when no step finds it.

    `expected` is the required number of places, None for any number. `old` and `new` are passed as
    the model gave them; the result refers to `file.text`, with LF line endings. `fuzzy` adds the
    last step, which finds one place only.
    """
    wanted, given = with_line_feeds(old, file), with_line_feeds(new, file)
    match = _literal(file, old, wanted, given, expected)
    if match is None and wanted.strip() and len(file.text) <= LOOSE_LIMIT:
        match = _loose(file, wanted, given, expected)
        if match is None and fuzzy and expected in {1, None}:
            match = _similar(file, wanted, given)
    return match


def find_exact(file: TextFile, old: str, new: str) -> Match | None:
    """Like `find`, for one place, with no tolerance but line endings."""
    return _literal(file, old, with_line_feeds(old, file), with_line_feeds(new, file), 1)


def with_line_feeds(text: str, file: TextFile) -> str:
    """Converts a model's text to LF line endings; a lone CR counts if it ends the file's lines."""
    text = text.replace("\r\n", "\n")
    return text.replace("\r", "\n") if file.line_ending is LineEnding.CR else text


def _literal(
    file: TextFile, old: str, wanted: str, given: str, expected: int | None
) -> Match | None:
    count = file.text.count(wanted)
    if not count:
        return None
    spans = exact(file.text, wanted)
    rung = Rung.EXACT if _as_given(file, spans, old, wanted) else Rung.LINE_ENDINGS
    if count == expected == 1:
        overlapping = _overlapping(file.text, spans, wanted, given)
        if overlapping:
            return Match(rung, count + 1, spans, None, overlapping=True)
    if count > MAX_PLACES or expected not in (count, None):
        return Match(rung, count, spans, None)
    return Match(rung, count, spans, [Edit(start, end, given) for start, end in spans])


def _as_given(file: TextFile, spans: list[Span], old: str, wanted: str) -> bool:
    """True when the file has exactly the given characters at every place."""
    if file.line_ending is not LineEnding.MIXED:
        return old == wanted.replace("\n", file.newline)
    return all(file.raw[start:end] == old for start, end in raw_spans(file, spans))


def _overlapping(text: str, spans: list[Span], old: str, new: str) -> bool:
    """True when places overlap and the result depends on the one replaced."""
    for start, end in spans:
        other = text.find(old, start + 1, end + len(old) - 1)
        if other < 0:
            continue
        step = other - start
        if new + text[end : end + step] != text[start:other] + new:
            return True
    return False


def _loose(file: TextFile, old: str, new: str, expected: int | None) -> Match | None:
    from alhena.tools.edit.tokens import graft_tokens, token_places
    from alhena.tools.edit.whitespace import graft_lines, line_places

    ladder: tuple[tuple[Rung, Callable[[str, str], list[Span]], Graft], ...] = (
        (Rung.WHITESPACE, line_places, graft_lines),
        (Rung.TOKENS, token_places, graft_tokens),
    )
    for rung, places, graft in ladder:
        spans = places(file.text, old)
        if not spans:
            continue
        overlapping = any(a[1] > b[0] for a, b in pairwise(spans))
        if overlapping or len(spans) > MAX_PLACES or expected not in (len(spans), None):
            return Match(rung, len(spans), spans, None, overlapping=overlapping)
        edits = _grafted(file.text, spans, old, new, graft)
        if edits is not None:
            return Match(rung, len(spans), spans, edits)
    return None


Graft = Callable[[str, Span, str, str], Edit | None]


def _grafted(text: str, spans: list[Span], old: str, new: str, graft: Graft) -> list[Edit] | None:
    edits: list[Edit] = []
    for span in spans:
        edit = graft(text, span, old, new)
        if edit is None or (edits and edit.start < edits[-1].end):
            return None
        edits.append(edit)
    return edits


def _similar(file: TextFile, old: str, new: str) -> Match | None:
    from alhena.tools.edit.whitespace import graft_lines

    span = fuzzy_place(file.text, old)
    if span is None:
        return None
    edit = graft_lines(file.text, span, old, new)
    return None if edit is None else Match(Rung.FUZZY, 1, [span], [edit])


def edit_distance(a: str, b: str) -> int:
    """The Levenshtein distance of `a` and `b`.

    Uses Myers' bit-parallel algorithm: one step for each character of the longer text, on integers
    as wide as the shorter one.
    """
    if a == b:
        return 0
    if len(a) > len(b):
        a, b = b, a
    if not a:
        return len(b)
    places: dict[str, int] = {}
    for index, char in enumerate(a):
        places[char] = places.get(char, 0) | 1 << index
    mask = (1 << len(a)) - 1
    last = 1 << (len(a) - 1)
    plus, minus, score = mask, 0, len(a)
    for char in b:
        equal = places.get(char, 0)
        vertical = equal | minus
        horizontal = (((equal & plus) + plus) ^ plus) | equal
        up = minus | (~(horizontal | plus) & mask)
        down = plus & horizontal
        if up & last:
            score += 1
        elif down & last:
            score -= 1
        up = (up << 1 | 1) & mask
        down = down << 1 & mask
        plus = down | (~(vertical | up) & mask)
        minus = up & vertical
    return score


MIN_LENGTH = 10
MAX_LENGTH = 8_000
"""Maximum characters of the searched text, trailing blanks aside."""

_PIECE = 5
_SLIPPED = 7
"""Minimum length of a word in which one missing, extra or swapped letter counts as a typo."""
_SHORTEST = 3
_COMMON = 2_000
_SEARCHED = 1_000_000_000
_COMPARED = 2_000_000


def fuzzy_place(text: str, old: str) -> Span | None:
    """The one place similar to `old`; None when there is none, or more than one."""
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
    """Lines at which a place with fewer than `needed` edits may begin; none if unknown."""
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
    """Pieces of the lines, longest first, each with its line number."""
    found: list[tuple[str, int]] = []
    for number, line in enumerate(wanted):
        count = max(len(line) // _PIECE, 1)
        cuts = [len(line) * index // count for index in range(count + 1)]
        found += [(line[a:b], number) for a, b in pairwise(cuts) if b - a >= _SHORTEST]
    return sorted(found, key=lambda piece: -len(piece[0]))


def _occurrences(text: str, piece: str) -> list[int] | None:
    """Positions of `piece`; None when it occurs too often to be useful. --"""
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
    """Distance and first line of the places within `bound`, closest first; none if unknown."""
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
    """True when the lines differ only in the spelling of longer words: the same words and signs in
    the same order with the same blanks, so that no operator, number or "not" is taken for another.
    """
    for line, wanted in zip(here, given, strict=True):
        ours = re.findall(r"(\s*)(\w+|[^\w\s])", line.strip())
        theirs = re.findall(r"(\s*)(\w+|[^\w\s])", wanted.strip())
        if [gap for gap, _ in ours] != [gap for gap, _ in theirs]:
            return False
        if not all(_is_slip(one, other) for (_, one), (_, other) in zip(ours, theirs, strict=True)):
            return False
    return True


def _names_another(text: str, here: list[str], given: list[str]) -> bool:
    """True when a presumed typo is a name that occurs elsewhere in the file."""
    words = [set(re.findall(r"\w+", "\n".join(part))) for part in (here, given)]
    return any(re.search(rf"\b{word}\b", text) for word in words[1] - words[0])


def _is_slip(one: str, other: str) -> bool:
    """True when two long words differ by one extra, missing or swapped letter.

    Other differences may well be different names: `get_value` and `set_value`, `user` and `users`,
    `synchronous` and `asynchronous`.
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
