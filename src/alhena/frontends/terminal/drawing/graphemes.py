"""Flags and joined emoji, which prompt_toolkit would draw and measure character by character."""

from collections.abc import Iterator

from prompt_toolkit import utils
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput

from alhena.frontends.terminal.drawing.lines import signs, width

_KEPT = 64
"""Characters of the longest text whose width is remembered."""


class Sign(str):
    """Several characters that are drawn as one: a window puts them into one cell."""

    __slots__ = ()

    def __iter__(self) -> Iterator[str]:
        return iter((self,))

    def split(self, *_: object, **__: object) -> list[str]:
        """The whole, which contains no separator."""
        return [self]


class _Widths(dict[str, int]):
    """The widths of texts in columns, by their signs."""

    def __missing__(self, text: str) -> int:
        found = width(str(text))
        if len(text) <= _KEPT:
            self[text] = found
        return found


def measure_by_sign() -> None:
    """Has prompt_toolkit measure texts by what a terminal draws as one sign."""
    utils.__dict__["_CHAR_SIZES_CACHE"] = _Widths()


def split_signs(style: str, text: str) -> Iterator[tuple[str, str]]:
    """A fragment of formatted text in pieces, so that each sign of several characters is a
    `Sign`."""
    pieces = signs(text)
    if pieces is text:
        yield style, text
    else:
        yield from ((style, Sign(each) if len(each) > 1 else each) for each in pieces)


class JoinSigns(Processor):
    """Draws flags and joined emoji of an input line as one sign. The last of its processors, which
    count characters."""

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        """As `Processor`."""
        given = transformation_input.fragments
        text = "".join(text for _, text, *_ in given)
        pieces = signs(text)
        if pieces is text:
            return Transformation(given)
        styles = [style for style, part, *_ in given for _ in part]
        starts: list[int] = []
        ends: list[int] = []
        styled: StyleAndTextTuples = []
        for each in pieces:
            ends.append(len(starts))
            starts += [len(styled)] * len(each)
            styled.append((styles[ends[-1]], Sign(each) if len(each) > 1 else each))
        more = len(starts) - len(styled)
        return Transformation(
            styled,
            lambda column: starts[column] if column < len(starts) else column - more,
            lambda column: ends[column] if column < len(ends) else column + more,
        )
