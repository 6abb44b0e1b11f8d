"""Matches lines with other trailing blanks or indentation, and maps the model's indentation to the
file's.

Nothing is guessed: an indentation that cannot be derived has no counterpart. Blanks may differ, the
structure may not: lines that are nested differently in the two texts do not match.

Places are found in linear time, by turning lines into a text for a plain search. The lines must
have the relative depth of the model's: two equally deep lines here are equally deep there. The
graft then inserts the new text: lines repeated from the old text stay as in the file, and new lines
get the file's indentation.
"""

import re
from collections import Counter
from collections.abc import Callable
from functools import reduce
from itertools import accumulate
from math import gcd

from alhena.tools.edit.splicing import Edit, Opcode, Span, opcodes

_WORDS_AND_BLANKS = r"\w+|\s+|[^\w\s]"


def merged(base: str, theirs: str, ours: str) -> str:
    """`base` with the changes of both sides; where they conflict, ours win."""
    tokens, here, new = (re.findall(_WORDS_AND_BLANKS, line) for line in (base, theirs, ours))
    mine = [code for code in opcodes(tokens, new) if code[0] != "equal"]
    changes = [(i1, i2, new[j1:j2]) for _, i1, i2, j1, j2 in mine]
    changes += [
        (i1, i2, here[j1:j2])
        for tag, i1, i2, j1, j2 in opcodes(tokens, here)
        if tag != "equal" and not _met(i1, i2, mine)
    ]
    out: list[str] = []
    at = 0
    for start, end, tokens_there in sorted(changes):
        out += [*tokens[at:start], *tokens_there]
        at = end
    return "".join([*out, *tokens[at:]])


def _met(start: int, end: int, changes: list[Opcode]) -> bool:
    """True when a change of the tokens from `start` to `end` overlaps other changes."""
    return any(
        (first < end and start < last) or first == last == start == end
        for _, first, last, _, _ in changes
    )


_SAMPLED = 4_000
_TAB_STOPS = (8, 4, 2)

Pair = tuple[str, str]
"""A line's indentation as the model gave it, and as the file has it."""


def indent_of(line: str) -> str:
    """The blanks that `line` begins with."""
    return line[: len(line) - len(line.lstrip())]


def same_structure(pairs: list[Pair]) -> bool:
    """True when any two lines have the same relative depth in both texts.

    The amount and characters of indentation may differ. Where a text mixes tabs and spaces, its
    tabs count as any one width that fits.
    """
    known = list(set(pairs))
    if all(ours == theirs for ours, theirs in known):
        return True
    files = _depths([theirs for _, theirs in known])
    return any(depths in files for depths in _depths([ours for ours, _ in known]))


def _depths(indents: list[str]) -> list[list[int]]:
    """For every tab width, the number of other indentations that each one exceeds."""
    found: list[list[int]] = []
    for stop in _TAB_STOPS if any("\t" in indent for indent in indents) else _TAB_STOPS[:1]:
        columns = [len(indent.expandtabs(stop)) for indent in indents]
        ranks = {column: rank for rank, column in enumerate(sorted(set(columns)))}
        found.append([ranks[column] for column in columns])
    return found


def bare_start(pairs: list[Pair]) -> bool:
    """True when the model omitted the indentation of the first line, and of no other.

    Models tend to do that; the first line's depth is then unknown. It is certain only when all
    other lines are indented, and exactly as in the file.
    """
    (ours, theirs), *rest = pairs
    return ours == "" != theirs and all(a == b != "" for a, b in rest)


def left_out_for(pairs: list[Pair], indents: list[str]) -> bool:
    """True when `bare_start` explains new text with these further indentations.

    An unindented line may also be as deep as the first, if the structure allows it.
    """
    return bare_start(pairs) and (len(pairs) == 1 or "" not in indents or not same_structure(pairs))


def shifted_alone(pairs: list[Pair], old: list[str], new: list[str]) -> bool:
    """True when the old text is indented too far as a block, and the new text as in the file.

    The new text then begins at the file's depth and repeats no line of the old text.
    """
    ours, theirs = pairs[0]
    shift = ours.removesuffix(theirs)
    first = next((line for line in new if line.strip()), "")
    return (
        ours != theirs == indent_of(first)
        and first.strip() != ""
        and all(ours == shift + theirs for ours, theirs in pairs)
        and not any(line in old for line in new if line.strip())
    )


def aligned(pairs: list[Pair]) -> bool:
    """True when lines, from the first on, have the structure they have in the file."""
    return same_structure(pairs) or bare_start(pairs)


