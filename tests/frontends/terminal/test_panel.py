"""A question takes answers, and no words that were meant for something else."""

import asyncio
from collections.abc import Callable, Iterable

import pytest

from alhena.frontends.terminal.drawing.menu import (
    ALONE,
    EARLY,
    LOOK,
    PAUSE,
    TYPING,
    UNSURE,
    Menu,
    MenuOption,
    Panel,
)

MENU = Menu(
    title="Allow this?",
    options=tuple(
        MenuOption(label=label, key=key)
        for key, label in (("y", "yes"), ("s", "save"), ("n", "no"))
    ),
)


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[tuple[float, Callable[[], None]]] = []

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
    """A panel with an open menu; `looked`: it has been there for a moment."""

    def __init__(self, *, typing: bool = False) -> None:
        self.clock = Clock()
        self.typed: list[str] = []
        self.panel = Panel(lambda: None, self.clock.later, self.typed.append)
        self.answer = asyncio.ensure_future(self.panel.choose(MENU, typing=typing))

    async def looked(self) -> None:
        await asyncio.sleep(0)
        self.panel.note_drawn()
        self.clock.pass_(LOOK)

    async def keys(self, keys: Iterable[str], every: float = 0.1) -> None:
        for key in keys:
            self.panel.key({" ": "space", "\r": "enter"}.get(key, key))
            self.clock.pass_(every)
        await asyncio.sleep(0)


async def test_a_letter_that_stands_alone_picks():
    asked = Asked()
    await asked.looked()
    await asked.keys(["s"], every=ALONE - 0.01)
    assert not asked.answer.done()
    asked.clock.pass_(0.02)
    assert await asked.answer == {1}
    assert not asked.panel.open


async def test_enter_takes_what_was_seen_for_a_moment():
    asked = Asked()
    await asked.looked()
    assert asked.panel.counts
    await asked.keys(["enter"], every=0)
    assert await asked.answer == {0}


@pytest.mark.parametrize("keys", ["\r", "y", "1", "\r\r\r", ["down", "enter"], ["tab", "enter"]])
@pytest.mark.parametrize("seconds", [0, LOOK - 0.01])
async def test_no_key_counts_before_the_question_was_seen_for_a_moment(
    keys: Iterable[str], seconds: float
):
    asked = Asked()
    await asyncio.sleep(0)
    asked.clock.pass_(10)  # nothing is drawn yet
    await asked.keys(keys)
    asked.panel.note_drawn()
    asked.clock.pass_(seconds)
    await asked.keys(keys)
    asked.clock.pass_(ALONE)
    assert asked.panel.note == (TYPING if asked.typed else EARLY)
    asked.clock.pass_(10)
    await asyncio.sleep(0)
    assert not asked.answer.done()
    assert asked.panel.note == (TYPING if asked.typed else "")
    await asked.keys(["y"], every=PAUSE)
    assert await asked.answer == {0}


async def test_a_key_that_is_held_down_is_no_answer_however_long():
    asked = Asked()
    await asyncio.sleep(0)
    asked.panel.note_drawn()
    await asked.keys(["enter"] * 99, every=LOOK - 0.1)
    assert not asked.answer.done()


async def test_a_second_question_has_to_be_seen_too():
    asked = Asked()
    await asked.looked()
    await asked.keys("\r", every=0)
    assert await asked.answer == {0}
    second = asyncio.ensure_future(asked.panel.choose(MENU))
    await asyncio.sleep(0)
    asked.panel.note_drawn()
    await asked.keys("\r", every=0.2)
    assert not second.done()
    second.cancel()
    await asyncio.wait({second})


@pytest.mark.parametrize(
    "word", ["queued words", "start", "yes", "save", "1s", "no way", "a y", "12 files"]
)
async def test_words_pick_nothing_even_with_enter_behind_them(word: str):
    asked = Asked()
    await asked.looked()
    await asked.keys(word + "\r")
    asked.clock.pass_(10)
    await asked.keys("\r")
    asked.clock.pass_(10)
    await asyncio.sleep(0)
    assert not asked.answer.done()
    assert asked.panel.note == UNSURE
    assert "".join(asked.typed) == word
    await asked.keys("y", every=PAUSE)
    assert await asked.answer == {0}


async def test_behind_words_a_letter_has_to_stand_alone_for_longer():
    asked = Asked()
    await asked.looked()
    await asked.keys("look")
    asked.clock.pass_(PAUSE)
    await asked.keys("a y s", every=PAUSE - 0.1)
    assert not asked.answer.done()
    assert "".join(asked.typed) == "looka y s"


@pytest.mark.parametrize(("keys", "answer"), [("y\r", 0), ("n\r", 2), ("2\r", 1)])
@pytest.mark.parametrize("looked", [True, False])
async def test_a_letter_or_number_with_enter_answers_at_once(
    keys: str, answer: int, *, looked: bool
):
    asked = Asked()
    await asyncio.sleep(0)
    await asked.keys("y\r")  # nobody has seen the question
    assert "".join(asked.typed) == "y"
    asked = Asked()
    await asyncio.sleep(0)
    asked.panel.note_drawn()
    asked.clock.pass_(LOOK if looked else 0)
    await asked.keys(keys, every=0)
    assert await asked.answer == {answer}


