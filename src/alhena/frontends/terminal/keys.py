"""The keys and signals at a screen, and what each does."""

import asyncio
import os
import select
import signal
import termios
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager
from string import ascii_letters, digits, punctuation
from typing import TYPE_CHECKING, Any

from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.application.current import get_app
from prompt_toolkit.filters import (
    Condition,
    Filter,
    has_completions,
    is_searching,
    vi_insert_mode,
    vi_mode,
    vi_navigation_mode,
)
from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyBindings, KeyBindingsBase, KeyPressEvent
from prompt_toolkit.key_binding.key_processor import KeyPress, KeyProcessor
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.keys import ALL_KEYS, Keys

from alhena.errors import AlhenaError
from alhena.frontends.shared.mentions import quoted_path
from alhena.frontends.terminal.completion.choice import move_in_list, take_completion
from alhena.frontends.terminal.dialogs.panel import Panel
from alhena.frontends.terminal.entry import Entry, save_image
from alhena.frontends.terminal.keybindings import COMMANDS, Rebinding, changed_keys
from alhena.system.workspace import current_directory

if TYPE_CHECKING:
    from alhena.frontends.terminal.conversation import Conversation

TWICE = 2.0
"""Seconds within which a second Ctrl-C leaves."""
_TYPED_AHEAD = 1 << 16
"""Maximum bytes typed before the prompt."""

PAUSE = 60.0
"""Seconds without a key after which a connection may have been closed."""


class KeyTwice:
    """Two presses of a key in a row. Between them `hint` is to be shown; `changed` is called when
    it comes or goes."""

    def __init__(self, loop: asyncio.AbstractEventLoop, changed: Callable[[], None]) -> None:
        self.hint = ""
        self._loop = loop
        self._changed = changed
        self._new = False
        self._timer: asyncio.TimerHandle | None = None

    def press_other(self, keys: KeyProcessor) -> None:
        """Takes the hint away behind any other key, once that is processed."""
        if not self._new and not keys.key_buffer:
            self._set("")
        self._new = False

    def again(self, hint: str) -> bool:
        """Takes the key that `hint` is about; True when it is the second."""
        second = self.hint == hint
        self._set("" if second else hint)
        self._new = not second
        return second

    def _set(self, hint: str) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(TWICE, self._set, "") if hint else None
        if hint != self.hint:
            self.hint = hint
            self._changed()


