"""Keys, pastes, commands and signals at the moment the prompt is painted."""

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.frontends.terminal.session import (
    CTRL_C,
    CTRL_D,
    CTRL_R,
    ENTER,
    ESC,
    PLACEHOLDER,
    assert_restored,
    leave,
    start_fresh,
)
from tests.support.server import ScriptedServer, sse, text
from tests.support.terminal import Terminal

PASTE = "\x1b[200~first line\nsecond line\x1b[201~"
UP, TAB, SHIFT_TAB, CTRL_O, CTRL_Y = "\x1b[A", "\t", "\x1b[Z", "\x0f", "\x19"

DONE = [
    ("/nosuchthing" + ENTER, "Unknown command /nosuchthing."),
    ("/helpp" + ENTER, "Did you mean /help?"),
    ("/help" + ENTER, "Tokens, cost, calls and times"),
    ("?" + ENTER, "Tokens, cost, calls and times"),
    ("/about" + ENTER, "sign-in"),
    ("/todos" + ENTER, "> /todos"),
    ("!echo one$((1 + 1))" + ENTER, "one2"),
    ("!" + ENTER, "Shell mode: each line is a command."),
    (PASTE, "second line"),
    ("draft" + TAB, "> draft"),
    (CTRL_O, "Nothing to show yet."),
    (SHIFT_TAB, "auto_edit  m"),
    (SHIFT_TAB + SHIFT_TAB, "plan  m"),
    (CTRL_Y, "yolo  m"),
    (CTRL_C, "Press Ctrl+C again to exit."),
    (CTRL_R, "Search history:"),
    (ENTER + ENTER + "/nosuchthing" + ENTER, "Unknown command /nosuchthing."),
    (ESC + "/nosuchthing" + ENTER, "Unknown command /nosuchthing."),
    ("once more" + ENTER + UP, "> once more"),
]


@pytest.mark.requirement("TERM-01")
@pytest.mark.parametrize(("keys", "shown"), DONE)
def test_what_is_typed_at_once_is_done_when_the_session_stands(
    server: ScriptedServer, keys: str, shown: str
):
    with start_fresh(server, "--skip-trust") as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send(keys)
        terminal.until(shown)
        terminal.until("/help lists")
        terminal.process.kill(signal.SIGTERM)
        assert terminal.ended() == 130
        assert_restored(terminal)
        assert "unexpected" not in terminal.screen.text


@pytest.mark.requirement("TERM-01")
def test_what_is_typed_before_the_prompt_is_painted_is_done(server: ScriptedServer):
    server.reply(sse(text("Hello.")))
    with start_fresh(server, "--skip-trust") as terminal:
        terminal.send(f"/nosuchthing{ENTER}hi{ENTER}draft")
        terminal.until("Unknown command /nosuchthing.")
        terminal.until("Hello.")
        terminal.until("> draft")
        terminal.send("\x15")
        leave(terminal)
    assert len(server.requests) == 1


@pytest.mark.parametrize("keys", [CTRL_D, CTRL_C * 2, "/quit" + ENTER, "exit" + ENTER])
def test_leaving_at_once_leaves_in_good_order(server: ScriptedServer, keys: str):
    with start_fresh(server) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send(keys)
        assert terminal.ended() == 0
        assert_restored(terminal)
        assert "unexpected" not in terminal.screen.text


def test_a_prompt_typed_at_once_has_the_file_that_it_names(server: ScriptedServer, project: Path):
    (project / "notes.txt").write_text("the content", encoding="utf-8")
    server.reply(sse(text("Read it.")))
    with start_fresh(server) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("look at @notes.txt ")
        terminal.until("> look at @notes.txt")
        terminal.send(ENTER)
        terminal.until("Read it.")
        leave(terminal)
    assert "the content" in server.requests[0].body.decode()


