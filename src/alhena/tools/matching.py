"""The ladder by which an edit's old text is found in a file.

Each rung is looser than the one before, and the first that finds any place decides: two places by
an exact match are never narrowed down to one by a looser rule. A looser rung also carries the new
text over to how the file writes the same lines; where that is not certain it finds nothing.
"""

from collections.abc import Callable
from enum import StrEnum
from itertools import pairwise

from alhena.system.encoding import LineEnding, TextFile
from alhena.tools.splicing import Edit, Span, raw_spans
from alhena.values import Value

MAX_PLACES = 100_000
"""Places beyond which only uniform files are edited, where no place has to be looked at."""

LOOSE_LIMIT = 16_000_000
"""Characters of the largest text that the looser rungs search."""


class Rung(StrEnum):
    """How old text was found."""

    EXACT = "exact"
    LINE_ENDINGS = "line_endings"
    WHITESPACE = "whitespace"
    TOKENS = "tokens"
    FUZZY = "fuzzy"
    CORRECTED = "corrected"


class Match(Value, frozen=True):
    """What a rung found: how many places, the edits there, and whether places overlap.

    `edits` are in order and none overlaps another; None when the count is not the one wanted (or
    more than 100,000), so that there is nothing to edit. `spans` are the first places found.
    """

    rung: Rung
    count: int
    spans: list[Span]
    edits: list[Edit] | None
    overlapping: bool = False


def exact(text: str, old: str, limit: int = MAX_PLACES) -> list[Span]:
    """The places where `old` stands as it is, none overlapping another; at most `limit`."""
    spans: list[Span] = []
    at = text.find(old)
    while at >= 0 and len(spans) < limit:
        spans.append((at, at + len(old)))
        at = text.find(old, at + len(old))
    return spans


def find(
    file: TextFile, old: str, new: str, *, expected: int | None = 1, fuzzy: bool = False
) -> Match | None:
    """Where `old` (not empty) stands in the file; None when no rung finds it.

    `expected` is how many places there have to be, None for any number. `old` and `new` come as
    the model gave them; all that is found refers to `file.text`, with LF line ends. `fuzzy` adds
    the last rung, which finds one place only.
    """
    wanted, given = with_line_feeds(old, file), with_line_feeds(new, file)
    match = _literal(file, old, wanted, given, expected)
    if match is None and wanted.strip() and len(file.text) <= LOOSE_LIMIT:
        match = _loose(file, wanted, given, expected)
        if match is None and fuzzy and expected in {1, None}:
            match = _similar(file, wanted, given)
    return match


def find_exact(file: TextFile, old: str, new: str) -> Match | None:
    """As `find`, by nothing looser than other line ends, for one place."""
    return _literal(file, old, with_line_feeds(old, file), with_line_feeds(new, file), 1)


def with_line_feeds(text: str, file: TextFile) -> str:
    """Text that a model gave, with LF line ends; a lone CR is one if it ends the file's lines."""
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
    """Whether the file's own characters at every place are those the model gave."""
    if file.line_ending is not LineEnding.MIXED:
        return old == wanted.replace("\n", file.newline)
    return all(file.raw[start:end] == old for start, end in raw_spans(file, spans))


def _overlapping(text: str, spans: list[Span], old: str, new: str) -> bool:
    """Whether a place begins inside another, and it matters which of the two is replaced."""
    for start, end in spans:
        other = text.find(old, start + 1, end + len(old) - 1)
        if other < 0:
            continue
        step = other - start
        if new + text[end : end + step] != text[start:other] + new:
            return True
    return False


def _loose(file: TextFile, old: str, new: str, expected: int | None) -> Match | None:
    from alhena.tools.flexible import graft_lines, line_places
    from alhena.tools.tokenwise import graft_tokens, token_places

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
    from alhena.tools.flexible import graft_lines
    from alhena.tools.fuzzy import fuzzy_place

    span = fuzzy_place(file.text, old)
    if span is None:
        return None
    edit = graft_lines(file.text, span, old, new)
    return None if edit is None else Match(Rung.FUZZY, 1, [span], [edit])