class KeyPause:
    """Calls `ended` at the first key after `PAUSE` seconds without any; `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.ended: Callable[[], None] = lambda: None
        self._clock = clock
        self._last = clock()

    def note_key(self, _: KeyProcessor) -> None:
        """Takes note of a key."""
        now = self._clock()
        paused, self._last = now - self._last > PAUSE, now
        if paused:
            self.ended()


class KeyActions:
    """Carries out what is pressed. What is sent, and changes of the mode, wait until there is a
    person to take them; `close` ends a screen that has none. `draw` is called when the hint of
    `twice` changes, `show_waiting` with what waits."""

    def __init__(
        self,
        entry: Entry,
        panel: Panel,
        *,
        close: Callable[[], None],
        draw: Callable[[], None],
        show_waiting: Callable[[tuple[str, ...]], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.twice = KeyTwice(self._loop, draw)
        self._entry = entry
        self._panel = panel
        self._close = close
        self._show_waiting = show_waiting
        self._person: Conversation | None = None
        self.attached = False
        self._waiting: list[str] = []
        self._mode_keys: list[Callable[[Conversation], None]] = []
        self._elsewhere = 0
        self._left = False

    def attach(self, person: "Conversation") -> None:
        """From now on `person` gets what is sent, and what was sent before."""
        self._person, self.attached = person, True
        for change in self._mode_keys:
            change(person)
        for text in self._waiting:
            person.submit(text, early=True)
        self._mode_keys.clear()
        self._waiting.clear()

    @contextmanager
    def lend_terminal(self) -> Generator[None]:
        """Meanwhile another program has the terminal, and Ctrl-C is meant for that one."""
        self._elsewhere += 1
        try:
            yield
        finally:
            self._elsewhere -= 1

    def send(self, *, late: bool = False) -> bool:
        """Sends what is in the input line; `late`: for the end of what runs, and False when nothing
        does."""
        if late and (self._person is None or not self._person.working):
            return False
        shown = self._entry.buffer.text.strip()
        text = self._entry.take() if shown else ""
        if self._person is not None:
            more: dict[str, Any] = {"late": True} if late else {}
            if text.strip() != shown:
                more["shown"] = shown
            self._person.submit(text, **more)
        elif text:
            self._waiting.append(text)
            self._show_waiting(tuple(self._waiting))
        return True

    def take_back(self) -> bool:
        """Puts the last prompt that waits into the input line; False when there is none."""
        if self._person is not None:
            text = self._person.take_back()
        else:
            text = self._waiting.pop() if self._waiting else ""
            self._show_waiting(tuple(self._waiting))
        if text:
            self._entry.paste(text)
        return bool(text)

    def escape(self, *, alone: bool = True) -> None:
        """Esc: sends a prompt that waits for MCP servers, stops what runs, or leaves shell mode;
        twice in a row and `alone`, with neither that nor a text, it goes back to an earlier
        prompt."""
        if self._person is not None and self._person.send_at_once():
            return
        if self._stop() or not alone or self._entry.buffer.text or self._person is None:
            return
        if self.twice.again("Press Esc again to rewind."):
            self._person.submit("/rewind")

    def _stop(self) -> bool:
        """Stops what runs; False when nothing does."""
        return self._person is not None and self._person.interrupt()

    def stop_or_leave(self) -> None:
        """Ctrl-C: stops what runs or clears the line; twice in a row, with neither, leaves."""
        asked = self._panel.dismiss()
        if self._stop() or asked:
            return
        if self._entry.buffer.text:
            self._entry.clear()
        elif self.twice.again("Press Ctrl+C again to exit."):
            self.leave()

    def interrupt(self) -> None:
        """SIGINT, which a terminal that gives keys does not send: it comes from elsewhere, or while
        the session closes, which it hastens."""
        if self._left:
            self.kill()
        elif not self._elsewhere and not self._stop():
            self.leave()

    def leave(self, why: str = "") -> None:
        """Ends the program and prints `why`."""
        if self._person is None:
            self._left = True
            self._close()
        elif self._person.leave(why) is not False:
            self._left = True
            self._panel.dismiss()

    def kill(self) -> None:
        """Ends all processes of the session, at once."""
        if self._person is not None:
            self._person.kill()

    def next_mode(self) -> None:
        """Shift-Tab: to the next approval mode."""
        self._change_mode(lambda person: person.next_mode())

    def toggle_yolo(self) -> None:
        """Ctrl-Y: everything runs without asking, or not any more."""
        self._change_mode(lambda person: person.toggle_yolo())

    def _change_mode(self, change: "Callable[[Conversation], None]") -> None:
        if self._person is None:
            self._mode_keys.append(change)
        else:
            change(self._person)

    def edit(self) -> None:
        """Ctrl-G, Ctrl-X Ctrl-E: the input line in the person's editor."""
        self._entry.unfold()
        meanwhile = ExitStack()
        meanwhile.enter_context(self.lend_terminal())
        editing = self._entry.buffer.open_in_editor()
        editing.add_done_callback(lambda _: meanwhile.close())


