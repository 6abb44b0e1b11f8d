"""Text as people see it."""

import re
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from alhena.display_text import escaped, exact, money, one_line, without_controls
from tests.support.each import for_each

ANY = st.characters(codec=None, exclude_categories=())
HOSTILE = st.sampled_from(
    [
        *"\x00\x07\x08\x1b\r\x7f\x9b\u00a0\u00ad\u034f\u061c\u115f\u200b\u200d\u200f\u2028\u202e",
        *"\u2066\u2800\u3164\ufe0f\ufeff\uffa0\U000e0041\U000e0100\ud800\u0301\u0336\u20dd",
        *("\\", "\\\\", "\\x1b", "\\u202e", "\\U000e0041", "\\x0a", "x1b", "\\{40 spaces}"),
        *(" " * 40, "\t" * 10, "\n" * 5, "\n \n\t\n \n  \n", " ", "\n", "e", "ls", "{41 tabs}"),
    ]
)
TEXTS = st.lists(HOSTILE | st.text(ANY, max_size=5), max_size=25).map("".join)

BLANKS = {"spaces": " ", "tabs": "\t", "line breaks": "\n"}
CODED = (
    r"(\\+)(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|\{([0-9]+) (spaces|tabs|line breaks)\})"
)


EMOJI = "#*0-9" + "".join(
    re.escape(chr(point)) for point in range(0x1FAFF) if unicodedata.category(chr(point)) == "So"
)
"""Signs that a joiner, or a selector of colour, may follow."""


def is_hidden(char: str) -> bool:
    """Written from Unicode's tables, not from the code."""
    category = unicodedata.category(char)
    if category in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"} or (category == "Zs" and char != " "):
        return True
    point = ord(char)
    return (
        point in {0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0}
        or 0x180B <= point <= 0x180F
        or 0xFE00 <= point <= 0xFE0F
        or 0xE0000 <= point <= 0xE0FFF
    )


