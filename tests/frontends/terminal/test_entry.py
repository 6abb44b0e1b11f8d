"""The input line: what is pasted, and what is sent for it."""

import asyncio
from collections.abc import Iterable
from queue import Queue
from threading import Semaphore

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.application import Application
from prompt_toolkit.application.current import set_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, DummyCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.layout import BufferControl, Layout, Window
from prompt_toolkit.output import DummyOutput

from alhena.frontends.terminal.entry import MAX_PASTED_CHARACTERS, MAX_PASTED_LINES, Entry
from tests.support.patience import PATIENCE_S


def entry() -> Entry:
    return Entry(InMemoryHistory(), DummyCompleter())


LONG = "\n".join(f"line {n}" for n in range(5_000))


def test_a_short_paste_stands_there_as_it_is():
    made = entry()
    made.paste("one\r\ntwo\rthree")
    assert made.buffer.text == "one\ntwo\nthree"
    assert made.mark_before() == ""


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        (LONG, "[pasted 5,000 lines]"),
        ("x" * 100_000, "[pasted 100,000 characters]"),
        ("\n" * MAX_PASTED_LINES, f"[pasted {MAX_PASTED_LINES} lines]"),
        ("y" * (MAX_PASTED_CHARACTERS + 1), "[pasted 1,001 characters]"),
    ],
)
def test_a_long_paste_is_a_mark_for_what_is_sent(text: str, mark: str):
    made = entry()
    made.buffer.insert_text("look at ")
    made.paste(text)
    made.buffer.insert_text(" please")
    assert made.buffer.text == f"look at {mark} please"
    assert made.take() == f"look at {text} please"
    assert made.buffer.text == ""
    assert made.buffer.history.get_strings() == [f"look at {mark} please"]


def test_pastes_of_one_size_are_told_apart_and_equal_ones_are_not():
    made = entry()
    first, second = "a" * 2_000, "b" * 2_000
    for text in (first, second, first):
        made.paste(text)
    assert made.buffer.text == (
        "[pasted 2,000 characters][pasted 2,000 characters, 2][pasted 2,000 characters]"
    )
    assert made.take() == first + second + first


def test_a_mark_within_a_paste_is_mere_text():
    made = entry()
    made.paste("c" * 2_000)
    made.buffer.insert_text(" ")
    inner = "[pasted 2,000 characters]" + "d" * 2_000
    made.paste(inner)
    assert made.take() == "c" * 2_000 + " " + inner


def test_a_mark_is_known_when_the_cursor_is_behind_it():
    made = entry()
    made.paste(LONG)
    assert made.mark_before() == "[pasted 5,000 lines]"
    made.buffer.delete_before_cursor(len(made.mark_before()))
    assert made.buffer.text == ""
    made.paste(LONG)
    made.buffer.cursor_left()
    assert made.mark_before() == ""


def test_what_was_given_up_does_not_come_back_with_words_that_look_like_it():
    made = entry()
    made.paste(LONG)
    made.clear()
    made.buffer.insert_text("[pasted 5,000 lines]")
    assert made.take() == "[pasted 5,000 lines]"


def test_an_earlier_paste_comes_back_as_its_mark_and_is_sent_whole():
    history = InMemoryHistory()
    history.store_string(LONG)
    made = Entry(history, DummyCompleter())
    for _ in range(2):
        made.paste("a" * 2_000)
        made.take()
    strings = made.buffer.history.get_strings()
    assert strings == ["[pasted 2,000 characters]"]
    assert list(history.load_history_strings()) == ["a" * 2_000, LONG]
    folded = list(made.buffer.history.load_history_strings())
    assert folded == ["[pasted 2,000 characters]", "[pasted 5,000 lines]"]


def test_what_was_pasted_can_be_put_in_its_place():
    made = entry()
    made.paste(LONG)
    made.unfold()
    assert made.buffer.text == LONG
    assert made.buffer.cursor_position == len(LONG)


# Without what completes: there is no application here that could.
PLAIN = st.text(st.characters(exclude_characters="@/[", exclude_categories=["Cs"]), max_size=30)
PASTED = PLAIN | st.integers(1_001, 1_010).map("z".__mul__)


@given(st.lists(st.tuples(PLAIN, PASTED), max_size=5))
def test_what_is_sent_is_what_was_typed_and_pasted(pieces: list[tuple[str, str]]):
    made = entry()
    for typed, pasted in pieces:
        made.buffer.insert_text(typed)
        made.paste(pasted)
    sent = "".join(
        typed + pasted.replace("\r\n", "\n").replace("\r", "\n") for typed, pasted in pieces
    )
    assert made.take() == sent


class HeldCompleter(Completer):
    """Offers one path; each look is begun, and then held until it is let go."""

    def __init__(self) -> None:
        self.begun, self.go = Queue[str](), Semaphore(0)

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        self.begun.put(document.text)
        self.go.acquire()
        yield Completion("@notes.txt", start_position=-3)


async def test_paths_that_were_read_during_a_look_are_offered_after_it():
    completer = HeldCompleter()
    made = Entry(InMemoryHistory(), completer)
    with create_pipe_input() as typed:
        window = Window(BufferControl(made.buffer))
        app = Application[None](layout=Layout(window), input=typed, output=DummyOutput())
        running = asyncio.create_task(app.run_async())
        typed.send_text("@no")
        while await asyncio.to_thread(completer.begun.get) != "@no":
            completer.go.release()
        with set_app(app):
            made.complete_path()
        completer.go.release(10)
        async with asyncio.timeout(PATIENCE_S / 4):
            while made.buffer.complete_state is None or not made.buffer.complete_state.completions:
                await asyncio.sleep(0.01)
        app.exit()
        await running
