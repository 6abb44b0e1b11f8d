"""Compares the indentation of a model's text with the file's, and writes new text in the file's.

A model may indent old and new text otherwise than the file, and each of them in another way. The
first line and the lines that stay tell how the new text is meant; where they contradict each other
nothing is written.
"""

import re
from collections import Counter
from enum import StrEnum
from functools import reduce
from math import gcd

from alhena.tools.edit.splicing import Opcode, Span, opcodes

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


def _bare_start(pairs: list[Pair]) -> bool:
    """True when the model omitted the indentation of the first line, and of no other.

    Models tend to do that; the first line's depth is then unknown. It is certain only when all
    other lines are indented, and exactly as in the file.
    """
    (ours, theirs), *rest = pairs
    return ours == "" != theirs and all(a == b != "" for a, b in rest)


def _left_out_for(pairs: list[Pair], indents: list[str]) -> bool:
    """True when `_bare_start` explains new text with these further indentations.

    An unindented line may also be as deep as the first, if the structure allows it.
    """
    return _bare_start(pairs) and (
        len(pairs) == 1 or "" not in indents or not same_structure(pairs)
    )


def is_aligned(pairs: list[Pair]) -> bool:
    """True when lines, from the first on, have the structure they have in the file."""
    return same_structure(pairs) or _bare_start(pairs)


