"""The screen of a capable terminal: a prompt at the bottom that prompt_toolkit draws, and finished
blocks above it in the terminal's own scrollback."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from contextvars import Context
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.application.run_in_terminal import in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer, ThreadedCompleter
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import History
from prompt_toolkit.input import Input
from prompt_toolkit.layout import Window
from prompt_toolkit.output import Output

from alhena.display_text import one_line
from alhena.frontends.terminal.keys import answer_keys, input_keys, menu_keys
from alhena.frontends.terminal.layout import Texts, placed
from alhena.frontends.terminal.lines import Block, Line, Lines, Markdown, clipped, line
from alhena.frontends.terminal.menu import Menu, menu_lines
from alhena.frontends.terminal.panel import Panel
from alhena.frontends.terminal.printing import Fragments, Printer, fragments, style, warm_up
from alhena.frontends.terminal.screen import Person, Status
from alhena.frontends.terminal.view import View, live

FRAME = 0.03
"""Seconds between two drawings of what streams in."""
TICK = 0.12
"""Seconds between two drawings while something runs that says nothing."""
TWICE = 2.0
"""Seconds within which a second Ctrl-C leaves."""
LARGE = 1_500
"""Characters of Markdown from which on it is rendered in a thread: keys are not kept waiting."""
BESIDE = 4
"""Rows that what streams in leaves to the input line and the foot."""
QUEUED_COLUMNS = 60

Pending = tuple[View, tuple[Block, ...]]


class Hands:
    """What the keys do with a screen."""

    _person: Person | None
    _typed: list[str]
    _entered: Buffer
    _panel: Panel
    _loop: asyncio.AbstractEventLoop
    _work: asyncio.Event
    _closing: bool
    _last_stop: float
    _hint: str

    def close(self) -> None:
        """As `Screen.close`: behind what is still to be printed."""
        self._closing = True
        self._work.set()

    def send(self) -> None:
        """Sends what is in the input line."""
        text = self._entered.text
        if not text.strip():
            return
        self._entered.append_to_history()
        self._entered.reset()
        if self._person is None:
            self._typed.append(text)
        else:
            self._person.submit(text)

    def stop(self) -> bool:
        """Stops what runs."""
        return self._person is not None and self._person.interrupt()

    def stop_or_leave(self) -> None:
        """Ctrl-C: stops what runs or clears the line; twice leaves."""
        now = self._loop.time()
        if now - self._last_stop < TWICE:
            self.leave()
            return
        self._last_stop = now
        self._panel.dismiss()
        if not self.stop():
            self._entered.reset()
        self._hint = "Press Ctrl-C again to leave."
        self._loop.call_later(TWICE, self._unhint)

    def leave(self) -> None:
        """Ends the program."""
        if self._person is None:
            self.close()
        else:
            self._person.leave()

    def next_mode(self) -> None:
        """Shift-Tab."""
        if self._person is not None:
            self._person.next_mode()

    def toggle_yolo(self) -> None:
        """Ctrl-Y."""
        if self._person is not None:
            self._person.toggle_yolo()

    def _unhint(self) -> None:
        self._hint = ""
        self._draw_in(0)

    def _draw_in(self, seconds: float) -> None:
        raise NotImplementedError


class TerminalScreen(Hands):
    """A `screen.Screen`. `run` draws until `close`; `painted` is set when the prompt is there. What
    is typed waits until there is a `person`."""

    def __init__(
        self, input: Input, output: Output, *, history: History, completer: Completer
    ) -> None:
        self.painted = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._output = output
        self._printer = Printer(output)
        self._person: Person | None = None
        self._typed: list[str] = []
        self._view = View()
        self._status = Status()
        self._hint = ""
        self._last_stop = float("-inf")
        self._queue: deque[Pending] = deque()
        self._ready: deque[Pending] = deque()
        self._work = asyncio.Event()
        self._closing = False
        self._timer: asyncio.TimerHandle | None = None
        self._panel = Panel(self._panel_changed, self._loop.time, self._loop.call_later)
        self._entered = Buffer(
            multiline=True,
            history=history,
            completer=ThreadedCompleter(completer),
            complete_while_typing=Condition(self._completes),
        )
        self._written = Buffer(multiline=False)
        self._places = placed(
            Texts(live=self._live, menu=self._menu, foot=self._foot),
            self._panel,
            (self._entered, self._written),
            (menu_keys(self._panel), answer_keys(self._panel)),
        )
        self._app: Application[None] = Application(
            layout=self._places.layout,
            style=style(),
            include_default_pygments_style=False,
            key_bindings=input_keys(self, self._panel),
            erase_when_done=True,
            max_render_postpone_time=None,
            terminal_size_polling_interval=None,
            input=input,
            output=output,
            before_render=self._before_render,
            after_render=lambda _app: self.painted.set(),
        )
        self._app.ttimeoutlen = 0.05
        self._app.timeoutlen = 0.15

    async def run(self) -> None:
        """Draws and reads keys until `close`, and leaves the terminal as it was."""
        printing = asyncio.create_task(self._print())
        try:
            await self._app.run_async(set_exception_handler=False, handle_sigint=False)
        finally:
            printing.cancel()
            await asyncio.wait({printing})
        if not printing.cancelled():
            printing.result()

    @property
    def context(self) -> Context:
        """The context in which others suspend the screen; there is one once it is painted."""
        if self._app.context is None:
            raise RuntimeError("the screen does not run")
        return self._app.context

    def attach(self, person: Person) -> None:
        """From now on `person` gets what is typed, and what was typed before."""
        self._person = person
        for text in self._typed:
            person.submit(text)
        self._typed.clear()

    def update(self, view: View, blocks: Iterable[Block] = ()) -> None:
        """As `Screen.update`."""
        printed = tuple(blocks)
        if printed or self._queue or self._ready:
            self._queue.append((view, printed))
            self._work.set()
        else:
            self._view = view
            self._draw_in(FRAME)

    def show_status(self, status: Status) -> None:
        """As `Screen.show_status`."""
        self._status = status
        self._draw_in(FRAME)

    def warn(self, message: str) -> None:
        """Prints a warning of the screen's own."""
        last = self._queue[-1][0] if self._queue else self._view
        self.update(last, (Lines((line(f"! {one_line(message)}", "warning"),)),))

    async def choose(self, menu: Menu) -> frozenset[int] | None:
        """As `Screen.choose`. A draft in the input line stays."""
        return await self._panel.choose(menu, typing=bool(self._entered.text))

    async def ask_text(self, label: str, placeholder: str = "") -> str | None:
        """As `Screen.ask_text`."""
        return await self._panel.write(one_line(label), one_line(placeholder))

    @asynccontextmanager
    async def suspended(self) -> AsyncGenerator[None]:
        """As `Screen.suspended`. To be used in the context of the application."""
        async with in_terminal():
            yield

    def _panel_changed(self) -> None:
        place: Window = self._places.input
        if self._panel.menu is not None:
            place = self._places.menu
        elif self._panel.label is not None:
            self._written.reset()
            place = self._places.answer
        self._app.layout.focus(place)
        self._draw_in(0)

    def _completes(self) -> bool:
        text = self._entered.document.text_before_cursor
        return text.startswith("/") or "@" in text.split("\n")[-1].split(" ")[-1]

    async def _print(self) -> None:
        """Makes blocks ready in order. Drawing is what writes them: `_before_render`."""
        await self.painted.wait()
        await asyncio.to_thread(warm_up)
        while True:
            await self._work.wait()
            self._work.clear()
            while self._queue:
                view, blocks = self._queue[0]
                prepared = tuple([await self._prepared(block) for block in blocks])
                self._queue.popleft()
                self._ready.append((view, prepared))
            self._app.invalidate()
            self._draw_in(TICK)
            if self._closing:
                self._app.exit()
                return

    async def _prepared(self, block: Block) -> Block:
        if isinstance(block, Markdown) and len(block.text) > LARGE:
            return await asyncio.to_thread(self._printer.prepared, block)
        return self._printer.prepared(block)

    def _before_render(self, app: Application[Any]) -> None:
        """Writes what is ready above the prompt, which is drawn anew right after that."""
        if any(blocks for _, blocks in self._ready):
            app.renderer.erase(leave_alternate_screen=False)
        while self._ready:
            self._view, blocks = self._ready.popleft()
            for block in blocks:
                self._printer.write(block)

    def _draw_in(self, seconds: float) -> None:
        """Draws soon; a drawing that is due already is enough."""
        if self._timer is None:
            self._timer = self._loop.call_later(seconds, self._draw)

    def _draw(self) -> None:
        self._timer = None
        self._app.invalidate()
        executing = any(call.status == "executing" for call in self._view.calls)
        if executing or (self._view.busy_since is not None and not self._panel.open):
            self._draw_in(TICK)

    def _live(self) -> Fragments:
        size = self._output.get_size()
        asking = self._panel.open
        menu = self._panel.menu
        below = self._entered.document.line_count if menu is None else len(menu.options) + 1
        rows = max(size.rows - BESIDE - below, 0 if asking else 1)
        return fragments(live(self._view, size.columns, rows, self._loop.time(), asking=asking))

    def _menu(self) -> Fragments:
        menu = self._panel.menu
        if menu is None:
            return []
        lines = menu_lines(menu, self._output.get_size().columns, self._panel.note)
        chosen = menu.selected + 1  # the title is above
        return [
            *fragments([*lines[:chosen], ()]),
            ("[SetCursorPosition]", ""),  # a low window scrolls there
            *fragments(lines[chosen:]),
        ]

    def _foot(self) -> Fragments:
        columns = self._output.get_size().columns
        return fragments([clipped(foot_line(self._status, self._hint), columns)])


def foot_line(status: Status, hint: str) -> Line:
    """The line at the foot."""
    if hint:
        return (("warning", hint),)
    parts = [each for each in (status.mode, status.model, status.cwd) if each]
    text = "  ".join(parts)
    if status.queued:
        first = one_line(status.queued[0], QUEUED_COLUMNS)
        text = f"{len(status.queued)} queued: {first}  {text}"
    return (("dim", text),)
