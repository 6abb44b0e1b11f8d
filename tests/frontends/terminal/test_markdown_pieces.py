"""Streamed Markdown is cut into pieces that mean the same as the whole."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.frontends.terminal.drawing.markdown import render_markdown
from alhena.frontends.terminal.drawing.markdown_pieces import (
    MAX_CHARACTERS,
    MAX_LINE,
    split,
)

LINES = st.sampled_from(
    [
        *("text", "- item", "* item", "1. one", "10) ten", "  indented", "    code", "> quote"),
        *("```", "```python", "~~~~", "~~~", "# head", "| a | b |", "", "", "", "---", "1", "-"),
    ]
)
TEXTS = st.lists(LINES, max_size=30).map("\n".join)
CONTAINED = st.sampled_from(
    [
        *("   ```", "    ~~~", "> ```py", "> x", ">", "> ```", "- ```", "1. ```sh", "  more"),
        *("```x``` is", "|---|", "| - | - |", "a | b", "| 1 | 2 |", "> > ~~~", "\t```", "# head"),
    ]
)
NESTED = st.lists(LINES | CONTAINED, max_size=40).map("\n".join)
MANY = 150
SGR = re.compile(r"\x1b\[[\d;]*m")


def streamed(pieces: list[str]) -> tuple[list[str], str]:
    """Finished pieces and the rest of a text that arrives in parts."""
    finished: list[str] = []
    rest = ""
    for piece in pieces:
        made, rest = split(rest + piece)
        finished += made
    return finished, rest


def shown(text: str) -> list[str]:
    """The rows of a text that arrives in pieces, without blank ones."""
    finished, rest = streamed([text[at : at + 7] for at in range(0, len(text), 7)])
    pieces = [*finished, rest.strip("\n")]
    return rows(
        "\n".join(render_markdown(each, 70, colour=False) for each in pieces if each.strip())
    )


def rows(text: str) -> list[str]:
    bare = (row.rstrip() for row in SGR.sub("", text).split("\n"))
    return [row for row in bare if row.strip(" ▌")]


def without_blank_lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.strip()]


def test_a_piece_ends_where_something_else_begins_behind_a_blank_line():
    assert split("one\ntwo\n\nthree") == (("one\ntwo",), "three")
    assert split("one\ntwo\n\n") == ((), "one\ntwo\n\n")
    assert split("one\ntwo\n\n  more") == ((), "one\ntwo\n\n  more")


def test_a_list_goes_on_behind_blank_lines():
    text = "- a\n\n- b\n\n1"
    assert split(text) == ((), text)
    assert split("- a\n\n- b\n\nAnd") == (("- a\n\n- b",), "And")


def test_a_fence_ends_with_its_own_mark_and_holds_blank_lines():
    text = "```py\na\n\nb\n~~~\n``\n"
    assert split(text) == ((), text)
    assert split(text + "````\nrest") == ((f"{text}````",), "rest")


@given(NESTED)
def test_nothing_is_lost_but_for_the_margin(text: str):
    finished, rest = split(text)
    pieces = [line.strip() for line in without_blank_lines("\n".join([*finished, rest]))]
    assert pieces == [line.strip() for line in without_blank_lines(text)]


@given(TEXTS)
def test_nothing_is_lost_and_nothing_is_added(text: str):
    finished, rest = split(text)
    assert without_blank_lines("\n".join([*finished, rest])) == without_blank_lines(text)
    assert all(piece.strip() for piece in finished)


@given(TEXTS | NESTED, st.lists(st.integers(0, 200), max_size=12))
def test_how_a_text_arrives_makes_no_difference(text: str, cuts: list[int]):
    places = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    pieces = [text[a:b] for a, b in pairwise(places)]
    whole, rest = split(text)
    assert streamed(pieces or [""])[0] == list(whole)
    assert without_blank_lines(streamed(pieces or [""])[1]) == without_blank_lines(rest)


@given(TEXTS)
def test_every_piece_has_its_fences_closed(text: str):
    for piece in split(text)[0]:
        opened = ""
        for line in piece.split("\n"):
            mark = re.match(r" *(`{3,}|~{3,})", line)
            if not opened and mark:
                opened = mark[1]
            elif opened and not line.strip().strip(opened[0]) and len(line.strip()) >= len(opened):
                opened = ""
        assert not opened


def test_what_becomes_too_long_is_cut_and_a_fence_is_opened_again():
    lines = [f"x = {number}" for number in range(6_000)]
    finished, rest = split("```python\n" + "\n".join(lines) + "\n")
    assert len(finished) >= 2
    assert all(piece.startswith("```python\n") and piece.endswith("\n```") for piece in finished)
    assert rest.startswith("```python\n")
    body = "\n".join([*finished, rest])
    assert [line for line in body.split("\n") if line.startswith("x = ")] == lines


def test_a_line_without_an_end_does_not_grow_for_ever():
    for opening in ("", "```" + "i" * 2 * MAX_CHARACTERS + "\n", "    ", "- "):
        finished, rest = streamed([opening, *["word " * 100] * 200, "\n\nend of it\n"])
        assert len(rest) <= 2 * MAX_CHARACTERS + 1000
        assert "".join([*finished, rest]).count("word") == 20_000


@pytest.mark.parametrize(
    "text",
    [
        "```python\ndef f():\n    '''\n    ```\n    x = *1*\n    ```\n    '''\n```\n\nAfter *it*.\n",
        "1. Step\n\n    ```sh\n    cmd\n    ```\n    Then *this*.\n\n    And.\n\n2. Two\n   - sub\n",
        "- a\n  ```sh\n  x\n  ```\n  - nested\n    - deeper\n- b\n",
        "1. ```sh\n   cmd\n   ```\n2. ```sh\n   *cmd*\n   ```\n\nEnd *it*.\n",
        "> ```\n> x\n> ```\n> - *a*\n>   ```\n>   *b*\n>   ```\n>   *c*\n\nEnd\n",
        "> ```\n> *x*\n\nThe *end*\n",
        "```foo``` is a command\n\n" + "a **b** c\n\n" * MANY + "end\n",
        "> ```py\n" + "> x = p*a* q\n" * MANY + "> ```\n\nend\n",
        "- top\n" + "  - sub\n" * MANY + "- next\n",
    ],
)
def test_pieces_are_shown_as_the_whole_is(text: str):
    assert shown(text) == rows(render_markdown(text, 70, colour=False))


def test_a_fence_is_not_opened_again_only_to_be_closed():
    text = "```\n" + "x\n" * (MAX_CHARACTERS // 2 - 2) + "```\n"
    assert split(text) == ((text.strip("\n"),), "")


@pytest.mark.parametrize("opening", ["", "```\n"])
@pytest.mark.parametrize("end", ["", "\n"])
def test_a_line_that_is_too_long_goes_on_in_the_next(opening: str, end: str):
    text = opening + "word " * MAX_CHARACTERS + end
    finished, rest = split(text)
    lines = "\n".join([*finished, rest]).split("\n")
    assert max(map(len, lines)) <= MAX_LINE
    assert sum(line.split().count("word") for line in lines) == MAX_CHARACTERS
    assert max(map(len, finished)) <= 2 * MAX_CHARACTERS
    assert list(finished) == streamed([text[at : at + 999] for at in range(0, len(text), 999)])[0]
