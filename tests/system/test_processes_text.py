from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alhena.system.output import LiveOutput, OutputCapture, looks_binary
from alhena.system.screen_text import ScreenText
from alhena.tools.shell_output import CapturedOutput
from tests.support.each import for_each

PIECES = (
    b"a", b"\n", b"\r", b"\r\n", b"\0", b"\x1b", b"[", b"]", b"0;t", b"\x07", b"\x1b\\", b"31m", b"m",
    b"P", b";", b" ", b"?", b"\xc3", b"\xa9", b"\xff", b"\xe2\x82\xac", b"\x9b", b"\xc2\x9b", b"\x08",
    b"8" * 300, b"x" * 5000, b"\x1b[K", b"\x1b(B",
)  # fmt: skip


def text_of(*chunks: bytes) -> str:
    terminal = ScreenText(pipe=True)
    return "".join(map(terminal.feed, chunks)) + terminal.feed(b"", final=True)


@given(st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join), st.data())
def test_text_does_not_depend_on_where_the_bytes_were_cut(data: bytes, draw: st.DataObject) -> None:
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=6)))
    chunks = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    assert text_of(*chunks) == text_of(data)


@given(st.binary(max_size=200))
def test_no_control_character_but_tab_and_line_break_is_left(data: bytes) -> None:
    text = text_of(data)
    assert all(char in "\t\n" or (char >= " " and not "\x7f" <= char <= "\x9f") for char in text)


@for_each(
    ("raw", "text"),
    [
        (b"\x1b[1;31mred\x1b[0m plain", "red plain"),
        (b"\x1b]0;title\x07after", "after"),
        (b"\x1b]8;;http://a.b\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"\x1bPq#0;2\x1b\\done", "done"),
        (b"\x1b[2J\x1b[Hscreen", "screen"),
        (b"\x1b(Bx\x1b=y", "xy"),
        (b"10%\r50%\r100%\n", "100%\n"),
        (b"a long state\rshort\x1b[K\nnext", "short\nnext"),
        (b"a: 1\nb: 1\n\x1b[2A\x1b[2Ka: 2\n\x1b[2Kb: 2\nend\n", "a: 2\nb: 2\nend\n"),
        (b"a: 1\nb: 1\x1b[1A\ra: 2\x1b[1B\rb: 2", "a: 2\nb: 2"),
        (b"N\bNA\bAM\bM typ\bpe", "NAM type"),
        (b"".join(b"\r%3d%%" % n for n in range(101)) + b"\n", "100%\n"),
        (b"".join(b"\r\x1b[2K%d of 50" % n for n in range(51)) + b"\ndone", "50 of 50\ndone"),
        (b"kept\nlong one" + b"\rx" * 40 + b"\n", "kept\nxong one\n"),
        (b"before\x1bc\x1b[2J\x1b[3J\x1b[1;1Hafter\n", "beforeafter\n"),
        (b"a\r\r\nb", "a\nb"),
        (b"a\r\nb\r\n", "a\nb\n"),
        (b"one\0two\0", "one\ntwo\n"),
        (b"bell\x07 and tab\t.", "bell and tab\t."),
        (b"\x1b]unfinished title\nnext line", "unfinished title\nnext line"),
        (b"trailing \x1b[3", "trailing "),
        ("déjà vu 漢字 🙂".encode(), "déjà vu 漢字 🙂"),
        (b"caf\xe9 latin", "caf\ufffd latin"),
        (b"", ""),
    ],
)
def test_terminal_control_is_left_out_and_text_stays(raw: bytes, text: str) -> None:
    assert text_of(raw) == text
    assert text_of(*(raw[n : n + 1] for n in range(len(raw)))) == text


def test_an_endless_escape_sequence_is_not_kept_waiting() -> None:
    terminal = ScreenText(pipe=True)
    terminal.feed(b"\x1b]" + b"x" * 5000)
    assert terminal.pending == "x" * 5000


def capture_text(data: bytes, *, chunk: int = 65_536, **options: int) -> tuple[str, int, bool]:
    capture = OutputCapture(**options)
    for start in range(0, len(data), chunk):
        capture.feed(data[start : start + chunk])
    kept = capture.finish_capture()
    assert kept.total_bytes == len(data)
    return kept.text, kept.omitted, kept.binary


def test_output_up_to_the_limit_is_kept_whole() -> None:
    assert capture_text(b"x" * 40_000) == ("x" * 40_000, 0, False)


def test_output_over_the_limit_keeps_both_ends_and_the_exact_count() -> None:
    text, omitted, _ = capture_text("é".encode() * 50 + b"z" * 50, head=10, tail=20, chunk=7)
    assert omitted == 70
    assert text == "é" * 10 + "\n\n... [70 characters omitted] ...\n\n" + "z" * 20


@given(st.text(alphabet="aé漢\n", max_size=300), st.integers(1, 9), st.integers(0, 9), st.data())
def test_what_is_kept_and_what_is_counted_add_up(
    text: str, head: int, tail: int, draw: st.DataObject
) -> None:
    capture = OutputCapture(head=head, tail=tail)
    data = text.encode()
    step = draw.draw(st.integers(1, 50))
    for start in range(0, len(data), step):
        capture.feed(data[start : start + step])
    kept = capture.finish_capture()
    assert len(kept.head) + kept.omitted + len(kept.tail) == len(text)
    assert text.startswith(kept.head)
    assert text.endswith(kept.tail)


def test_memory_stays_bounded_under_a_flood() -> None:
    import tracemalloc

    capture = OutputCapture()
    block = b"y\n" * 32_768
    capture.feed(block)
    tracemalloc.start()
    for _ in range(400):
        capture.feed(block)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2_000_000
    assert capture.finish_capture().omitted == 401 * 65_536 - 40_000


@pytest.mark.parametrize(
    "data",
    [
        b"\x7fELF\x02\x01\x01" + b"\0" * 9 + b"\x03\0>\0\x01\0",
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x01\0\0\0\x01\0\x08\x06",
        bytes(range(256)) * 4,
        "utf-16 text".encode("utf-16"),
        b"\0\0\0\0",
    ],
)
def test_binary_output_is_told_by_its_bytes(data: bytes) -> None:
    assert looks_binary(data)
    text, _, binary = capture_text(data)
    assert binary
    assert text == f"[binary output, {len(data):,} bytes, not shown]"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"plain text\n",
        b"./some/path/name.txt\0./another/file.py\0",
        "Привет, мир".encode("koi8-r"),
        "caf\xe9".encode("latin-1"),
        b"\x1b[1mbold\x1b[0m\x07\r\n",
        "日本語のテキスト".encode("shift-jis"),
    ],
)
def test_text_in_any_ascii_based_encoding_is_no_binary(data: bytes) -> None:
    assert not looks_binary(data)


