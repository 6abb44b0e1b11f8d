"""Warnings about deceptive text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.display_text import escaped
from alhena.suspicious_text import MOST_WARNINGS, hidden, suspicious, write_hidden
from tests.support.each import for_each

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))


@for_each(
    ("text", "warning"),
    [
        ("ls\x1b[2J", r"contains an escape character (\x1b) at column 3"),
        ("ls\x9b2J", r"contains a control sequence introducer (\x9b) at column 3"),
        ("a\nb\u202ec\u202e", r"contains a right-to-left override (\u202e) at line 2, column 2, "),
        ("a\u200bb", r"contains a zero width space (\u200b) at column 2"),
        ("a\U000e0041", r"contains a tag latin capital letter a (\U000e0041) at column 2"),
        ("a\u00a0b", r"contains a no-break space (\xa0) at column 2"),
        ("a\ue000\ufdd0", r"contains a private character (\ue000) at column 2"),
        ("a\ufdd0", r"contains a character of no known meaning (\ufdd0) at column 2"),
        ("o\u0336k", r"contains a combining long stroke overlay (\u0336) at column 2"),
        ("ls" + " " * 50 + "x", "has 50 blanks in a row at column 3"),
        ("ls" + "\n " * 9 + "x", "has 9 line breaks in a row at line 1, column 3"),
        ("x '\u05e9' > /y", "has right-to-left letters from column 4 on: "),
        ("\u0441at x", '"\u0441at" at column 1 mixes in letters that only look Latin (U+0441)'),
        ("g\uff49t x", '"g\uff49t" at column 1 mixes in letters that only look Latin (U+FF49)'),
        ("get https://\u0430\u0440\u0440\u04cf\u0435.com/", 'the host "'),
        ("get https://a.com\u2215@b.c", "has a character that only looks like a slash (U+2215) at"),
    ],
)
def test_what_deceives_is_named_with_its_place(text: str, warning: str) -> None:
    assert any(each.startswith(warning) for each in suspicious(text)), suspicious(text)


def test_a_program_may_not_only_look_latin() -> None:
    said = 'the program "\u0441\u0441" is written with letters that only look Latin (U+0441)'
    assert suspicious("\u0441\u0441 a.c", ["\u0441\u0441"]) == (said,)
    assert suspicious("cc '\u0441\u0441'", ["cc"]) == ()


@pytest.mark.parametrize(
    "text",
    [
        "git status && npm test",
        'for f in *.py; do\n\twc -l "$f"\n\n    done',
        "git commit -m 'Привет, JSON-файлы: а и с'",
        "echo Grüße ışık nº 10µs m² 漢字，修复：x 🚀 e\u0301 ½ नमस्ते ภาษาไทย",
        "./запуск.sh",
        "printf '\\x1b[0m\\n'",
    ],
)
def test_what_people_write_is_not_suspicious(text: str) -> None:
    assert suspicious(text, text.split()[:1]) == ()


@given(ANY_TEXT, st.lists(ANY_TEXT, max_size=2))
def test_warnings_are_few_and_hide_nothing_themselves(text: str, programs: list[str]) -> None:
    found = suspicious(text, programs)
    assert len(found) <= MOST_WARNINGS
    for each in found:
        assert escaped(each) == each


@given(ANY_TEXT)
def test_whatever_is_shown_otherwise_than_it_is_is_warned_of(text: str) -> None:
    if escaped(text, block=True) != text:
        assert suspicious(text)


def test_of_many_findings_the_number_is_said() -> None:
    found = suspicious("".join(map(chr, range(0x20))))
    assert len(found) == MOST_WARNINGS
    assert found[-1] == "there are 23 more such findings"


@pytest.mark.parametrize("unit", ["\x1b", "\u0301", " \t\n", "漢a", "\u0430b ", "://é/", "\u05d0"])
def test_a_megabyte_of_anything_is_looked_through_in_proportion(unit: str) -> None:
    # Were it more than that, the limit of the test would end it.
    text = unit * (1_000_000 // len(unit))
    assert isinstance(suspicious(text, (text[:1000],)), tuple)


def test_a_text_that_is_shown_has_nothing_hidden_left_and_keeps_what_is_the_language():
    text = "a\u202eb\x1b[1m\r\nc\rd\te\u2028 \u26a0\ufe0f \u0645\u06cc\u200c\u062e x\ufe0f"
    told = write_hidden(text)
    assert told == (
        "a\\u202eb\\x1b[1m\nc\\rd\te\\u2028 \u26a0\ufe0f \u0645\u06cc\u200c\u062e x\\ufe0f"
    )
    assert hidden(told) == ()
    assert write_hidden(told) == told
    assert write_hidden("plain\n\ttext") == "plain\n\ttext"
