"""Finds old text with any blanks between tokens.

Blanks with a meaning have to match: line ends outside brackets, quoted text, relative indentation.
Places are found by a plain search in texts without blanks. --
"""

import re
from bisect import bisect_right
from itertools import accumulate, pairwise
from typing import NamedTuple

from alhena.tools.edit.splicing import Edit, Span, opcodes
from alhena.tools.edit.whitespace import (
    Indentation,
    Pair,
    aligned,
    hits_of,
    left_out_for,
    same_structure,
)

Element = tuple[str, str]
"""A word or sign with the blanks before it."""

_MIN_CHARACTERS = 4
_COMPARED = 1_000_000
"""Maximum characters of places compared, plus an eighth of the file."""

_WORD_OR_SIGN = r"\w+|[^\w\s]"
_QUOTES = frozenset("\"'`")
_OPERATORS = frozenset("+-*/%=<>!&|^~?:.")
_TOUCHING = frozenset("#$@~\\")
"""Signs whose meaning depends on adjacent characters."""

_END_OF_TAG = "/>"
_CLOSED_BY = {"(": ")", "[": "]"}


def token_places(text: str, old: str) -> list[Span]:
    """Finds the words and signs of `old`, separated by any blanks or none.

    Two words separated by blanks never match one word, and no word matches in part. Of overlapping
    places, two are returned.
    """
    wanted = _canonical(old)
    size = len(wanted) - wanted.count(" ")
    if size < _MIN_CHARACTERS or len(_elements(wanted)) < 2:
        return []
    if "".join(old.split()) not in "".join(text.split()):  # far quicker than the search below
        return []
    canonical = _canonical(text)
    words = [found.span() for found in re.finditer(r"\S+", text)]
    ends = list(accumulate(stop - start for start, stop in words))
    ours = _elements(old.strip())
    left = len(text) // 8 + _COMPARED
    blanks = counted = 0
    spans: dict[int, Span] = {}

    def fits(at: int) -> bool | None:
        nonlocal left, blanks, counted
        if _cuts_word(canonical, at) or _cuts_word(canonical, at + len(wanted)):
            return False
        blanks += canonical.count(" ", counted, at)
        counted = at
        first = at - blanks
        span = (_place(words, ends, first), _place(words, ends, first + size - 1) + 1)
        left -= span[1] - span[0]
        if left < 0:
            return None
        if not _says_the_same(text, span, old, ours):
            return False
        spans[at] = span
        return True

    return [spans[at] for at in hits_of(canonical, wanted, fits)]


def _says_the_same(text: str, span: Span, old: str, ours: list[Element]) -> bool:
    """True when the blanks that differ between two texts of the same tokens change no meaning.

    `ours` are the elements of `old`.

    Line ends and indentation may differ only within parentheses and brackets, blanks within quotes
    not at all, and adjacent signs (`++`) do not match separate ones.
    """
    here = _elements(text[span[0] : span[1]])
    if _reads_otherwise(here, ours):
        return False
    quoted, enclosed = _contexts(here)
    for index in range(1, len(here)):
        (gap, word), (given, _), before = here[index], ours[index], here[index - 1][1]
        if gap == given:
            continue
        joined = before in _OPERATORS and word in _OPERATORS and bool(gap) != bool(given)
        broken = index not in enclosed and gap.count("\n") != given.count("\n")
        if index in quoted or joined or broken or _parted(here, ours, index):
            return False
    lines = [pair for index, pair in _line_starts(ours, here) if index not in enclosed]
    first = _first_line(text, span[0], old)
    return same_structure(lines) if first is None else aligned([first, *lines])


def _reads_otherwise(here: list[Element], ours: list[Element]) -> bool:
    """True when differing blanks may have a meaning that is not analysed here: line ends end
    comments and statements, and escapes, templates and prose keep their blanks."""
    differing = [(gap, given) for (gap, _), (given, _) in zip(here[1:], ours[1:], strict=True)
                 if gap != given]  # fmt: skip
    if not differing:
        return False
    tokens = [token for _, token in here]
    if "`" in tokens or _triple_quotes(here) or ("\\" in tokens and _QUOTES & set(tokens)):
        return True
    if any(first == "#" and then == "define" for first, then in pairwise(tokens)):
        return True
    return _ends_with_lines(here) and any(
        gap.count("\n") != given.count("\n") for gap, given in differing
    )


def _ends_with_lines(elements: list[Element]) -> bool:
    """True when there are comments, statements or blocks that a line end may end."""
    tokens = [token for _, token in elements]
    if not {"#", ";", "{", "}"}.isdisjoint(tokens):
        return True
    marks = {"//", "--", "/*", "<!"}
    return any(
        f"{first}{then}" in marks and not gap for (_, first), (gap, then) in pairwise(elements)
    )


