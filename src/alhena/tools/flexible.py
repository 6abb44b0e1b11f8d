"""The rungs of the ladder that take other blanks for equal: at the ends of lines, between tokens.

Both find places in time that grows with the text alone, by turning lines or tokens into a text in
which a plain search finds them. The grafts then carry new text over: what the model repeats of the
old stays as the file has it, and what is new gets the file's indentation.
"""

import re
from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate

from alhena.tools.diffing import opcodes
from alhena.tools.indentation import Indentation, indent_of
from alhena.tools.splicing import Edit, Span

_MAX_LINES = 100_000
_MAX_HITS = 100_001
_MIN_CHARACTERS = 4
_WORD_OR_SIGN = r"\w+|[^\w\s]"


def line_places(text: str, old: str) -> list[Span]:
    """Whole lines that are the lines of `old` but for the blanks they begin and end with.

    Blank lines at either end of `old` are left aside. Of places that overlap, two are given.
    """
    _, core, _ = _parts(old)
    wanted = [line.strip() for line in core.split("\n")]
    if not core or len(wanted) > _MAX_LINES or max(wanted, key=len) not in text:
        return []
    codes = {line: chr(index + 1) for index, line in enumerate(dict.fromkeys(wanted))}
    lines = text.split("\n")
    coded = "".join([codes.get(line.strip(), "\0") for line in lines])
    hits = _hits(coded, "".join([codes[line] for line in wanted]))
    if not hits:
        return []
    ends = list(accumulate(len(line) + 1 for line in lines))
    return [(ends[at - 1] if at else 0, ends[at + len(wanted) - 1] - 1) for at in hits]


def _hits(text: str, wanted: str, fits: Callable[[int], bool] = lambda _at: True) -> list[int]:
    """Where `wanted` stands and fits; the last two overlap if any do, and then nothing follows."""
    found: list[int] = []
    end = 0
    at = text.find(wanted)
    while at >= 0 and len(found) < _MAX_HITS:
        if fits(at):
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
    # Models tend to leave out the indentation of the first line alone: it says nothing of others.
    loose_start = pairs[0][0] == "" != pairs[0][1]
    first = pairs[0][1]
    if loose_start:
        pairs = pairs[1:]
        if not pairs:
            if any(line.strip() and not line.startswith(first) for line in new[1:]):
                return None
            pairs = [("", "")]
    map_ = Indentation(pairs, [*old, *new], text)
    out: list[str] = []
    for tag, i1, i2, j1, j2 in opcodes([x.rstrip() for x in old], [x.rstrip() for x in new]):
        if tag == "equal":
            out += here[i1:i2]
            continue
        for offset, line in enumerate(new[j1:j2]):
            ours = indent_of(line)
            theirs = map_.counterpart(ours)
            if i2 - i1 == j2 - j1 and ours == indent_of(old[i1 + offset]):
                theirs = indent_of(here[i1 + offset])
            elif loose_start and j1 + offset == 0 and not ours:
                theirs = first
            if not line.strip():
                theirs = ours
            if theirs is None:
                return None
            words = line[len(ours) :]
            if i2 - i1 == j2 - j1:
                words = _merged(old[i1 + offset], here[i1 + offset], words)
            out.append(theirs + words)
    return out


def _merged(old: str, here: str, new: str) -> str:
    """The line `new` with what the file has other than `old`, where they are only similar."""
    from alhena.tools.merging import merged

    base, theirs = old.strip(), here.strip()
    return new if base == theirs else merged(base, theirs, new)


def token_places(text: str, old: str) -> list[Span]:
    """Where the words and signs of `old` stand, with any blanks or none between them.

    Two words that blanks separate are never one word, and no word is matched in part.
    """
    wanted = _canonical(old)
    if len(wanted) - wanted.count(" ") < _MIN_CHARACTERS or len(_elements(wanted)) < 2:
        return []
    if "".join(old.split()) not in "".join(text.split()):  # far quicker than what follows
        return []
    canonical = _canonical(text)

    def fits(at: int) -> bool:
        return not _cuts_word(canonical, at) and not _cuts_word(canonical, at + len(wanted))

    hits = _hits(canonical, wanted, fits)
    if not hits:
        return []
    words = [found.span() for found in re.finditer(r"\S+", text)]
    ends = list(accumulate(stop - start for start, stop in words))
    size = len(wanted) - wanted.count(" ")
    spans: list[Span] = []
    blanks = counted = 0
    for at in hits:
        blanks += canonical.count(" ", counted, at)
        counted = at
        first = at - blanks
        span = (_place(words, ends, first), _place(words, ends, first + size - 1) + 1)
        if _says_the_same(text[span[0] : span[1]], old.strip()):
            spans.append(span)
    return spans