async def test_a_number_without_an_option_is_no_answer_and_says_so():
    asked = Asked()
    await asked.looked()
    for keys in ("7\r", "12\r", "0"):
        await asked.keys(keys, every=0)
        asked.clock.pass_(ALONE)
        assert asked.panel.note == f"There is no answer {keys.strip()}: choose 1 to 3."
    await asked.keys("2\r", every=0)
    assert (await asked.answer, asked.typed) == ({1}, [])


@pytest.mark.parametrize("key", ["down", "up", "space"])
async def test_a_letter_with_any_key_behind_it_is_kept(key: str):
    asked = Asked()
    await asked.looked()
    await asked.keys(["3", key], every=0.05)
    asked.clock.pass_(10)
    await asyncio.sleep(0)
    assert not asked.answer.done()
    assert "".join(asked.typed).strip() == "3"
    assert asked.panel.menu == MENU


async def test_a_letter_that_is_taken_back_is_no_answer():
    asked = Asked()
    await asked.looked()
    await asked.keys("y", every=0.05)
    asked.panel.erase()
    asked.clock.pass_(10)
    await asyncio.sleep(0)
    assert (asked.answer.done(), asked.typed) == (False, [])
    await asked.keys("\r")
    assert await asked.answer == {0}


async def test_behind_words_enter_takes_what_an_arrow_went_to_and_was_seen():
    asked = Asked()
    await asked.looked()
    await asked.keys("no")
    asked.clock.pass_(PAUSE)
    await asked.keys(["tab", "enter"])
    asked.clock.pass_(PAUSE)
    assert asked.panel.menu == MENU
    await asked.keys(["down", "enter"], every=0.1)
    assert not asked.answer.done()
    asked.clock.pass_(PAUSE)
    await asked.keys(["enter"])
    assert await asked.answer == {1}


async def test_words_that_were_no_answer_are_kept_for_the_input_line():
    asked = Asked()
    await asked.looked()
    await asked.keys(["s", "o", "space", "n", "o", "t", "down", "enter"])
    assert "".join(asked.typed) == "so not"
    asked.clock.pass_(PAUSE)
    asked.panel.key("s")
    asked.panel.words(" pasted")
    assert "".join(asked.typed) == "so nots pasted"
    asked.clock.pass_(PAUSE)
    await asked.keys(["y"], every=PAUSE)
    assert await asked.answer == {0}


async def test_what_was_begun_before_the_question_is_not_ended_by_its_enter():
    asked = Asked(typing=True)
    await asked.looked()
    await asked.keys(["y"], every=PAUSE)  # not long enough
    await asked.keys(["enter"])
    asked.clock.pass_(PAUSE)
    await asked.keys(["enter"])
    assert not asked.answer.done()
    asked.clock.pass_(PAUSE)
    await asked.keys(["y"], every=PAUSE)
    assert await asked.answer == {0}


async def test_arrows_and_enter_answer_at_once():
    asked = Asked()
    await asked.looked()
    await asked.keys(["down", "enter"], every=0)
    assert await asked.answer == {1}


async def test_behind_another_program_the_question_has_to_be_seen_again():
    asked = Asked()
    await asked.looked()
    asked.panel.hide()
    asked.panel.note_drawn()
    asked.clock.pass_(10)
    await asked.keys(["enter"])
    asked.panel.show()
    await asked.keys(["enter"])
    asked.panel.note_drawn()
    await asked.keys(["enter"], every=0)
    assert not asked.answer.done()
    asked.clock.pass_(PAUSE)
    await asked.keys(["enter"], every=0)
    assert await asked.answer == {0}


async def test_escape_dismisses():
    asked = Asked()
    await asyncio.sleep(0)
    await asked.keys(["escape"])
    assert await asked.answer is None


async def test_a_question_that_is_given_up_leaves_no_timer_and_no_menu():
    asked = Asked()
    await asked.looked()
    await asked.keys(["y"], every=0)
    asked.answer.cancel()
    await asyncio.wait({asked.answer})
    assert asked.clock.timers == []
    assert asked.panel.menu is None
    asked.panel.key("enter")
    asked.panel.accept("nobody asked")
    asked.panel.dismiss()


async def test_a_line_is_written_or_dismissed():
    panel = Panel(lambda: None, Clock().later, lambda _text: None)
    for act, answer in ((lambda: panel.accept(" text "), "text"), (panel.dismiss, None)):
        written = asyncio.ensure_future(panel.write("Why?", "hint"))
        await asyncio.sleep(0)
        assert (panel.label, panel.placeholder) == ("Why?", "hint")
        act()
        assert await written == answer
        assert panel.label is None
