"""Finds the lines of a file most similar to old text that it lacks, for the error message."""

import re
from bisect import bisect_left

from alhena.tools.edit.whitespace import Pair, aligned, indent_of, same_structure

_PLACES = 200
_UNINDEXED = 2_000
_LINES = 400_000
_SHOWN = 120
_SIMILAR = 0.6
_RARE, _TELLING = 3, 6
"""A word this rare and this long identifies a line: half the similarity is enough."""
_QUOTES = str.maketrans(
    {"\u2018": '"', "\u2019": '"', "\u201c": '"', "\u201d": '"', "\u00b4": '"', "'": '"', "`": '"'}
)


def nearest(text: str, old: str) -> str:
    """Describes the line closest to `old` and the difference; "" if none is similar."""
    lines, wanted = text.split("\n", _LINES)[:_LINES], old.split("\n")
    start = _start(text, lines, wanted)
    return "" if start is None else _difference(lines, wanted, start)


def nearest_line(text: str, old: str) -> int | None:
    """Index of the line at which the place closest to `old` begins; None if none is similar."""
    lines = text.split("\n", _LINES)[:_LINES]
    start = _start(text, lines, old.split("\n"))
    return None if start is None else max(start, 0)


def _start(text: str, lines: list[str], wanted: list[str]) -> int | None:
    """Index of the line at which the closest place begins; negative if before the first line."""
    anchors = sorted(
        (index for index, line in enumerate(wanted) if line.strip()),
        key=lambda index: -len(wanted[index].strip()),
    )
    if not anchors:
        return None
    for anchor in anchors[:3]:
        key = _squeezed(wanted[anchor])
        places = [index for index, line in enumerate(lines) if key in _squeezed(line)][:_PLACES]
        if places:
            return max((at - anchor for at in places), key=lambda at: _agreeing(lines, wanted, at))
    return _similar(text, lines, wanted, anchors[0])


def _squeezed(line: str) -> str:
    """The line without blanks, in lower case, with one kind of quotes."""
    return _composed("".join(line.split()).lower().translate(_QUOTES))


def _composed(text: str) -> str:
    """Composes letters and combining marks into single characters (NFC)."""
    if text.isascii():
        return text
    import unicodedata

    return unicodedata.normalize("NFC", text)


def _agreeing(lines: list[str], wanted: list[str], start: int) -> int:
    """Number of wanted lines that match from `start` on."""
    here = lines[max(start, 0) : max(start + len(wanted), 0)]
    given = wanted[max(-start, 0) :]
    return sum(_squeezed(a) == _squeezed(b) for a, b in zip(here, given, strict=False))


def _similar(text: str, lines: list[str], wanted: list[str], anchor: int) -> int | None:
    """Finds the line most similar to the anchor among those with its rarest word."""
    from difflib import SequenceMatcher

    given = wanted[anchor].strip()
    counts = {word: text.count(word) for word in set(re.findall(r"\w{3,}", given[:1000]))}
    found = [(count, word) for word, count in counts.items() if count]
    places, enough = list(range(min(len(lines), _UNINDEXED))), _SIMILAR
    if found:
        count, rarest = min(found)
        if count <= _RARE and len(rarest) >= _TELLING:
            enough = _SIMILAR / 2
        places = [index for index, line in enumerate(lines) if rarest in line][:_PLACES]
    matcher = SequenceMatcher(None, b=given[:_SHOWN])
    best: tuple[float, int] = (enough, -1)
    for place in places:
        matcher.set_seq1(lines[place].strip()[:_SHOWN])
        if matcher.real_quick_ratio() > best[0] and matcher.quick_ratio() > best[0]:
            best = max(best, (matcher.ratio(), -place), key=lambda pair: pair[0])
    return -best[1] - anchor if best[0] > enough else None


def _difference(lines: list[str], wanted: list[str], start: int) -> str:
    offset = _misplaced(lines, wanted, start)
    if offset is not None:
        reason = "relative to the lines before it, the indentation differs"
        return _told(lines, wanted, start, offset, reason)
    for offset, given in enumerate(wanted):
        number = start + offset
        if number < 0:
            continue
        if number >= len(lines):
            return (
                f"The closest place begins at line {max(start, 0) + 1}, but the file ends before "
                f"line {offset + 1} of it."
            )
        if _fits(lines[number], given, first=offset == 0, last=offset == len(wanted) - 1):
            continue
        return _told(lines, wanted, start, offset, _reason(lines[number], given))
    if start < 0:
        return "The closest place is line 1, but old_string has more lines before it than the file."
    return ""


def _told(lines: list[str], wanted: list[str], start: int, offset: int, reason: str) -> str:
    return (
        f"The closest place is line {start + offset + 1}: the file has "
        f"{_quoted(lines[start + offset])}, old_string has {_quoted(wanted[offset])} ({reason})."
    )


def _misplaced(lines: list[str], wanted: list[str], start: int) -> int | None:
    """The first line with a wrong indentation relative to the lines before it.

    None when there is no such line, or when more than blanks differ.
    """
    here = lines[max(start, 0) : start + len(wanted)]
    if start < 0 or len(here) < len(wanted):
        return None
    rows: list[int] = []
    pairs: list[Pair] = []
    for offset, (line, given) in enumerate(zip(here, wanted, strict=True)):
        theirs, ours = "".join(line.split()), "".join(given.split())
        if theirs == ours != "":
            rows.append(offset)
            pairs.append((indent_of(given), indent_of(line)))
        elif not _fits(theirs, ours, first=offset == 0, last=offset == len(wanted) - 1):
            return None
    if not pairs or aligned(pairs):
        return None
    count = bisect_left(range(len(pairs)), True, key=lambda n: not same_structure(pairs[: n + 1]))
    return rows[count]


def _fits(line: str, given: str, *, first: bool, last: bool) -> bool:
    if first and last:
        return given in line
    if first:
        return line.endswith(given)
    return line.startswith(given) if last else line == given


def _reason(line: str, given: str) -> str:
    ours, theirs = "".join(given.split()), "".join(line.split())
    if ours not in theirs:
        return _reason_in_words(theirs, ours)
    if ("\r" in line) != ("\r" in given):
        return "there is a carriage return (CR) in one of them only"
    if ("\t" in indent_of(line)) != ("\t" in indent_of(given)):
        return "tabs and spaces differ"
    if line.lstrip().startswith(given.lstrip()):
        return "the indentation differs"
    if line.rstrip() == given.rstrip():
        return "the blanks at the end of the line differ"
    return "the blanks differ"


def _reason_in_words(theirs: str, ours: str) -> str:
    if ours.lower() in theirs.lower():
        return "upper and lower case differ"
    if ours.translate(_QUOTES) in theirs.translate(_QUOTES):
        return "the quotes differ"
    if _composed(ours) in _composed(theirs):
        return "letters with marks are composed differently: Unicode normalization, NFC and NFD"
    return "the text differs"


def _quoted(line: str) -> str:
    return repr(line if len(line) <= _SHOWN else line[:_SHOWN] + "\u2026")