def read_back(shown: str) -> str:
    """Inverse of `exact`."""

    def decoded(match: re.Match[str]) -> str:
        slashes, *points, count, blanks = match.groups()
        if count is None:
            point = int(next(filter(None, points)), 16)
            char = chr(point) if point <= 0x10FFFF else "x"
            mark = unicodedata.category(char).startswith("M")
            if not (is_hidden(char) or mark or char == " " or point in {0x16FE4, 0x1D159}):
                return match[0]
        else:
            char = BLANKS[blanks] * int(count)
        half = "\\" * (len(slashes) // 2)
        return half + (char if len(slashes) % 2 else match[0][len(slashes) :])

    return re.sub(CODED, decoded, shown)


@pytest.mark.parametrize("show", [escaped, exact, one_line])
@given(TEXTS)
def test_everything_that_hides_acts_or_steers_is_escaped(
    show: Callable[[str], str], text: str
) -> None:
    shown = show(text)
    kept = "\n\t" if show is exact else ""
    alone = (
        shown if show is exact else re.sub(rf"(?<=[{EMOJI}])\ufe0f|\u200d(?=[{EMOJI}])", "", shown)
    )
    assert not [ascii(char) for char in alone if char not in kept and is_hidden(char)]
    shown.encode("utf-8")
    assert not re.search(r"[\u0334-\u0338\u20dd]|(?:^|[^\w\u0300-\u036f])\u0301|\u0301{5}", shown)


@for_each("point", [*range(0x20), *range(0x7F, 0x110000)][::4999])
def test_no_character_that_nobody_sees_is_left(point: int) -> None:
    char = chr(point)
    assert (escaped(f"a{char}b") != f"a{char}b") >= is_hidden(char)


def test_every_control_and_format_character_is_escaped_and_no_letter() -> None:
    for point in (*range(0x20000), *range(0xE0000, 0xE1000), 0x10FFFF):
        char = chr(point)
        if is_hidden(char):
            assert char not in escaped(char, block=False)
        elif char.isalnum():
            assert escaped(char) == char


@given(TEXTS)
@example("\\\x1b")
@example("\\\\x1b")
@example("\\" + " " * 40)
@example("\\{40 spaces}")
def test_what_is_to_be_approved_can_be_read_back_from_what_is_shown(text: str) -> None:
    assert read_back(exact(text)) == text


@given(TEXTS, TEXTS)
def test_two_commands_are_never_shown_alike(one: str, other: str) -> None:
    assert (exact(one) == exact(other)) == (one == other)


@given(TEXTS)
def test_no_padding_pushes_the_end_of_a_command_out_of_sight(text: str) -> None:
    shown = exact(f"ls{text}; rm x")
    assert shown.endswith("; rm x")
    assert not re.search(r" {40}|\t{10}|(?:[ \t]*\n){5}", shown)


@given(TEXTS)
def test_what_is_escaped_once_stays_as_it_is(text: str) -> None:
    assert escaped(escaped(text)) == escaped(text)
    block = escaped(text, block=True)
    assert escaped(block, block=True) == block
    assert one_line(one_line(text)) == one_line(text)


@given(TEXTS, st.integers(1, 60))
def test_a_message_is_one_line_of_bounded_length(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert len(line) <= limit
    assert "\n" not in line
    if line == one_line(text):
        assert not line.endswith("…") or one_line(text).endswith("…")
    else:
        assert line.endswith("…")


@pytest.mark.parametrize(
    "text",
    [
        "git commit -m 'fix'",
        "grep '\\.py$' src | sort -u",
        "printf 'a\\n\\t%s' \"$x\" \\\n  | wc -l",
        "cat <<E\n\tindented\n\n    deeper\nE",
        "echo Grüße 漢字 Привет שלום नमस्ते ภาษาไทย e\u0301 🚀",
        "sed 's/\\x41/\\u2014/'",
    ],
)
def test_what_people_write_is_shown_as_it_is(text: str) -> None:
    assert exact(text) == text
    assert escaped(text, block=True) == text


@for_each(
    ("text", "shown"),
    [
        ("rm\x1b[2K\x1b[1Als", r"rm\x1b[2K\x1b[1Als"),
        ("a\u202eb", r"a\u202eb"),
        ("a\U000e0041", r"a\U000e0041"),
        ("a\r\x9b", r"a\x0d\x9b"),
        ("ls\t\n;" + " " * 40 + "rm", "ls\t\n;\\{40 spaces}rm"),
        ("ls" + " \t" * 10 + "rm", "ls" + r"\x20\x09" * 10 + "rm"),
        ("ls\n\n\n\n\n\nrm", r"ls\{6 line breaks}rm"),
        ("ls\n\n\n\nrm", "ls\n\n\n\nrm"),
        (r"printf '\x1b[0m'", r"printf '\\x1b[0m'"),
        ("\u0301x o\u0336k", r"\u0301x o\u0336k"),
    ],
)
def test_how_a_command_is_shown(text: str, shown: str) -> None:
    assert exact(text) == shown


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]8;;http://a.b\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b]never ended\nand more", "]never ended\nand more"),
        ("a\x00\x08b\x9b2J\r\n\tc", "ab2J\n\tc"),
        ("❤\ufe0f שלום\u200f e\u0301\u00a0:", "❤\ufe0f שלום\u200f e\u0301\u00a0:"),
    ],
)
def test_an_answer_keeps_its_letters_and_loses_what_acts_on_a_terminal(
    text: str, left: str
) -> None:
    assert without_controls(text) == left


@given(TEXTS)
def test_nothing_in_an_answer_acts_on_a_terminal(text: str) -> None:
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", without_controls(text))


@pytest.mark.parametrize(
    "unit",
    ["\x1b", "\\", "\u0301", " \t\n", "\x1b]", "\x1b[0", "\\\x1b", "\\x1b", "漢", " " * 39 + "x"],
)
def test_a_flood_of_anything_takes_time_in_proportion(unit: str) -> None:
    # Were it more than that, the limit of the test would end it.
    text = unit * (300_000 // len(unit))
    assert exact(text)
    assert not re.search(r"[\x00-\x08\x0b-\x1f]", without_controls(text) + one_line(text, 300))


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        *((None, "unknown"), (0, "$0.00"), (0.00055, "$0.00055"), (0.0333, "$0.033")),
        *((0.5, "$0.50"), (1.005, "$1.00"), (1234.5, "$1,234.50"), (1e-12, "$0.00000000")),
    ],
)
def test_money_has_two_significant_digits(amount: float | None, shown: str):
    assert money(amount) == shown