def _parted(here: list[Element], ours: list[Element], index: int) -> bool:
    """True when a blank in only one text may separate selectors, arguments, strings, signs of
    numbers or descriptors: before a dot, a colon or an opening bracket after a word, at a quote, at
    a sign that belongs to its neighbour, on one side of an operator, after a number before a
    redirection."""
    if not _differs(here, ours, index):
        return False
    word, before = here[index][1], here[index - 1][1]
    if word in {".", ":"} or not _TOUCHING.isdisjoint((word, before)):
        return True
    if word == "[" or not _QUOTES.isdisjoint((word, before)):
        return _ends_argument(before) and (word in _QUOTES or word == "[" or _is_word(word[0]))
    return (before.isdigit() and word in "<>") or _lopsided(here, ours, index)


def _differs(here: list[Element], ours: list[Element], index: int) -> bool:
    """True when only one text has a blank before an element."""
    return bool(here[index][0]) != bool(ours[index][0])


def _ends_argument(token: str) -> bool:
    return _is_word(token[-1]) or token in _QUOTES or token in {")", "]"}


def _lopsided(here: list[Element], ours: list[Element], index: int) -> bool:
    """True when the blank is on one side of a run of operators and the other side has none: then it
    is a pattern, a path, an option or an assignment that ends there."""
    last = len(here) - 1
    if here[index][1] in _OPERATORS:
        end = index
        while end < last and not here[end + 1][0] and here[end + 1][1] in _OPERATORS:
            end += 1
        if "".join(token for _, token in here[index : end + 1]) == _END_OF_TAG:
            return False
        return end == last or not _differs(here, ours, end + 1)
    if here[index - 1][1] not in _OPERATORS:
        return False
    start = index - 1
    while start and not here[start][0] and here[start - 1][1] in _OPERATORS:
        start -= 1
    if start == index - 1 and here[start][1] == ":":
        return False  # text after a colon may be set apart from it
    return start == 0 or not _differs(here, ours, start)


def _contexts(elements: list[Element]) -> tuple[set[int], set[int]]:
    """Indexes of the elements in quotes, and of those within parentheses or brackets.

    Only strings within one line count: an apostrophe in prose is no quote. An unclosed bracket
    encloses nothing.
    """
    quoted: set[int] = set()
    quote = ""
    opened: list[int] = []
    deeper = [0] * (len(elements) + 1)
    prose = _triple_quotes(elements)
    for index, (gap, token) in enumerate(elements):
        if "\n" in gap:
            quote = ""
        if quote:
            quoted.add(index)
            quote = "" if token == quote else quote
        elif token in _QUOTES and index not in prose:
            quote = token
        elif token in _CLOSED_BY:
            opened.append(index)
        elif token in _CLOSED_BY.values():
            while opened and _CLOSED_BY[elements[opened[-1]][1]] != token:
                opened.pop()
            if opened:
                deeper[opened.pop() + 1] += 1
                deeper[index + 1] -= 1
    enclosed = {index for index, depth in enumerate(accumulate(deeper)) if depth}
    return quoted, enclosed


def _triple_quotes(elements: list[Element]) -> frozenset[int]:
    """Indexes of the elements of triple quotes, whose content is treated as prose."""
    found: set[int] = set()
    for index in range(len(elements) - 2):
        run = elements[index : index + 3]
        same = {token for _, token in run}
        if len(same) == 1 and not same.isdisjoint(_QUOTES) and not run[1][0] and not run[2][0]:
            found.update((index, index + 1, index + 2))
    return frozenset(found)


def _line_starts(ours: list[Element], here: list[Element]) -> list[tuple[int, Pair]]:
    """The elements after the first that begin a line in both texts, with their indentations."""
    return [
        (index, (_after_feed(given), _after_feed(gap)))
        for index, ((given, _), (gap, _)) in enumerate(zip(ours, here, strict=True))
        if "\n" in given and "\n" in gap
    ]


def _after_feed(gap: str) -> str:
    return gap[gap.rfind("\n") + 1 :]


def _first_line(text: str, start: int, old: str) -> Pair | None:
    """The indentations of the line at which `old` begins; None when it begins within a line."""
    before = text[text.rfind("\n", 0, start) + 1 : start]
    return None if before.strip() else (_after_feed(old[: len(old) - len(old.lstrip())]), before)


def _canonical(text: str) -> str:
    """`text` with one space between adjacent words and no other blanks."""
    return re.sub(r" (?=\W)|(?<=\W) ", "", " ".join(text.split()))


def _cuts_word(text: str, at: int) -> bool:
    return 0 < at < len(text) and _is_word(text[at - 1]) and _is_word(text[at])


def _is_word(char: str) -> bool:
    return char == "_" or char.isalnum()