class _Indentation:
    """Maps the model's indentations to the file's.

    `pairs` are the two indentations of corresponding lines, `given` the lines of the model, `text`
    the file. An indentation of no such line is as far from the others as in the model's text, in
    the file's units. It is unknown when the lines were shifted differently or by half a unit.
    """

    def __init__(self, pairs: list[Pair], given: list[str], text: str) -> None:
        self._known: dict[str, set[str]] = {}
        for ours, theirs in pairs:
            self._known.setdefault(ours, set()).add(theirs)
        self._same = all(ours == theirs for ours, theirs in pairs)
        self._unit = _unit(given)
        self._file_unit = _unit(text[:_SAMPLED].split("\n")) or self._unit
        self._scale = None if self._same or not self._unit else self._scaling(set(pairs))

    def counterpart(self, indent: str) -> str | None:
        """The file's indentation for a model's indentation; None when uncertain."""
        known = self._known.get(indent)
        if known is not None:
            return next(iter(known)) if len(known) == 1 else None
        if self._same:
            return indent
        if self._scale is None or indent.strip(self._unit[0]):
            return None
        width, file_width, shift = self._scale
        levels, rest = divmod(len(indent), width)
        depth = levels * file_width + shift
        return None if rest or depth < 0 else self._file_unit[0] * depth

    def _scaling(self, pairs: set[Pair]) -> tuple[int, int, int] | None:
        """The width of a step in the model's and in the file's text, and by how much the file's
        lines are deeper; None when no one scale fits all lines."""
        blank, file_blank = self._unit[0], self._file_unit[0]
        if any(ours.strip(blank) or theirs.strip(file_blank) for ours, theirs in pairs):
            return None
        scales = [(1, 1)] if blank == file_blank else []
        if blank != file_blank or len(pairs) > 1:
            scales.append((len(self._unit), len(self._file_unit)))
        for width, file_width in scales:
            shifts = {len(theirs) - len(ours) // width * file_width for ours, theirs in pairs}
            even = all(len(ours) % width == 0 for ours, _ in pairs)
            if even and len(shifts) == 1 and (shift := shifts.pop()) % len(self._file_unit) == 0:
                return width, file_width, shift
        return None


_SAMPLED = 160_000
"""Characters of a file from which its unit of indentation is derived."""


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


class _IndentFrame(StrEnum):
    """The indentation that a new text is written in."""

    OLD = "that of the old text"
    FILE = "that of the file"
    OWN = "another: its first line is as deep as the first of the old text"


def adapt_indentation(
    here: list[str], old: list[str], new: list[str], text: str
) -> list[str] | None:
    """The lines of `new` in the form of the file's lines `here`, which match `old`; None when
    uncertain."""
    framed = _align_frames(here, old, new, text)
    return None if framed is None else _adapt_lines(here, *framed, text)


def _align_frames(
    here: list[str], old: list[str], new: list[str], text: str
) -> tuple[list[str], list[str]] | None:
    """Old and new text in one frame; None when uncertain."""
    frame = _frame(here, old, new)
    if frame is _IndentFrame.OLD or frame is None:
        return None if frame is None else (old, new)
    if frame is _IndentFrame.OWN:
        first, theirs = (
            indent_of(new[_find_content_line(new)]),
            indent_of(here[_find_content_line(old)]),
        )
        if any(line.strip() and not line.startswith(first) for line in new):
            return None
        new = [theirs + line.removeprefix(first) if line.strip() else line for line in new]
    known = {indent_of(line) for line in here}
    blank = _unit(text[:_SAMPLED].split("\n"))[:1]
    if not all(_is_usual(indent_of(line), blank, known) for line in new if line.strip()):
        return None
    return [indent_of(a) + b.lstrip() for a, b in zip(here, old, strict=True)], new


def _is_usual(indent: str, blank: str, known: set[str]) -> bool:
    """True when a file indented by `blank`, with `known` indentations, may have this one, too."""
    rest = indent.lstrip(blank) if blank else ""
    return indent in known or not rest or (blank == "\t" and rest != indent and not rest.strip(" "))


def _frame(here: list[str], old: list[str], new: list[str]) -> _IndentFrame | None:
    """Decides by the first line, and by the lines that stay. None when these contradict each other,
    or when the first line alone may lack its indentation."""
    at = _find_content_line(new)
    if not new[at].strip():
        return _IndentFrame.OLD
    first, ours, theirs = (
        indent_of(new[at]),
        *(indent_of(x[_find_content_line(old)]) for x in (old, here)),
    )
    if not first and ours != theirs and _is_alone(new) and not _is_alone(old):
        return None
    stay = _staying(old, new)
    as_old = {j for j, i in stay.items() if indent_of(new[j]) == indent_of(old[i])}
    as_here = {j for j, i in stay.items() if indent_of(new[j]) == indent_of(here[i])}
    only_old, only_here = as_old - as_here, as_here - as_old
    if only_old and only_here:
        return None
    voted = _IndentFrame.FILE if only_here else _IndentFrame.OLD
    moved = at in stay and indent_of(here[stay[at]]) != theirs
    if at in only_old | only_here and not moved:
        return voted
    if first == ours == theirs:
        return (
            _IndentFrame.FILE if only_here or (not only_old and _is_like(here, old, new)) else voted
        )
    if first in (ours, theirs):
        frame, others = (
            (_IndentFrame.OLD, only_here) if first == ours else (_IndentFrame.FILE, only_old)
        )
        on_purpose = not others or _is_nested(old, new, stay, min(others))
        return frame if on_purpose else None
    stands = as_old | as_here
    if moved or (stands and (not first or _is_nested(old, new, stay, min(stands)))):
        return None
    return voted if stands else _IndentFrame.OWN


def _find_content_line(lines: list[str]) -> int:
    return next((index for index, line in enumerate(lines) if line.strip()), 0)


def _staying(old: list[str], new: list[str]) -> dict[int, int]:
    """Indexes of the new lines that repeat an old one, however indented, with those of the old."""
    blocks = opcodes([line.strip() for line in old], [line.strip() for line in new])
    return {
        j: i
        for tag, i1, i2, j1, j2 in blocks
        if tag == "equal"
        for i, j in zip(range(i1, i2), range(j1, j2), strict=True)
        if new[j].strip()
    }


def _is_like(here: list[str], old: list[str], new: list[str]) -> bool:
    """True when new lines have indentations of the file's lines and none of the old text alone."""
    theirs, ours, given = ({indent_of(x) for x in lines if x.strip()} for lines in (here, old, new))
    return bool(given & theirs - ours) and not given & ours - theirs


def _is_nested(old: list[str], new: list[str], stay: dict[int, int], at: int) -> bool:
    """True when a line that stays comes into a block, or out of one whose first line goes."""
    line = stay[at]
    return _is_opened(new, at) or (line - 1 not in stay.values() and _is_opened(old, line))


def _is_alone(lines: list[str]) -> bool:
    """True when the lines after the first are deeper, and it opens no block: its own indentation
    may have been left out."""
    filled = [line for line in lines if line.strip()]
    deeper = len(filled) > 1 and indent_of(filled[1]) > indent_of(filled[0])
    return deeper and not _is_opened(filled, 1)


def is_misplaced(text: str, span: Span, old: str, new: str) -> bool:
    """True when exact old text begins within the indentation of its line, and the new text is
    indented as if it did not, or was indented otherwise than the file."""
    start = text.rfind("\n", 0, span[0]) + 1
    if start == span[0] or text[start : span[0]].strip() or not old.strip() or not new.strip():
        return False
    ours, given = old.split("\n"), new.split("\n")
    if not ours[0].strip() or not given[0].strip():
        return False
    theirs = text[start : span[0]] + indent_of(ours[0])
    if indent_of(given[0]) != indent_of(ours[0]):
        return given[0].strip() != ours[0].strip() or len(given) > 1
    known = {indent_of(line) for line in ours[1:]}
    further = [line for line in given[1:] if line.strip()]
    if further and _is_opened(given[:1], 1) and further[0].lstrip()[0] not in ")]}":
        further.append(further[0].removeprefix(" ").removeprefix("\t"))  # it has to be deeper
    return not all(indent_of(x).startswith(theirs) or indent_of(x) in known for x in further)


_OPENER = re.compile(r"(?:[:{(\[,>=|\\]|\b(?:then|do|else|begin|try))\s*$")


def _is_opened(lines: list[str], at: int) -> bool:
    """True when the line before this one opens a block: it may be deeper on purpose."""
    before = next((line for line in reversed(lines[:at]) if line.strip()), "")
    return _OPENER.search(before) is not None


def _adapt_lines(here: list[str], old: list[str], new: list[str], text: str) -> list[str] | None:
    """The lines of `new` in the file's form; None when uncertain."""
    pairs = [
        (indent_of(ours), indent_of(theirs))
        for ours, theirs in zip(old, here, strict=True)
        if ours.strip()
    ]
    further = [indent_of(line) for line in new[1:] if line.strip()]
    loose = pairs.pop(0)[1] if _left_out_for(pairs, further) else None
    if loose and not pairs:
        if further:
            return None  # are these lines as deep as given, or relative to the first?
        pairs = [("", "")]
    indentation = _Indentation(pairs, [*old, *new], text)
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
            elif twin is not None and old[twin].strip() and indent_of(old[twin]) == ours:
                theirs = indent_of(here[twin])
            elif loose and j1 + offset == 0 and not ours:
                theirs = loose
            else:
                theirs = indentation.counterpart(ours)
                mapped.append((ours, theirs or ""))
            if theirs is None:
                return None
            words = line[len(ours) :]
            out.append(
                theirs + (words if twin is None else _merge_line(old[twin], here[twin], words))
            )
    return out if same_structure([*pairs, *mapped]) else None


def _merge_line(old: str, here: str, new: str) -> str:
    """The line `new` with the file's differences from `old`; where they conflict, `new` wins."""
    base, theirs = old.strip(), here.strip()
    if base == theirs:
        return new
    tokens, there, ours = (re.findall(r"\w+|\s+|[^\w\s]", line) for line in (base, theirs, new))
    mine = [code for code in opcodes(tokens, ours) if code[0] != "equal"]
    changes = [(i1, i2, ours[j1:j2]) for _, i1, i2, j1, j2 in mine]
    changes += [
        (i1, i2, there[j1:j2])
        for tag, i1, i2, j1, j2 in opcodes(tokens, there)
        if tag != "equal" and not _overlaps(i1, i2, mine)
    ]
    out: list[str] = []
    at = 0
    for start, end, instead in sorted(changes):
        out += [*tokens[at:start], *instead]
        at = end
    return "".join([*out, *tokens[at:]])


def _overlaps(start: int, end: int, changes: list[Opcode]) -> bool:
    """True when a change of the tokens from `start` to `end` overlaps other changes."""
    return any(
        (first < end and start < last) or first == last == start == end
        for _, first, last, _, _ in changes
    )
