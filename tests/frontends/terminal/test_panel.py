"""A question takes answers, and no words that were meant for something else."""

import asyncio
from collections.abc import Callable

import pytest

from alhena.frontends.terminal.menu import Menu, Option
from alhena.frontends.terminal.panel import ALONE, PAUSE, Panel

MENU = Menu(
    title="Allow this?",
    options=tuple(Option(label=label, key=key) for key, label in (("y", "yes"), ("s", "save"))),
)


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def later(self, seconds: float, function: Callable[[], None]) -> "Timer":
        entry = (self.now + seconds, function)
        self.timers.append(entry)
        return Timer(self, entry)

    def pass_(self, seconds: float) -> None:
        self.now += seconds
        due = [entry for entry in self.timers if entry[0] <= self.now]
        self.timers = [entry for entry in self.timers if entry[0] > self.now]
        for _, function in due:
            function()


class Timer:
    def __init__(self, clock: Clock, entry: tuple[float, Callable[[], None]]) -> None:
        self.clock = clock
        self.entry = entry

    def cancel(self) -> None:
        if self.entry in self.clock.timers:
            self.clock.timers.remove(self.entry)


class Asked:
    """A panel with an open menu."""

    def __init__(self, *, typing: bool = False) -> None:
        self.clock = Clock()
        self.typed: list[str] = []
        self.panel = Panel(lambda: None, self.clock.time, self.clock.later, self.typed.append)
        self.answer = asyncio.ensure_future(self.panel.choose(MENU, typing=typing))

    async def keys(self, keys: list[str], every: float = 0.1) -> None:
        await asyncio.sleep(0)
        for key in keys:
            self.panel.key(key)
            self.clock.pass_(every)
        await asyncio.sleep(0)


async def test_a_letter_that_stands_alone_picks():
    asked = Asked()
    await asked.keys(["s"], every=ALONE - 0.01)
    assert not asked.answer.done()
    asked.clock.pass_(0.02)
    assert await asked.answer == {1}
    assert not asked.panel.open


@pytest.mark.parametrize("word", ["queued words", "start", "yes", "save", "1s", "no way"])
async def test_words_pick_nothing_even_with_enter_behind_them(word: str):
    asked = Asked()
    await asked.keys(["space" if char == " " else char for char in word] + ["enter"])
    asked.clock.pass_(10)
    await asyncio.sleep(0)
    assert not asked.answer.done()
    assert asked.panel.note
    await asked.keys(["y"])
    asked.clock.pass_(ALONE)
    assert await asked.answer == {0}


async def test_words_that_were_no_answer_are_kept_for_the_input_line():
    asked = Asked()
    await asked.keys(["s", "o", "space", "n", "o", "t", "down", "enter"])
    assert "".join(asked.typed) == "so not"
    asked.panel.words("\npasted")
    assert asked.typed[-1] == "\npasted"
    asked.clock.pass_(PAUSE)
    await asked.keys(["y"])
    asked.clock.pass_(ALONE)
    assert await asked.answer == {0}
    assert "".join(asked.typed) == "so not\npasted"


async def test_who_was_typing_has_to_pause_before_a_key_counts():
    asked = Asked(typing=True)
    await asked.keys(["enter", "y"], every=PAUSE / 2)
    asked.clock.pass_(PAUSE / 4)
    assert not asked.answer.done()
    asked.clock.pass_(PAUSE)
    await asked.keys(["enter"])
    assert await asked.answer == {0}


async def test_arrows_and_enter_answer_at_once():
    asked = Asked()
    await asked.keys(["down", "enter"], every=0)
    assert await asked.answer == {1}


async def test_escape_dismisses():
    asked = Asked()
    await asked.keys(["escape"])
    assert await asked.answer is None


async def test_a_question_that_is_given_up_leaves_no_timer_and_no_menu():
    asked = Asked()
    await asked.keys(["y"], every=0)
    asked.answer.cancel()
    await asyncio.wait({asked.answer})
    assert asked.clock.timers == []
    assert asked.panel.menu is None
    asked.panel.key("enter")
    asked.panel.accept("nobody asked")
    asked.panel.dismiss()


async def test_a_line_is_written_or_dismissed():
    panel = Panel(lambda: None, lambda: 0.0, Clock().later, lambda _text: None)
    for act, answer in ((lambda: panel.accept(" text "), "text"), (panel.dismiss, None)):
        written = asyncio.ensure_future(panel.write("Why?", "hint"))
        await asyncio.sleep(0)
        assert (panel.label, panel.placeholder) == ("Why?", "hint")
        act()
        assert await written == answer
        assert panel.label is None
