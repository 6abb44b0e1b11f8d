"""How a model's indentation maps onto a file's, learned from lines that both of them have.

What the lines do not tell is not guessed: an indentation that cannot be derived has no counterpart.
Other blanks are fine, another structure is not: lines of which one stands deeper than the other in
one of the two texts only do not say the same.
"""

from collections import Counter
from functools import reduce
from math import gcd

_SAMPLED = 4_000
_TAB_STOPS = (8, 4, 2)

Pair = tuple[str, str]
"""A line's indentation as the model gave it, and as the file has it."""


def indent_of(line: str) -> str:
    """The blanks that `line` begins with."""
    return line[: len(line) - len(line.lstrip())]


def same_structure(pairs: list[Pair]) -> bool:
    """Whether any two lines are as deep, or one is deeper, in the one text as in the other.

    How far lines are indented, and by what, may differ. Where a text mixes tabs and spaces, its
    tabs count as any one width that makes it fit.
    """
    known = list(set(pairs))
    if all(ours == theirs for ours, theirs in known):
        return True
    files = _depths([theirs for _, theirs in known])
    return any(depths in files for depths in _depths([ours for ours, _ in known]))


def _depths(indents: list[str]) -> list[list[int]]:
    """How many of the others each indentation is deeper than, for every width of tabs."""
    found: list[list[int]] = []
    for stop in _TAB_STOPS if any("\t" in indent for indent in indents) else _TAB_STOPS[:1]:
        columns = [len(indent.expandtabs(stop)) for indent in indents]
        ranks = {column: rank for rank, column in enumerate(sorted(set(columns)))}
        found.append([ranks[column] for column in columns])
    return found


def bare_start(pairs: list[Pair]) -> bool:
    """Whether the model left out the indentation of the first line, and of no other.

    Models tend to: then it says nothing of how deep that line is. It is certain only when all other
    lines are indented, and exactly as in the file.
    """
    (ours, theirs), *rest = pairs
    return ours == "" != theirs and all(a == b != "" for a, b in rest)


def left_out_for(pairs: list[Pair], indents: list[str]) -> bool:
    """Whether `bare_start` is how new text with these further indentations is meant.

    A line that is not indented either stands as deep as the first, if the structure allows it.
    """
    return bare_start(pairs) and (len(pairs) == 1 or "" not in indents or not same_structure(pairs))


def shifted_alone(pairs: list[Pair], old: list[str], new: list[str]) -> bool:
    """Whether the old text is indented too far as a block, and the new text as in the file.

    The new text then begins as deep as the file does there, and repeats no line of the old one.
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
    """Whether lines, from the first on, have the structure that they have in the file."""
    return same_structure(pairs) or bare_start(pairs)


class Indentation:
    """The map from the model's indentations to the file's.

    `pairs` are the two indentations of lines that correspond, `given` the lines of the model,
    `text` the file, from which its unit of indentation is known.
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
        """The file's indentation for a line that the model indents so; None when it is unsure."""
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
        """Below a line that the model indents by `base`, by `blanks` more."""
        known = self._known[base]
        deeper = self._by_evidence(blanks)
        # Without evidence the model's own levels are not the file's if `base` is none of those.
        odd = deeper is not None or self._between_levels(known, base)
        if deeper is None:
            deeper = self._by_unit(blanks)
        if deeper is None or (odd and self._between_levels(known, known + deeper)):
            return None
        return known + deeper

    def _between_levels(self, base: str, found: str) -> bool:
        """Whether the file is indented in even steps, and `found` is none though `base` is: then
        the lines were not all moved alike, and how deep this one is meant to stand is not known."""
        unit = self._unit_of_file()
        return len(unit) > 1 and len(base) % len(unit) == 0 < len(found) % len(unit)

    def _converted(self, blanks: str) -> str | None:
        """Further indentation by `blanks`, as the file does it."""
        return self._by_evidence(blanks) or self._by_unit(blanks)

    def _by_evidence(self, blanks: str) -> str | None:
        """From two known lines of which one is indented deeper than the other."""
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
    """`blanks` in steps of `other` as it is in steps of `step`; None when that comes out uneven."""
    if len(set(blanks)) != 1 or set(blanks) != set(step):
        return None
    total = len(blanks) * len(other)
    if total % len(step) or len(set(other)) != 1:
        return None
    return other[0] * (total // len(step))


def _unit(lines: list[str]) -> str:
    """What one level of these lines is indented by; "" when none is."""
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
