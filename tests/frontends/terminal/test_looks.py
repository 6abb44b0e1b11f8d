"""Themes, the terminal's background and marks in diffs."""

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alhena.frontends.terminal.drawing.call_result import ROWS, diff_lines
from alhena.frontends.terminal.drawing.lines import Line, plain
from alhena.frontends.terminal.looks.theme import (
    ANSI_LIGHT,
    THEMES,
    AnswerReader,
    is_light,
    says_light,
    theme_named,
    theme_of,
)
from tests.frontends.terminal.session import PLACEHOLDER, at, leave
from tests.support.each import for_each
from tests.support.server import ScriptedServer, sse, text
from tests.support.terminal import Terminal

ASKED = "\x1b]11;?\x07"
LIGHT, DARK = "rgb:ffff/fafa/f0f0", "rgb:1e/1e/2e"
BLUE, CYAN = "\x1b[0;34m> ", "\x1b[0;36m> "


def settled(home: Path, **ui: object) -> None:
    folder = home / ".gemini"
    folder.mkdir(exist_ok=True)
    (folder / "settings.json").write_text(json.dumps({"ui": ui}), encoding="utf-8")


def until_raw(terminal: Terminal, part: str) -> None:
    """Reads until the terminal got `part`."""
    while part not in terminal.raw:
        terminal.take()


@pytest.mark.requirement("TERM-06")
@for_each(
    ("name", "theme"),
    [
        ("ANSI", "ANSI"),
        ("Dracula Dark", "Dracula"),
        ("github light", "GitHub Light"),
        ("GitHub", "GitHub"),
        ("Solarized", "Solarized Dark"),
        ("Xcode Light", "Xcode"),
        ("TokyoNight", "Tokyo Night"),
        ("NoColor", "No Color"),
        ("Shades of Purple Dark", "Shades Of Purple"),
    ],
)
def test_a_theme_is_found_by_the_names_it_has_elsewhere(name: str, theme: str):
    assert theme_named(name) is THEMES[theme]


def test_every_theme_can_be_drawn_and_an_unknown_one_is_the_backgrounds():
    for name, theme in THEMES.items():
        assert theme_named(name) is theme
        assert theme.style().style_rules
    assert theme_named("Unheard") is None
    assert theme_of("Unheard", light=True) is ANSI_LIGHT


@for_each(
    ("colour", "light"),
    [(LIGHT, True), (DARK, False), ("rgba:ff/ff/ff/ff", True), ("white", None), ("", None)],
)
def test_a_background_is_light_or_dark(colour: str, light: bool | None):
    assert is_light(colour) is light


@for_each(("said", "light"), [("0;15", True), ("15;0", False), ("0;default;7", True), ("", False)])
def test_colorfgbg_says_what_the_background_is(said: str, light: bool):
    assert says_light({"COLORFGBG": said}) is light


@for_each("cuts", [(), (1,), (2,), (4,), (5,), (9,), (5, 12), (27,)])
@for_each("end", ["\x07", "\x1b\\"])
def test_an_answer_is_taken_out_of_what_is_typed_however_it_comes(end: str, cuts: tuple[int, ...]):
    heard: list[str] = []
    reader = AnswerReader(0, "utf-8", heard.append)
    whole = f"a\x1b]11;{LIGHT}{end}b"
    bounds = [0, *(cut + 1 for cut in cuts), len(whole)]
    pieces = [whole[start:stop] for start, stop in pairwise(bounds)]
    typed = "".join(map(reader.without_answer, pieces))
    assert heard == [LIGHT]
    assert typed.replace("\x1b", "") == "ab"


def test_other_keys_with_an_escape_are_left_alone():
    reader = AnswerReader(0, "utf-8", lambda _: None)
    for keys in ("\x1b", "\x1b[A", "\x1b]", "x", "]11", "\x1b\r"):
        typed = reader.without_answer(keys) + reader.without_answer("y")
        assert typed == f"{keys}y"


@pytest.mark.requirement("TERM-06")
def test_on_a_light_background_other_colours_are_used(server: ScriptedServer):
    with at(server) as terminal:
        until_raw(terminal, ASKED)
        assert CYAN in terminal.raw, "the prompt was painted before"
        terminal.send(f"\x1b]11;{LIGHT}\x07hi")
        until_raw(terminal, BLUE)
        shown = terminal.until("> hi")
        assert "11;" not in shown
        terminal.send("\x7f\x7f")
        leave(terminal)


