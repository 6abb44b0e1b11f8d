"""Finished blocks as bytes for a terminal. rich is imported when it is needed."""

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, assert_never, cast

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.renderer import print_formatted_text
from prompt_toolkit.styles import BaseStyle

from alhena.frontends.terminal.drawing.lines import (
    Block,
    Line,
    Lines,
    Markdown,
    clip_line,
    fold_line,
)
from alhena.frontends.terminal.looks.attention import Attention
from alhena.frontends.terminal.looks.theme import (
    ANSI,
    ASK,
    THEMES,
    BackgroundInput,
    Theme,
    custom_theme,
    is_light,
    says_light,
    theme_named,
    theme_of,
)
from alhena.system.workspace import current_directory

if TYPE_CHECKING:
    from alhena.config.settings import Settings

NARROW = 100
"""Columns of an answer without `ui.useFullWidth`."""
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


class Looks:
    """The looks of a screen by its settings: its theme, its window's title, notifications."""

    def __init__(
        self,
        input: Input,
        printer: "Printer",
        warn: Callable[[str], None],
        changed: Callable[[], None],
    ) -> None:
        self._input = input
        self._printer = printer
        self._warn = warn
        self._changed = changed
        loop = asyncio.get_running_loop()
        self.attention = Attention(printer.control, loop, os.environ, current_directory())

    def adopt(self, settings: "Settings") -> None:
        """Follows these settings; without a theme the terminal is asked for its background."""
        name, switching = settings.ui.theme or "", settings.ui.auto_theme_switching
        light = switching and says_light(os.environ)
        more = self._custom_themes(settings.ui.custom_themes) if name else {}
        found = theme_named(name, more)
        self._printer.use(found or theme_of("", light=light))
        self._printer.full_width = settings.ui.use_full_width
        if name and found is None:
            themes = ", ".join((*THEMES, *more))
            self._warn(f"ui.theme: no theme {name}. Themes: {themes}.")
        elif not name and switching and isinstance(self._input, BackgroundInput):
            self._input.heard = self._heard_background
            self._printer.control(ASK)
        self.attention.adopt(settings)

    def _custom_themes(self, written: Mapping[str, Any]) -> dict[str, Theme]:
        """The themes of the settings and of extensions; a wrong one is named."""
        found: dict[str, Theme] = {}
        for name, each in written.items():
            try:
                found[name] = custom_theme(each)
            except (ValueError, AttributeError) as error:
                self._warn(f"ui.customThemes.{name} cannot be used: {error}.")
        return found

    def _heard_background(self, colour: str) -> None:
        light = is_light(colour)
        if light is not None:
            self._printer.use(theme_of("", light=light))
            self._changed()


class Printer:
    """Writes blocks where the cursor is; it must stand at the beginning of a line."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self.full_width = True
        self._theme = ANSI
        self.style: BaseStyle = ANSI.style()
        self._plain = output.get_default_color_depth() is ColorDepth.DEPTH_1_BIT

    @property
    def _colour(self) -> bool:
        return self._theme.colour and not self._plain

    def control(self, sequence: str) -> None:
        """Sends a control sequence that moves nothing."""
        self._output.write_raw(sequence)
        self._output.flush()

    def use(self, theme: Theme) -> None:
        """Uses the colours of a theme from now on."""
        self._theme, self.style = theme, theme.style()

    def write(self, block: Block) -> None:
        """Writes a block that was `prepared`, line end included."""
        match block:
            case Lines(lines, clip, fold):
                columns = self._output.get_size().columns
                if clip:
                    lines = tuple(clip_line(each, columns) for each in lines)
                elif fold:
                    lines = tuple(row for each in lines for row in fold_line(each, columns))
                shown: Fragments = [*fragments(lines), ("", "\n")]
                depth = self._output.get_default_color_depth()
                print_formatted_text(self._output, shown, self.style, color_depth=depth)
            case Markdown(text):
                self._output.write_raw(text.replace("\n", "\r\n"))
            case _:
                assert_never(block)

    def prepare(self, block: Block) -> Block:
        """A block ready to be written: Markdown as the terminal is to get it. Takes its time; any
        thread will do."""
        if not isinstance(block, Markdown):
            return block
        return Markdown(self.render(block.text, self._output.get_size().columns))

    def render(self, text: str, columns: int) -> str:
        """A piece of Markdown in the theme's colours; any thread will do."""
        from alhena.frontends.terminal.drawing.markdown import render_markdown

        columns = columns if self.full_width else min(columns, NARROW)
        depths = {ColorDepth.DEPTH_24_BIT: "truecolor", ColorDepth.DEPTH_8_BIT: "256"}
        depth = depths.get(self._output.get_default_color_depth(), "standard")
        return render_markdown(
            text,
            columns,
            colour=self._colour,
            light=self._theme.light,
            looks=self._theme.looks,
            depth=cast('Literal["standard", "256", "truecolor"]', depth),
        )


def warm_up() -> None:
    """Imports what the first Markdown needs, so that it need not wait for it."""
    from importlib import import_module

    for name in ("alhena.frontends.terminal.drawing.markdown", "rich.syntax"):
        import_module(name)
