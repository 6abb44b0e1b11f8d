"""Keys of a person's own, from ~/.gemini/keybindings.json."""

import json
import os
from pathlib import Path

import pytest
from prompt_toolkit.keys import ALL_KEYS

from alhena.frontends.terminal.keybindings import COMMANDS, prompt_keys, read_key_file
from tests.frontends.terminal.session import ENTER, PLACEHOLDER, at, leave
from tests.support.command import alhena
from tests.support.each import for_each
from tests.support.server import ScriptedServer, sse, text

CTRL_T, CTRL_Y = "\x14", "\x19"


def write(home: Path, given: object) -> None:
    (home / ".gemini").mkdir(exist_ok=True)
    written = given if isinstance(given, str) else json.dumps(given)
    (home / ".gemini" / "keybindings.json").write_text(written, encoding="utf-8")


@pytest.mark.requirement("TERM-06")
def test_commands_have_the_keys_of_the_file(server: ScriptedServer, home: Path):
    write(
        home,
        """[ // mine
        {"command": "app.toggleYolo", "key": "ctrl+t"},
        {"command": "-app.toggleYolo", "key": "ctrl+y"},
        {"command": "input.newline", "key": "enter"},
        {"command": "input.submit", "key": "alt+s"},
        {"command": "cursor.home", "key": "F5"},
        {"command": "app.toggleMarkdown", "key": "alt+m"},
        {"command": "no.such", "key": "x"}]""",
    )
    server.reply(sse(text("Fine.")))
    with at(server, "--skip-trust") as terminal:
        terminal.until("! Commands of keybindings.json without effect in this version:")
        terminal.until("app.toggleMarkdown, no.such")
        terminal.until("default  m")
        terminal.send(CTRL_T)
        terminal.until("yolo  m")
        terminal.send(CTRL_Y + "two" + ENTER + "lines")
        terminal.until("  lines")
        terminal.send("\x1b[15~")
        terminal.send("more ")
        terminal.until("  more lines")
        assert "yolo  m" in terminal.screen.text
        terminal.send("\x1bs")
        terminal.until("Fine.")
        leave(terminal)
    assert server.requests[0].json["contents"][-1]["parts"][-1]["text"] == "two\nmore lines"
    with at(server) as terminal:
        terminal.until("/help lists")
        assert "keybindings.json" not in terminal.until(PLACEHOLDER)
        leave(terminal)
    checked = alhena("settings", "check")
    assert "commands without effect in this version: app.toggleMarkdown, no.such." in checked.out


@for_each(
    ("written", "told"),
    [
        ("{", "cannot be used: "),
        ("{}", "cannot be used: it is no list"),
        ('["x"]', "entry 1: "),
        ('[{"command": "input.submit"}]', "entry 1: "),
        ('[{"command": "input.submit", "key": "shift+enter"}]', "terminals send no key"),
        ('[{"command": "input.submit", "key": "cmd+s"}]', "terminals send no key"),
    ],
)
def test_a_wrong_file_is_told_and_the_rest_of_it_used(written: str, told: str, home: Path):
    write(home, written)
    found = read_key_file(os.environ)
    assert found.entries == ()
    assert told in found.problems[0]
    assert str(home / ".gemini" / "keybindings.json") in found.problems[0]


def test_the_terminal_starts_with_a_wrong_file(server: ScriptedServer, home: Path):
    write(home, "[{]")
    server.reply(sse(text("Fine.")))
    with at(server, columns=200) as terminal:
        terminal.until("keybindings.json cannot be used: ")
        terminal.send("hi" + ENTER)
        terminal.until("Fine.")
        leave(terminal)


@for_each(
    ("pattern", "keys"),
    [
        ("ctrl+x", ("c-x",)),
        ("Ctrl+X", ("c-x",)),
        ("enter", ("c-m",)),
        ("tab", ("c-i",)),
        ("shift+tab", ("s-tab",)),
        ("alt+b", ("escape", "b")),
        ("opt+enter", ("escape", "c-m")),
        ("alt+left", ("escape", "left")),
        ("ctrl+left", ("c-left",)),
        ("ctrl+shift+left", ("c-s-left",)),
        ("ctrl+[", ("escape",)),
        ("ctrl+space", ("c-@",)),
        ("space", (" ",)),
        ("pageup", ("pageup",)),
        ("f12", ("f12",)),
        ("A", ("A",)),
        ("shift+a", ("A",)),
        ("?", ("?",)),
    ],
)
def test_keys_are_written_as_in_the_reference(pattern: str, keys: tuple[str, ...]):
    assert prompt_keys(pattern) == keys
    assert all(each in ALL_KEYS or len(each) == 1 for each in keys)


def test_documentation_names_the_commands():
    told = (Path(__file__).parents[3] / "docs" / "terminal.md").read_text(encoding="utf-8")
    for name in (each for each in COMMANDS if "deprecated" not in each):
        group, _, rest = name.partition(".")
        assert f"`{name}`" in told or f"`{rest}`" in told or f"`{group}.*`" in told, name
