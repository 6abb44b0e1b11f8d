"""Verifies that a correction makes the requested change.

A model that corrects an edit has read the file, which may contain injected instructions. So its
answer is compared with the failed edit: the place has to resemble the old text, be about as long,
and be the most similar one; the words removed, added and moved have to be those of the edit. Only
names and signs in which the place differs from the old text may differ in the new text too.
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from alhena.tools.edit.splicing import Span, opcodes
from alhena.tools.edit.whitespace import Pair, aligned, indent_of

_LIKE = 0.6
"""Minimum share of the words and signs of the shorter text that occur in the other, in order."""
_WORDS_LIKE = 1 / 3
"""The same for words alone: signs are alike everywhere."""
_LONGER, _SPARE = 2, 60
"""Maximum length of the place as a multiple of the old text's, plus a number of characters."""
_SHORTER = 3
_CLOSER = 0.1
_INSIDE = 6
"""Maximum number of removed words and signs that the old text may lack."""

_EAST_ASIAN = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_TOKEN = re.compile(rf"\n|[{_EAST_ASIAN}]|[^\W{_EAST_ASIAN}]+|[^\w\s]")
_PART = re.compile(
    rf"[{_EAST_ASIAN}]|[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|[^\W\d_a-zA-Z{_EAST_ASIAN}]+"
)
_ESCAPE = re.compile(r"\\([ntr\\\"'`$])")
_ALIKE = str.maketrans("'`", '""')
_MEANT = {"n": "\n", "t": "\t", "r": "\r"}


class Change(NamedTuple):
    """An edit as two texts with LF line ends."""

    old: str
    new: str


def refusal(text: str, span: Span, asked: Change, corrected: Change) -> str | None:
    """The reason why a correction, with its old text at `span` of `text`, does not make the
    requested change; None when it does."""
    readings = _readings(asked, corrected.old)
    problem = _place_problem(text, span, [change.old for change in readings], corrected)
    if problem is not None:
        return problem
    line = text.rfind("\n", 0, span[0]) + 1
    before = text[line : span[0]]
    problems = [
        _change_problem(change, corrected) or _blanks_problem(change, corrected, before)
        for change in readings
    ]
    return None if None in problems else problems[0]


def _readings(asked: Change, here: str) -> list[Change]:
    """The edit as given and, if its old text was escaped once too often, with both texts or the old
    text alone unescaped."""
    old, new = _unescaped(asked.old), _unescaped(asked.new)
    if _likeness(old, here) <= _likeness(asked.old, here):
        return [asked]
    return [asked, Change(old, new), Change(old, asked.new)]


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: _MEANT.get(found[1], found[1]), text)


def _tokens(text: str) -> list[str]:
    """Words, signs, and one line feed for each run of line feeds between them."""
    found: list[str] = []
    for piece in _TOKEN.findall(text.strip()):
        if piece != "\n" or found[-1] != "\n":
            found.append(piece)
    return found


def _common(a: list[str], b: list[str]) -> int:
    """Length of the longest common subsequence; each row is one integer."""
    places: dict[str, int] = {}
    for index, token in enumerate(a):
        places[token] = places.get(token, 0) | 1 << index
    full = (1 << len(a)) - 1
    row = full
    for token in b:
        here = row & places.get(token, 0)
        row = ((row + here) | (row - here)) & full
    return len(a) - row.bit_count()


def _place_problem(text: str, span: Span, olds: list[str], corrected: Change) -> str | None:
    """The reason why the place does not match the old text."""
    given = max(len("".join(old.split())) for old in olds)
    cores = [corrected.old, _without_context(corrected)]
    sizes = [len("".join(core.split())) for core in cores]
    if min(sizes) > _LONGER * given + _SPARE:
        return "its old text is much longer than the one given"
    if _SHORTER * max(sizes) < given:
        return "its old text is much shorter than the one given"
    fitting = [core for core, size in zip(cores, sizes, strict=True)
               if size <= _LONGER * given + _SPARE]  # fmt: skip
    if not any(_is_like(old, core) for old in olds for core in fitting):
        return "its old text is not like the one given"
    return _closer_place(text, span, olds[0], fitting)


