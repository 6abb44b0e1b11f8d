"""The screen of a terminal that can do nothing but lines (TERM=dumb): what happens is written as it
comes, what is typed is read line by line."""

import asyncio
import os
from codecs import getincrementaldecoder
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Mapping
from contextlib import asynccontextmanager, contextmanager, nullcontext
from select import select
from typing import TYPE_CHECKING, Any

import msgspec

from alhena.display_text import one_line
from alhena.frontends.terminal.dialogs.panel import ALONE, LOOK, PAUSE
from alhena.frontends.terminal.drawing.call_result import SEE_ALL, duration
from alhena.frontends.terminal.drawing.lines import (
    BAR,
    Block,
    Line,
    Lines,
    fit_lines,
    fold_line,
    line,
    plain,
    warning_line,
)
from alhena.frontends.terminal.drawing.markdown_pieces import fold_prose
from alhena.frontends.terminal.drawing.menu import Menu, MenuOption, find_option
from alhena.frontends.terminal.drawing.screen import FootStatus
from alhena.frontends.terminal.drawing.view import RetryPause, View

if TYPE_CHECKING:
    from alhena.config.settings import Settings
    from alhena.frontends.terminal.conversation import Conversation

PROMPT = "> "
CHUNK = 65_536
HANG = 4
"""Blanks before the second row of a menu's option."""
LISTED = 30
"""Options of a menu with search that are listed at once."""
TOGETHER = 0.1
"""Seconds without another line after which those that came are all that came together."""
DRAFT = "! {} lines, not sent. Enter sends them, a last line is added; Ctrl-C drops them."


