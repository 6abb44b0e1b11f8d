"""The question that stands where the input line was: a menu, or a line to write."""

import asyncio
from collections.abc import Callable

from alhena.frontends.terminal.menu import Menu, Picked, press


class Panel:
    """One question at a time. `changed` is called whenever another one stands there, or none;
    `clock` gives seconds."""

    def __init__(self, changed: Callable[[], None], clock: Callable[[], float]) -> None:
        self.menu: Menu | None = None
        self.label: str | None = None
        self.placeholder = ""
        self._changed = changed
        self._clock = clock
        self._armed = 0.0
        self._picked: asyncio.Future[frozenset[int] | None] | None = None
        self._written: asyncio.Future[str | None] | None = None

    @property
    def open(self) -> bool:
        """Whether there is a question."""
        return self.menu is not None or self.label is not None

    async def choose(self, menu: Menu, deaf_s: float = 0.0) -> frozenset[int] | None:
        """What is picked, None when the menu is dismissed. For `deaf_s` seconds keys count for
        nothing: they were meant for something else."""
        self._picked = asyncio.get_running_loop().create_future()
        self.menu, self._armed = menu, self._clock() + deaf_s
        self._changed()
        try:
            return await self._picked
        finally:
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
        if self.menu is None or self._picked is None or self._picked.done():
            return
        if self._clock() < self._armed:
            return
        made = press(self.menu, name)
        if isinstance(made, Picked):
            self._picked.set_result(made.indices)
        else:
            self.menu = made

    def accept(self, text: str) -> None:
        """The line is written."""
        if self._written is not None and not self._written.done():
            self._written.set_result(text.strip())

    def dismiss(self) -> None:
        """There is to be no answer."""
        for waiting in (self._picked, self._written):
            if waiting is not None and not waiting.done():
                waiting.set_result(None)
