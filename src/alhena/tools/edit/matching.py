"""Finds the old text of an edit in a file, in steps from exact to nearly equal, and adapts the new
text to the file.

Text that is canonically equal, é as one character or two, counts as found in the second step.
Each step is looser than the one before, and the first that finds any place decides: two exact
matches are never narrowed down to one by a looser step. The looser steps compare whole lines in a
form that omits the tolerated difference: blanks at both ends of a line, blanks without a meaning
within it, single letters of long words. The lines must be nested as in the old text. Lines repeated
from the old text stay as in the file, new lines get the file's indentation; if that is uncertain,
nothing is found.
"""

import re
from collections.abc import Callable
from enum import StrEnum
from itertools import accumulate, pairwise

from alhena.system.encoding import LineEnding, TextFile
from alhena.system.unicode_forms import find_equal, keep_form
from alhena.tools.edit.indentation import adapt_indentation, indent_of, is_aligned, is_misplaced
from alhena.tools.edit.splicing import Edit, Span
from alhena.values import Value

MAX_PLACES = 100_000
"""Maximum number of places that one edit changes."""

LOOSE_LIMIT = 16_000_000
"""Maximum characters of a text for the looser steps."""


class MatchStep(StrEnum):
    """The step that found the old text."""

    EXACT = "exact"
    LINE_ENDINGS = "line_endings"
    EQUAL = "canonically_equal"
    WHITESPACE = "whitespace"
    TOKENS = "tokens"
    FUZZY = "fuzzy"
    CORRECTED = "corrected"


class EditMatch(Value, frozen=True):
    """Result of a step: the number of places, the edits, and True for `overlapping` places, or when
    the indentation of the new text is uncertain (`misplaced`).

    `edits` are in order and do not overlap; None when the count is not the expected one (or over
    100,000), or the place uncertain, so that nothing is edited. `spans` are the first places found.
    """

    rung: MatchStep
    count: int
    spans: list[Span]
    edits: list[Edit] | None
    overlapping: bool = False
    misplaced: bool = False

    def is_literal(self, text: str) -> bool:
        """True when the new text was written as given, and is not lines of which the first has its
        indentation from the file."""
        if self.rung not in (
            MatchStep.EXACT,
            MatchStep.LINE_ENDINGS,
            MatchStep.EQUAL,
            MatchStep.CORRECTED,
        ):
            return False
        starts = (edit.start for edit in self.edits or () if "\n" in edit.new)
        return not any(text[text.rfind("\n", 0, at) + 1 : at].isspace() for at in starts)


def find(
    file: TextFile, old: str, new: str, *, expected: int | None = 1, fuzzy: bool = False
) -> EditMatch | None:
    """Finds `old` (not empty) in the file; None when no step finds it.

    `expected` is the required number of places, None for any number. `old` and `new` are passed as
    the model gave them; the result refers to `file.text`, with LF line endings. `fuzzy` adds the
    last step, which finds one place only.
    """
    wanted, given = with_line_feeds(old), with_line_feeds(new)
    match = _literal(file, old, wanted, given, expected)
    if match is None:
        match = _equal(file, wanted, given, expected)
    if match is None and wanted.strip() and len(file.text) <= LOOSE_LIMIT:
        change = _trim_blank_lines(wanted, given)
        match = _loose(file.text, change, expected)
        if match is None and fuzzy and expected in {1, None}:
            match = _similar(file.text, change)
    return match


def find_exact(file: TextFile, old: str, new: str) -> EditMatch | None:
    """Like `find`, for one place, with no tolerance but line endings."""
    return _literal(file, old, with_line_feeds(old), with_line_feeds(new), 1)


def with_line_feeds(text: str) -> str:
    """Converts a model's text to LF line endings."""
    return text.replace("\r\n", "\n")


