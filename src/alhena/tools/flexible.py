"""The rung of the ladder that takes other blanks at the ends of lines for equal.

It finds places in time that grows with the text alone, by turning lines into a text in which a
plain search finds them. The lines have to stand to each other as those of the model do: of two that
are equally deep here, neither is deeper there. The graft then carries new text over: what the model
repeats of the old stays as the file has it, and what is new gets the file's indentation.
"""

from collections.abc import Callable
from itertools import accumulate

from alhena.tools.diffing import opcodes
from alhena.tools.indentation import (
    Indentation,
    Pair,
    aligned,
    indent_of,
    left_out_for,
    same_structure,
    shifted_alone,
)
from alhena.tools.splicing import Edit, Span

_MAX_LINES = 100_000
_MAX_HITS = 100_001
_COMPARED = 1_000_000
"""Lines whose indentation is compared, besides twice those of the file; more is not tried."""


def line_places(text: str, old: str) -> list[Span]:
    """Whole lines that are the lines of `old` but for the blanks they begin and end with.

    They are indented as in `old` relative to each other, or none is. Blank lines at either end of
    `old` are left aside. Of places that overlap, two are given.
    """
    _, core, _ = _parts(old)
    given = core.split("\n")
    wanted = [line.strip() for line in given]
    if not core or len(wanted) > _MAX_LINES or max(wanted, key=len) not in text:
        return []
    codes = {line: chr(index + 1) for index, line in enumerate(dict.fromkeys(wanted))}
    lines = text.split("\n")
    coded = "".join([codes.get(line.strip(), "\0") for line in lines])
    indents = [(index, indent_of(line)) for index, line in enumerate(given) if wanted[index]]
    left = 2 * len(lines) + _COMPARED

    def fits(at: int) -> bool | None:
        nonlocal left
        left -= len(indents)
        if left < 0:
            return None
        return aligned([(indent, indent_of(lines[at + index])) for index, indent in indents])

    hits = hits_of(coded, "".join([codes[line] for line in wanted]), fits)
    if not hits:
        return []
    ends = list(accumulate(len(line) + 1 for line in lines))
    return [(ends[at - 1] if at else 0, ends[at + len(wanted) - 1] - 1) for at in hits]


def hits_of(text: str, wanted: str, fits: Callable[[int], bool | None]) -> list[int]:
    """Where `wanted` stands and fits; the last two overlap if any do, and then nothing follows.

    None at all when `fits` gives up, by None: some of them would be worse than none.
    """
    found: list[int] = []
    end = 0
    at = text.find(wanted)
    while at >= 0 and len(found) < _MAX_HITS:
        fitting = fits(at)
        if fitting is None:
            return []
        if fitting:
            found.append(at)
            if at < end:
                break
            end = at + len(wanted)
        at = text.find(wanted, at + 1)
    return found


def graft_lines(text: str, span: Span, old: str, new: str) -> Edit | None:
    """The edit that makes the lines of `span`, which are those of `old`, into `new`."""
    lead, core, trail = _parts(old)
    start, end = span
    if new.startswith(lead):
        new = new[len(lead) :]
    else:
        start = _over_blank_lines_before(text, start, lead.count("\n"))
    if new.endswith(trail):
        new = new[: len(new) - len(trail)]
    else:
        end = _over_blank_lines_after(text, end, trail.count("\n"))
    if start < 0 or end < 0:
        return None
    here = text[span[0] : span[1]].split("\n")
    lines = _carried(here, core.split("\n"), new.split("\n"), text)
    return None if lines is None else Edit(start, end, "\n".join(lines))


def _parts(old: str) -> tuple[str, str, str]:
    """Blank lines before, the lines from the first to the last with words, what follows those."""
    blank = old[: len(old) - len(old.lstrip())]
    lead = blank[: blank.rfind("\n") + 1]
    rest = old[len(lead) :]
    after = rest[len(rest.rstrip()) :]
    feed = after.find("\n")
    trail = after[feed:] if feed >= 0 else ""
    return lead, rest[: len(rest) - len(trail)], trail


def _over_blank_lines_before(text: str, start: int, feeds: int) -> int:
    for index in range(feeds):
        before = text.rfind("\n", 0, max(start - 1, 0)) + 1
        if start == 0:
            return -1
        if index == feeds - 1:
            return start - 1
        if text[before : start - 1].strip():
            return -1
        start = before
    return start


def _over_blank_lines_after(text: str, end: int, feeds: int) -> int:
    for index in range(feeds):
        if end == len(text):
            return end if index == feeds - 1 else -1
        end += 1
        if index == feeds - 1:
            break
        feed = text.find("\n", end)
        stop = len(text) if feed < 0 else feed
        if text[end:stop].strip():
            return -1
        end = stop
    return end


def _carried(here: list[str], old: list[str], new: list[str], text: str) -> list[str] | None:
    """The lines of `new` as the file would have them; None where that is not certain."""
    pairs = [
        (indent_of(ours), indent_of(theirs))
        for ours, theirs in zip(old, here, strict=True)
        if ours.strip()
    ]
    if not aligned(pairs):
        return None
    if shifted_alone(pairs, old, new):
        old = [indent_of(theirs) + ours.strip() for ours, theirs in zip(old, here, strict=True)]
        pairs = [(theirs, theirs) for _, theirs in pairs]
    further = [indent_of(line) for line in new[1:] if line.strip()]
    loose = pairs.pop(0)[1] if left_out_for(pairs, further) else None
    if loose and not pairs:
        if not all(indent.startswith(loose) for indent in further):
            return None
        pairs = [("", "")]
    map_ = Indentation(pairs, [*old, *new], text)
    mapped: list[Pair] = []
    out: list[str] = []
    for tag, i1, i2, j1, j2 in opcodes([x.rstrip() for x in old], [x.rstrip() for x in new]):
        if tag == "equal":
            out += here[i1:i2]
            continue
        for offset, line in enumerate(new[j1:j2]):
            ours = indent_of(line)
            twin = i1 + offset if i2 - i1 == j2 - j1 else None
            if not line.strip():
                theirs = ours
            elif twin is not None and _as_deep(old[twin], ours):
                theirs = indent_of(here[twin])
            elif loose and j1 + offset == 0 and not ours:
                theirs = loose
            else:
                theirs = map_.counterpart(ours)
                mapped.append((ours, theirs or ""))
            if theirs is None:
                return None
            words = line[len(ours) :]
            out.append(theirs + (words if twin is None else _merged(old[twin], here[twin], words)))
    return out if same_structure([*pairs, *mapped]) else None


def _as_deep(line: str, indent: str) -> bool:
    """Whether a line that is not blank has this indentation."""
    return indent_of(line) == indent and line.strip() != ""


def _merged(old: str, here: str, new: str) -> str:
    """The line `new` with what the file has other than `old`, where they are only similar."""
    from alhena.tools.merging import merged

    base, theirs = old.strip(), here.strip()
    return new if base == theirs else merged(base, theirs, new)