@pytest.mark.requirement("TERM-06")
def test_the_theme_of_the_settings_colours_the_session(server: ScriptedServer, home: Path):
    settled(home, theme="Dracula")
    server.reply(sse(text("Fine.")))
    with at(server, PROMPT_TOOLKIT_COLOR_DEPTH="DEPTH_24_BIT") as terminal:
        until_raw(terminal, "38;2;139;233;253m> ")
        assert ASKED not in terminal.raw
        leave(terminal)


def test_an_unknown_theme_is_named_with_those_there_are(server: ScriptedServer, home: Path):
    settled(home, theme="Unheard")
    with at(server, columns=200) as terminal:
        terminal.until("! ui.theme: no theme Unheard. Themes: ANSI, ANSI Light, Atom One")
        terminal.until(PLACEHOLDER)
        leave(terminal)


@pytest.mark.requirement("TERM-06")
@pytest.mark.parametrize("said", ["variable", "theme"])
def test_without_colours_nothing_is_coloured(server: ScriptedServer, home: Path, said: str):
    settled(home, theme="No Color" if said == "theme" else "Dracula")
    server.reply(sse(text("See `code` and **bold**.\n\n```python\nx = 'y'\n```")))
    with at(server, **({"NO_COLOR": "1"} if said == "variable" else {})) as terminal:
        terminal.until("/help lists")
        painted = len(terminal.raw)
        terminal.send("hi\r")
        terminal.until("1 turn")
        leave(terminal)
    colours = re.compile(r"\x1b\[(?:\d+;)*(?:[349][0-8])(?:;\d+)*m")
    assert colours.findall(terminal.raw[painted:]) == []


def styles_of(lines: list[Line]) -> dict[str, str]:
    return {text.strip(): style for row in lines for style, text in row}


def test_a_diff_has_the_syntax_of_its_file():
    rows = ["def f():", '    return "text"  # why', '    """more', "    than def", '    """']
    diff = "@@ -1,1 +1,6 @@\n-class Gone: pass\n" + "".join(f"+{each}\n" for each in rows)
    lines = diff_lines(f"{diff} return 12\n", "a.py")
    styles = styles_of(lines)
    assert plain(lines) == plain(diff_lines(f"{diff} return 12\n"))
    assert styles["def"] == styles["return"] == "keyword"
    assert styles["# why"] == "comment"
    assert styles["than def"] == "string"
    assert styles["12"] == "number"
    assert styles["f"] == styles["+"] == "added"
    assert styles["- class Gone: pass"] == "removed"
    assert set(styles_of(diff_lines(diff, "no.such-kind")).values()) == {"dim", "added", "removed"}


@settings(max_examples=25)
@given(st.lists(st.text(alphabet=st.characters(exclude_characters="\n\r")), max_size=6))
def test_syntax_changes_no_character(rows: list[str]):
    diff = f"@@ -0,0 +1,{len(rows)} @@\n" + "".join(f"+{each}\n" for each in rows)
    for name in ("a.py", "a.html", "Makefile"):
        assert plain(diff_lines(diff, name)) == plain(diff_lines(diff))


def test_only_the_beginning_of_a_very_long_diff_is_coloured():
    diff = "@@ -0,0 +1,10000 @@\n" + "+x = 1\n" * 10_000
    lines = diff_lines(diff, "a.py")
    assert len(lines) == 10_000
    assert len(lines[ROWS - 1]) > 2 == len(lines[ROWS])


def test_changed_words_of_a_row_are_marked():
    diff = "@@ -1,3 +1,3 @@\n one\n-the old words here\n+the new words here\n-gone\n+x y z 1 2\n"
    lines = diff_lines(diff)
    marked = [text for row in lines for style, text in row if style.endswith("-word")]
    assert marked == ["old", "new"]
    assert "     2 + the new words here" in plain(lines)
    unequal = diff_lines("@@ -1,2 +1,1 @@\n-the old words\n-more\n+the new words\n")
    assert not [style for row in unequal for style, _ in row if style.endswith("-word")]