def _without_context(corrected: Change) -> str:
    """The old text without the leading and trailing lines it shares with the new text."""
    old, new = corrected.old.split("\n"), corrected.new.split("\n")
    most = min(len(old), len(new)) - 1
    head = tail = 0
    while head < most and old[head] == new[head]:
        head += 1
    while tail < most - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return "\n".join(old[head : len(old) - tail])


def _is_like(old: str, here: str) -> bool:
    a, b = _tokens(old.translate(_ALIKE)), _tokens(here.translate(_ALIKE))
    if _common(a, b) < _LIKE * min(len(a), len(b)) or not a or not b:
        return False
    words, there = _parts(a), _parts(b)
    return _common(words, there) >= _WORDS_LIKE * min(len(words), len(there))


def _parts(tokens: list[str]) -> list[str]:
    """The parts of names, in lower case."""
    return [part.lower() for token in tokens for part in _PART.findall(token)]


def _closer_place(text: str, span: Span, old: str, cores: list[str]) -> str | None:
    from alhena.tools.edit.nearest import nearest_line

    line = nearest_line(text, old)
    if line is None:
        return None
    first, last = (text.count("\n", 0, at) for at in span)
    count = old.strip("\n").count("\n") + 1
    if line <= last and first < line + count:
        return None
    there = "\n".join(text.split("\n")[line : line + count])
    if _likeness(old, there) > max(_likeness(old, core) for core in cores) + _CLOSER:
        return f"line {line + 1} is more like the old text given than its place"
    return None


def _likeness(old: str, here: str) -> float:
    a, b = _tokens(old.translate(_ALIKE)), _tokens(here.translate(_ALIKE))
    return 2 * _common(a, b) / max(len(a) + len(b), 1)


class _Alignment:
    """Correspondence between the words and signs of a place and those of an old text.

    `theirs` maps a position of the old text to the tokens of the place; `inside` maps a range of
    the old text to the tokens that the place has there, which are removed only with the whole
    range; `renamed` maps a word or sign to the one that the place always has instead.
    """

    def __init__(self, old: list[str], here: list[str]) -> None:
        self.theirs: dict[int, str] = {}
        self.inside: list[tuple[int, int, list[str]]] = []
        seen: dict[str, set[str]] = {}
        for tag, i1, i2, j1, j2 in opcodes(old, here):
            pairs = list(zip(old[i1:i2], here[j1:j2], strict=False))
            if tag == "equal" or (i2 - i1 == j2 - j1 and all(_of_one_sort(*two) for two in pairs)):
                for index, (ours, other) in enumerate(pairs, start=i1):
                    self.theirs[index] = other
                    seen.setdefault(ours, set()).add(other)
            elif tag == "replace" and j2 - j1 <= 2 * (i2 - i1) + 2:
                self.inside.append((i1, i2, here[j1:j2]))
            elif tag == "insert" and j2 - j1 <= _INSIDE and not _holds_line(here[j1:j2]):
                self.inside.append((i1 - 1, i1 + 1, here[j1:j2]))
        self.renamed = {ours: other for ours, others in seen.items()
                        if len(others) == 1 and (other := next(iter(others))) != ours}  # fmt: skip

    def named(self, tokens: list[str]) -> list[str]:
        """Renames `tokens` to the names of the place."""
        return [self.renamed.get(token, token) for token in tokens]


def _of_one_sort(a: str, b: str) -> bool:
    return "\n" not in {a, b} and _is_word(a) == _is_word(b)


def _is_word(token: str) -> bool:
    return token[0] == "_" or token[0].isalnum()


def _holds_line(tokens: list[str]) -> bool:
    """True when the tokens include words and a line end, so that they may be a whole line."""
    return "\n" in tokens and any(map(_is_word, tokens))


def _change_problem(asked: Change, corrected: Change) -> str | None:
    """The reason why the correction removes, adds or moves other text than the edit."""
    old, new = _tokens(asked.old), _tokens(asked.new)
    here, then = _tokens(corrected.old), _tokens(corrected.new)
    alignment = _Alignment(old, here)
    changes = opcodes(old, new)
    gone: set[int] = set()
    added: list[str] = []
    for tag, i1, i2, j1, j2 in changes:
        if tag != "equal":
            gone.update(range(i1, i2))
            added += new[j1:j2]
    taken = [alignment.theirs[index] for index in sorted(gone) if index in alignment.theirs]
    loose = [token for start, stop, tokens in alignment.inside
             if gone.issuperset(range(start, stop)) for token in tokens]  # fmt: skip
    problems: list[str | None] = []
    for named in (alignment.named, list[str]):
        expected = Counter(here) - Counter(taken) + Counter(named(added))
        goal = [
            token
            for tag, _, _, j1, j2 in changes
            for token in (alignment.named if tag == "equal" else named)(new[j1:j2])
        ]
        problems.append(
            _difference(expected, Counter(then), Counter(loose), Counter(here))
            or _moved(here, then, len(taken) + len(loose))
            or _elsewhere(alignment.named(old), goal, here, then)
        )
    return None if None in problems else problems[0]


