"""Questions at a terminal that can do nothing but lines."""

import asyncio
import os
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager

import msgspec
import pytest

from alhena.frontends.terminal.drawing.menu import Menu, MenuOption
from alhena.frontends.terminal.drawing.view import RetryPause, View
from alhena.frontends.terminal.line_screen import LineScreen, picked_by
from tests.frontends.terminal.test_screen import Somebody
from tests.support.each import for_each

ASKED = "Number (empty: no): "
OPTIONS = tuple(MenuOption(label=label, key=label[0]) for label in ("yes", "always", "no"))
MENU = Menu(title="Allow this?", options=OPTIONS)


class At:
    """A screen with lines from a pipe."""

    def __init__(self, source: int, sink: int) -> None:
        self.written = ""
        self.more = asyncio.Event()
        self.sink = sink
        self.screen = LineScreen(source, self._write)
        self.somebody = Somebody()

    def type(self, text: str) -> None:
        os.write(self.sink, text.encode("utf-8"))

    async def until(self, text: str, times: int = 1) -> None:
        while self.written.count(text) < times:
            self.more.clear()
            await self.more.wait()

    def _write(self, text: str) -> None:
        self.written += text
        self.more.set()


@pytest.fixture
def pipe() -> Generator[tuple[int, int]]:
    source, sink = os.pipe()
    yield source, sink
    os.close(source)
    os.close(sink)


@asynccontextmanager
async def asked(at: At, menu: Menu = MENU) -> AsyncGenerator["asyncio.Task[frozenset[int] | None]"]:
    asking = asyncio.create_task(at.screen.choose(menu))
    try:
        yield asking
    finally:
        asking.cancel()
        await asyncio.wait({asking})
        at.screen.close()


@pytest.mark.parametrize(("line", "picked"), [("1", {0}), (" n ", {2}), ("", None)])
async def test_a_number_or_a_letter_picks(
    pipe: tuple[int, int], line: str, picked: set[int] | None
):
    at = At(*pipe)
    at.screen.attach(at.somebody)
    async with asked(at) as asking:
        await at.until(ASKED)
        at.type(f"{line}\n")
        assert await asking == picked
    assert at.somebody.done == []


@for_each(
    "line",
    [
        *("a few tests are missing", "enter it elsewhere", "enter", "1 more thing: stop", "y not?"),
        *("down enter", "no, use mkdir", "1 2", "y y", ",", "space", "escape", "yes", "4", "0"),
    ],
)
def test_words_pick_nothing_whatever_they_begin_with(line: str):
    assert picked_by(MENU, line) is None


async def test_words_are_no_answer_and_it_is_said_that_they_are_not_kept(pipe: tuple[int, int]):
    at = At(*pipe)
    at.screen.attach(at.somebody)
    async with asked(at) as asking:
        await at.until(ASKED)
        at.type("a few tests are missing\n")
        await at.until(ASKED, times=2)
        assert "! Not an answer: a few tests are missing. Type y, a, n or an" in at.written
        at.type("n\n")
        assert await asking == {2}


@pytest.mark.parametrize("lines", ["y\nand more\n", "\n\ny\n"])
async def test_several_lines_at_once_are_no_answer(pipe: tuple[int, int], lines: str):
    at = At(*pipe)
    at.screen.attach(at.somebody)
    async with asked(at) as asking:
        await at.until(ASKED)
        at.type(lines)
        await at.until(ASKED, times=2)
        at.type("\n")
        assert await asking is None


async def test_what_was_written_before_the_question_could_be_read_is_a_prompt(
    pipe: tuple[int, int],
):
    at = At(*pipe)
    at.screen.attach(at.somebody)
    async with asked(at) as asking:
        await at.until("Allow this?")
        at.type("1\n")
        await at.until(ASKED)
        await at.somebody.until("submit 1")
        assert not asking.done()


@pytest.mark.requirement("WORLD-02")
async def test_lines_that_come_together_are_one_draft_which_the_next_line_sends(
    pipe: tuple[int, int],
):
    at = At(*pipe)
    at.screen.attach(at.somebody)
    at.type("first line\n\n/quit\n")
    await at.until("3 lines, not sent")
    assert at.somebody.done == []
    at.type("the end\n")
    await at.somebody.until("submit first line\n\n/quit\nthe end")
    at.type("漢\n字\n")  # and one that ends with its line
    await at.until("2 lines, not sent")
    at.type("\n")
    await at.somebody.until("submit 漢\n字\n")
    at.type("a\nb\n")
    await at.until("2 lines, not sent", times=2)
    at.screen.interrupt()
    assert "Dropped." in at.written
    at.type("\n\n")  # Enter held down is no paste
    await at.somebody.until("submit ")
    at.type("alone\n")
    await at.somebody.until("submit alone")
    at.screen.close()
    assert [each for each in at.somebody.done if each != "interrupt"] == [
        "submit first line\n\n/quit\nthe end",
        "submit 漢\n字\n",
        "submit ",
        "submit alone",
    ]


async def test_lines_written_before_the_session_began_are_prompts_one_by_one(
    pipe: tuple[int, int],
):
    at = At(*pipe)
    at.type("first\nsecond\n")
    at.screen.attach(at.somebody)
    assert at.somebody.done == ["submit first", "submit second"]
    at.screen.close()


async def test_before_there_is_a_person_it_waits_for_one(pipe: tuple[int, int]):
    at = At(*pipe)
    at.type("y\n")
    async with asked(at) as asking:
        await at.until(ASKED)
        at.type("2\n")
        assert await asking == {1}
        at.screen.attach(at.somebody)
        assert at.somebody.done == ["submit y"]


async def test_lines_behind_a_reason_are_prompts(pipe: tuple[int, int]):
    at = At(*pipe)
    at.screen.attach(at.somebody)
    asking = asyncio.create_task(at.screen.ask_text("Why?"))
    await at.until("Why?")
    at.type("because\nand now this\n")
    assert await asking == "because"
    await at.somebody.until("submit and now this")
    at.screen.close()


async def test_several_can_be_picked_where_that_is_asked(pipe: tuple[int, int]):
    at = At(*pipe)
    at.screen.attach(at.somebody)
    menu = Menu(title="Which?", options=OPTIONS, checked=frozenset())
    async with asked(at, menu) as asking:
        await at.until(ASKED)
        at.type("1, n\n")
        assert await asking == {0, 2}


async def test_whoever_leaves_before_the_question_is_asked_has_said_nothing(
    pipe: tuple[int, int],
):
    at = At(*pipe)
    async with asked(at) as asking:
        await at.until("Allow this?")
        at.screen.leave()
        assert await asking is None


async def test_a_pause_before_a_retry_is_told_once(pipe: tuple[int, int]):
    at = At(*pipe)
    until = asyncio.get_running_loop().time() + 50
    pause = RetryPause(why="Rate limit reached.", until=until, attempt="attempt 2 of 10")
    for now in (1.0, 2.0):
        at.screen.update(View(busy_since=now, pause=pause))
    at.screen.update(
        View(busy_since=1.0, pause=msgspec.structs.replace(pause, attempt="attempt 3"))
    )
    assert at.written.count("! Rate limit reached.\n  Trying again in ") == 2
    assert at.written.count("(attempt 2 of 10, Ctrl-C to interrupt)") == 1
    at.screen.close()
