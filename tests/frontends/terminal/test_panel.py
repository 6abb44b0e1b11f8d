"""A question takes answers, and no words that were meant for something else."""

import asyncio
from collections.abc import Callable, Iterable

import pytest

from alhena.frontends.terminal.dialogs.panel import ALONE, EARLY, LOOK, PAUSE, Panel
from alhena.frontends.terminal.drawing.menu import Menu, MenuOption

REFUSED = "Press y, s, n or Esc."
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
    """A panel with an open menu, and what is in the input line; `looked`: the menu has been there
    for a moment."""

    def __init__(self, draft: str = "") -> None:
        self.clock = Clock()
        self.typed: list[str] = [draft] if draft else []
        self.panel = Panel(
            lambda: None, self.clock.later, self.typed.append, lambda: bool(self.typed)
        )
        self.answer = asyncio.ensure_future(self.panel.choose(MENU))

    def send_draft(self) -> None:
        """The draft is sent, as Enter in the input line does it."""
        self.typed.clear()
        self.panel.pause()

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
    asked.clock.pass_(ALONE)
    asked.panel.note_drawn()
    asked.clock.pass_(seconds)
    await asked.keys(keys, every=0)
    assert not asked.answer.done()
    asked.clock.pass_(10)
    await asyncio.sleep(0)
    assert asked.typed == []
    if not asked.answer.done():  # a letter that stood alone long enough while it was seen
        assert asked.panel.note in ("", EARLY)
        await asked.keys(["y"], every=ALONE)
    assert await asked.answer == {0}


async def test_a_letter_pressed_before_the_question_was_seen_is_dropped():
    asked = Asked()
    await asyncio.sleep(0)
    await asked.keys("y", every=ALONE)
    asked.panel.note_drawn()
    asked.clock.pass_(10)
    assert (asked.answer.done(), asked.typed, asked.panel.counts) == (False, [], True)


async def test_a_key_that_is_held_down_is_no_answer_however_long():
    asked = Asked()
    await asyncio.sleep(0)
    asked.panel.note_drawn()
    await asked.keys(["y"] * 99, every=0.03)
    assert not asked.answer.done()
    assert "".join(asked.typed) == "y" * 99


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
async def test_words_are_a_draft_and_answer_nothing(word: str):
    asked = Asked()
    await asked.looked()
    await asked.keys(word)
    asked.clock.pass_(10)
    await asyncio.sleep(0)
    assert not asked.answer.done()
    assert "".join(asked.typed) == word
    assert asked.panel.has_draft()  # Enter is the input line's
    await asked.keys("y", every=10)
    assert "".join(asked.typed) == f"{word}y"
    asked.send_draft()
    await asked.keys("y", every=ALONE)  # too soon after the words
    assert (asked.answer.done(), asked.panel.note) == (False, EARLY)
    asked.clock.pass_(PAUSE)
    await asked.keys("y", every=ALONE)
    assert await asked.answer == {0}


async def test_beside_a_draft_an_arrow_and_a_letter_answer():
    asked = Asked("begun before")
    await asked.looked()
    await asked.keys("ys", every=10)
    assert asked.typed == ["begun before", "y", "s"]
    asked.clock.pass_(PAUSE)
    await asked.keys(["down"])
    assert asked.panel.menu is not None
    assert asked.panel.menu.selected == 1
    await asked.keys(["s"], every=ALONE)
    assert await asked.answer == {1}


@pytest.mark.parametrize(("key", "shown"), [("a", "a"), ("7", "7"), ("12", "12"), ("ü", "ü")])
@pytest.mark.parametrize("enter", ["", "\r"])
async def test_a_lone_key_that_answers_nothing_is_dropped_and_says_so(
    key: str, shown: str, enter: str
):
    asked = Asked()
    await asked.looked()
    await asked.keys(key + enter, every=0.1)
    asked.clock.pass_(ALONE)
    await asyncio.sleep(0)
    assert not asked.answer.done()
    assert asked.typed == []
    assert asked.panel.note == f"Not an answer: {shown}. {REFUSED}"
    await asked.keys("2\r", every=0)
    assert await asked.answer == {1}


@pytest.mark.parametrize(("keys", "answer"), [("y\r", 0), ("n\r", 2), ("2\r", 1)])
@pytest.mark.parametrize("looked", [True, False])
async def test_a_letter_or_number_with_enter_answers_at_once(
    keys: str, answer: int, *, looked: bool
):
    asked = Asked()
    await asyncio.sleep(0)
    await asked.keys("y\r")  # nobody has seen the question
    assert (asked.answer.done(), asked.panel.note) == (False, EARLY)
    asked = Asked()
    await asyncio.sleep(0)
    asked.panel.note_drawn()
    asked.clock.pass_(LOOK if looked else 0)
    await asked.keys(keys, every=0)
    assert await asked.answer == {answer}


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


async def test_a_paste_is_a_draft():
    asked = Asked()
    await asked.looked()
    asked.panel.key("s")
    asked.panel.words(" pasted")
    asked.clock.pass_(10)
    await asyncio.sleep(0)
    assert (asked.answer.done(), "".join(asked.typed)) == (False, "s pasted")


async def test_arrows_and_enter_answer_at_once():
    asked = Asked()
    await asked.looked()
    await asked.keys(["down", "enter"], every=0)
    assert await asked.answer == {1}


async def test_behind_another_program_the_question_has_to_be_seen_again():
    asked = Asked()
    await asked.looked()
    asked.panel.set_away(away=True)
    asked.panel.note_drawn()
    asked.clock.pass_(10)
    await asked.keys(["enter"])
    asked.panel.set_away(away=False)
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
    panel = Panel(lambda: None, Clock().later, lambda _text: None, lambda: False)
    for act, answer in ((lambda: panel.accept(" text "), "text"), (panel.dismiss, None)):
        written = asyncio.ensure_future(panel.write("Why?", "hint"))
        await asyncio.sleep(0)
        assert (panel.label, panel.placeholder) == ("Why?", "hint")
        act()
        assert await written == answer
        assert panel.label is None


LEAVE = Menu(title="Leave?", options=(MenuOption(label="yes", key="y"),))


async def test_a_question_that_comes_meanwhile_is_answered_first_and_the_earlier_one_comes_back():
    asked = Asked()
    await asked.looked()
    meanwhile = asyncio.ensure_future(asked.panel.choose(LEAVE))
    await asyncio.sleep(0)
    assert asked.panel.menu == LEAVE
    await asked.looked()
    await asked.keys("y\r")
    assert await meanwhile == {0}
    written = asyncio.ensure_future(asked.panel.write("Name:", ""))
    await asyncio.sleep(0)
    assert (asked.panel.menu, asked.panel.label) == (None, "Name:")
    asked.panel.accept("Bob")
    assert await written == "Bob"
    assert asked.panel.menu == MENU
    await asked.looked()
    await asked.keys("n\r")
    assert await asked.answer == {2}
    assert not asked.panel.open


async def test_the_end_of_an_earlier_question_leaves_the_later_one():
    asked = Asked()
    await asked.looked()
    meanwhile = asyncio.ensure_future(asked.panel.choose(LEAVE))
    await asyncio.sleep(0)
    asked.answer.cancel()
    await asyncio.sleep(0)
    assert asked.panel.menu == LEAVE
    assert asked.panel.dismiss()
    assert await meanwhile is None
    assert not asked.panel.open
