"""The screen of a terminal that can do nothing but lines (TERM=dumb): what happens is written as it
comes, what is typed is read line by line."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import TextIO

from alhena.frontends.terminal.lines import Block, Lines, plain
from alhena.frontends.terminal.menu import Menu, Picked, press
from alhena.frontends.terminal.screen import Person, Status
from alhena.frontends.terminal.view import View

PROMPT = "> "


class LineScreen:
    """A `screen.Screen`. Lines that answer no question go to the person that is attached; the end
    of the input leaves."""

    def __init__(self, source: TextIO, write: Callable[[str], None]) -> None:
        self._source = source
        self._write = write
        self._loop = asyncio.get_running_loop()
        self._answers: asyncio.Queue[str] | None = None
        self._prompted = False

    def attach(self, person: Person) -> None:
        """From now on `person` gets what is typed."""
        threading.Thread(target=self._read, args=(person,), daemon=True).start()

    def update(self, view: View, blocks: Iterable[Block] = ()) -> None:
        """As `Screen.update`: the view itself cannot be shown."""
        for block in blocks:
            text = plain(block.lines) if isinstance(block, Lines) else block.text
            self._write(f"{text}\n")
            self._prompted = False
        if view.busy_since is None and not view.calls and not self._prompted:
            self._prompted = True
            self._write(PROMPT)

    def show_status(self, status: Status) -> None:
        """There is no place for it."""

    async def choose(self, menu: Menu) -> frozenset[int] | None:
        """As `Screen.choose`: a number, a letter, or several of them with commas."""
        listed = (f"  {number} {each.label}" for number, each in enumerate(menu.options, 1))
        self._write("\n".join((menu.title, *listed)) + "\n")
        async with self._question() as answers:
            while True:
                self._write("Number (empty: no): ")
                answer = await answers.get()
                if not answer:
                    return None
                picked = _picked(menu, answer)
                if picked is not None:
                    return picked

    async def ask_text(self, label: str, placeholder: str = "") -> str | None:
        """As `Screen.ask_text`."""
        hint = f" ({placeholder})" if placeholder else ""
        self._write(f"{label}{hint} ")
        async with self._question() as answers:
            return await answers.get()

    @asynccontextmanager
    async def suspended(self) -> AsyncGenerator[None]:
        """Nothing has to be put aside."""
        yield

    def close(self) -> None:
        """The reading ends with the process."""

    @asynccontextmanager
    async def _question(self) -> AsyncGenerator[asyncio.Queue[str]]:
        """While this is open, lines are answers."""
        self._answers = answers = asyncio.Queue[str]()
        try:
            yield answers
        finally:
            self._answers = None

    def _read(self, person: Person) -> None:
        """In a thread: nothing else can wait for a line. A loop that is closed takes none."""
        with suppress(RuntimeError):
            for line in self._source:
                self._loop.call_soon_threadsafe(self._take, line.rstrip("\n"), person)
            self._loop.call_soon_threadsafe(person.leave)

    def _take(self, line: str, person: Person) -> None:
        self._prompted = False
        if self._answers is not None:
            self._answers.put_nowait(line.strip())
        else:
            person.submit(line)


def _picked(menu: Menu, answer: str) -> frozenset[int] | None:
    """The options that a line names; None when it names none."""
    for word in answer.replace(",", " ").split():
        made = press(menu, word)
        if isinstance(made, Picked):
            return made.indices
        if made is menu:
            return None
        menu = made
    return menu.checked or None