def test_what_is_typed_while_a_hook_holds_the_start_is_shown_and_kept(
    server: ScriptedServer, home: Path, project: Path
):
    os.mkfifo(project / "go")
    (home / ".gemini").mkdir(exist_ok=True)
    hooks = {"SessionStart": [{"hooks": [{"type": "command", "command": "cat go"}]}]}
    (home / ".gemini" / "settings.json").write_text(json.dumps({"hooks": hooks}), encoding="utf-8")
    server.reply(sse(text("Hello.")))
    with start_fresh(server) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("hi" + ENTER)
        terminal.until("/help lists")
        terminal.send("/nosuchthing" + ENTER)
        terminal.until("Unknown command /nosuchthing.")
        terminal.resize(100, 30)
        terminal.send("draft")
        terminal.until("> draft")
        assert not server.requests
        (project / "go").write_text("", encoding="utf-8")
        terminal.until("Hello.")
        terminal.send("\x15")
        leave(terminal)


@pytest.mark.parametrize("lines", ["/nosuchthing\n", "\n\n/nosuchthing\n"])
def test_lines_typed_at_once_at_a_plain_terminal_are_done(server: ScriptedServer, lines: str):
    with start_fresh(server, term="dumb") as terminal:
        terminal.send(lines)
        terminal.until("Unknown command /nosuchthing.")
        terminal.send("\x04")
        assert terminal.ended() == 0


HOLDING = """
import os, time
from importlib.machinery import SourceFileLoader

load = SourceFileLoader.exec_module

def held(self, module):
    if module.__name__ == os.environ.get("HELD_MODULE"):
        open(os.environ["HELD"] + "/reached", "w").close()
        while not os.path.exists(os.environ["HELD"] + "/go"):
            time.sleep(0.01)
    load(self, module)

SourceFileLoader.exec_module = held
"""
"""A disk that gives a module only when the test says so."""
LOADING = "alhena.agent.runner"
"""Loaded in a thread, while keys are taken."""
OPENING = "alhena.models.providers.gemini_api"
"""Loaded by the session that opens, while nothing else is done."""


class Held:
    """A session whose opening waits at a module until `release`."""

    def __init__(self, folder: Path, terminal: Terminal) -> None:
        self._folder = folder
        self.terminal = terminal

    @property
    def is_reached(self) -> bool:
        return (self._folder / "reached").exists()

    def release(self) -> None:
        (self._folder / "go").touch()


@contextmanager
def held(server: ScriptedServer, tmp_path: Path, module: str, *arguments: str) -> Iterator[Held]:
    folder = tmp_path / "held"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(HOLDING, encoding="utf-8")
    slow = {"PYTHONPATH": str(folder), "HELD": str(folder), "HELD_MODULE": module}
    with start_fresh(server, *arguments, **slow) as terminal:
        terminal.until(PLACEHOLDER)
        found = Held(folder, terminal)
        while not found.is_reached:
            time.sleep(0.01)
        yield found


@pytest.mark.requirement("TERM-01")
@pytest.mark.parametrize(("keys", "shown"), DONE[::3])
def test_what_is_typed_before_a_slow_disk_has_opened_the_session_is_done(
    server: ScriptedServer, tmp_path: Path, keys: str, shown: str
):
    with held(server, tmp_path, OPENING, "--skip-trust") as slow:
        slow.terminal.send(keys)
        slow.release()
        slow.terminal.until(shown)
        slow.terminal.until("/help lists")
        slow.terminal.process.kill(signal.SIGTERM)
        assert slow.terminal.ended() == 130
        assert_restored(slow.terminal)
        assert "unexpected" not in slow.terminal.screen.text


@pytest.mark.requirement("TERM-01")
@pytest.mark.parametrize(
    ("keys", "echo", "shown"),
    [
        ("draft", "> draft", "> draft"),
        (PASTE, "second line", "second line"),
        ("/nosuchthing" + ENTER, "/nosuchthing", "Unknown command /nosuchthing."),
        ("!echo one$((1 + 1))" + ENTER, "!echo one", "one2"),
        ("see @no" + TAB, " notes.txt", "> see @no"),
        (CTRL_C, "Press Ctrl+C again", "/help lists"),
        (CTRL_R, "Search history:", "/help lists"),
        ("half" + CTRL_C + "whole", "> whole", "> whole"),
        ("line\\" + ENTER + "next", "next", "next"),
    ],
)
def test_what_is_typed_while_modules_load_slowly_is_shown_at_once_and_done_later(
    server: ScriptedServer, project: Path, tmp_path: Path, keys: str, echo: str, shown: str
):
    (project / "notes.txt").write_text("the content", encoding="utf-8")
    with held(server, tmp_path, LOADING, "--skip-trust") as slow:
        slow.terminal.send(keys)
        slow.terminal.until(echo)
        slow.terminal.resize(100, 30)
        slow.release()
        slow.terminal.until("/help lists")
        slow.terminal.until(shown)
        slow.terminal.process.kill(signal.SIGTERM)
        assert slow.terminal.ended() == 130
        assert_restored(slow.terminal)