class LineScreen:
    """A `screen.Screen`. Lines that were written while there was no question go to the person that
    is attached, as soon as one is; the end of the input leaves. Several that come together are
    pasted: one prompt, which the next line that comes alone completes and sends. `source` is the
    descriptor of a terminal that gives whole lines. With `headings` the parts of the output are
    named."""

    keys = False

    def __init__(
        self, source: int, write: Callable[[str], None], *, headings: bool = False
    ) -> None:
        self._headings = headings
        self._part = ""
        self._working_since: float | None = None
        self._source = source
        self._write = self.control = write
        self.draft: Callable[[str], None] = lambda _text: None  # there is no line to change
        self._loop = asyncio.get_running_loop()
        self._decode = getincrementaldecoder("utf-8")("replace").decode
        self._begun = ""
        self._answers: asyncio.Queue[str] | None = None
        self._kept: list[str] = []
        self._came: list[str] = []
        self._pasted: list[str] = []
        self._pause: asyncio.TimerHandle | None = None
        self._person: Conversation | None = None
        self._reading = False
        self._left = False
        self._prompted = False
        self._echoed = ""
        self._queued: tuple[str, ...] = ()
        self._pause_told: RetryPause | None = None

    def attach(self, person: "Conversation") -> None:
        """From now on `person` gets what is typed."""
        self._person = person
        if self._left:
            person.leave()
            return
        more = True
        while more and select((self._source,), (), (), 0)[0]:
            more = self._read_lines(self._kept.append)  # typed before: one after the other
        for each in filter(None, self._kept):
            person.submit(each, early=True)
        self._kept.clear()
        if not more:
            self.leave()
            return
        self._listen()
        self._prompt()

    def leave(self, why: str = "") -> None:
        """Ends the session; before there is one, the question it waits for."""
        self._left = True
        if self._person is not None:
            self._person.leave(why)
        if self._answers is not None:
            self._answers.put_nowait("")

    def interrupt(self) -> None:
        """Ctrl-C: stops what runs, or leaves. One that comes while another program has the
        terminal is meant for that one."""
        if self._person is not None and (not self._reading or self._person.interrupt()):
            return
        if not self._pasted:
            self.leave()
            return
        self._pasted.clear()
        self._write("Dropped.\n")
        self._prompt()

    def kill(self) -> None:
        """Ends all processes of the session, at once."""
        if self._person is not None:
            self._person.kill()

    def adopt(self, settings: "Settings") -> None:
        """As `Screen.adopt`: plain lines have no looks."""

    def update(self, view: View, blocks: Iterable[Block] = ()) -> None:
        """As `Screen.update`: the view itself cannot be shown."""
        shown = tuple(blocks)
        if not shown and not self._part and view.busy_since not in (None, self._working_since):
            self._working_since = view.busy_since
            self._head("Working.")
        if view.pause is not None and view.pause is not self._pause_told:
            left = duration((int(view.pause.until - self._loop.time()) + 1) * 1000)
            self._head("")
            again = f"  Trying again in {left} ({view.pause.attempt}, Ctrl-C to interrupt)"
            rows = [*self._fold_rows(warning_line(view.pause.why)), *self._fold_rows(line(again))]
            self._write(f"{plain(rows)}\n")
        self._pause_told = view.pause
        for block in shown:
            if self._is_echoed(block):
                continue
            if self._prompted:  # it came by itself
                self._write("\n")
            if not isinstance(block, Lines):
                self._head("Answer:")
            elif any(block.lines):
                self._head("")
            self._write(f"{self._text(block)}\n")
            self._prompted = False
        if not shown and view.busy_since is None and not view.calls:
            self._prompt()

    def _is_echoed(self, block: Block) -> bool:
        """True for the line that was typed behind the prompt: the terminal shows it already."""
        if not self._echoed or " ".join(self._text(block).split()) != PROMPT + self._echoed:
            return False
        self._echoed = ""
        return True

    def _head(self, part: str) -> None:
        """Writes a heading where another part of the output begins."""
        if self._headings and part != self._part:
            self._part = part
            self._write(f"{part}\n" if part else "")

    def themes(self, custom: Mapping[str, Any]) -> Mapping[str, tuple[Line, ...]]:
        """As `Screen.themes`: plain lines have no colours."""
        del custom
        return {}

    def show_status(self, status: FootStatus) -> None:
        """As `Screen.show_status`: it names a prompt that has to wait; there is no place for
        the rest."""
        if len(status.queued) > len(self._queued):
            self._write(f"queued: {one_line(status.queued[-1], 400)}\n")
        self._queued = status.queued

    async def choose(self, menu: Menu) -> frozenset[int] | None:
        """As `Screen.choose`: a number, a letter, or several of them with commas. It is an answer
        when it is alone, and was written after the question could be read: several lines at
        once were meant for something else."""
        if menu.search is not None:
            return await self._search(menu)
        numbered = zip(menu.numbers, menu.options, strict=True)
        letters = (f"/{each.key}" if each.key else "" for each in menu.options)
        listed = (
            f"  {number}{letter} {_option_text(each)}"
            for (number, each), letter in zip(numbered, letters, strict=True)
        )
        more = (f"  {menu.more.key} {_option_text(menu.more)}",) if menu.more else ()
        self._list(menu.title, *listed, *more)
        async with self._question(LOOK) as answers:
            alone = ALONE
            while True:
                self._write("Number (empty: no): ")
                lines = await _together(answers, alone)
                if lines == [""]:
                    return None
                picked = picked_by(menu, lines[0]) if len(lines) == 1 else None
                if picked is not None:
                    return picked
                refused = self._fold_rows(warning_line(_refuse_lines(menu, lines)))
                self._write(f"{plain(refused)}\n")
                alone = PAUSE

    async def _search(self, menu: Menu) -> frozenset[int] | None:
        """Lists the options; a number takes one, words show those that hold them."""
        async with self._question() as answers:
            while True:
                listed = [
                    f"  {at + 1} {_option_text(menu.options[at])}" for at in menu.found[:LISTED]
                ]
                more = len(menu.found) - len(listed)
                told = [f"  and {more} more"] if more > 0 else []
                self._list(menu.title, *listed, *told)
                self._write("Number or words (empty: none): ")
                answer = (await answers.get()).strip()
                if not answer:
                    return None
                if answer.isdigit() and 0 < int(answer) <= len(menu.options):
                    return frozenset({int(answer) - 1})
                menu = msgspec.structs.replace(menu, search=answer.removeprefix("/"))

    async def ask_text(
        self, label: str, placeholder: str = "", *, secret: bool = False
    ) -> str | None:
        """As `Screen.ask_text`."""
        hint = f" ({placeholder})" if placeholder else ""
        with _silent(self._source) if secret else nullcontext():
            self._write(f"{label}{hint} ")
            async with self._question() as answers:
                answer = await answers.get()
            if secret:  # the line was not echoed, nor was its end
                self._write("\n")
            return answer

    @asynccontextmanager
    async def suspend(self) -> AsyncGenerator[None]:
        """Nothing is read meanwhile."""
        self._stop_listening()
        try:
            yield
        finally:
            self._listen()

    def close(self) -> None:
        """Ends the reading of input."""
        self._stop_listening()

    @asynccontextmanager
    async def _question(self, look: float = 0) -> AsyncGenerator[asyncio.Queue[str]]:
        """While this is open, lines are answers, but for those that were written before it could be
        read for `look` seconds. What is left of them when it ends is none."""
        early = self._person is None and not self._left
        if early:
            self._listen()
        answers = asyncio.Queue[str]()
        try:
            if look:
                await asyncio.sleep(look)
                while self._reading and select((self._source,), (), (), 0)[0]:
                    self._read()
            self._answers = answers
            if self._left:
                answers.put_nowait("")
            yield answers
        finally:
            self._answers = None
            if early and self._reading:  # what is typed now is for who is attached later
                self._stop_listening()
            while not answers.empty():
                self._take(answers.get_nowait())

    def _list(self, title: str, *options: str) -> None:
        """Writes a menu."""
        rows: list[Line] = [
            (),
            *self._fold_rows(line(title)),
            *(row for each in options for row in self._option(each)),
        ]
        self._write(f"{plain(rows)}\n")

    def _option(self, text: str) -> list[Line]:
        return self._fold_rows(line(text), HANG)

    def _fold_rows(self, given: Line, hang: int | None = None) -> list[Line]:
        """The rows of a line, broken at blanks where the terminal says how wide it is."""
        return fold_line(given, self._columns, hang) if self._columns else [given]

    @property
    def _columns(self) -> int:
        """Columns of the terminal; 0 where they are not known."""
        try:
            return os.get_terminal_size(self._source).columns
        except OSError:
            return 0

    def _text(self, block: Block) -> str:
        if not isinstance(block, Lines):
            return fold_prose(block.text, self._columns) if self._columns else block.text
        lines = [
            tuple((style, _without_keys(text)) for style, text in each)
            for each in (each[1:] if each[:1] == (BAR,) else each for each in block.lines)
        ]
        fold = block.fold or block.clip  # a clipped line could not be opened
        block = Lines(tuple(lines), fold=fold, hang=block.hang)
        return plain(fit_lines(block, self._columns) if self._columns else lines)

    def _prompt(self) -> None:
        """Shows that input is read."""
        if self._person is not None and not self._prompted:
            self._prompted = True
            self._write(PROMPT)

    def _listen(self) -> None:
        self._reading = True
        self._loop.add_reader(self._source, self._read)

    def _stop_listening(self) -> None:
        self._reading = False
        self._loop.remove_reader(self._source)

    def _read(self) -> None:
        if not self._read_lines(self._take):
            if self._pause is not None:
                self._pause.cancel()
                self._submit()
            if self._prompted:
                self._write("\n")
            self._stop_listening()
            self.leave()

    def _read_lines(self, take: Callable[[str], None]) -> bool:
        """Gives each line that there is to `take`; False at the end of the input."""
        try:
            data = os.read(self._source, CHUNK)
        except OSError:  # the terminal has gone away
            data = b""
        *lines, self._begun = (self._begun + self._decode(data, final=not data)).split("\n")
        for each in lines:
            take(each)
        return bool(data)

    def _take(self, line: str) -> None:
        if self._answers is not None:
            self._echoed, self._prompted = "", False
            self._answers.put_nowait(line.strip())
        elif self._person is not None:
            self._came.append(line)
            if self._pause is not None:
                self._pause.cancel()
            self._pause = self._loop.call_later(TOGETHER, self._submit)
        elif line:
            self._kept.append(line)

    def _submit(self) -> None:
        """Sends the line that came alone, with what was pasted before it, or keeps lines that came
        together until then."""
        self._pause = None
        pasted = len(self._came) > 1 and any(map(str.strip, self._came))
        self._pasted += self._came if pasted else self._came[-1:]
        self._came.clear()
        if pasted:
            # The terminal may have shown the beginning of a further line.
            self._write(f"\n{DRAFT.format(len(self._pasted))}\n{PROMPT}")
            self._prompted = True
            return
        text = "\n".join(self._pasted)
        self._pasted.clear()
        self._echoed = " ".join(text.split()) if self._prompted else ""
        self._prompted = False
        if self._person is not None:
            self._person.submit(text)


