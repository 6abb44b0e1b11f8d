"""The screen of a capable terminal: output above, the live part and the prompt below."""

import asyncio
import os
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from contextvars import Context
from typing import TYPE_CHECKING, Any

from prompt_toolkit.application import Application
from prompt_toolkit.application.current import set_app
from prompt_toolkit.application.run_in_terminal import in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition, is_searching
from prompt_toolkit.history import History
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import (
    DynamicKeyBindings,
    KeyBindings,
    KeyBindingsBase,
    merge_key_bindings,
)
from prompt_toolkit.key_binding.defaults import load_key_bindings
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.layout import (
    Layout,
)
from prompt_toolkit.output import Output
from prompt_toolkit.search import stop_search
from prompt_toolkit.styles import DynamicStyle

from alhena.display_text import one_line
from alhena.frontends.shared.listings import count_noun
from alhena.frontends.terminal.dialogs.panel import Panel
from alhena.frontends.terminal.drawing.layout import MENU_ROWS, build_layout
from alhena.frontends.terminal.drawing.lines import (
    ELLIPSIS,
    Block,
    Line,
    Lines,
    Markdown,
    Span,
    clip_line,
    fold_line,
    line,
    warning_line,
    width,
)
from alhena.frontends.terminal.drawing.live_region import (
    LiveMarkdown,
    live,
    open_task_lines,
    queue_lines,
)
from alhena.frontends.terminal.drawing.menu import Menu, menu_lines, offer_lines
from alhena.frontends.terminal.drawing.printing import Fragments, Looks, Printer, fragments, warm_up
from alhena.frontends.terminal.drawing.screen import FootStatus
from alhena.frontends.terminal.drawing.view import View
from alhena.frontends.terminal.entry import Entry
from alhena.frontends.terminal.keybindings import read_key_file
from alhena.frontends.terminal.keys import (
    ClipboardPaste,
    KeyActions,
    KeyPause,
    answer_keys,
    input_keys,
    list_keys,
    menu_keys,
    question_keys,
    rebind_keys,
    session_keys,
    store_typed_ahead,
)
from alhena.frontends.terminal.pager import PagerOpener
from alhena.frontends.terminal.resizing import ReflowingApplication

if TYPE_CHECKING:
    from alhena.config.settings import Settings

MAX_DEFECTS = 3
"""Defects in a row after which the screen is given up."""
WITHIN = 5.0
"""Seconds in which they are in a row."""


FRAME = 0.03
"""Seconds between two drawings of what streams in."""
TICK = 0.12
"""Seconds between two drawings while something runs that says nothing."""
LARGE = 1_500
"""Characters of Markdown from which on it is rendered in a thread: keys are not kept waiting."""
BATCH = 200
"""Finished blocks from which on they are written while others are still made ready."""
MAX_ROWS = 200
"""Rows that one drawing writes, about: keys are read between two drawings."""
BESIDE = 4
"""Rows that what streams in leaves to the input line and the foot."""
CONTEXT_WARNING = 0.8
MIN_CWD = 12
"""Columns that the end of a long directory keeps at the foot."""
MAX_MESSAGE = 400
MODE_STYLES = {"auto_edit": "accent", "plan": "accent", "yolo": "error"}

Pending = tuple[View, tuple[Block, ...]]