@pytest.mark.parametrize("module", [LOADING, OPENING])
@pytest.mark.parametrize("keys", [CTRL_D, CTRL_C * 2, "/quit" + ENTER, "exit" + ENTER])
def test_leaving_during_a_slow_opening_leaves_in_good_order(
    server: ScriptedServer, tmp_path: Path, module: str, keys: str
):
    with held(server, tmp_path, module) as slow:
        slow.terminal.send(keys)
        slow.release()
        assert slow.terminal.ended() == 0
        assert_restored(slow.terminal)


@pytest.mark.parametrize("module", [LOADING, OPENING])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_during_a_slow_opening_ends_in_good_order(
    server: ScriptedServer, tmp_path: Path, module: str, number: signal.Signals
):
    with held(server, tmp_path, module) as slow:
        slow.terminal.process.kill(number)
        slow.release()
        assert slow.terminal.ended() == 130
        assert_restored(slow.terminal)


@pytest.mark.parametrize("module", [LOADING, OPENING])
def test_prompts_and_a_long_paste_before_a_slow_opening_come_whole_and_in_order(
    server: ScriptedServer, tmp_path: Path, module: str
):
    server.reply(sse(text("One.")), sse(text("Two.")))
    words = " ".join(f"word{number}" for number in range(3000))
    with held(server, tmp_path, module) as slow:
        later = threading.Timer(0.5, slow.release)  # the terminal takes no more before
        later.start()
        slow.terminal.send(f"first{ENTER}\x1b[200~{words}\x1b[201~{ENTER}")
        slow.terminal.until("Two.")
        later.join()
        leave(slow.terminal)
    last = [request.json["contents"][-1]["parts"] for request in server.requests]
    assert [parts[-1]["text"] for parts in last] == ["first", words]


@pytest.mark.parametrize(
    "settings",
    [
        {
            "mcpServers": {"slow": {"command": "sleep", "args": ["600"]}},
            "mcp": {"startupWait": 1},
        },
        {"tools": {"discoveryCommand": "cat go", "callCommand": "true"}},
    ],
)
def test_a_slow_server_or_command_keeps_no_key(
    server: ScriptedServer, home: Path, project: Path, settings: dict[str, Any]
):
    os.mkfifo(project / "go")
    (home / ".gemini").mkdir(exist_ok=True)
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    server.reply(sse(text("Hello.")))
    with start_fresh(server, "--skip-trust") as terminal:
        terminal.until(PLACEHOLDER)
        for line in ("hi", "/nosuchthing"):
            terminal.send(line)
            terminal.until(f"> {line}")
            terminal.send(ENTER)  # not together with another line, which would be a paste
        terminal.send("draft")
        if "tools" in settings:
            terminal.until("> draft")
            (project / "go").write_text("[]", encoding="utf-8")
        terminal.until("Hello.")
        terminal.until("Unknown command /nosuchthing.")
        terminal.until("> draft")
        terminal.send("\x15")
        leave(terminal)


@pytest.mark.parametrize(("more", "opened"), [({}, True), ({"GEMINI_MODEL": "demo"}, False)])
def test_the_connection_is_open_before_the_first_prompt(
    server: ScriptedServer, more: dict[str, str], opened: bool
):
    server.reply(sse(text("Hello.")))
    with start_fresh(server, "--skip-trust", **more) as terminal:
        terminal.until("/help lists")
        while opened and not server.connections:
            time.sleep(0.01)
        assert server.requests == []
        terminal.send(f"hi{ENTER}")
        terminal.until("Hello." if opened else "hi")
        leave(terminal)
    assert server.connections == opened
