"""The screen of a terminal that can do nothing but lines (TERM=dumb): what happens is written as it
comes, what is typed is read line by line."""

import asyncio
import os
from codecs import getincrementaldecoder
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager

from alhena.frontends.terminal.lines import Block, Lines, folded, plain
from alhena.frontends.terminal.menu import Menu, Picked, press
from alhena.frontends.terminal.screen import Person, Status
from alhena.frontends.terminal.view import View

PROMPT = "> "
CHUNK = 65_536


class LineScreen:
    """A `screen.Screen`. Lines that answer no question go to the person that is attached; the end
    of the input leaves. `source` is the descriptor of a terminal that gives whole lines."""

    def __init__(self, source: int, write: Callable[[str], None]) -> None:
        self._source = source
        self._write = write
        self._loop = asyncio.get_running_loop()
        self._decode = getincrementaldecoder("utf-8")("replace").decode
        self._begun = ""
        self._answers: asyncio.Queue[str] | None = None
        self._person: Person | None = None
        self._reading = False
        self._left = False
        self._prompted = False

    @property
    def keys(self) -> bool:
        """As `Screen.keys`."""
        return False

    def attach(self, person: Person) -> None:
        """From now on `person` gets what is typed."""
        self._person = person
        if self._left:
            person.leave()
            return
        self._listen()
        self._prompt()

    def leave(self) -> None:
        """Ends the session; before there is one, the question it waits for."""
        self._left = True
        if self._person is not None:
            self._person.leave()
        elif self._answers is not None:
            self._answers.put_nowait("")

    def interrupted(self) -> None:
        """Ctrl-C: stops what runs, or leaves. One that comes while another program has the
        terminal is meant for that one."""
        if self._person is None or (self._reading and not self._person.interrupt()):
            self.leave()

    def kill(self) -> None:
        """Ends all processes of the session, at once."""
        if self._person is not None:
            self._person.kill()

    def update(self, view: View, blocks: Iterable[Block] = ()) -> None:
        """As `Screen.update`: the view itself cannot be shown."""
        shown = tuple(blocks)
        for block in shown:
            self._write(f"{self._text(block)}\n")
            self._prompted = False
        if not shown and view.busy_since is None and not view.calls:
            self._prompt()

    def show_status(self, status: Status) -> None:
        """There is no place for it."""

    async def choose(self, menu: Menu) -> frozenset[int] | None:
        """As `Screen.choose`: a number, a letter, or several of them with commas."""
        listed = (
            f"  {number} {each.label}{f' ({each.detail})' if each.detail else ''}"
            for number, each in enumerate(menu.options, 1)
        )
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
        """Nothing is read meanwhile."""
        self._deaf()
        try:
            yield
        finally:
            self._listen()

    def close(self) -> None:
        """Ends the reading of input."""
        self._deaf()

    @asynccontextmanager
    async def _question(self) -> AsyncGenerator[asyncio.Queue[str]]:
        """While this is open, lines are answers."""
        self._answers = answers = asyncio.Queue[str]()
        early = self._person is None and not self._left
        if early:
            self._listen()
        try:
            yield answers
        finally:
            self._answers = None
            if early:  # what is typed from now on is for who is attached later
                self._deaf()

    def _text(self, block: Block) -> str:
        if not isinstance(block, Lines):
            return block.text
        try:
            columns = os.get_terminal_size(self._source).columns
        except OSError:
            columns = 0
        if not block.hang or not columns:
            return plain(block.lines)
        return plain(row for each in block.lines for row in folded(each, columns, block.hang))

    def _prompt(self) -> None:
        """Shows that something can be typed, once somebody takes it."""
        if self._person is not None and not self._prompted:
            self._prompted = True
            self._write(PROMPT)

    def _listen(self) -> None:
        self._reading = True
        self._loop.add_reader(self._source, self._read)

    def _deaf(self) -> None:
        self._reading = False
        self._loop.remove_reader(self._source)

    def _read(self) -> None:
        try:
            data = os.read(self._source, CHUNK)
        except OSError:  # the terminal has gone away
            data = b""
        *lines, self._begun = (self._begun + self._decode(data, final=not data)).split("\n")
        for each in lines:
            self._take(each)
        if not data:
            if self._prompted:
                self._write("\n")
            self._deaf()
            self.leave()

    def _take(self, line: str) -> None:
        self._prompted = False
        if self._answers is not None:
            self._answers.put_nowait(line.strip())
        elif self._person is not None:
            self._person.submit(line)


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
