"""Finds the old text of an edit in a file, in steps from exact to nearly equal, and adapts the new
text to the file.

Each step is looser than the one before, and the first that finds any place decides: two exact
matches are never narrowed down to one by a looser step. The looser steps compare whole lines in a
form that omits the tolerated difference: blanks at both ends of a line, blanks without a meaning
within it, single letters of long words. The lines must be nested as in the old text. Lines repeated
from the old text stay as in the file, new lines get the file's indentation; if that is uncertain,
nothing is found.
"""

import re
from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from functools import reduce
from itertools import accumulate, pairwise
from math import gcd

from alhena.system.encoding import LineEnding, TextFile
from alhena.tools.edit.splicing import Edit, Opcode, Span, opcodes
from alhena.values import Value

MAX_PLACES = 100_000
"""Maximum number of places that one edit changes."""

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


def find(
    file: TextFile, old: str, new: str, *, expected: int | None = 1, fuzzy: bool = False
) -> Match | None:
    """Finds `old` (not empty) in the file; None when no step finds it.

    `expected` is the required number of places, None for any number. `old` and `new` are passed as
    the model gave them; the result refers to `file.text`, with LF line endings. `fuzzy` adds the
    last step, which finds one place only.
    """
    wanted, given = with_line_feeds(old), with_line_feeds(new)
    match = _literal(file, old, wanted, given, expected)
    if match is None and wanted.strip() and len(file.text) <= LOOSE_LIMIT:
        change = _trimmed(wanted, given)
        match = _loose(file.text, change, expected)
        if match is None and fuzzy and expected in {1, None}:
            match = _similar(file.text, change)
    return match


def find_exact(file: TextFile, old: str, new: str) -> Match | None:
    """Like `find`, for one place, with no tolerance but line endings."""
    return _literal(file, old, with_line_feeds(old), with_line_feeds(new), 1)


def with_line_feeds(text: str) -> str:
    """Converts a model's text to LF line endings."""
    return text.replace("\r\n", "\n")


def _literal(
    file: TextFile, old: str, wanted: str, given: str, expected: int | None
) -> Match | None:
    count = file.text.count(wanted)
    if not count:
        return None
    spans = _exact(file.text, wanted)
    rung = Rung.EXACT if _as_given(file, spans, old, wanted) else Rung.LINE_ENDINGS
    if count == expected == 1 and _overlapping(file.text, spans[0], wanted, given):
        return Match(rung, count + 1, spans, None, overlapping=True)
    if count > MAX_PLACES or expected not in (count, None):
        return Match(rung, count, spans, None)
    return Match(rung, count, spans, [Edit(start, end, given) for start, end in spans])


def _exact(text: str, old: str) -> list[Span]:
    """The first non-overlapping occurrences of `old`."""
    spans: list[Span] = []
    at = text.find(old)
    while at >= 0 and len(spans) < MAX_PLACES:
        spans.append((at, at + len(old)))
        at = text.find(old, at + len(old))
    return spans


def _as_given(file: TextFile, spans: list[Span], old: str, wanted: str) -> bool:
    """True when the file has exactly the given characters at every place."""
    if file.line_ending is not LineEnding.MIXED:
        return old == wanted.replace("\n", file.newline)
    return all(file.raw[start:end] == old for start, end in file.spans(spans))


def _overlapping(text: str, span: Span, old: str, new: str) -> bool:
    """True when another place overlaps the one at `span` and would give another result."""
    start, end = span
    other = text.find(old, start + 1, end + len(old) - 1)
    if other < 0:
        return False
    return new + text[end : end + other - start] != text[start:other] + new


class _Change(Value, frozen=True):
    """Old and new text without the blank lines that both begin or end with.

    `feed`: the line end after the old text is replaced too.
    """

    old: str
    new: str
    feed: bool