class Clock:
    """A loop's time and timers, moved by hand."""

    def __init__(self) -> None:
        self.now = 100.0
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, call: Callable[[], None]) -> "Clock":
        self.timers.append((self.now + delay, call))
        return self

    def cancel(self) -> None:
        self.timers.clear()

    def advance(self, seconds: float) -> None:
        self.now += seconds
        due = [call for moment, call in self.timers if moment <= self.now]
        self.timers = [timer for timer in self.timers if timer[0] > self.now]
        for call in due:
            call()


@pytest.mark.requirement("TOOLS-16")
def test_live_output_comes_at_once_and_then_at_most_once_a_second() -> None:
    clock = Clock()
    seen: list[tuple[float, str]] = []
    live = LiveOutput(
        lambda text: seen.append((clock.now, text)), clock=clock.time, call_later=clock.call_later
    )
    for number in range(20):
        live.add(f"{number} ")
        clock.advance(0.125)
    assert [moment for moment, _ in seen] == [100.0, 101.0, 102.0]
    live.flush()
    assert "".join(text for _, text in seen) == "".join(f"{number} " for number in range(20))


def test_live_output_that_waits_is_bounded_and_says_what_it_lacks() -> None:
    clock = Clock()
    seen: list[str] = []
    live = LiveOutput(seen.append, clock=clock.time, call_later=clock.call_later, limit=10)
    live.add("first")
    live.add("x" * 25)
    live.add("end")
    clock.advance(1.0)
    assert seen == ["first", "... [18 characters omitted] ...\nxxxxxxxend"]


def watch_capture() -> tuple[CapturedOutput, Clock, list[str]]:
    clock = Clock()
    seen: list[str] = []
    live = LiveOutput(
        seen.append,
        lambda text: seen.append(f"={text}"),
        clock=clock.time,
        call_later=clock.call_later,
    )
    return CapturedOutput(None, "c", prefix="", live=live), clock, seen


def test_live_text_ends_where_binary_begins() -> None:
    output, clock, seen = watch_capture()
    for data in (b"hello\n", bytes(range(256)), b"more\n"):
        output.feed(data)
        clock.advance(1.0)
    assert seen == ["hello\n"]
    assert output.capture.finish_capture().binary


def test_live_text_comes_as_it_is_written_and_follows_redrawn_lines() -> None:
    output, clock, seen = watch_capture()
    for data in (b"one\ntw", b"o\n", b"10 %", b"\r20 %", b"\r30 %\n"):
        output.feed(data)
        clock.advance(1.0)
    assert seen == ["one\ntw", "o\n", "10 %", "=one\ntwo\n20 %", "=one\ntwo\n30 %\n"]
    assert output.capture.finish_capture().text == "one\ntwo\n30 %\n"


def test_output_that_goes_on_is_known_so_far_with_its_lines() -> None:
    output, _, _ = watch_capture()
    output.feed(b"listening\n10 %\r20 %")
    assert output.capture.so_far().text == "listening\n20 %"
    assert output.line_breaks == 1


def test_redrawn_states_count_for_no_limit() -> None:
    data = b"begin\n" + b"".join(b"\r\x1b[K%d of 20000" % n for n in range(20_001)) + b"\nend\n"
    assert capture_text(data, head=50, tail=50) == ("begin\n20000 of 20000\nend\n", 0, False)
    bars = b"".join(b"\r[%-20s]" % (b"#" * (n % 21)) for n in range(2_100))
    assert capture_text(bars + b"\n", head=10, tail=20, chunk=1_000)[1] == 0


ATOMS = ["\x1b", "\x1b[", "[", "3", "1m", "\x1b[0m", "\x1b[31m", "\x1b]t", "\x07", "\x1b\\", "\n", "\r",
         "\0", "a", "\xe9", "\x9b", "\x1bP", "(B", "\x1b(B", "\x1bc", "\b", "\x1b[K"]  # fmt: skip


@given(parts=st.lists(st.sampled_from(ATOMS), max_size=12), times=st.sampled_from([1, 1, 40]))
@settings(deadline=None, max_examples=100)
def test_a_flood_taken_at_once_is_the_text_of_its_single_bytes(
    parts: list[str], times: int
) -> None:
    data = "".join(parts).encode() * times
    at_once, singly = ScreenText(pipe=True), ScreenText(pipe=True)
    whole = at_once.feed(data) + at_once.feed(b"", final=True)
    pieces = [singly.feed(data[n : n + 1]) for n in range(len(data))]
    assert whole == "".join(pieces) + singly.feed(b"", final=True)
