"""The start of a session: hooks, settings without effect, servers that still connect."""

import json
import os
from pathlib import Path

import pytest

from tests.frontends.terminal.session import ENTER, PLACEHOLDER, answer, at, leave
from tests.mcp.kit import odd, tool
from tests.memory.kit import put
from tests.support.command import alhena
from tests.support.server import ScriptedServer, sse, text


def settings(home: Path, **given: object) -> None:
    (home / ".gemini").mkdir(exist_ok=True)
    (home / ".gemini" / "settings.json").write_text(json.dumps(given), encoding="utf-8")


def hook(command: str) -> list[object]:
    return [{"hooks": [{"type": "command", "command": command}]}]


def test_session_start_hooks_fire_at_the_start_and_their_message_is_shown(
    server: ScriptedServer, home: Path, project: Path
):
    said = {
        "systemMessage": "Welcome back.",
        "hookSpecificOutput": {"additionalContext": "It is Monday."},
    }
    command = f"echo >> starts; echo {json.dumps(json.dumps(said))}"
    settings(home, hooks={"SessionStart": hook(command)})
    server.reply(sse(text("Hello.")))
    with at(server) as terminal:
        terminal.until("Welcome back.")
        terminal.send("hi" + ENTER)
        terminal.until("Hello.")
        assert (project / "starts").read_text(encoding="utf-8") == "\n"
        terminal.send("/clear" + ENTER)
        terminal.until("Welcome back.", times=2)
        leave(terminal)
    assert "It is Monday." in server.requests[0].body.decode()
    assert (project / "starts").read_text(encoding="utf-8") == "\n\n"


def test_an_after_agent_hook_that_sends_the_run_round_again_is_told(
    server: ScriptedServer, home: Path, project: Path
):
    command = "if test -e asked; then exit 0; fi; touch asked; echo 'Run the tests.' >&2; exit 2"
    settings(home, hooks={"AfterAgent": hook(command)})
    server.reply(sse(text("Done.")), sse(text("They pass.")))
    with at(server) as terminal:
        terminal.until(PLACEHOLDER)
        terminal.send("work" + ENTER)
        shown = terminal.until("They pass.")
        leave(terminal)
    assert shown.index("Done.") < shown.index("AfterAgent hook") < shown.index("They pass.")
    assert "Run the tests." in " ".join(shown.split())


def test_settings_of_the_reference_without_effect_are_named(
    server: ScriptedServer, home: Path, project: Path
):
    settings(home, ui={"showLineNumbers": True, "nokey": 1}, general={"maxAttempts": 3})
    with at(server) as terminal:
        terminal.until("! Settings without effect in this version: ui.showLineNumbers")
        leave(terminal)
    settings(home, ui={"showLineNumbers": True, "incrementalRendering": True})
    with at(server) as terminal:
        terminal.until("! Settings without effect in this version: ui.incrementalRendering\n")
        leave(terminal)
    with at(server) as terminal:
        terminal.until("/help lists")
        assert "without effect" not in terminal.until(PLACEHOLDER)
        leave(terminal)
    settings(home, ui={"showLineNumbers": True, "nokey": 1}, general={"maxAttempts": 3})
    checked = alhena("settings", "check")
    assert "settings without effect in this version: ui.showLineNumbers." in checked.out
    assert "maxAttempts" not in checked.out


def test_the_list_of_servers_waits_for_those_that_still_connect(
    server: ScriptedServer, home: Path, project: Path
):
    os.mkfifo(project / "go")
    slow = odd(project, {"tools": [tool("look")]})
    command = (
        f"read line < {project / 'go'}; exec {slow['command']} {' '.join(map(repr, slow['args']))}"
    )
    entry = {**slow, "command": "sh", "args": ["-c", command]}
    settings(home, mcpServers={"late": entry})
    with at(server) as terminal:
        terminal.until("/help lists")
        terminal.resize(400, 24)  # the line of the server names its command, with a long path
        terminal.send("/mcp" + ENTER)
        terminal.until("Waiting for MCP servers to connect")
        (project / "go").write_text("go\n", encoding="utf-8")
        terminal.until("(stdio) - connected: 1 tool")
        leave(terminal)


def test_a_server_that_the_prompt_does_not_wait_for_is_named_once(
    server: ScriptedServer, home: Path, project: Path
):
    os.mkfifo(project / "go")
    fails = {"command": "sh", "args": ["-c", f"read line < {project / 'go'}; exit 1"]}
    settings(home, mcpServers={"bad": fails}, mcp={"startupWait": 0})
    server.reply(sse(text("Hello.")))
    with at(server) as terminal:
        terminal.until("/help lists")
        terminal.send("hi" + ENTER)
        terminal.until("Hello.")
        (project / "go").write_text("go\n", encoding="utf-8")
        shown = terminal.until("/mcp disable bad turns it off.")
        leave(terminal)
    assert shown.count("'bad' is still connecting; the prompt goes without its tools.") == 1


@pytest.mark.requirement("TODAY-06")
def test_the_start_names_the_memory_files_that_were_read(
    server: ScriptedServer, home: Path, project: Path
):
    put(home, ".gemini/GEMINI.md", "mine")
    put(project, "AGENTS.md", "agents")
    assert alhena("trust").code == 0
    server.reply(sse(text("Hello.")))
    with at(server) as terminal:
        terminal.until("Memory files: ~/.gemini/GEMINI.md, AGENTS.md")
        terminal.send("hi" + ENTER)
        terminal.until("Hello.")
        leave(terminal)
    assert "Context from: " in server.requests[0].body.decode()
    assert "AGENTS.md" in server.requests[0].body.decode()


def test_misspelt_names_of_models_and_themes_are_asked_about(server: ScriptedServer):
    with at(server, "-m", "gemini-3.8-flahs", columns=100) as terminal:
        terminal.until(
            "! Unknown model gemini-3.8-flahs. Did you mean gemini-3.8-flash? /model changes"
        )
        terminal.send("/theme Draculla" + ENTER)
        terminal.until("Unknown theme Draculla. Did you mean Dracula?")
        terminal.until("  2/n No, change nothing")
        answer(terminal, "n" + ENTER)
        terminal.until("Nothing changed.")
        leave(terminal)
    with at(server, "-m", "gemini-9.9-flash-new") as terminal:
        assert "Unknown model" not in terminal.until(PLACEHOLDER)
        leave(terminal)
