"""Finished blocks as bytes for a terminal. rich is imported when it is needed."""

from collections.abc import Iterable
from typing import assert_never

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.renderer import print_formatted_text
from prompt_toolkit.styles import BaseStyle, Style

from alhena.frontends.terminal.lines import Block, Line, Lines, Markdown, clipped, folded

STYLES = {
    "": "",
    "accent": "ansicyan",
    "added": "ansigreen",
    "bold": "bold",
    "chosen": "bold ansicyan",
    "dim": "ansibrightblack",
    "error": "ansired",
    "ok": "ansigreen",
    "removed": "ansired",
    "user": "bold",
    "warning": "ansiyellow",
}
"""Style -> colours by the sixteen names that every terminal's own theme defines."""


_NAMED = STYLES.keys() - {""}

Fragments = StyleAndTextTuples


def style() -> BaseStyle:
    """The theme as prompt_toolkit has it."""
    return Style([(name, look) for name, look in STYLES.items() if name])


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
        self._style = style()
        self.colour = output.get_default_color_depth() is not ColorDepth.DEPTH_1_BIT

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
                print_formatted_text(self._output, shown, self._style, color_depth=depth)
            case Markdown(text):
                self._output.write_raw(text.replace("\n", "\r\n"))
            case _:
                assert_never(block)

    def prepared(self, block: Block) -> Block:
        """A block ready to be written: Markdown as the terminal is to get it. Takes its time; any
        thread will do."""
        if not isinstance(block, Markdown):
            return block
        from alhena.frontends.terminal.markdown import rendered

        columns = self._output.get_size().columns
        return Markdown(rendered(block.text, columns, colour=self.colour))


def warm_up() -> None:
    """Imports what the first Markdown needs, so that it need not wait for it."""
    from importlib import import_module

    for name in ("alhena.frontends.terminal.markdown", "rich.syntax"):
        import_module(name)