def _place(words: list[Span], ends: list[int], count: int) -> int:
    """Position of the character preceded by `count` non-blank characters."""
    index = bisect_right(ends, count)
    return words[index][1] - (ends[index] - count)


def _elements(text: str) -> list[Element]:
    """The words and signs of `text`, each with the blanks before it."""
    found: list[Element] = []
    at = 0
    for token in re.finditer(_WORD_OR_SIGN, text):
        found.append((text[at : token.start()], token.group()))
        at = token.end()
    return found


def graft_tokens(text: str, span: Span, old: str, new: str) -> Edit | None:
    """The edit that turns the tokens of `span`, which equal those of `old`, into `new`."""
    start, end = span
    if not new.strip():
        return _deletion(text, span, old) if not new else None
    lead, trail = old[: len(old) - len(old.lstrip())], old[len(old.rstrip()) :]
    before, after = new[: len(new) - len(new.lstrip())], new[len(new.rstrip()) :]
    if not (before.endswith(lead) and after.startswith(trail)):
        return None
    here, ours, wanted = (_elements(part) for part in (text[start:end], old.strip(), new.strip()))
    first = _first_line(text, start, old)
    known = _known_lines(first, ours, here, [_after_feed(gap) for gap, _ in wanted if "\n" in gap])
    moved = any(
        gap.count("\n") != given.count("\n")
        for (gap, _), (given, _) in zip(here[1:], ours[1:], strict=True)
    )
    if moved and _ends_with_lines(wanted):
        return None  # the file's line endings would move into comments of the new text
    map_ = Indentation(known.pairs, [*old.split("\n"), new], text)
    gaps: list[str] = []
    for gap, theirs in _paired(here, ours, wanted):
        if theirs is not None:
            gaps.append(theirs)
            continue
        feed = gap.rfind("\n") + 1
        indent = map_.counterpart(gap[feed:]) if feed else ""
        if indent is None:
            return None
        gaps.append(gap[:feed] + indent if feed else gap)
    out = [(gap, token) for gap, (_, token) in zip(gaps, wanted, strict=True)]
    if not _stands_as_given(wanted, out, known):
        return None
    made = "".join(gap + token for gap, token in out)[len(gaps[0]) :]
    return Edit(start, end, before[: len(before) - len(lead)] + made + after[len(trail) :])


class _Known(NamedTuple):
    """The lines common to the model's and the file's text: all, and those outside brackets.

    `floor` is the minimum depth of all lines when the only known line lost its indentation.
    """

    pairs: list[Pair]
    outside: list[Pair]
    floor: str


def _known_lines(
    first: Pair | None, ours: list[Element], here: list[Element], further: list[str]
) -> _Known:
    starts = _line_starts(ours, here)
    _, enclosed = _contexts(here)
    outside = [pair for index, pair in starts if index not in enclosed]
    lead: list[Pair] = []
    floor = ""
    if first is not None:
        if not left_out_for([first, *outside], further):
            lead = [first]
        elif not outside:
            floor = first[1]
    return _Known([*lead, *(pair for _, pair in starts)], [*lead, *outside], floor)


def _stands_as_given(wanted: list[Element], out: list[Element], known: _Known) -> bool:
    """True when lines outside brackets end and are indented, relatively, as in the new text."""
    _, enclosed = _contexts(wanted)
    for index in range(1, len(out)):
        if index not in enclosed and out[index][0].count("\n") != wanted[index][0].count("\n"):
            return False
    lines = [pair for index, pair in _line_starts(wanted, out) if index not in enclosed]
    deep = all(theirs.startswith(known.floor) for _, theirs in lines)
    return deep and same_structure([*known.outside, *lines])


def _paired(
    here: list[Element], old: list[Element], new: list[Element]
) -> list[tuple[str, str | None]]:
    """The blanks before each new element, and the file's blanks if an old element corresponds."""
    out: list[tuple[str, str | None]] = []
    for tag, i1, i2, j1, j2 in opcodes(old, new):
        for offset, (gap, _) in enumerate(new[j1:j2]):
            stays = tag == "equal" or (i2 - i1 == j2 - j1 and old[i1 + offset][0] == gap)
            out.append((gap, here[i1 + offset][0] if stays else None))
    return out


def _deletion(text: str, span: Span, old: str) -> Edit:
    """The edit that deletes the tokens, and the line ends that `old` includes."""
    start, end = span
    line = text.rfind("\n", 0, start) + 1
    feed = text.find("\n", end)
    stop = len(text) if feed < 0 else feed
    alone = not text[line:start].strip() and not text[end:stop].strip()
    if alone and old[len(old.rstrip()) :].count("\n"):
        return Edit(line, min(stop + 1, len(text)), "")
    return Edit(line if alone and old[:1].isspace() else start, stop if alone else end, "")