def _option_text(option: MenuOption) -> str:
    if not option.detail:
        return option.label
    bare = option.detail.startswith("(")
    return f"{option.label} {option.detail if bare else f'({option.detail})'}"


@contextmanager
def _silent(source: int) -> Generator[None]:
    """Turns the terminal's echo off for a block."""
    import termios

    before = termios.tcgetattr(source)
    silent = [*before]
    silent[3] &= ~termios.ECHO
    termios.tcsetattr(source, termios.TCSADRAIN, silent)
    try:
        yield
    finally:
        termios.tcsetattr(source, termios.TCSADRAIN, before)


async def _together(lines: asyncio.Queue[str], alone: float) -> list[str]:
    """The next line, and those that come with it: none of them `alone` seconds after the one
    before."""
    found = [await lines.get()]
    while True:
        try:
            async with asyncio.timeout(alone):
                found.append(await lines.get())
        except TimeoutError:
            return found


def _refuse_lines(menu: Menu, lines: list[str]) -> str:
    """The words for lines that answer nothing: they and what does."""
    known = [
        each.key or str(number) for number, each in zip(menu.numbers, menu.options, strict=True)
    ]
    known += [menu.more.key] if menu.more else []
    given = one_line(" ".join(lines), 40)
    return f"Not an answer: {given}. Type {', '.join(known)} or an empty line."


def picked_by(menu: Menu, answer: str) -> frozenset[int] | None:
    """The options that a line names; None when there is anything else in it."""
    found = [find_option(menu, word) for word in answer.replace(",", " ").split()]
    picked = frozenset(each for each in found if each is not None)
    if None in found or not found or (menu.checked is None and len(found) > 1):
        return None
    return picked


def _without_keys(text: str) -> str:
    """A text that names a key, with the command that does the same."""
    return text.replace(SEE_ALL, " · /show") if text.endswith(SEE_ALL) else text