def _trimmed(old: str, new: str) -> _Change:
    blank = old[: len(old) - len(old.lstrip())]
    lead = blank[: blank.rfind("\n") + 1]
    if new.startswith(lead):
        old, new = old[len(lead) :], new[len(lead) :]
    blank = old[len(old.rstrip()) :]
    trail = blank[blank.find("\n") :] if "\n" in blank else ""
    if trail and new.endswith(trail):
        return _Change(old.removesuffix(trail), new.removesuffix(trail), feed=False)
    return _Change(old.removesuffix("\n"), new, feed=old.endswith("\n"))


def _loose(text: str, change: _Change, expected: int | None) -> Match | None:
    for rung, form in ((Rung.WHITESPACE, str.strip), (Rung.TOKENS, _evenly_spaced)):
        spans = _line_places(text, change.old, form)
        if not spans:
            continue
        overlapping = any(a[1] > b[0] for a, b in pairwise(spans))
        if overlapping or len(spans) > MAX_PLACES or expected not in (len(spans), None):
            return Match(rung, len(spans), spans, None, overlapping=overlapping)
        edits = [_graft(text, span, change) for span in spans]
        known = [edit for edit in edits if edit is not None]
        if len(known) == len(edits):
            return Match(rung, len(spans), spans, known)
    return None


def _similar(text: str, change: _Change) -> Match | None:
    """The one place that differs by typos in long words."""
    places = _line_places(text, change.old, _without_long_words, all_overlapping=True)
    spans = [
        (start, end) for start, end in places if _only_typos(text, text[start:end], change.old)
    ]
    if len(places) > MAX_PLACES or len(spans) != 1:
        return None
    edit = _graft(text, spans[0], change)
    return None if edit is None else Match(Rung.FUZZY, 1, spans, [edit])


_BLANKS = re.compile(
    r"""
    ("(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*' | `[^`]*`)                 # kept
    | [ \t]*(,)[ \t]*
    | (\()[ \t]+
    | [ \t]+(?=[()])
    | (?<=\w:)[ \t]+(?=[\w(\[{])
    | (?<=[\w)\]}"'`])[ \t]+([-+*/%=<>!&|^?:]+)[ \t]+(?=[\w(\[{"'`])  # on both sides of a sign
    | (?P<run>[ \t]+)
    """,
    re.VERBOSE,
)


def _evenly_spaced(line: str) -> str:
    """A line without blanks at parentheses, at commas, after colons and on both sides of operators.

    Quoted text and lines that begin with # keep their blanks: there they may have a meaning.
    """
    line = line.strip()
    return line if line.startswith("#") else _BLANKS.sub(_spaced, line)


def _spaced(found: re.Match[str]) -> str:
    if found.lastindex is None:
        return ""
    return " " if found.lastgroup == "run" else found[found.lastindex]


_LONG_WORD = re.compile(r"\b[^\W\d]{7,}\b")


def _without_long_words(line: str) -> str:
    return _LONG_WORD.sub("\0", line.strip())


def _only_typos(text: str, here: str, given: str) -> bool:
    """True when long words differ by one letter each, together by a tenth of the characters at
    most, and no word of `given` that is presumed misspelt occurs in the file."""
    words = zip(_LONG_WORD.findall(here), _LONG_WORD.findall(given), strict=True)
    differing = [(theirs, ours) for theirs, ours in words if theirs != ours]
    letters = sum(2 if len(theirs) == len(ours) else 1 for theirs, ours in differing)
    if letters * 10 > sum(len(line.strip()) for line in given.split("\n")):
        return False
    return all(
        _is_typo(theirs, ours) and not re.search(rf"\b{ours}\b", text) for theirs, ours in differing
    )


def _is_typo(one: str, other: str) -> bool:
    """True when two words differ by one extra, missing or swapped letter.

    Other differences may well be different names: `get_value` and `set_value`, `user` and `users`,
    `synchronous` and `asynchronous`.
    """
    if len(one) == len(other):
        at = [index for index, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]
        return len(at) == 2 and at[1] == at[0] + 1 and sorted(one) == sorted(other)
    longer, shorter = sorted((one, other), key=len, reverse=True)
    at_ = next((i for i, char in enumerate(shorter) if char != longer[i]), len(shorter))
    if longer[at_ + 1 :] != shorter[at_:]:
        return False
    begins = at_ == 0 or longer[at_ - 1] == "_"
    ends = at_ == len(shorter) or shorter[at_] == "_"
    return not begins and not (ends and longer[at_] in "sd")


