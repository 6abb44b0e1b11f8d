"""Finished blocks as bytes for a terminal. rich is imported when it is needed."""

import asyncio
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, assert_never, cast

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.renderer import print_formatted_text
from prompt_toolkit.styles import BaseStyle

from alhena.errors import ConfigError
from alhena.frontends.terminal.drawing.graphemes import split_signs
from alhena.frontends.terminal.drawing.lines import (
    Block,
    Line,
    Lines,
    Markdown,
    fit_lines,
)
from alhena.frontends.terminal.looks.attention import Attention
from alhena.frontends.terminal.looks.theme import (
    ANSI,
    ASK,
    BackgroundInput,
    Theme,
    custom_theme,
    is_light,
    says_light,
    theme_named,
    theme_of,
    unknown_theme,
)
from alhena.system.workspace import current_directory

if TYPE_CHECKING:
    from alhena.config.settings import Settings
    from alhena.frontends.terminal.drawing.markdown import Links

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
        for name, text in each:
            found += split_signs(f"class:{name}" if name in _NAMED else name, text)
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
        if name.endswith(".json"):
            more = self._theme_of_file(name) or more
        found = theme_named(name, more)
        self._printer.use(found or theme_of("", light=light))
        self._printer.full_width = settings.ui.use_full_width
        self._printer.links = links_of(os.environ, settings.ui.hyperlinks)
        if name and (unknown := unknown_theme(name, more)) is not None:
            cause, remedy = unknown
            meant = f" {remedy}" if remedy.endswith("?") else ""
            self._warn(f"{cause}{meant} /theme lists them.")
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

    def _theme_of_file(self, name: str) -> dict[str, Theme]:
        """The theme that a file has, as `ui.customThemes` has it; a wrong one is named."""
        from alhena.config.documents import parse_settings, read_limited

        path = Path(name).expanduser()
        try:
            return {name: custom_theme(parse_settings(path, read_limited(path)))}
        except (OSError, ValueError, AttributeError, ConfigError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            self._warn(f"ui.theme: the file {name} cannot be used: {reason.removesuffix('.')}.")
            return {}

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
        self.links: Links = "none"
        self._theme = ANSI
        self.style: BaseStyle = ANSI.style()
        self._plain = output.get_default_color_depth() is ColorDepth.DEPTH_1_BIT

    @property
    def _colour(self) -> bool:
        return self._theme.colour and not self._plain

    @property
    def depth(self) -> ColorDepth:
        """The colours that are used: those of the terminal, or none."""
        return self._output.get_default_color_depth() if self._colour else ColorDepth.DEPTH_1_BIT

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
            case Lines():
                lines = fit_lines(block, self._output.get_size().columns)
                shown: Fragments = [*fragments(lines), ("", "\n")]
                print_formatted_text(self._output, shown, self.style, color_depth=self.depth)
            case Markdown(text):
                self._output.write_raw(text.replace("\n", "\r\n"))
            case _:
                assert_never(block)

    def prepare(self, block: Block) -> Block:
        """A block ready to be written: Markdown as the terminal is to get it. Takes its time; any
        thread will do."""
        if not isinstance(block, Markdown):
            return block
        columns = self._output.get_size().columns
        return Markdown(self.render(block.text, columns, links=self.links))

    def render(self, text: str, columns: int, *, links: "Links" = "none") -> str:
        """A piece of Markdown in the theme's colours; any thread will do."""
        from alhena.frontends.terminal.drawing.markdown import render_markdown

        columns = columns if self.full_width else min(columns, NARROW)
        depths = {ColorDepth.DEPTH_24_BIT: "truecolor", ColorDepth.DEPTH_8_BIT: "256"}
        depth = depths.get(self._output.get_default_color_depth(), "standard")
        return render_markdown(
            text,
            columns,
            colour=self._colour,
            looks=self._theme.looks,
            depth=cast('Literal["standard", "256", "truecolor"]', depth),
            links=links,
        )


_LINKING_PROGRAMS = frozenset(
    ("iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "rio", "Tabby", "mintty", "zed")
)
"""Values of TERM_PROGRAM of terminals that open links."""
_LINKING_TERMS = re.compile(r"(?:xterm-)?(?:kitty|ghostty|wezterm|alacritty|foot|contour)\b")
_LINKING_VARIABLES = ("WT_SESSION", "KITTY_WINDOW_ID", "KONSOLE_VERSION", "DOMTERM")
VTE_WITH_LINKS = 5_000


def links_of(environ: Mapping[str, str], wanted: bool | None) -> "Links":
    """The way addresses are shown: as links of terminals that are known to open them, else beside
    their words, too; only there where such a sequence may be written out. `wanted`: it is known
    that the terminal opens links, or that it does not."""
    term, version = environ.get("TERM", ""), environ.get("VTE_VERSION", "")
    if wanted is False or term.startswith(("dumb", "linux", "screen")) or not term:
        return "none"
    known = (
        wanted
        or environ.get("TERM_PROGRAM") in _LINKING_PROGRAMS
        or _LINKING_TERMS.match(term) is not None
        or any(environ.get(name) for name in _LINKING_VARIABLES)
        or (version.isdecimal() and int(version) >= VTE_WITH_LINKS)
    )
    if wanted or (known and "TMUX" not in environ):
        return "alone"
    return "beside" if term.startswith(("xterm", "tmux")) else "none"


def warm_up() -> None:
    """Imports what the first Markdown needs, so that it need not wait for it."""
    from importlib import import_module

    for name in ("alhena.frontends.terminal.drawing.markdown", "rich.syntax"):
        import_module(name)
