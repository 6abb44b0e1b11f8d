"""A diff in lines, with the colours of its language and changed words marked."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from alhena.display_text import exact
from alhena.frontends.terminal.drawing.lines import TAB, Line, Span

if TYPE_CHECKING:
    from pygments.lexer import Lexer

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_FILE = ("Index: ", "=====")
_PIECE = re.compile(r"\w+|\s+|.")
_SIDES = {"removed": "r", "added": "a"}
MARKED_ROWS, MARKED_PIECES = 20, 200
"""Rows one after the other, and pieces of a row, up to which changed words are marked."""
ALIKE = 0.5
"""Least similarity of two rows whose changed words are marked."""


def diff_lines(diff: str, name: str = "") -> list[Line]:
    """The lines of a diff of one file, with the syntax of a file of this name: number in the new
    file, of a removed line in the old one, sign, text. File headers are left out; what cannot be
    seen in a line is escaped, padding is counted."""
    lines: list[Line] = []
    number: int | None = None
    old = 0
    for raw in diff.rstrip("\n").split("\n"):
        hunk = _HUNK.match(raw)
        if hunk:
            if number is not None:
                lines.append((("dim", "     ⋮"),))
            old, number = int(hunk[1]), int(hunk[2])
        elif number is not None:
            sign, text = raw[:1] or " ", exact(raw[1:]).expandtabs(TAB)
            style = {"+": "added", "-": "removed", "\\": "dim"}.get(sign, "")
            shown = {"\\": "", "-": str(old)}.get(sign, str(number))
            lines.append((("dim", f"{shown:>6} "), (style, f"{sign} {text}")))
            old += sign not in "+\\"
            number += sign not in "-\\"
        elif not raw.startswith(_FILE) and not raw.startswith(("--- ", "+++ ")):
            lines.append((("", exact(raw).expandtabs(TAB)),))
    return _with_syntax(_with_changed_words(lines), name)


def _with_syntax(lines: list[Line], name: str) -> list[Line]:
    """Colours the new text, each stretch of it by itself; rows with marked words keep their
    marks."""
    if not name:
        return lines

    found, stretch = list(lines), list[int]()
    for at, each in enumerate([*lines[:ROWS], ()]):
        if len(each) > 1 and each[-1][0] in ("", "added", "added-word"):
            stretch.append(at)
        elif stretch and not (len(each) > 1 and each[-1][0].startswith("removed")):
            texts = ["".join(text for _, text in lines[row][1:]) for row in stretch]
            shown = colour_rows([text[2:] for text in texts], name)
            for row, text, spans in zip(stretch, texts, shown or (), strict=bool(shown)):
                if len(lines[row]) == 2:
                    style = lines[row][1][0]
                    new = ((kind or style, part) for kind, part in spans)
                    found[row] = (lines[row][0], (style, text[:2]), *new)
            stretch = []
    return found


def _with_changed_words(lines: list[Line]) -> list[Line]:
    """Marks what differs where as many lines were added as removed right before them."""
    found = list(lines)
    for styles in re.finditer("(r+)(a+)", "".join(_SIDES.get(each[-1][0], " ") for each in lines)):
        removed, added = range(*styles.span(1)), range(*styles.span(2))
        if len(removed) == len(added) <= MARKED_ROWS:
            for old, new in zip(removed, added, strict=True):
                found[old], found[new] = _mark_changed_words(found[old], found[new])
    return found


def _mark_changed_words(old: Line, new: Line) -> tuple[Line, Line]:
    before, after = (_PIECE.findall(each[-1][1][2:]) for each in (old, new))
    if max(len(before), len(after)) > MARKED_PIECES:
        return old, new
    from difflib import SequenceMatcher

    matcher = SequenceMatcher(None, before, after, autojunk=False)
    if matcher.ratio() < ALIKE:
        return old, new
    spans: tuple[list[Span], list[Span]] = ([("removed", "- ")], [("added", "+ ")])
    for kind, *bounds in matcher.get_opcodes():
        word = "" if kind == "equal" else "-word"
        for side, words, (start, end) in zip(
            spans, (before, after), (bounds[:2], bounds[2:]), strict=True
        ):
            if start < end:
                side.append((f"{side[0][0]}{word}", "".join(words[start:end])))
    return (*old[:-1], *spans[0]), (*new[:-1], *spans[1])


ROWS = 400
"""Rows of one text that are coloured; the others stay plain, so that a large one is fast."""
MAX_COLOURED = 40_000
LEXERS_KEPT = 64


def colour_rows(rows: Sequence[str], name: str) -> list[Line] | None:
    """Rows of a file of this name, with "" for text that is not coloured; None where the language
    is not known. The text is the same, character by character."""
    text = "\n".join(rows)
    lexer = _lexer(name) if len(text) <= MAX_COLOURED else None
    if lexer is None:
        return None
    lines: list[Line] = []
    row: list[Span] = []
    for kind, piece in _pieces(lexer, text):
        for number, part in enumerate(piece.split("\n")):
            if number:
                lines.append(tuple(row))
                row = []
            if part:
                row.append((kind, part))
    lines.append(tuple(row))
    whole = ["".join(part for _, part in each) for each in lines]
    return lines if whole == list(rows) else None


def _pieces(lexer: "Lexer", text: str) -> Iterator[Span]:
    from pygments.token import Comment, Keyword, Number, String

    styles = ((Comment, "comment"), (Keyword, "keyword"), (String, "string"), (Number, "number"))
    for kind, piece in lexer.get_tokens(text):
        yield next((style for known, style in styles if kind in known), ""), piece


@lru_cache(maxsize=LEXERS_KEPT)
def _lexer(name: str) -> "Lexer | None":
    """The lexer for files of a name; None for an unknown one. Plugins are slow, so not used."""
    from fnmatch import fnmatchcase

    from pygments import lexers

    for _, aliases, patterns, _ in lexers.get_all_lexers(plugins=False):
        if aliases and any(fnmatchcase(name, each) for each in patterns):
            make = cast("Callable[..., Lexer]", lexers.find_lexer_class_by_name(aliases[0]))
            return make(stripnl=False, ensurenl=False)
    return None