_MAX_LINES = 100_000
_COMPARED = 1_000_000
"""Maximum number of lines compared by indentation, plus twice those of the file."""


def _line_places(
    text: str, old: str, form: Callable[[str], str], *, all_overlapping: bool = False
) -> list[Span]:
    """Whole lines that have the same `form` as the lines of `old` and are nested as those are.

    Of overlapping places, two are returned, unless `all_overlapping`. Lines are turned into single
    characters for a search in linear time. Empty if too many places have to be compared: a partial
    result would mislead.
    """
    given = old.split("\n")
    wanted = [form(line) for line in given]
    longest = max(re.findall(r"\w+", max(wanted, key=len)), key=len, default="")
    if len(wanted) > _MAX_LINES or longest not in text:
        return []
    codes = {line: chr(index + 1) for index, line in enumerate(dict.fromkeys(wanted))}
    lines = text.removesuffix("\n").split("\n")
    coded = {line: codes.get(form(line), "\0") for line in set(lines)}
    text = "".join([coded[line] for line in lines])
    pattern = "".join([codes[line] for line in wanted])
    indents = [(index, indent_of(line)) for index, line in enumerate(given) if line.strip()]
    left = 2 * len(lines) + _COMPARED
    found: list[int] = []
    end = 0
    at = text.find(pattern)
    while at >= 0 and len(found) <= MAX_PLACES:
        left -= len(indents)
        if left < 0:
            return []
        if aligned([(indent, indent_of(lines[at + index])) for index, indent in indents]):
            found.append(at)
            if at < end and not all_overlapping:
                break
            end = at + len(wanted)
        at = text.find(pattern, at + 1)
    ends = list(accumulate((len(line) + 1 for line in lines), initial=0)) if found else []
    return [(ends[at], ends[at + len(wanted)] - 1) for at in found]


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


def aligned(pairs: list[Pair]) -> bool:
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


def _graft(text: str, span: Span, change: _Change) -> Edit | None:
    """The edit that turns the lines of `span`, which match the old text, into the new text."""
    start, end = span
    old, new = change.old.split("\n"), change.new.split("\n")
    lines = _carried(text[start:end].split("\n"), old, new, text)
    if lines is None:
        return None
    return Edit(start, min(end + change.feed, len(text)), "\n".join(lines))


def _carried(here: list[str], old: list[str], new: list[str], text: str) -> list[str] | None:
    """The lines of `new` in the file's form; None when uncertain."""
    pairs = [
        (indent_of(ours), indent_of(theirs))
        for ours, theirs in zip(old, here, strict=True)
        if ours.strip()
    ]
    further = [indent_of(line) for line in new[1:] if line.strip()]
    loose = pairs.pop(0)[1] if _left_out_for(pairs, further) else None
    if loose and not pairs:
        if not all(indent.startswith(loose) for indent in further):
            return None
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
            out.append(theirs + (words if twin is None else _merged(old[twin], here[twin], words)))
    return out if same_structure([*pairs, *mapped]) else None


def _merged(old: str, here: str, new: str) -> str:
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
        if tag != "equal" and not _met(i1, i2, mine)
    ]
    out: list[str] = []
    at = 0
    for start, end, instead in sorted(changes):
        out += [*tokens[at:start], *instead]
        at = end
    return "".join([*out, *tokens[at:]])


def _met(start: int, end: int, changes: list[Opcode]) -> bool:
    """True when a change of the tokens from `start` to `end` overlaps other changes."""
    return any(
        (first < end and start < last) or first == last == start == end
        for _, first, last, _, _ in changes
    )
