"""What keys and signals do at a screen."""

import asyncio
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager

from alhena.frontends.terminal.entry import Entry
from alhena.frontends.terminal.panel import Panel
from alhena.frontends.terminal.screen import Person

TWICE = 2.0
"""Seconds within which a second Ctrl-C leaves."""


class Hands:
    """Carries out what is pressed. What is sent waits until there is a person to take it; `close`
    ends a screen that has none. `hint` is to be shown at the foot, `draw` is called when it
    changes."""

    def __init__(
        self, entry: Entry, panel: Panel, *, close: Callable[[], None], draw: Callable[[], None]
    ) -> None:
        self.hint = ""
        self._entry = entry
        self._panel = panel
        self._close = close
        self._draw = draw
        self._loop = asyncio.get_running_loop()
        self._person: Person | None = None
        self._waiting: list[str] = []
        self._last_stop = float("-inf")
        self._elsewhere = 0
        self._left = False

    def attach(self, person: Person) -> None:
        """From now on `person` gets what is sent, and what was sent before."""
        self._person = person
        for text in self._waiting:
            person.submit(text)
        self._waiting.clear()

    @property
    def attached(self) -> bool:
        """Whether there is a person."""
        return self._person is not None

    @contextmanager
    def elsewhere(self) -> Generator[None]:
        """Meanwhile another program has the terminal, and Ctrl-C is meant for that one."""
        self._elsewhere += 1
        try:
            yield
        finally:
            self._elsewhere -= 1

    def send(self) -> None:
        """Sends what is in the input line."""
        if not self._entry.buffer.text.strip():
            return
        text = self._entry.take()
        if self._person is None:
            self._waiting.append(text)
        else:
            self._person.submit(text)

    def stop(self) -> bool:
        """Stops what runs; False when nothing does."""
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
            self._entry.clear()
        self.hint = "Press Ctrl-C again to leave."
        self._draw()
        self._loop.call_later(TWICE, self._unhint)

    def interrupted(self) -> None:
        """SIGINT, which a terminal that gives keys does not send: it comes from elsewhere, or while
        the session closes, which it hastens."""
        if self._left:
            self.kill()
        elif not self._elsewhere and not self.stop():
            self.leave()

    def leave(self) -> None:
        """Ends the program."""
        self._left = True
        if self._person is None:
            self._close()
        else:
            self._person.leave()

    def kill(self) -> None:
        """Ends all processes of the session, at once."""
        if self._person is not None:
            self._person.kill()

    def next_mode(self) -> None:
        """Shift-Tab: to the next approval mode."""
        if self._person is not None:
            self._person.next_mode()

    def toggle_yolo(self) -> None:
        """Ctrl-Y: everything runs without asking, or not any more."""
        if self._person is not None:
            self._person.toggle_yolo()

    def edit(self) -> None:
        """Ctrl-X Ctrl-E: the input line in the person's editor."""
        self._entry.unfold()
        meanwhile = ExitStack()
        meanwhile.enter_context(self.elsewhere())
        editing = self._entry.buffer.open_in_editor()
        editing.add_done_callback(lambda _: meanwhile.close())

    def _unhint(self) -> None:
        self.hint = ""
        self._draw()
