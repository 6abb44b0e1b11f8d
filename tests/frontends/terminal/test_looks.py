"""Themes, the terminal's background and marks in diffs."""

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alhena.frontends.terminal.drawing.diff import ROWS, diff_lines
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
from tests.frontends.terminal.session import ENTER, at, leave
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


GROUNDS = {
    "Atom One": "#282c34",
    "Ayu": "#0b0e14",
    "Ayu Light": "#f8f9fa",
    "Default": "#1e1e2e",
    "Default Light": "#fafafa",
    "Dracula": "#282a36",
    "GitHub": "#24292e",
    "GitHub Dark Colorblind": "#0d1117",
    "GitHub Light": "#f8f8f8",
    "GitHub Light Colorblind": "#ffffff",
    "Google Code": "#ffffff",
    "Holiday": "#00210e",
    "Shades Of Purple": "#2d2b57",
    "Solarized Dark": "#002b36",
    "Solarized Light": "#fdf6e3",
    "Tokyo Night": "#1a1b26",
    "Xcode": "#ffffff",
}
"""The backgrounds that themes are made for; of the others, the terminal has the colours."""


def luminance(colour: str) -> float:
    """The relative luminance of WCAG."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@for_each(("name", "ground"), [*GROUNDS.items(), ("ANSI Light", "#ffffff")])
def test_every_colour_of_a_theme_can_be_read_on_its_background(name: str, ground: str):
    theme = THEMES[name]
    for colour in (theme.accent, theme.ok, theme.error, theme.warning, theme.dim):
        if colour.startswith("#"):
            dark, bright = sorted((luminance(colour), luminance(ground)))
            assert (bright + 0.05) / (dark + 0.05) >= 4.5, colour


def test_a_theme_with_colours_of_its_own_has_a_known_background():
    own = {name for name, theme in THEMES.items() if theme.accent.startswith("#")}
    assert own == GROUNDS.keys()


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


def test_a_theme_may_be_a_file(server: ScriptedServer, home: Path, tmp_path: Path):
    own = tmp_path / "own.json"
    own.write_text('{"text": {"accent": "#123456"}}', encoding="utf-8")
    settled(home, theme=str(own))
    with at(server, PROMPT_TOOLKIT_COLOR_DEPTH="DEPTH_24_BIT", columns=150) as terminal:
        until_raw(terminal, "38;2;18;52;86m> ")
        own.write_text('{"text": {"accent": "no colour"}}', encoding="utf-8")
        terminal.send(f"/theme {own}" + ENTER)
        terminal.until(f"! ui.theme: the file {own} cannot be used: ")
        terminal.send("/theme gone.json" + ENTER)
        terminal.until("the file gone.json cannot be used: No such file or directory.")
        leave(terminal)


def test_what_the_settings_get_wrong_is_named_before_the_first_prompt(
    server: ScriptedServer, home: Path
):
    wrong = {
        "ui": {"theme": "Draculla"},
        "genral": {"vimMode": True},
        "mcpServers": {"docs": {"command": "/nowhere/at/all"}},
    }
    (home / ".gemini").mkdir(exist_ok=True)
    (home / ".gemini" / "settings.json").write_text(json.dumps(wrong), encoding="utf-8")
    server.reply(sse(text("Fine.")))
    with at(server, columns=200, rows=40) as terminal:
        terminal.until("! ui.theme: no theme Draculla. Did you mean Dracula? /theme lists them.")
        terminal.until("unknown settings (ignored): genral (line 1; did you mean general?).")
        terminal.until("! MCP server 'docs': Could not start /nowhere/at/all: No such file")
        terminal.until("  /mcp disable docs turns it off.")
        terminal.send("go" + ENTER)
        terminal.until("1 turn")
        assert terminal.screen.text.count("! MCP server 'docs'") == 1
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