class ClipboardPaste:
    """Ctrl-V: the clipboard's text, or its image as a file. `warn` takes problems."""

    def __init__(self, entry: Entry, warn: Callable[[str], None]) -> None:
        self._entry = entry
        self._warn = warn
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Reads the clipboard in the background."""
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._paste())

    async def _paste(self) -> None:
        from alhena.frontends.terminal.looks.clipboard import read_clipboard

        found = await read_clipboard(os.environ)
        if not found:
            self._warn("Nothing to paste: the clipboard is empty, or no program here reads it.")
        elif isinstance(found, str):
            self._entry.paste(found)
        else:
            try:
                path = save_image(found, os.environ, current_directory())
            except (AlhenaError, OSError) as error:
                self._warn(f"The image was not saved: {error}")
                return
            self._entry.paste(f"@{quoted_path(str(path))} ")


CONTINUED = "\\"
AFTER_ESCAPE = f"{ascii_letters}{digits}/!@?#.<>-*='\""
"""Characters that are typed text behind an Esc in an empty input line, not Alt and a key."""
_MENU_KEYS = {
    "up": "up",
    "down": "down",
    "c-p": "up",
    "c-n": "down",
    "tab": "tab",
    "s-tab": "s-tab",
    "enter": "enter",
    " ": "space",
    "escape": "escape",
}

_EDITING_KEYS = (
    *("delete", "left", "right", "home", "end"),
    *(f"c-{letter}" for letter in "abdefgkorstuvwxy"),
)
"""Keys for typing, except those of a menu."""


def writing_filter(panel: Panel) -> Filter:
    """True where keys edit the input line."""
    return Condition(lambda: panel.asking or not panel.open) & ~is_searching


def list_keys(hands: KeyActions, panel: Panel) -> KeyBindings:
    """The keys of an open list of completions, but for Enter, and Tab, which opens one, or keeps a
    prompt for the end of what runs."""
    keys = KeyBindings()
    writing = writing_filter(panel)

    @keys.add("escape", filter=writing & has_completions)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.cancel_completion()

    @keys.add("tab", filter=writing & ~vi_navigation_mode)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is None:
            word = buffer.document.text_before_cursor.rpartition(" ")[2]
            kept = buffer.text.strip() and word[:1] not in ("/", "@") and hands.send(late=True)
            if not kept:
                buffer.start_completion()
        elif buffer.complete_state.completions and not take_completion(buffer, later=True):
            buffer.cancel_completion()  # one that is still looking goes on

    def move(step: int) -> Callable[[KeyPressEvent], None]:
        return lambda event: move_in_list(event.current_buffer, step)

    for key, step in {"up": -1, "c-p": -1, "s-tab": -1, "down": 1, "c-n": 1}.items():
        keys.add(key, filter=writing & has_completions)(move(step))
    return keys


def input_keys(hands: KeyActions, entry: Entry, panel: Panel) -> KeyBindings:
    """The keys of the input line. At a question they edit what is written there, and Enter sends
    it as a prompt of its own."""
    keys = KeyBindings()
    writing = writing_filter(panel)
    alone = Condition(lambda: not panel.open) & ~is_searching

    @keys.add("enter", filter=writing)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if take_completion(buffer):
            return
        if buffer.document.current_line_before_cursor.endswith(CONTINUED):
            buffer.delete_before_cursor()
            buffer.newline(copy_margin=False)
        else:
            hands.send()
            panel.pause()

    @keys.add("escape", "enter", filter=writing)
    @keys.add("c-j", filter=writing)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    keys.add("escape", filter=alone & vi_insert_mode & ~has_completions)(_leave_insert_mode)

    @keys.add("escape", filter=alone & ~vi_insert_mode & ~has_completions)
    def _(_event: KeyPressEvent) -> None:
        hands.escape()

    def escape_then_typed(event: KeyPressEvent) -> None:
        """Esc and a character right after it: with nothing to edit, that is not one key."""
        hands.escape(alone=False)
        event.current_buffer.insert_text(event.data)

    typing = alone & ~vi_mode
    empty = typing & Condition(lambda: not entry.buffer.text)
    for char in AFTER_ESCAPE:
        keys.add("escape", char, filter=empty)(escape_then_typed)
    keys.add("escape", "/", filter=typing)(escape_then_typed)

    @keys.add(Keys.BracketedPaste, filter=writing)
    def _(event: KeyPressEvent) -> None:
        entry.paste(event.data)

    @keys.add("backspace", filter=writing & Condition(lambda: bool(entry.mark_before())))
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.delete_before_cursor(len(entry.mark_before()))

    @keys.add("c-g", filter=alone)
    @keys.add("c-x", "c-e", filter=alone)
    def _(_event: KeyPressEvent) -> None:
        hands.edit()

    return keys


def _leave_insert_mode(event: KeyPressEvent) -> None:
    event.app.vi_state.input_mode = InputMode.NAVIGATION
    event.current_buffer.cursor_left()


def session_keys(
    hands: KeyActions, panel: Panel, look: Callable[[], None], paste: Callable[[], None]
) -> KeyBindings:
    """The keys that are for the session as a whole; `look` opens the pager, `paste` takes what the
    clipboard has."""
    keys = KeyBindings()
    writing = Condition(lambda: not panel.open) & ~is_searching
    empty = Condition(lambda: not get_app().current_buffer.text)

    @keys.add("c-d", filter=writing & empty)
    def _(_event: KeyPressEvent) -> None:
        hands.leave()

    @keys.add("up", filter=writing & empty & ~has_completions)
    def _(event: KeyPressEvent) -> None:
        if not hands.take_back():
            event.current_buffer.auto_up(count=event.arg)

    @keys.add("c-v", filter=writing & ~vi_navigation_mode)
    def _(_event: KeyPressEvent) -> None:
        paste()

    @keys.add("s-tab", filter=writing & ~has_completions)
    def _(_event: KeyPressEvent) -> None:
        hands.next_mode()

    @keys.add("c-y", filter=writing)
    def _(_event: KeyPressEvent) -> None:
        hands.toggle_yolo()

    @keys.add("c-o", filter=~is_searching)
    def _(_event: KeyPressEvent) -> None:
        look()

    @keys.add("c-z")
    def _(_event: KeyPressEvent) -> None:
        panel.set_away(away=True)
        suspended = asyncio.ensure_future(run_in_terminal(_suspend))
        suspended.add_done_callback(lambda _: panel.set_away(away=False))

    @keys.add(Keys.Vt100MouseEvent)
    def _(_event: KeyPressEvent) -> None:
        """The mouse is the terminal's. Pasted colour codes look like it."""

    @keys.add("c-c", filter=~is_searching)
    @keys.add("<sigint>")
    def _(_event: KeyPressEvent) -> None:
        hands.stop_or_leave()

    return keys