def _difference(
    expected: Counter[str], then: Counter[str], loose: Counter[str], here: Counter[str]
) -> str | None:
    surplus = then - expected
    if surplus:
        return f"it adds {_named(surplus)}, which the edit does not"
    missing = expected - then - loose
    if not missing:
        return None
    lost = missing & (here - then)
    if lost:
        return f"it takes away {_named(lost)}, which the edit does not"
    return f"it leaves out {_named(missing)}, which the edit puts in"


def _named(tokens: Counter[str]) -> str:
    """Lists up to three kinds of tokens for people, words first."""
    kinds = sorted(tokens, key=lambda token: not _is_word(token))[:3]
    shown = [token if len(token) <= 40 else token[:40] + "\u2026" for token in kinds]
    return ", ".join(map(repr, shown)) + (" and more" if len(tokens) > 3 else "")


def _moved(here: list[str], then: list[str], most: int) -> str | None:
    if len(here) - _common(here, then) <= most:
        return None
    return "it moves text that the edit leaves where it is"


def _elsewhere(old: list[str], new: list[str], here: list[str], then: list[str]) -> str | None:
    """True when the correction puts new text between other words than the edit does.

    The two new texts must not differ more than the two old texts.
    """
    before, after = _common(old, here), _common(new, then)
    if len(new) - after <= len(old) - before and len(then) - after <= len(here) - before:
        return None
    return "it makes the change in another place than the edit"


def _blanks_problem(asked: Change, corrected: Change, before: str) -> str | None:
    """The reason why lines are joined, indented or spaced differently; `before` is the text left of
    the place."""
    if not corrected.new.strip():
        return None
    ends = [text.endswith("\n") for text in (*asked, *corrected)]
    if ends[0] == ends[1] and ends[2] != ends[3]:
        return "its new text ends in another way than its old text"
    leads = [text[: len(text) - len(text.lstrip())] for text in (*asked, *corrected)]
    if leads[0] == leads[1] and leads[2] != leads[3]:
        return "its new text begins with other blanks than its old text"
    if not before.strip():
        corrected = Change(before + corrected.old, before + corrected.new)
    extra = max(corrected.old.count("\n") - asked.old.count("\n"), 0)
    asked_for, made = _respaced(asked), _respaced(corrected)
    if made and made > asked_for + (extra if asked_for else 0):
        return "it changes the blanks of lines that the edit leaves as they are"
    if not aligned(_indents(asked.new, corrected.new)) and aligned(
        _indents(asked.old, corrected.old)
    ):
        return "it indents lines otherwise than the edit"
    return None


def _respaced(change: Change) -> int:
    """Number of lines that keep their words but change their blanks or indentation."""
    return sum(
        line.rstrip() != then.rstrip() if same else indent_of(line) != indent_of(then)
        for line, then, same in _paired(*change)
    )


def _indents(a: str, b: str) -> list[Pair]:
    """Indentations of corresponding lines."""
    return [(indent_of(line), indent_of(other)) for line, other, _ in _paired(a, b)]


def _paired(a: str, b: str) -> Iterator[tuple[str, str, bool]]:
    """Pairs of corresponding non-blank lines, with True if they are equal or as many lines lie
    between others that are."""
    lines, there = a.split("\n"), b.split("\n")
    for tag, i1, i2, j1, j2 in opcodes(_squeezed(lines), _squeezed(there)):
        if i2 - i1 == j2 - j1:
            for line, other in zip(lines[i1:i2], there[j1:j2], strict=True):
                if line.strip() and other.strip():
                    yield line, other, tag == "equal"


def _squeezed(lines: list[str]) -> list[str]:
    return ["".join(line.split()) for line in lines]
