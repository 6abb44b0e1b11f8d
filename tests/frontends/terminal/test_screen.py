"""The screen of a capable terminal, with keys from a pipe."""

import asyncio
import io
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from prompt_toolkit.completion import DummyCompleter
from prompt_toolkit.data_structures import Size
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output

from alhena.frontends.terminal.app import MAX_DEFECTS, TerminalScreen, foot_line
from alhena.frontends.terminal.drawing.lines import Lines, Markdown, line, plain
from alhena.frontends.terminal.drawing.menu import Menu, MenuOption
from alhena.frontends.terminal.drawing.screen import FootStatus
from alhena.frontends.terminal.drawing.view import View
from alhena.frontends.terminal.keys import KeyPause
from tests.support.terminal import Screen


class Somebody:
    """A `screen.Person` that remembers what was done to it."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.queued: list[str] = []
        self.runs = False
        self.changed = asyncio.Event()

    def submit(self, text: str, *, early: bool = False) -> None:
        self._do(f"submit {text}")

    def take_back(self) -> str:
        return self.queued.pop() if self.queued else ""

    def send_at_once(self) -> bool:
        return False

    def interrupt(self) -> bool:
        self._do("interrupt")
        return self.runs

    def leave(self, why: str = "") -> None:
        self._do(f"leave {why}".strip())

    def kill(self) -> None:
        self._do("kill")

    def next_mode(self) -> None:
        self._do("next mode")

    def toggle_yolo(self) -> None:
        self._do("yolo")

    async def until(self, what: str) -> None:
        while what not in self.done:
            self.changed.clear()
            await self.changed.wait()

    def _do(self, what: str) -> None:
        self.done.append(what)
        self.changed.set()


class Written(io.StringIO):
    """Collects output, and tells when there is more."""

    def __init__(self) -> None:
        super().__init__()
        self.more = asyncio.Event()
        self.seen = Screen(80, 24)

    def write(self, text: str) -> int:
        self.more.set()
        self.seen.feed(text)
        return super().write(text)


class Shown:
    """A screen that draws into a text."""

    def __init__(self, keys: PipeInput) -> None:
        self.keys = keys
        self.written = Written()
        self.size = Size(rows=20, columns=60)
        output = Vt100_Output(
            self.written,
            lambda: self.size,
            default_color_depth=ColorDepth.DEPTH_1_BIT,
            enable_cpr=False,
        )
        self.screen = TerminalScreen(
            keys, output, history=InMemoryHistory(), completer=DummyCompleter()
        )
        self.drawing = asyncio.create_task(self.screen.run())

    async def until(self, text: str) -> None:
        while text not in self.written.getvalue():
            self.written.more.clear()
            await self.written.more.wait()

    async def until_seen(self, text: str) -> None:
        """Waits until a text is in view."""
        while text not in "\n".join(self.written.seen.shown):
            self.written.more.clear()
            await self.written.more.wait()

    def taken(self) -> str:
        """The text written since the last call."""
        text = self.written.getvalue()
        self.written.seek(0)
        self.written.truncate()
        return text

    async def closed(self) -> str:
        """Everything that was written, once the screen has been closed."""
        self.screen.close()
        await self.drawing
        return self.written.getvalue()


@asynccontextmanager
async def shown() -> AsyncGenerator[Shown]:
    with create_pipe_input() as keys:
        made = Shown(keys)
        try:
            await made.screen.painted.wait()
            yield made
        finally:
            made.screen.close()
            await asyncio.wait({made.drawing})


async def test_blocks_are_written_in_the_order_they_came_whatever_they_take():
    async with shown() as made:
        made.screen.update(View(), [Lines((line("first"),))])
        made.screen.update(View(), [Markdown("word " * 2_000), Markdown("*third*")])
        made.screen.update(View(), [Lines((line("fourth"),))])
        text = await made.closed()
    places = [text.index(each) for each in ("first", "word", "third", "fourth")]
    assert places == sorted(places)


async def test_a_terminal_that_reflows_keeps_no_copies_when_it_is_resized_while_an_answer_streams():
    terminal = Screen(60, 20)
    long = "words that go on and on for more than a row of a narrow terminal"
    view = View(open_text=f"- one {long}\n- two", answering=True, busy_since=0.0)
    async with shown() as made:
        made.keys.send_text("half a line of a draft that is rather long, too")
        made.screen.update(view, [Lines((line("Before."),))])
        await made.until("• two")
        for columns in (50, 34, 60, 41):
            terminal.feed(made.taken())
            terminal.reflow(columns)
            terminal.columns, made.size = columns, Size(rows=20, columns=columns)
            signal.raise_signal(signal.SIGWINCH)
            await made.until("• two")
        terminal.feed(made.taken())
    for each in ("Answering", "• one", "• two", "half a", "Before."):
        assert terminal.text.count(each) == 1, terminal.text


async def test_what_is_sent_before_there_is_a_person_waits_for_one():
    async with shown() as made:
        somebody = Somebody()
        made.keys.send_text("early\r")
        made.keys.send_text("later")
        await made.until("later")
        made.screen.hands.attach(somebody)
        assert somebody.done == ["submit early"]
        made.keys.send_text("\r")
        await somebody.until("submit later")


async def test_a_defect_where_nobody_waits_for_it_is_told_and_the_session_goes_on():
    async with shown() as made:
        somebody = Somebody()
        made.screen.hands.attach(somebody)
        asyncio.get_running_loop().call_soon(int, "no\x1b number")
        made.keys.send_text("go on\r")
        await somebody.until("submit go on")
        text = await made.closed()
    assert "! Unexpected ValueError: invalid literal for int()" in text
    assert "this is a defect." in text
    assert "\x1b number" not in text


async def test_a_screen_with_defect_upon_defect_is_given_up():
    async with shown() as made:
        for _ in range(MAX_DEFECTS + 1):
            asyncio.get_running_loop().call_soon(int, "x")
        with pytest.raises(ValueError, match="invalid literal"):
            await made.drawing


async def test_a_block_that_cannot_be_made_ready_ends_the_screen():
    async with shown() as made:
        made.screen.update(View(), [Markdown(b"no text")])
        with pytest.raises(TypeError):
            await made.drawing


async def test_a_block_that_cannot_be_written_is_told_of_and_left_out():
    async with shown() as made:
        made.screen.update(View(), [17])
        await made.until("this is a defect")
        made.screen.update(View(), [Lines((line("next"),))])
        assert "next" in await made.closed()


async def test_a_question_leaves_the_input_line_in_use():
    menu = Menu(
        title="Allow?", options=(MenuOption(label="Yes", key="y"), MenuOption(label="No", key="n"))
    )
    async with shown() as made:
        asked = asyncio.create_task(made.screen.choose(menu))
        await made.until("↑/↓ select")
        somebody = Somebody()
        made.screen.hands.attach(somebody)
        made.keys.send_text("the nxt\x1b[D\x1b[De\r")
        await somebody.until("submit the next")
        made.keys.send_text("\x1b[B")
        await asyncio.sleep(0)
        assert not asked.done()
        await made.until_seen("↑/↓ select · Enter confirm")
        made.keys.send_text("\x1b[B\r")
        assert await asked == {1}


async def test_a_question_stands_there_only_when_what_it_is_about_is_written():
    menu = Menu(title="Allow?", options=(MenuOption(label="Yes", key="y"),))
    async with shown() as made:
        plan = Markdown("plan " * 5_000 + "\n\nits end")
        made.screen.update(View(), [plan, Lines((line("why: it is so"),))])
        asked = asyncio.create_task(made.screen.choose(menu))
        made.keys.send_text("\r")  # at nothing that could be seen
        await made.until("Allow?")
        text = made.written.getvalue()
        assert text.index("its end") < text.index("why: it is so") < text.index("Allow?")
        made.keys.send_text("\r")  # at what could not be read yet
        await made.until("↑/↓ select")
        assert not asked.done()
        made.keys.send_text("\r")
        assert await asked == {0}


async def test_keys_reach_the_person():
    async with shown() as made:
        somebody = Somebody()
        made.screen.hands.attach(somebody)
        made.keys.send_text("\x1b[Z\x19\x03")
        await somebody.until("interrupt")
        assert somebody.done == ["next mode", "yolo", "interrupt"]


@pytest.mark.requirement("CLI-02")
async def test_only_two_control_c_in_a_row_with_nothing_to_stop_or_clear_leave():
    async with shown() as made:
        somebody = Somebody()
        made.screen.hands.attach(somebody)
        for keys in ("a\x03", "\x03b\x03", "\x03\x1b[D\x03", "\x1b[Z\x03"):
            made.keys.send_text(keys)
            made.keys.send_text("new\r")
            await somebody.until("submit new")
            somebody.done.clear()
        somebody.runs = True
        made.keys.send_text("\x03")
        await somebody.until("interrupt")
        somebody.runs = False
        made.keys.send_text("\x03")
        await made.until("Press Ctrl+C again to exit.")
        made.keys.send_text("\x1b[Z")
        await somebody.until("next mode")
        assert made.screen.hands.twice.hint == ""
        made.keys.send_text("\x03\x03")
        await somebody.until("leave")
        assert somebody.done.count("leave") == 1


async def test_words_that_are_no_answer_go_to_the_input_line():
    menu = Menu(title="Allow?", options=(MenuOption(label="Yes", key="y"),))
    async with shown() as made:
        somebody = Somebody()
        made.screen.hands.attach(somebody)
        asked = asyncio.create_task(made.screen.choose(menu))
        await made.until("Allow?")
        await made.until("↑/↓ select")
        made.keys.send_text("later\x1b[200~ on\x1b[201~")
        await made.until_seen("Enter queues your text")
        made.keys.send_text("!\r")
        await somebody.until("submit later on!")
        assert not asked.done()
        made.keys.send_text("\x1b")
        assert await asked is None


@pytest.mark.parametrize("keys", ["a draft", "\x12fir"])
async def test_enter_that_was_meant_for_what_was_begun_is_no_answer(keys: str):
    menu = Menu(title="Allow?", options=(MenuOption(label="Yes", key="y"),))
    async with shown() as made:
        somebody = Somebody()
        made.screen.hands.attach(somebody)
        made.keys.send_text("first words\r")
        await somebody.until("submit first words")
        made.keys.send_text(keys)
        await made.until(keys.strip("\x12"))
        asked = asyncio.create_task(made.screen.choose(menu))
        await made.until_seen("Allow?")
        if keys != "a draft":  # the search goes on, and Enter takes what it found
            await made.until_seen("↑/↓ select")
            made.keys.send_text("\r")
        await made.until_seen("Enter queues your text")
        somebody.done.clear()
        made.keys.send_text("\r")
        await somebody.until("submit a draft" if keys == "a draft" else "submit first words")
        assert not asked.done()
        asked.cancel()
        await asyncio.wait({asked})


@pytest.mark.parametrize(
    ("keys", "seen"),
    [
        ("y\x7f", "Enter confirm"),
        ("y\x1b[D", "Enter queues your text"),
        ("y\x17", "Enter queues your text"),
        ("y\x1b[200~es\x1b[201~", "Enter queues your text"),
    ],
)
async def test_a_letter_with_other_keys_of_a_line_behind_it_is_no_answer(keys: str, seen: str):
    menu = Menu(title="Allow?", options=(MenuOption(label="Yes", key="y"),))
    async with shown() as made:
        asked = asyncio.create_task(made.screen.choose(menu))
        await made.until_seen("↑/↓ select")
        made.keys.send_text(keys)
        await made.until_seen(seen)
        assert not asked.done()
        made.keys.send_text("\x1b")
        assert await asked is None


async def test_colour_codes_in_what_is_pasted_are_nothing():
    async with shown() as made:
        somebody = Somebody()
        made.screen.hands.attach(somebody)
        for _ in range(MAX_DEFECTS + 1):
            made.keys.send_text("a\x1b[1mb\x1b[0m")
        made.keys.send_text("\r")
        await somebody.until("submit abababab")
        assert "defect" not in await made.closed()


async def test_the_end_of_the_input_ends_the_screen():
    async with shown() as made:
        made.keys.close()
        with pytest.raises(EOFError):
            await made.drawing


@pytest.mark.parametrize(
    ("status", "hint", "foot"),
    [
        (FootStatus(cwd="~/x", mode="default", model="m"), "", "default  m  ~/x"),
        (FootStatus(cwd="~", mode="yolo", queued=("one", "b")), "", "yolo  ~"),
        (FootStatus(), "", ""),
        (FootStatus(cwd="~"), "Press it again.", "Press it again."),
        (
            FootStatus(cwd="~/a/long/way/to/it", mode="yolo", model="m" * 9, more=("$0.10",)),
            "",
            f"yolo  {'m' * 9}  …/long/way/to/it  $0.10",
        ),
        (
            FootStatus(cwd="~/a/long/way/to/it", model="m" * 30, more=("$0.10",)),
            "",
            f"{'m' * 30}  …g/way/to/it",
        ),
    ],
)
def test_the_foot_says_what_holds(status: FootStatus, hint: str, foot: str):
    assert plain([foot_line(status, hint, 40)]) == foot


def test_a_mode_without_questions_stands_out():
    def styles(mode: str) -> set[str]:
        return {style for style, text in foot_line(FootStatus(mode=mode), "", 40) if text == mode}

    assert styles("default") == {"dim"}
    assert styles("yolo") == {"error"}


async def test_the_first_key_after_an_idle_minute_is_told():
    times, ended = [0.0], list[float]()
    pause = KeyPause(lambda: times[-1])
    async with shown() as made:
        made.screen.pause = pause
        pause.ended = lambda: ended.append(times[-1])
        made.screen._app.key_processor.after_key_press += pause.note_key
        for now, text in ((59.0, "a"), (120.0, "ab"), (150.0, "abc"), (500.0, "abcd")):
            times.append(now)
            made.keys.send_text(text[-1])
            while made.screen._app.current_buffer.text != text:
                await asyncio.sleep(0)
    assert ended == [120.0, 500.0]


FAMILY, FLAG = "👨\u200d👩\u200d👧", "🇩🇪"


@pytest.mark.parametrize("sign", [FAMILY, FLAG, "👍🏽", "❤\ufe0f", "1\ufe0f\u20e3"])
async def test_flags_and_joined_emoji_are_one_sign_of_two_columns(sign: str):
    """In the input line and above it, also for the cursor and for Backspace."""
    async with shown() as made:
        made.screen.show_status(FootStatus(model="m", queued=(f"{sign}after",)))
        made.keys.send_text(f"a{sign}bc")
        await made.until("c")
        entry = made.screen._app.current_buffer
        made.keys.send_text("\x1b[D")
        while entry.cursor_position != len(f"a{sign}b"):
            await asyncio.sleep(0)
        made.screen._app.renderer.reset()
        made.screen._app._redraw()
        drawn = made.screen._app.renderer.last_rendered_screen
        assert drawn is not None
        rows = [
            "".join(drawn.data_buffer[row][column].char or "·" for column in range(30)).rstrip()
            for row in range(drawn.height)
        ]
        assert f"> a{sign}·bc" in rows
        assert any(f"{sign}·after" in row for row in rows)
        cursor = drawn.get_cursor_position(made.screen._app.layout.current_window)
        assert cursor.x == len("> a") + 2 + len("b")
        made.keys.send_text("\x1b[D\x1b[D\x1b[C\x7f")
        while entry.text != "abc":
            await asyncio.sleep(0)
        made.keys.send_text("\x1b[C\x7f")
        while entry.text != "ac":
            await asyncio.sleep(0)