def _says_the_same(here: str, old: str) -> bool:
    """Whether blanks that differ between two texts of the same tokens change no meaning.

    Line ends differ only within parentheses and brackets, blanks within quotes not at all, and
    signs that touch (`++`) are not signs that do not.
    """
    depth = 0
    quote = ""
    before = ""
    ours = _elements(here)
    prose = _triple_quotes(ours)
    for index, ((gap, word), (theirs, _)) in enumerate(zip(ours, _elements(old), strict=True)):
        if "\n" in gap:
            quote = ""  # strings of one line are meant; an apostrophe in prose is none
        if gap != theirs and before:
            joined = before in _OPERATORS and word in _OPERATORS and bool(gap) != bool(theirs)
            if quote or joined or (depth <= 0 and gap.count("\n") != theirs.count("\n")):
                return False
        if quote:
            quote = "" if word == quote else quote
        elif word in _QUOTES and index not in prose:
            quote = word
        else:
            depth += (word in "([") - (word in ")]")
        before = word
    return True


def _triple_quotes(elements: list["Element"]) -> frozenset[int]:
    """Which of the elements belong to triple quotes: what they enclose is read as prose."""
    found: set[int] = set()
    for index in range(len(elements) - 2):
        run = elements[index : index + 3]
        same = {token for _, token in run}
        if len(same) == 1 and not same.isdisjoint(_QUOTES) and not run[1][0] and not run[2][0]:
            found.update((index, index + 1, index + 2))
    return frozenset(found)


def _canonical(text: str) -> str:
    """`text` with one space where blanks separate two words, and no other blanks."""
    return re.sub(r" (?=\W)|(?<=\W) ", "", " ".join(text.split()))


def _cuts_word(text: str, at: int) -> bool:
    return 0 < at < len(text) and _is_word(text[at - 1]) and _is_word(text[at])


def _is_word(char: str) -> bool:
    return char == "_" or char.isalnum()


def _place(words: list[Span], ends: list[int], count: int) -> int:
    """Where the character stands that `count` characters which are no blanks stand before."""
    index = bisect_right(ends, count)
    return words[index][1] - (ends[index] - count)


Element = tuple[str, str]
_QUOTES = frozenset("\"'`")
_OPERATORS = frozenset("+-*/%=<>!&|^~?:.")


def _elements(text: str) -> list[Element]:
    """The words and signs of `text`, each with the blanks before it."""
    found: list[Element] = []
    at = 0
    for token in re.finditer(_WORD_OR_SIGN, text):
        found.append((text[at : token.start()], token.group()))
        at = token.end()
    return found


def graft_tokens(text: str, span: Span, old: str, new: str) -> Edit | None:
    """The edit that makes the tokens of `span`, which are those of `old`, into `new`."""
    start, end = span
    if not new.strip():
        return _deletion(text, span, old) if not new else None
    lead, trail = old[: len(old) - len(old.lstrip())], old[len(old.rstrip()) :]
    before, after = new[: len(new) - len(new.lstrip())], new[len(new.rstrip()) :]
    if not (before.endswith(lead) and after.startswith(trail)):
        return None
    here, ours = _elements(text[start:end]), _elements(old.strip())
    map_ = Indentation(_indents(text, start, lead, ours, here), [*old.split("\n"), new], text)
    out: list[str] = []
    for gap, token, theirs in _paired(here, ours, _elements(new.strip())):
        if theirs is not None:
            out += (theirs, token)
            continue
        feed = gap.rfind("\n") + 1
        indent = map_.counterpart(gap[feed:]) if feed else ""
        if indent is None:
            return None
        out += (gap[:feed] + indent if feed else gap, token)
    out[0] = ""
    return Edit(start, end, before[: len(before) - len(lead)] + "".join(out) + after[len(trail) :])


def _paired(
    here: list[Element], old: list[Element], new: list[Element]
) -> list[tuple[str, str, str | None]]:
    """The new elements, each with the blanks of the file when it stands for an old one."""
    out: list[tuple[str, str, str | None]] = []
    for tag, i1, i2, j1, j2 in opcodes(old, new):
        for offset, (gap, token) in enumerate(new[j1:j2]):
            stays = tag == "equal" or (i2 - i1 == j2 - j1 and old[i1 + offset][0] == gap)
            out.append((gap, token, here[i1 + offset][0] if stays else None))
    return out


def _indents(
    text: str, start: int, lead: str, old: list[Element], here: list[Element]
) -> list[tuple[str, str]]:
    """The indentations of lines that begin with the same token in `old` and in the file."""
    pairs: list[tuple[str, str]] = []
    before = text[text.rfind("\n", 0, start) + 1 : start]
    if not before.strip() and (lead or not before):
        pairs.append((lead[lead.rfind("\n") + 1 :], before))
    for (ours, _), (theirs, _) in zip(old, here, strict=True):
        if "\n" in ours and "\n" in theirs:
            pairs.append((ours[ours.rfind("\n") + 1 :], theirs[theirs.rfind("\n") + 1 :]))
    return pairs


def _deletion(text: str, span: Span, old: str) -> Edit:
    """Takes the tokens away, and the line ends that `old` takes with them."""
    start, end = span
    line = text.rfind("\n", 0, start) + 1
    feed = text.find("\n", end)
    stop = len(text) if feed < 0 else feed
    alone = not text[line:start].strip() and not text[end:stop].strip()
    if alone and old[len(old.rstrip()) :].count("\n"):
        return Edit(line, min(stop + 1, len(text)), "")
    return Edit(line if alone and old[:1].isspace() else start, stop if alone else end, "")
