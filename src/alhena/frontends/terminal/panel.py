"""The question that stands where the input line was: a menu, or a line to write."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from alhena.frontends.terminal.menu import Menu, Picked, moves, press

PAUSE = 0.7
"""Seconds without a key after which keys are answers again."""
ALONE = 0.25
"""Seconds that a letter or a number has to stand alone to be an answer."""
TYPING = "That was typing, no answer. It is kept. Wait a moment, then press one key."


class Timer(Protocol):
    """What `later` gives."""

    def cancel(self) -> object:
        """Takes the call back."""
        ...


class Panel:
    """One question at a time. `changed` is called whenever another one stands there, or none;
    `clock` gives seconds, and `later` calls a function after some. `typed` gets what was no answer.

    Somebody may be typing when a question appears, and words are no answers: a letter picks only
    when it stands alone, and behind one that picks nothing no key counts until there is a pause.
    """

    def __init__(
        self,
        changed: Callable[[], None],
        clock: Callable[[], float],
        later: Callable[[float, Callable[[], None]], Timer],
        typed: Callable[[str], None],
    ) -> None:
        self.menu: Menu | None = None
        self.label: str | None = None
        self.placeholder = ""
        self.note = ""
        self._changed = changed
        self._clock = clock
        self._later = later
        self._typed = typed
        self._begun = ""
        self._armed = float("-inf")
        self._timer: Timer | None = None
        self._picked: asyncio.Future[frozenset[int] | None] | None = None
        self._written: asyncio.Future[str | None] | None = None

    @property
    def open(self) -> bool:
        """Whether there is a question."""
        return self.menu is not None or self.label is not None

    async def choose(self, menu: Menu, *, typing: bool = False) -> frozenset[int] | None:
        """What is picked, None when the menu is dismissed. `typing`: somebody is."""
        self._picked = asyncio.get_running_loop().create_future()
        self.menu, self.note = menu, ""
        if typing:
            self._armed = self._clock() + PAUSE
        self._changed()
        try:
            return await self._picked
        finally:
            self._forget()
            self.menu = self._picked = None
            self._changed()

    async def write(self, label: str, placeholder: str) -> str | None:
        """What is written, None when that is dismissed."""
        self._written = asyncio.get_running_loop().create_future()
        self.label, self.placeholder = label, placeholder
        self._changed()
        try:
            return await self._written
        finally:
            self.label = self._written = None
            self._changed()

    def key(self, name: str) -> None:
        """A key for the menu."""
        menu, picked = self.menu, self._picked
        if menu is None or picked is None or picked.done():
            return
        made = press(menu, name)
        words = not moves(name) and (made is menu or self._timer is not None)
        if words or self._clock() < self._armed:
            self.words(self._begun + (" " if name == "space" else "" if moves(name) else name))
            return
        self._forget()
        self.note = ""
        if isinstance(made, Menu):
            self.menu = made
        elif moves(name):
            picked.set_result(made.indices)
        else:
            self._begun = name
            self._timer = self._later(ALONE, lambda: self._settle(made))

    def words(self, text: str) -> None:
        """What was written while there is a menu: it is meant for the input line."""
        self._forget()
        self._armed = self._clock() + PAUSE
        self.note = TYPING
        if text:
            self._typed(text)

    def accept(self, text: str) -> None:
        """The line is written."""
        if self._written is not None and not self._written.done():
            self._written.set_result(text.strip())

    def dismiss(self) -> None:
        """There is to be no answer."""
        for waiting in (self._picked, self._written):
            if waiting is not None and not waiting.done():
                waiting.set_result(None)

    def _settle(self, made: Picked) -> None:
        """The letter stood alone."""
        self._timer, self._begun = None, ""
        if self._picked is not None and not self._picked.done():
            self._picked.set_result(made.indices)

    def _forget(self) -> None:
        self._begun = ""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
