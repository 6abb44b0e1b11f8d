"""Whole outputs, diffs, prompts and thoughts of a session, and a pager for them."""

import asyncio
from collections.abc import Callable

from prompt_toolkit.application import Application
from prompt_toolkit.application.run_in_terminal import in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import is_searching
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.bindings.scroll import scroll_one_line_down, scroll_one_line_up
from prompt_toolkit.layout import (
    BufferControl,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.output import Output
from prompt_toolkit.search import start_search
from prompt_toolkit.styles import BaseStyle
from prompt_toolkit.widgets import SearchToolbar

from alhena.display_text import one_line
from alhena.frontends.terminal.dialogs.panel import Panel
from alhena.frontends.terminal.drawing.call_result import PagerBlocks
from alhena.frontends.terminal.drawing.lines import clip_line, line, plain, width

HINT = "q closes · / searches · Left, Right: other blocks"
SHORT_HINT = "q closes · ←/→"
MIN_TITLE = 20
"""Columns of a title for which the hint is shortened."""


class Pager:
    """Shows the blocks on a screen of its own, the newest first, until it is left."""

    def __init__(
        self, pages: PagerBlocks, terminal: tuple[Input, Output], style: BaseStyle
    ) -> None:
        source, output = terminal
        self._items = list(pages.items)
        self._at = len(self._items) - 1
        self._buffer = Buffer(read_only=True)
        search = SearchToolbar()
        self._control = BufferControl(self._buffer, search_buffer_control=search.control)
        body = Window(self._control, wrap_lines=True)
        head = Window(FormattedTextControl(self._head), height=1, style="reverse")
        self._app: Application[None] = Application(
            layout=Layout(HSplit([head, body, search]), focused_element=body),
            key_bindings=self._keys(),
            full_screen=True,
            style=style,
            include_default_pygments_style=False,
            input=source,
            output=output,
        )
        self._app.ttimeoutlen = 0.05
        self._show(0)

    async def run(self) -> None:
        """Draws until q or Esc."""
        await self._app.run_async(set_exception_handler=False, handle_sigint=False)

    def _head(self) -> str:
        columns = self._app.output.get_size().columns
        place = f"({self._at + 1} of {len(self._items)})"
        title = line(f" {one_line(self._items[self._at].title, 60)}")
        hint = f"  {place}  {HINT}"
        if columns - len(hint) < min(MIN_TITLE, width(plain([title]))):
            hint = f"  {place}  {SHORT_HINT}"
        return plain([clip_line(title, max(columns - len(hint), 1))]) + hint

    def _show(self, step: int) -> None:
        self._at = max(0, min(self._at + step, len(self._items) - 1))
        self._buffer.set_document(Document(self._items[self._at].whole, 0), bypass_readonly=True)

    def _keys(self) -> KeyBindings:
        buffer = self._buffer

        def page() -> int:
            return max(self._app.output.get_size().rows - 2, 1)

        def find(*, back: bool = False) -> None:
            state = self._app.current_search_state
            buffer.apply_search(~state if back else state, include_current_position=False)

        def bound(action: Callable[[], object]) -> Callable[[KeyPressEvent], None]:
            def act(_event: KeyPressEvent) -> None:
                action()

            return act

        actions: dict[str, Callable[[], object]] = {
            **dict.fromkeys(("q", "c-o"), self._close),
            "left": lambda: self._show(-1),
            "right": lambda: self._show(1),
            **dict.fromkeys(("g", "home"), lambda: setattr(buffer, "cursor_position", 0)),
            **dict.fromkeys(
                ("G", "end"), lambda: setattr(buffer, "cursor_position", len(buffer.text))
            ),
            **dict.fromkeys(("pagedown", " "), lambda: buffer.cursor_down(page())),
            "pageup": lambda: buffer.cursor_up(page()),
            "/": lambda: start_search(self._control),
            "n": find,
            "N": lambda: find(back=True),
        }
        keys = KeyBindings()
        for key, action in actions.items():
            keys.add(key, filter=~is_searching)(bound(action))
        down, up = scroll_one_line_down, scroll_one_line_up
        for key, scroll in {"down": down, "j": down, "up": up, "k": up}.items():
            keys.add(key, filter=~is_searching)(scroll)
        keys.add("escape", filter=~is_searching, eager=True)(bound(self._close))
        keys.add("c-c")(bound(self._close))
        return keys

    def _close(self) -> None:
        self._app.exit()


class PagerOpener:
    """Opens the pager in place of the prompt, and returns to it."""

    def __init__(
        self,
        panel: Panel,
        terminal: tuple[Input, Output],
        style: Callable[[], BaseStyle],
        warn: Callable[[str], None],
    ) -> None:
        self.pages: PagerBlocks | None = None
        self._panel = panel
        self._terminal = terminal
        self._style = style
        self._warn = warn
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Opens the newest block, if there is one."""
        if self._task is not None:
            return
        if self.pages is None or not self.pages.items:
            self._warn("Nothing to show yet.")
            return
        self._task = asyncio.ensure_future(self._run(self.pages))
        self._task.add_done_callback(self._return)

    async def _run(self, pages: PagerBlocks) -> None:
        self._panel.set_away(away=True)
        async with in_terminal():
            await Pager(pages, self._terminal, self._style()).run()

    def _return(self, task: "asyncio.Task[None]") -> None:
        self._task = None
        self._panel.set_away(away=False)
        if not task.cancelled():
            task.result()