def menu_keys(panel: Panel) -> KeyBindings:
    """The keys of a menu with search, which has the focus: those that move, and characters."""
    keys = KeyBindings()
    for key, name in _MENU_KEYS.items():
        keys.add(key)(_menu_key(panel, name))

    @keys.add("backspace")
    def _(_event: KeyPressEvent) -> None:
        panel.erase()

    @keys.add(Keys.Any)
    def _(event: KeyPressEvent) -> None:
        if event.data.isprintable():
            panel.key(event.data)

    @keys.add("c-l")
    def _(event: KeyPressEvent) -> None:
        event.app.renderer.clear()

    @keys.add(Keys.BracketedPaste)
    def _(event: KeyPressEvent) -> None:
        """A paste is words to search for."""
        panel.words(event.data)

    return keys


def _menu_key(panel: Panel, name: str) -> Callable[[KeyPressEvent], None]:
    return lambda _event: panel.key(name)


def question_keys(panel: Panel) -> KeyBindings:
    """The keys of a question above the input line, which has the focus: those that may be
    answers."""
    keys = KeyBindings()
    asking = Condition(lambda: panel.asking) & ~is_searching
    begun = asking & Condition(lambda: bool(panel.begun))
    free = asking & (
        Condition(lambda: bool(panel.begun))
        | Condition(lambda: panel.aimed or not panel.has_draft())
    )

    def end_key(_event: KeyPressEvent) -> None:
        panel.words("")

    empty = Condition(lambda: bool(panel.begun)) | Condition(lambda: not panel.has_draft())
    where = {"enter": asking & empty, "space": free, "escape": asking & ~has_completions}
    for key, name in _MENU_KEYS.items():
        keys.add(key, filter=where.get(name, asking & ~has_completions))(_menu_key(panel, name))
    for char in ascii_letters + digits + punctuation:  # also where each is a command of vi
        keys.add(char, filter=free)(_menu_key(panel, char))
    for key in _EDITING_KEYS:
        keys.add(key, filter=begun)(end_key)

    @keys.add("pageup", filter=asking)
    @keys.add("pagedown", filter=asking)
    def _(_event: KeyPressEvent) -> None:
        """At a question no earlier prompt becomes the draft."""

    @keys.add(Keys.Any, filter=free)
    def _(event: KeyPressEvent) -> None:
        if event.data.isprintable():
            panel.key(event.data)

    @keys.add("backspace", filter=begun)
    def _(_event: KeyPressEvent) -> None:
        panel.erase()

    def escape_then_typed(event: KeyPressEvent) -> None:
        panel.key("escape")
        event.current_buffer.insert_text(event.data)

    for char in AFTER_ESCAPE:
        keys.add("escape", char, filter=asking & ~vi_mode)(escape_then_typed)

    @keys.add(Keys.BracketedPaste, filter=asking)
    def _(event: KeyPressEvent) -> None:
        panel.words(event.data)

    return keys


