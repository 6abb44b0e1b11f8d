"""Output of a terminal as the text of its screen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.coloured_text import coloured_parts
from alhena.frontends.terminal.drawing.lines import coloured_lines
from alhena.system.screen_text import PENDING, ScreenText
from tests.support.each import for_each

COLUMNS, ROWS = 20, 6
COLOURED = (
    b"word", b" ", b"\r", b"\r\n", b"\n", b"\x1b[31m", b"\x1b[0m", b"\x1b[1;42m", b"\x1b[K", b"\x1b[A",
    b"\x1b[2D", b"\b", b"\t", b"x" * 30, "漢".encode(), b"\x1b[3P", b"\x1b[L", b"\x1b[?1049h",
)  # fmt: skip


def read(*chunks: bytes, rows: int = ROWS) -> str:
    screen = ScreenText(rows, COLUMNS)
    return "".join([*map(screen.feed, chunks), screen.feed(b"", final=True)])


@pytest.mark.requirement("WORLD-02")
@for_each(
    ("output", "text"),
    [
        (b"plain\r\nlines\r\n", "plain\nlines\n"),
        (b"\x1b[1;31mred\x1b[0m\x1b]0;title\x07 text\x1b]8;;x\x1b\\!", "red text!"),
        (b"10 %\r20 %\r100 %\r\n", "100 %\n"),
        (b"a long state\rshort\x1b[K\r\n", "short\n"),
        (b"a long state\rshort       \r\n", "short\n"),
        (b"one\r\ntwo\r\n\x1b[2A\x1b[2KONE\x1b[2B\rend", "ONE\ntwo\nend"),
        (b"ab\b\bxy\x1b[Dz", "xz"),
        (b"x" * 45 + b"\r\nend", "x" * 45 + "\nend"),
        (b"x" * 45 + b"\r\x1b[A" + b"y" * 20, "x" * 20 + "y" * 20 + "x" * 5),
        (b"a\tb\r\n\tc\rz", "a\tb\nz       c"),
        ("漢字\r漢".encode(), "漢字"),
        ("漢字\rx".encode(), "x 字"),
        ("e\u0301a\rx".encode(), "xa"),
        (b"before\r\n\x1b[?1049h\x1b[2Jeditor\x1b[?1049lafter", "before\nafter"),
        (b"before\r\n\x1b[?1049h\x1b[2Jkilled", "before\n"),
        (b"gone\x1b[H\x1b[2Jnew", "new"),
        (b"1\r\n2\r\n3\r\x1b[2A\x1b[L0", "0\n1\n2\n3"),
        (b"1\r\n2\r\n3\r\x1b[2A\x1b[M", "2\n3\n"),
        (b"abcdef\x1b[3G\x1b[2P\x1b[@-", "ab-ef"),
        (b"abcdef\x1b[3G\x1b[2Xz", "abz ef"),
        (b"=\x1b[9b>", "=" * 10 + ">"),
        (b"\x1b7one\x1b8two", "two"),
        (b"\x1b[2;4H\x1b[1Jx\x1b[?25l", "\n   x"),
        (b"\x1b[1;3ra\r\nb\r\nc\r\nd\x1b[6;1Hbar", "a\nb\nc\nd\n\n\nbar"),
        (b"\xff\xc3(", "\ufffd\ufffd("),
        (b"cut\x1b[3", "cut"),
    ],
)
def test_the_text_is_what_the_screen_shows(output: bytes, text: str):
    assert read(output) == text
    assert read(*(output[at : at + 1] for at in range(len(output)))) == text


def test_what_scrolled_away_stays_and_cannot_be_drawn_over():
    lines = b"".join(b"%d\r\n" % number for number in range(20))
    assert read(lines + b"\x1b[9A\rX") == "".join(
        f"{'X' if number == 15 else number}{'5' if number == 15 else ''}\n" for number in range(20)
    )


def test_a_flood_leaves_the_screen_as_it_comes():
    screen = ScreenText(ROWS, COLUMNS)
    flood = b"".join(b"%d\r\n" % number for number in range(3 * PENDING))
    out = screen.feed(flood) + screen.feed(b"one long line " * PENDING)
    assert len(screen.shown) <= ROWS * COLUMNS
    rest = screen.feed(b"\r\x1b[A", final=True)
    assert len(rest) < 2 * PENDING
    assert out + rest == flood.decode().replace("\r", "") + "one long line " * PENDING


def test_a_resized_screen_keeps_its_text():
    screen = ScreenText(ROWS, COLUMNS)
    out = screen.feed(b"1\r\n2\r\n3\r\n4\r\n5\rX")
    screen.resize(3, 10)
    out += screen.feed(b"\r\n6\r\n7", final=True)
    assert out == "1\n2\n3\n4\nX\n6\n7"


def test_only_what_was_changed_is_restored():
    screen = ScreenText(ROWS, COLUMNS)
    screen.feed(b"text\x1b[?1049h\x1b[?25l\x1b[2;4r")
    undone = screen.restore()
    assert {"\x1b[?1049l", "\x1b[?25h", "\x1b[r"} <= set(undone.replace("\x1b", " \x1b").split())
    assert not screen.at_margin
    again = screen.restore()
    assert "[?" not in again
    assert "[r" not in again


def test_restoring_loses_no_text():
    screen = ScreenText(ROWS, COLUMNS)
    lines = b"".join(b"%d\r\n" % number for number in range(3 * ROWS))
    out = screen.feed(lines)
    screen.restore()
    assert out + screen.feed(b"", final=True) == lines.decode().replace("\r", "")


PIECES = (
    *(b"abc", b"two words", b"x" * 45, "é漢字".encode(), b"  ", b"\t", b"\r\n", b"\r", b"\b\b"),
    *(b"\x1b[31m", b"\x1b[A", b"\x1b[2B", b"\x1b[3D", b"\x1b[5C", b"\x1b[J", b"\x1b[2K", b"\x1b[K"),
    *(b"\x1b[H", b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[L", b"\x1b[1;3r", b"\x1b[r", b"\x1bM"),
)


@given(st.lists(st.sampled_from(PIECES), max_size=30), st.integers(1, 9))
def test_nothing_that_a_program_draws_is_an_error(pieces: list[bytes], size: int):
    output = b"".join(pieces)
    assert "\x1b" not in read(output)
    assert "\x1b" not in read(*(output[at : at + size] for at in range(0, len(output), size)))


@given(st.lists(st.sampled_from(COLOURED), max_size=30), st.data())
def test_colours_change_no_text(pieces: list[bytes], draw: st.DataObject) -> None:
    coloured = ScreenText(ROWS, COLUMNS, colours=True)
    cut = draw.draw(st.integers(0, len(pieces)))
    chunks = (b"".join(pieces[:cut]), b"".join(pieces[cut:]))
    shown = "".join([*map(coloured.feed, chunks), coloured.feed(b"", final=True)])
    lines = "".join(part for _, part in coloured_parts(shown)).split("\n")
    assert [each.rstrip() for each in lines] == [
        each.rstrip() for each in read(*chunks).split("\n")
    ]


@for_each(
    ("output", "spans"),
    [
        (b"\x1b[32mok\x1b[0m 3", [("fg:ansigreen", "ok"), ("dim", " 3")]),
        (b"\x1b[31mA\x1b[1mB\r\x1b[0mx", [("dim", "x"), ("fg:ansired bold", "B")]),
        (b"\x1b[38;5;208mo\x1b[48;2;1;2;3mp\x1b[39mq", [
            ("fg:#ff8700", "o"), ("fg:#ff8700 bg:#010203", "p"), ("bg:#010203", "q"),
        ]),
        (b"\x1b[91;4ma\x1b[24mb\x1b[>4;1mc", [("fg:ansibrightred underline", "a"), ("fg:ansibrightred", "bc")]),
        (b"\x1b[38;5mx", [("dim", "x")]),
    ],
)  # fmt: skip
def test_what_is_seen_has_the_colours_of_the_program(
    output: bytes, spans: list[tuple[str, str]]
) -> None:
    screen = ScreenText(ROWS, COLUMNS, colours=True)
    screen.feed(output)
    assert coloured_lines(screen.shown, "dim") == [tuple(spans)]