def _literal(
    file: TextFile, old: str, wanted: str, given: str, expected: int | None
) -> EditMatch | None:
    count = file.text.count(wanted)
    if not count:
        return None
    spans = _exact(file.text, wanted)
    rung = MatchStep.EXACT if _as_given(file, spans, old, wanted) else MatchStep.LINE_ENDINGS
    if count == expected == 1 and _overlapping(file.text, spans[0], wanted, given):
        return EditMatch(rung, count + 1, spans, None, overlapping=True)
    if count > MAX_PLACES or expected not in (count, None):
        return EditMatch(rung, count, spans, None)
    if any(is_misplaced(file.text, span, wanted, given) for span in spans):
        return EditMatch(rung, count, spans, None, misplaced=True)
    return EditMatch(rung, count, spans, [Edit(start, end, given) for start, end in spans])


def _equal(file: TextFile, wanted: str, given: str, expected: int | None) -> EditMatch | None:
    """Places that are equal but for the form of accented letters, which the new text then has."""
    text = file.text
    spans = find_equal(text, wanted, MAX_PLACES + 1) if len(text) <= LOOSE_LIMIT else []
    if not spans:
        return None
    count = len(spans)
    if count > MAX_PLACES or expected not in (count, None):
        return EditMatch(MatchStep.EQUAL, count, spans, None)
    edits = [Edit(start, end, keep_form(given, text[start:end])) for start, end in spans]
    return EditMatch(MatchStep.EQUAL, count, spans, edits)


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


def _trim_blank_lines(old: str, new: str) -> _Change:
    blank = old[: len(old) - len(old.lstrip())]
    lead = blank[: blank.rfind("\n") + 1]
    if new.startswith(lead):
        old, new = old[len(lead) :], new[len(lead) :]
    blank = old[len(old.rstrip()) :]
    trail = blank[blank.find("\n") :] if "\n" in blank else ""
    if trail and new.endswith(trail):
        return _Change(old.removesuffix(trail), new.removesuffix(trail), feed=False)
    return _Change(old.removesuffix("\n"), new, feed=old.endswith("\n"))


def _loose(text: str, change: _Change, expected: int | None) -> EditMatch | None:
    for rung, form in ((MatchStep.WHITESPACE, str.strip), (MatchStep.TOKENS, _evenly_spaced)):
        spans = _line_places(text, change.old, form)
        if not spans:
            continue
        overlapping = any(a[1] > b[0] for a, b in pairwise(spans))
        if overlapping or len(spans) > MAX_PLACES or expected not in (len(spans), None):
            return EditMatch(rung, len(spans), spans, None, overlapping=overlapping)
        edits = [_graft(text, span, change) for span in spans]
        known = [edit for edit in edits if edit is not None]
        if len(known) == len(edits):
            return EditMatch(rung, len(spans), spans, known)
    return None


def _similar(text: str, change: _Change) -> EditMatch | None:
    """The one place that differs by typos in long words."""
    places = _line_places(text, change.old, _without_long_words, all_overlapping=True)
    spans = [
        (start, end) for start, end in places if _only_typos(text, text[start:end], change.old)
    ]
    if len(places) > MAX_PLACES or len(spans) != 1:
        return None
    edit = _graft(text, spans[0], change)
    return None if edit is None else EditMatch(MatchStep.FUZZY, 1, spans, [edit])


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
    return line if line.startswith("#") else _BLANKS.sub(_normalize_spaces, line)


def _normalize_spaces(found: re.Match[str]) -> str:
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
        if is_aligned([(indent, indent_of(lines[at + index])) for index, indent in indents]):
            found.append(at)
            if at < end and not all_overlapping:
                break
            end = at + len(wanted)
        at = text.find(pattern, at + 1)
    ends = list(accumulate((len(line) + 1 for line in lines), initial=0)) if found else []
    return [(ends[at], ends[at + len(wanted)] - 1) for at in found]


def _graft(text: str, span: Span, change: _Change) -> Edit | None:
    """The edit that turns the lines of `span`, which match the old text, into the new text."""
    start, end = span
    here, old, new = (each.split("\n") for each in (text[start:end], change.old, change.new))
    lines = adapt_indentation(here, old, new, text)
    if lines is None:
        return None
    return Edit(start, min(end + change.feed, len(text)), "\n".join(lines))