def answer_keys(panel: Panel) -> KeyBindings:
    """The keys of a line that is written for a question."""
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        panel.accept(event.current_buffer.text)

    @keys.add("escape")
    def _(_event: KeyPressEvent) -> None:
        panel.dismiss()

    return keys


def rebind_keys(entries: Iterable[Rebinding], base: KeyBindingsBase, free: Filter) -> KeyBindings:
    """The keys of these entries, with what their commands do in `base`. A key without a command
    does nothing while `free`."""
    made = KeyBindings()
    for keys, command in changed_keys(entries).items():
        if not command:
            made.add(*keys, filter=free)(_ignore_key)
            continue
        wanted = tuple(Keys(each) if each in ALL_KEYS else each for each in COMMANDS[command])
        for binding in base.get_bindings_for_keys(wanted):
            if Keys.Any not in binding.keys:
                made.add(
                    *keys,
                    filter=binding.filter,
                    eager=binding.eager,
                    save_before=binding.save_before,
                    record_in_macro=binding.record_in_macro,
                )(binding.handler)
    return made


def _suspend() -> None:
    """Stops the program, as a shell expects it. Where it is alone in its group, no signal goes to
    the processes that it starts: one that stops before its `exec` holds up its parent."""
    os.kill(os.getpid() if os.getpgrp() == os.getpid() else 0, signal.SIGTSTP)


def _ignore_key(_event: KeyPressEvent) -> None:
    """Does nothing: the key has lost its command."""


def store_typed_ahead(source: Input) -> None:
    """Stores the keys typed before the session reads them, as keys one by one and not as a paste.
    Until the terminal passes on single keys it sends lines, with line feeds in place of Enter."""
    try:
        descriptor = source.fileno()
        lines = termios.tcgetattr(descriptor)[3] & termios.ICANON
    except (OSError, NotImplementedError, termios.error):
        return  # no terminal
    with source.raw_mode():
        if not select.select([descriptor], [], [], 0)[0]:
            return
        data = os.read(descriptor, _TYPED_AHEAD)
    presses: list[KeyPress] = []
    text = data.decode("utf-8", "surrogateescape")
    text = text.replace("\n", "\r") if lines else text
    Vt100Parser(presses.append).feed_and_flush(text)
    store_typeahead(source, presses)
