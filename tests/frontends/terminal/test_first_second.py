"""Keys, pastes, commands and signals at the moment the prompt is painted."""

import json
import os
import signal
from pathlib import Path

import pytest

from tests.frontends.terminal.session import (
    CTRL_C,
    CTRL_D,
    CTRL_R,
    ENTER,
    ESC,
    PLACEHOLDER,
    assert_restored,
    at,
    leave,
)
from tests.support.server import ScriptedServer, sse, text

PASTE = "\x1b[200~first line\nsecond line\x1b[201~"
UP, TAB, SHIFT_TAB, CTRL_O, CTRL_Y = "\x1b[A", "\t", "\x1b[Z", "\x0f", "\x19"

DONE = [
    ("/nosuchthing" + ENTER, "Unknown command /nosuchthing."),
    ("/helpp" + ENTER, "Did you mean /help?"),
    ("/help" + ENTER, "tokens, cost, calls and times"),
    ("?" + ENTER, "tokens, cost, calls and times"),
    ("/about" + ENTER, "sign-in"),
    ("/todos" + ENTER, "> /todos"),
    ("!echo one$((1 + 1))" + ENTER, "one2"),
    ("!" + ENTER, "It is !COMMAND"),
    (PASTE, "second line"),
    ("draft" + TAB, "> draft"),
    (CTRL_O, "Nothing to show yet."),
    (SHIFT_TAB, "autoEdit  m"),
    (SHIFT_TAB + SHIFT_TAB, "plan  m"),
    (CTRL_Y, "yolo  m"),
    (CTRL_C, "Press Ctrl-C again to leave."),
    (CTRL_R, "I-search"),
    (ENTER + ENTER + "/nosuchthing" + ENTER, "Unknown command /nosuchthing."),
    (ESC + "/nosuchthing" + ENTER, "Unknown command /nosuchthing."),
    ("once more" + ENTER + UP, "> once more"),
]


@pytest.mark.requirement("TERM-01")
@pytest.mark.parametrize(("keys", "shown"), DONE)
def test_what_is_typed_at_once_is_done_when_the_session_stands(
    server: ScriptedServer, keys: str, shown: str
):
    with at(server, "--skip-trust") as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send(keys)
        terminal.until(shown)
        terminal.until("/help lists")
        terminal.process.kill(signal.SIGTERM)
        assert terminal.ended() == 130
        assert_restored(terminal)
        assert "unexpected" not in terminal.screen.text


@pytest.mark.parametrize("keys", [CTRL_D, CTRL_C * 2, "/quit" + ENTER, "exit" + ENTER])
def test_leaving_at_once_leaves_in_good_order(server: ScriptedServer, keys: str):
    with at(server) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send(keys)
        assert terminal.ended() == 0
        assert_restored(terminal)
        assert "unexpected" not in terminal.screen.text


def test_prompts_and_commands_typed_at_once_are_carried_out_in_order(
    server: ScriptedServer, project: Path
):
    (project / "notes.txt").write_text("the content", encoding="utf-8")
    server.reply(sse(text("Read it.")))
    with at(server) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send(f"look at @notes.txt {ENTER}/nosuchthing{ENTER}/quit{ENTER}")
        assert terminal.ended() == 0
        shown = terminal.screen.text
    assert shown.index("Read it.") < shown.index("Unknown command /nosuchthing.")
    assert "the content" in server.requests[0].body.decode()


def test_what_is_typed_while_a_hook_holds_the_start_is_shown_and_kept(
    server: ScriptedServer, home: Path, project: Path
):
    os.mkfifo(project / "go")
    (home / ".gemini").mkdir(exist_ok=True)
    hooks = {"SessionStart": [{"hooks": [{"type": "command", "command": "cat go"}]}]}
    (home / ".gemini" / "settings.json").write_text(json.dumps({"hooks": hooks}), encoding="utf-8")
    server.reply(sse(text("Hello.")))
    with at(server) as terminal:
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
    with at(server, term="dumb") as terminal:
        terminal.send(lines)
        terminal.until("Unknown command /nosuchthing.")
        terminal.send("\x04")
        assert terminal.ended() == 0
