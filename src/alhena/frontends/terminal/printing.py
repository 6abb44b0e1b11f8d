"""Finished blocks as bytes for a terminal. rich is imported when it is needed."""

from collections.abc import Iterable
from typing import assert_never

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.renderer import print_formatted_text
from prompt_toolkit.styles import BaseStyle

from alhena.frontends.terminal.lines import Block, Line, Lines, Markdown, clipped, folded
from alhena.frontends.terminal.looks.theme import ANSI, Theme

_NAMED = ANSI.looks.keys() - {""}

Fragments = StyleAndTextTuples


def fragments(lines: Iterable[Line]) -> Fragments:
    """Lines as prompt_toolkit's formatted text, with line breaks between them. A style that is no
    name is one of prompt_toolkit's own."""
    found: Fragments = []
    for index, each in enumerate(lines):
        if index:
            found.append(("", "\n"))
        found += ((f"class:{name}" if name in _NAMED else name, text) for name, text in each)
    return found


class Printer:
    """Writes blocks where the cursor is; it must stand at the beginning of a line."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._theme = ANSI
        self.style: BaseStyle = ANSI.style()
        self._plain = output.get_default_color_depth() is ColorDepth.DEPTH_1_BIT

    @property
    def _colour(self) -> bool:
        return self._theme.colour and not self._plain

    def use(self, theme: Theme) -> None:
        """Uses the colours of a theme from now on."""
        self._theme, self.style = theme, theme.style()

    def write(self, block: Block) -> None:
        """Writes a block that was `prepared`, line end included."""
        match block:
            case Lines(lines, clip, fold):
                columns = self._output.get_size().columns
                if clip:
                    lines = tuple(clipped(each, columns) for each in lines)
                elif fold:
                    lines = tuple(row for each in lines for row in folded(each, columns))
                shown: Fragments = [*fragments(lines), ("", "\n")]
                depth = self._output.get_default_color_depth()
                print_formatted_text(self._output, shown, self.style, color_depth=depth)
            case Markdown(text):
                self._output.write_raw(text.replace("\n", "\r\n"))
            case _:
                assert_never(block)

    def prepared(self, block: Block) -> Block:
        """A block ready to be written: Markdown as the terminal is to get it. Takes its time; any
        thread will do."""
        if not isinstance(block, Markdown):
            return block
        return Markdown(self.rendered(block.text, self._output.get_size().columns))

    def rendered(self, text: str, columns: int) -> str:
        """A piece of Markdown in the theme's colours; any thread will do."""
        from alhena.frontends.terminal.markdown import rendered

        return rendered(text, columns, colour=self._colour, light=self._theme.light)


def warm_up() -> None:
    """Imports what the first Markdown needs, so that it need not wait for it."""
    from importlib import import_module

    for name in ("alhena.frontends.terminal.markdown", "rich.syntax"):
        import_module(name)
