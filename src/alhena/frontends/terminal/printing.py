"""Finished blocks as bytes for a terminal. rich is imported with the first Markdown."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, assert_never

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.renderer import print_formatted_text
from prompt_toolkit.styles import BaseStyle, Style

from alhena.frontends.terminal.lines import Block, Line, Lines, Markdown, clipped
from alhena.frontends.terminal.theme import STYLES

if TYPE_CHECKING:
    from rich.console import Console

Fragments = StyleAndTextTuples
_BLANK = re.compile(r"(?:\x1b\[[\d;]*m|\s)*")


def style() -> BaseStyle:
    """The theme as prompt_toolkit has it."""
    return Style([(name, look) for name, look in STYLES.items() if name])


def fragments(lines: Iterable[Line]) -> Fragments:
    """Lines as prompt_toolkit's formatted text, with line breaks between them."""
    found: Fragments = []
    for index, each in enumerate(lines):
        if index:
            found.append(("", "\n"))
        found += ((f"class:{name}" if name else "", text) for name, text in each)
    return found


class Printer:
    """Writes blocks where the cursor is; it must stand at the beginning of a line."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._style = style()
        self._colour = output.get_default_color_depth() is not ColorDepth.DEPTH_1_BIT

    def write(self, block: Block) -> None:
        """Writes a block that was `prepared`, line end included."""
        match block:
            case Lines(lines, clip):
                if clip:
                    columns = self._output.get_size().columns
                    lines = tuple(clipped(each, columns) for each in lines)
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
        console = self._console()
        with console.capture() as capture:
            console.print(_markdown(block.text))
        rows = [row.rstrip() for row in capture.get().split("\n")]
        drawn = [index for index, row in enumerate(rows) if not _BLANK.fullmatch(row)]
        # Without the blank rows that some elements put around themselves.
        return Markdown("\n".join([*rows[drawn[0] : drawn[-1] + 1], ""] if drawn else []))

    def _console(self) -> "Console":
        from io import StringIO

        from rich.console import Console
        from rich.theme import Theme

        return Console(
            file=StringIO(),
            force_terminal=True,
            no_color=not self._colour,
            color_system="standard" if self._colour else None,
            theme=Theme({"markdown.code": "cyan", "markdown.hr": "dim"}),
            width=max(self._output.get_size().columns, 10),
            legacy_windows=False,
        )


def warm_up() -> None:
    """Imports what the first Markdown needs, so that it need not wait for it."""
    from importlib import import_module

    for name in ("rich.console", "rich.markdown", "rich.syntax"):
        import_module(name)


def _markdown(text: str) -> object:
    from rich.markdown import Markdown as RichMarkdown

    return RichMarkdown(text, code_theme="ansi_dark", hyperlinks=False)
