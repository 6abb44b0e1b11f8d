"""Lines in the columns of a terminal."""

from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from alhena.frontends.terminal.drawing.lines import (
    Line,
    clip_line,
    fold_line,
    line,
    plain,
    prefix,
    row,
    width,
    wrap_text,
)
from alhena.frontends.terminal.drawing.menu import Menu, MenuOption, menu_lines
from alhena.frontends.terminal.drawing.view import prompt_lines


def test_columns_are_those_of_a_terminal():
    assert width("ab") == 2
    assert width("漢字") == 4
    assert width("e\u0301") == 1
    assert prefix("漢字", 3) == "漢"
    assert width("👨\u200d👩\u200d👧🇩🇪👍🏽") == 6
    assert prefix("🇩🇪🇫🇷", 3) == "🇩🇪"
    family = "👨\u200d👩\u200d👧"
    assert plain([row(family, f"{family} a\u200db")]) == f"  {family}{' ' * 25}{family} a\\u200db"
    assert wrap_text("one two three", 8) == ["one two", "three"]
    assert wrap_text("漢字漢字", 4) == ["漢字", "漢字"]
    assert wrap_text("abcdefghij", 4) == ["abcd", "efgh", "ij"]
    assert plain([clip_line((("", "abcdef"),), 4)]) == "abc…"
    assert plain([clip_line((("", "ab"), ("bold", "cdef")), 4)]) == "abc…"


def test_a_long_line_goes_on_below_its_text():
    given = (("accent", "  Enter   "), ("", "sends; a backslash at the end begins a new line"))
    assert plain(fold_line(given, 30, 10)) == snapshot("""\
  Enter   sends; a backslash
          at the end begins a
          new line\
""")
    assert plain(fold_line(line("x" * 25), 10, 4)) == snapshot("""\
xxxxxxxxxx
    xxxxxx
    xxxxxx
    xxx\
""")
    assert fold_line(line("short"), 10, 4) == [line("short")]
    assert plain(fold_line(line("abcdef"), 3, 4)) == "abc\ndef"


SPANS = st.lists(
    st.tuples(st.sampled_from(["", "dim"]), st.text(alphabet="ab 漢🎉\u0301", max_size=30)),
    max_size=4,
)


@given(SPANS.map(tuple), st.integers(2, 40), st.integers(0, 12))
def test_folding_loses_nothing_but_blanks_and_keeps_to_the_columns(
    given: Line, columns: int, hang: int
):
    rows = fold_line(given, columns, hang)
    assert all(width(plain([row])) <= columns for row in rows)
    assert "".join(plain(rows).split()) == "".join(plain([given]).split())
    styled = [(style, char) for row in rows for style, text in row for char in text]
    wanted = [(style, char) for style, text in given for char in text]
    assert [each for each in styled if each[1] != " "] == [
        each for each in wanted if each[1] != " "
    ]


def test_a_long_option_of_a_menu_is_to_be_read_whole():
    menu = Menu(
        title="Allow this?",
        options=(
            MenuOption(label="Yes, this once", key="y"),
            MenuOption(
                label="Yes, always: edits of workspace files", key="a", detail="for this session"
            ),
            MenuOption(label="No", key="n"),
        ),
        selected=1,
    )
    rows, chosen = menu_lines(menu, 32)
    assert plain(rows) == snapshot("""\
Allow this?
  1/y Yes, this once
> 2/a Yes, always: edits of
      workspace files  for this
      session
  3/n No
  ↑/↓ select · Enter confirm ·
  Esc stop\
""")
    assert chosen == range(2, 5)


def test_every_row_of_a_prompt_stands_behind_its_bar():
    lines = prompt_lines("a prompt that needs more rows than one\nand more")
    rows = [row for each in lines for row in fold_line(each, 20)]
    assert plain(rows) == snapshot("""\
┃ > a prompt that
┃   needs more rows
┃   than one
┃   and more\
""")
    assert all(sum(width(text) for _, text in row) <= 20 for row in rows)