class Indentation:
    """Maps the model's indentations to the file's.

    `pairs` are the two indentations of corresponding lines, `given` the lines of the model, `text`
    the file, from which its unit of indentation is derived.
    """

    def __init__(self, pairs: list[Pair], given: list[str], text: str) -> None:
        seen: dict[str, set[str]] = {}
        for ours, theirs in pairs:
            seen.setdefault(ours, set()).add(theirs)
        self._known = {ours: next(iter(all_)) for ours, all_ in seen.items() if len(all_) == 1}
        self._unsure = seen.keys() - self._known.keys()
        self._given = given
        self._text = text
        self._file_unit: str | None = None

    def counterpart(self, indent: str) -> str | None:
        """The file's indentation for a model's indentation; None when uncertain."""
        if indent in self._known:
            return self._known[indent]
        if indent in self._unsure:
            return None
        if not self._unsure and all(a == b for a, b in self._known.items()):
            return indent
        inside = [known for known in self._known if indent.startswith(known)]
        if inside:
            base = max(inside, key=len)
            return self._deeper(base, indent[len(base) :])
        outside = [known for known in self._known if known.startswith(indent)]
        if not outside:
            return None
        base = min(outside, key=len)
        less = self._converted(base[len(indent) :])
        if less is None or not self._known[base].endswith(less):
            return None
        found = self._known[base].removesuffix(less)
        return None if self._between_levels(self._known[base], found) else found

    def _deeper(self, base: str, blanks: str) -> str | None:
        """The file's indentation below a line indented by `base` in the model's text, by `blanks`
        more."""
        known = self._known[base]
        deeper = self._by_evidence(blanks)
        # Without evidence, the model's levels do not apply if `base` is not one of them.
        odd = deeper is not None or self._between_levels(known, base)
        if deeper is None:
            deeper = self._by_unit(blanks)
        if deeper is None or (odd and self._between_levels(known, known + deeper)):
            return None
        return known + deeper

    def _between_levels(self, base: str, found: str) -> bool:
        """True when the file is indented in even steps, and `found` is not one of them though
        `base` is: then the lines were not shifted alike, and the intended depth is unknown."""
        unit = self._unit_of_file()
        return len(unit) > 1 and len(base) % len(unit) == 0 < len(found) % len(unit)

    def _converted(self, blanks: str) -> str | None:
        """Converts further indentation by `blanks` to the file's form."""
        return self._by_evidence(blanks) or self._by_unit(blanks)

    def _by_evidence(self, blanks: str) -> str | None:
        """Derives it from two known lines with different depths."""
        known = self._known.items()
        for outer, outer_file in known:
            for inner, inner_file in known:
                if not (inner.startswith(outer) and inner_file.startswith(outer_file)):
                    continue
                step, step_file = inner[len(outer) :], inner_file[len(outer_file) :]
                if not step or not step_file:
                    continue
                found = _scaled(blanks, step, step_file)
                if found is not None:
                    return found
        return None

    def _by_unit(self, blanks: str) -> str | None:
        file_unit = self._unit_of_file()
        if not file_unit or blanks[0] == file_unit[0]:
            return blanks if len(set(blanks)) == 1 else None
        return _scaled(blanks, _unit(self._given) or blanks, file_unit)

    def _unit_of_file(self) -> str:
        if self._file_unit is None:
            self._file_unit = _unit(self._text[: _SAMPLED * 40].split("\n", _SAMPLED)[:_SAMPLED])
        return self._file_unit


def _scaled(blanks: str, step: str, other: str) -> str | None:
    """Converts `blanks` from steps of `step` to steps of `other`; None if uneven."""
    if len(set(blanks)) != 1 or set(blanks) != set(step):
        return None
    total = len(blanks) * len(other)
    if total % len(step) or len(set(other)) != 1:
        return None
    return other[0] * (total // len(step))


def _unit(lines: list[str]) -> str:
    """The unit of indentation of these lines; "" when none is indented."""
    indents = [indent_of(line) for line in lines if line.strip()]
    tabs = sum(indent.startswith("\t") for indent in indents)
    spaces = [len(indent) for indent in indents if indent.startswith(" ")]
    if tabs > len(spaces):
        return "\t"
    if not spaces:
        return ""
    common = [width for width, count in Counter(spaces).items() if count * 20 >= len(spaces)]
    width = reduce(gcd, common)
    return " " * (width if width > 1 else min(spaces))


_MAX_LINES = 100_000
_MAX_HITS = 100_001
_COMPARED = 1_000_000
"""Maximum number of lines compared by indentation, plus twice those of the file."""


def line_places(text: str, old: str) -> list[Span]:
    """Whole lines that equal the lines of `old` except for leading and trailing blanks.

    They are indented relative to each other as in `old`, or none is. Leading and trailing blank
    lines of `old` are ignored. Of overlapping places, two are returned.
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
    """Positions of `wanted` that fit; the search stops after two that overlap.

    Empty when `fits` gives up by returning None: a partial result would mislead.
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
    """The edit that turns the lines of `span`, which match those of `old`, into `new`."""
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
    """Splits into leading blank lines, the lines from the first to the last with words, and the
    rest."""
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
    """The lines of `new` in the file's form; None when uncertain."""
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
    """True for a non-blank line with this indentation."""
    return indent_of(line) == indent and line.strip() != ""


def _merged(old: str, here: str, new: str) -> str:
    """The line `new` with the file's differences from `old`, where they are only similar."""

    base, theirs = old.strip(), here.strip()
    return new if base == theirs else merged(base, theirs, new)
