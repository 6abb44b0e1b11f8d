"""The syntax of source code as styles of lines. pygments is imported when it is needed."""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from alhena.frontends.terminal.drawing.lines import Line, Span

if TYPE_CHECKING:
    from pygments.lexer import Lexer

ROWS = 400
"""Rows of one text that are coloured; the others stay plain, so that a large one is fast."""
MAX_CHARACTERS = 40_000
LEXERS_KEPT = 64


def coloured(rows: Sequence[str], name: str) -> list[Line] | None:
    """Rows of a file of this name, with "" for text that is not coloured; None where the language
    is not known. The text is the same, character by character."""
    text = "\n".join(rows)
    lexer = _lexer(name) if len(text) <= MAX_CHARACTERS else None
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