class TerminalScreen:
    """A `screen.Screen`. `run` draws until `close`; `painted` is set when the prompt is there;
    `prepare` is called when something is typed. `hands` are what keys and signals do."""

    keys = True

    def __init__(
        self,
        input: Input,
        output: Output,
        *,
        history: History,
        completer: Completer,
        prepare: Callable[[], None] = lambda: None,
    ) -> None:
        self.painted = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._output = output
        self._printer = Printer(output)
        self.control = self._printer.control
        self._markdown = LiveMarkdown(lambda: self._draw_in(0), self._printer.render)
        self._view = View()
        self._status = FootStatus()
        self._queue: deque[Pending] = deque()
        self._ready: deque[Pending] = deque()
        self._work = asyncio.Event()
        self._written_all = asyncio.Event()
        self._written_all.set()
        self._closing = False
        self._defects: deque[float] = deque(maxlen=MAX_DEFECTS + 1)
        self._timer: asyncio.TimerHandle | None = None
        self._entry = Entry(history, completer, prepare)
        self._entry.buffer.warn = self._warn_soon
        self.complete_path = self._entry.complete_path
        self._panel = Panel(
            self._panel_changed,
            self._loop.call_later,
            self._entry.insert,
            lambda: bool(self._entry.buffer.text),
        )
        self.hands = KeyActions(
            self._entry,
            self._panel,
            close=self.close,
            draw=lambda: self._draw_in(0),
            show_waiting=lambda texts: self.show_status(FootStatus(queued=texts)),
        )
        self.pager = PagerOpener(
            self._panel, (input, output), lambda: self._printer.style, self.warn
        )
        self._written = Buffer(multiline=False)
        layout, self._input, self._menu_window, self._answer = build_layout(
            (self._live, self._menu, self._offers, self._foot),
            self._panel,
            (self._entry.buffer, self._written),
            (menu_keys(self._panel), answer_keys(self._panel)),
        )
        pasting = ClipboardPaste(self._entry, self.warn)
        self._rebound: KeyBindingsBase = KeyBindings()
        self._own_keys = merge_key_bindings(
            [
                input_keys(self.hands, self._entry, self._panel),
                session_keys(self.hands, self._panel, self.pager.open, pasting.begin),
                list_keys(self.hands, self._panel),
                question_keys(self._panel),
            ]
        )
        self._app = self._application(input, layout)
        self.pause = KeyPause(self._loop.time)
        self._app.key_processor.after_key_press += self.hands.twice.press_other
        self._app.key_processor.after_key_press += self.pause.note_key
        self._looks = Looks(input, self._printer, self.warn, lambda: self._draw_in(0))

    def _application(self, input: Input, layout: Layout) -> ReflowingApplication:
        app = ReflowingApplication(
            layout=layout,
            style=DynamicStyle(lambda: self._printer.style),
            include_default_pygments_style=False,
            color_depth=lambda: self._printer.depth,
            key_bindings=merge_key_bindings(
                [self._own_keys, DynamicKeyBindings(lambda: self._rebound)]
            ),
            erase_when_done=True,
            max_render_postpone_time=None,
            terminal_size_polling_interval=None,
            input=input,
            output=self._output,
            before_render=self._before_render,
            after_render=self._after_render,
        )
        app.ttimeoutlen = 0.05
        app.timeoutlen = 0.15
        return app

    async def run(self) -> None:
        """Draws and reads keys until `close`, and leaves the terminal as it was."""
        printing = asyncio.create_task(self._print())
        printing.add_done_callback(self._printing_ended)
        before = self._loop.get_exception_handler()
        self._loop.set_exception_handler(self._defect)
        try:
            store_typed_ahead(self._app.input)
            await self._app.run_async(set_exception_handler=False, handle_sigint=False)
        finally:
            self._loop.set_exception_handler(before)
            self._looks.attention.close()
            self._markdown.close()
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

    def update(self, view: View, blocks: Iterable[Block] = ()) -> None:
        """As `Screen.update`."""
        printed = tuple(blocks)
        self._looks.attention.working(None if view.busy_since is None else view.thought or "")
        if printed or self._queue or self._ready:
            self._queue.append((view, printed))
            self._written_all.clear()
            self._work.set()
        else:
            self._view = view
            self._draw_in(FRAME)

    def show_status(self, status: FootStatus) -> None:
        """As `Screen.show_status`."""
        self._status = status
        self._draw_in(FRAME)

    def adopt(self, settings: "Settings") -> None:
        """As `Screen.adopt`."""
        self._looks.adopt(settings)
        self._entry.buffer.preferred = lambda: settings.general.preferred_editor
        vim = settings.general.vim_mode
        self._app.editing_mode = EditingMode.VI if vim else EditingMode.EMACS
        entries = read_key_file(os.environ).entries
        if entries:
            base = merge_key_bindings([load_key_bindings(), self._own_keys])
            free = Condition(lambda: not self._panel.open) & ~is_searching
            self._rebound = rebind_keys(entries, base, free)
        self._draw_in(0)

    def warn(self, message: str) -> None:
        """Prints a warning of the screen's own."""
        last = self._queue[-1][0] if self._queue else self._view
        self.update(last, (Lines((warning_line(one_line(message)),), fold=True),))

    def _warn_soon(self, message: str) -> None:
        """As `warn`, from any thread."""
        self._loop.call_soon_threadsafe(self.warn, message)

    async def choose(self, menu: Menu) -> frozenset[int] | None:
        """As `Screen.choose`, once all is written that it is about. A draft in the input line
        stays."""
        await self._written_all.wait()
        return await self._panel.choose(menu)

    async def ask_text(
        self, label: str, placeholder: str = "", *, secret: bool = False
    ) -> str | None:
        """As `Screen.ask_text`, once all is written that it is about."""
        await self._written_all.wait()
        self._written.reset()
        try:
            return await self._panel.write(one_line(label), one_line(placeholder), secret=secret)
        finally:
            self._written.reset()

    def themes(self, custom: Mapping[str, Any]) -> Mapping[str, tuple[Line, ...]]:
        """As `Screen.themes`."""
        from alhena.frontends.terminal.looks.theme_samples import sample_themes

        return sample_themes(custom)

    def draft(self, text: str) -> None:
        """As `Screen.draft`."""
        self._entry.paste(text)
        self._draw_in(0)

    @asynccontextmanager
    async def suspend(self) -> AsyncGenerator[None]:
        """As `Screen.suspend`, once all is written. To be used in the context of the
        application."""
        await self._written_all.wait()
        with self.hands.lend_terminal():
            async with in_terminal():
                yield

    def close(self) -> None:
        """As `Screen.close`: behind what is still to be printed."""
        self._closing = True
        self._work.set()

    def _panel_changed(self) -> None:
        self._looks.attention.asking(self._panel.open)
        place = self._input
        if self._panel.menu is not None and not self._panel.asking:
            place = self._menu_window
        elif self._panel.label is not None:
            place = self._answer
        if self._app.layout.is_searching and self._panel.asking:
            place = self._app.layout.current_window  # the search continues beside the question
        elif self._app.layout.is_searching:
            with set_app(self._app):
                stop_search()
        self._app.layout.focus(place)
        self._draw_in(0)

    async def _print(self) -> None:
        """Makes blocks ready in order. Drawing is what writes them: `_before_render`."""
        await self.painted.wait()
        await asyncio.to_thread(warm_up)
        while True:
            await self._work.wait()
            self._work.clear()
            while self._queue:
                view, blocks = self._queue[0]
                await self._make_ready(view, blocks)
                self._queue.popleft()
            self._app.invalidate()
            self._draw_in(TICK)
            if self._closing:
                self._exit()
                return

    async def _make_ready(self, view: View, blocks: tuple[Block, ...]) -> None:
        """One block after the other, so that each can be written by itself and keys are read
        between two of them."""
        if not blocks:
            self._ready.append((view, ()))
        for number, block in enumerate(blocks, 1):
            self._ready.append((view, (await self._prepare(block),)))
            if number % BATCH == 0:
                self._app.invalidate()
            await asyncio.sleep(0)

    def _printing_ended(self, printing: "asyncio.Task[None]") -> None:
        """A defect in printing ends the screen: nothing more would be seen on it."""
        if not printing.cancelled() and printing.exception() is not None:
            self._exit()

    def _defect(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Shows an error of a background task on the screen; ends the screen if that fails."""
        error = context.get("exception")
        self._defects.append(self._loop.time())
        many = len(self._defects) > MAX_DEFECTS and self._defects[-1] - self._defects[0] < WITHIN
        if isinstance(error, Exception) and (many or not self.painted.is_set()):
            self._exit(error)
            return
        kind = f"{type(error).__name__}: {error}" if error else context["message"]
        self.warn(f"unexpected {one_line(kind, MAX_MESSAGE)}; this is a defect.")

    def _exit(self, error: Exception | None = None) -> None:
        """Ends the drawing, if it has not ended."""
        future = self._app.future
        if future is None or future.done():
            return
        if error is None:
            self._app.exit()
        else:
            self._app.exit(exception=error)

    async def _prepare(self, block: Block) -> Block:
        if isinstance(block, Markdown) and len(block.text) > LARGE:
            return await asyncio.to_thread(self._printer.prepare, block)
        return self._printer.prepare(block)

    def _before_render(self, app: Application[Any]) -> None:
        """Writes what is ready above the prompt, which is redrawn right after that. What is too
        much for one drawing is left to the next, unless this is the last one."""
        self._app.erase_reflowed()
        if any(blocks for _, blocks in self._ready):
            self._app.erase()
        room = MAX_ROWS
        while self._ready and (room > 0 or app.is_done):
            self._view, blocks = self._ready.popleft()
            for block in blocks:
                room -= _rows(block)
                self._printer.write(block)
        self._app.before_drawing()
        if self._ready:
            self._loop.call_soon(app.invalidate)
        elif not self._queue:
            self._written_all.set()

    def _after_render(self, _app: Application[Any]) -> None:
        self._app.after_drawing()
        self.painted.set()
        self._panel.note_drawn()

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
        below = self._entry.buffer.document.line_count
        if self._panel.menu is not None:
            below += len(menu_lines(self._panel.menu, size.columns)[0]) - 1
        status, stay = self._status, list[Line]()
        if not asking:
            stay += open_task_lines(self._view, size.columns, size.rows)
        if not (asking and status.kept):  # the question is about them
            stay += queue_lines(
                status.queued, size.columns, kept=status.kept, soon=status.soon, asking=asking
            )
        rows = max(size.rows - BESIDE - below - len(stay), 0 if asking else 1)
        drawn = self._markdown.rows(self._view.open_text, size.columns)
        now = self._loop.time()
        lines = live(self._view, size.columns, rows, now, asking=asking, drawn=drawn)
        gap: list[Line] = [()] if asking and (lines or stay) else []
        return fragments([*gap, *lines, *stay, *gap])

    def _menu(self) -> Fragments:
        menu = self._panel.menu
        if menu is None:
            return []
        size = self._output.get_size()
        rows = size.rows - 1
        lines, chosen = menu_lines(
            menu,
            size.columns,
            self._panel.note,
            rows,
            counts=self._panel.counts,
            drafting=self._panel.has_draft(),
        )
        return [
            *fragments([*lines[: chosen.start], ()]),
            ("[SetCursorPosition]", ""),  # a low window shows that row at least
            *fragments(lines[chosen.start :]),
        ]

    def _offers(self) -> Fragments:
        state = self._entry.buffer.complete_state
        size = self._output.get_size()
        if self._entry.buffer.text == "?":
            return fragments(help_lines(size.columns, size.rows - BESIDE))
        if state is None:
            return []
        rows = min(MENU_ROWS, max(size.rows - BESIDE, 1))
        offers = [(each.display_text, each.display_meta_text) for each in state.completions]
        lines = offer_lines(offers, state.complete_index or 0, size.columns, rows)
        return fragments(lines)

    def _foot(self) -> Fragments:
        columns = self._output.get_size().columns
        vi = ""
        if self._app.editing_mode is EditingMode.VI:
            inserts = self._app.vi_state.input_mode is InputMode.INSERT
            vi = "[INSERT]" if inserts else "[NORMAL]"
        shown = foot_line(self._status, self.hands.twice.hint, columns, vi)
        return fragments([clip_line(shown, columns)])


def _rows(block: Block) -> int:
    return len(block.lines) if isinstance(block, Lines) else block.text.count("\n")


def help_lines(columns: int, rows: int) -> list[Line]:
    """The keys, in at most so many rows, while there is but a ? in the input line; those left out
    are counted."""
    from alhena.frontends.terminal.commands import KEYS

    room = max(rows - 1, 0)
    across = min(max(width(key) for key, _ in KEYS), columns * 3 // 8 - 3)
    shorter = [(key, what.partition(";")[0]) for key, what in KEYS]
    for keys in (KEYS, shorter):
        shown = [(("accent", f"  {key:{across}}"), ("dim", f"  {what}")) for key, what in keys]
        folded = [each for one in shown for each in fold_line(one, columns, across + 4)]
        if len(folded) <= room:
            break
    else:
        folded = [clip_line(each, columns) for each in shown]
    hidden = len(folded) - room
    more = f"… {count_noun(hidden, 'more key')} · " if hidden > 0 else ""
    return [
        *folded[:room],
        clip_line(line(f"  {more}Enter: all keys and commands", "dim"), columns),
    ]


MIN_ITEMS = 2
"""Items at the foot that are cut where there is no room; later ones are left out."""


def foot_line(status: FootStatus, hint: str, columns: int, vi: str = "") -> Line:
    """The line at the foot; `vi` is the mode of the vi keys. A long directory loses its beginning
    where `columns` are too few for the rest."""
    if hint:
        return (("warning", hint),)
    spans: list[Span] = [("bold", vi)]
    spans.append((MODE_STYLES.get(status.mode, "dim"), status.mode))
    spans.append(("dim", status.model))
    if status.context:
        style = "warning" if status.context >= CONTEXT_WARNING else "dim"
        spans.append((style, f"{status.context:.0%} context"))
    more = [("dim", each) for each in status.more]
    cwd, room = status.cwd, columns - sum(width(text) + 2 for _, text in (*spans, *more) if text)
    room = max(room, MIN_CWD)
    if width(cwd) > room:
        cwd = f"{ELLIPSIS}{cwd[1 - room :]}"
    spans += (("dim", cwd), *more)
    shown = [span for span in spans if span[1]]
    while len(shown) > MIN_ITEMS and sum(width(text) + 2 for _, text in shown) - 2 > columns:
        shown.pop()
    return tuple(part for span in shown for part in (span, ("", "  ")))[:-1]
