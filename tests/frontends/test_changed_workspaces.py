"""A workspace whose servers and commands changed after it was trusted."""

import json
import sys
from pathlib import Path
from typing import Any

from tests.config.places import user, workspace, write
from tests.mcp.kit import odd, tool
from tests.support.command import alhena, keyed
from tests.support.server import ScriptedServer, sse, text


def marking(project: Path, mark: Path) -> dict[str, Any]:
    """A server that leaves a mark when it is started."""
    code = f"open({str(mark)!r}, 'w').close(); import time; time.sleep(60)"
    return {"command": sys.executable, "args": ["-c", code], "timeout": 500}


def recorded(home: Path) -> dict[str, Any]:
    return json.loads((home / ".gemini" / "trusted_commands.json").read_text(encoding="utf-8"))


def test_a_server_that_came_with_a_pull_is_not_started_and_an_unattended_run_says_so(
    server: ScriptedServer, home: Path, project: Path, tmp_path: Path
) -> None:
    mark = tmp_path / "started"
    good = {**odd(project, {"tools": [tool("fine")]}), "timeout": 500}
    workspace(project, {"mcpServers": {"good": good}})
    assert alhena("trust").code == 0
    workspace(project, {"mcpServers": {"good": marking(project, mark)}})
    server.reply(sse(text("done")))
    ran = alhena("-p", "hi", **keyed(server))
    assert (ran.code, ran.out) == (0, "done\n")
    assert not mark.exists()
    assert (
        "held back of this workspace, not started: MCP server good (it has changed since it was accepted; "
        "changed: the entry, the file odd.script.json). alhena trust --status shows what it is now; "
        "alhena trust accepts it."
    ) in ran.err


def test_trusting_again_shows_the_difference_and_accepts_it(home: Path, project: Path) -> None:
    workspace(project, {"mcpServers": {"s": {"command": "node", "args": ["a.js"]}}})
    first = alhena("trust")
    assert "MCP server s: node a.js" in first.out
    assert list(recorded(home)) == [str(project)]
    workspace(project, {"mcpServers": {"s": {"command": "node", "args": ["b.js", "\x1b[2J"]}}})
    status = alhena("trust", "--status")
    assert "These servers and commands are held back (alhena trust accepts them):" in status.out
    assert alhena("trust", "--status", "--json").json["pending"] == {
        "mcpServers.s": "it has changed since it was accepted; changed: the entry"
    }
    again = alhena("trust")
    assert '\n      -    "a.js"\n' in again.out
    assert '\n      +    "b.js",\n' in again.out
    assert "\x1b" not in again.out
    assert "held back" not in alhena("trust", "--status").out
    assert "These servers" not in alhena("trust").out


def test_a_folder_that_was_trusted_before_anything_was_bound_is_asked_about(
    home: Path, project: Path
) -> None:
    workspace(project, {"tools": {"discoveryCommand": "bin/list"}})
    write(home / ".gemini" / "trustedFolders.json", {str(project): "TRUST_FOLDER"})
    listed = alhena("tools", "list")
    assert listed.code == 0
    assert "tools.discoveryCommand (it is not accepted yet)" in listed.err
    assert "bin/list" in alhena("trust").out
    assert list(recorded(home)[str(project)]) == ["tools.discoveryCommand"]


def test_a_server_that_is_held_back_is_listed_with_the_reason(home: Path, project: Path) -> None:
    write(home / ".gemini" / "trustedFolders.json", {str(project): "TRUST_FOLDER"})
    workspace(project, {"mcpServers": {"s": {"command": "x"}}, "mcp": {"serverCommand": "y"}})
    (first, second) = alhena("mcp", "list", "--json").json
    assert (first["name"], first["state"], second["name"]) == ("s", "disabled", "mcp")
    assert "it is not accepted yet; alhena trust" in first["why"]
    failed = alhena("mcp", "auth", "s")
    assert failed.code == 42
    assert "it is not accepted yet" in failed.err
    turned = alhena("mcp", "enable", "s")
    assert "It is held back all the same: it is not accepted yet" in turned.out
    alhena("trust", "--never")
    assert alhena("mcp", "list").out.startswith("No MCP servers")


def test_what_a_person_adds_by_the_command_is_accepted_with_that(home: Path, project: Path) -> None:
    alhena("trust")
    added = alhena("mcp", "add", "s", "true")
    assert "added to the project settings" in added.out
    assert "held back" not in alhena("mcp", "list").err


def test_what_the_users_settings_let_through_to_every_child_is_shown(
    home: Path, project: Path
) -> None:
    settings = {"mcpServers": {"s": {"command": "x"}}, "tools": {"discoveryCommand": "y"}}
    workspace(project, settings)
    key = "security.environmentVariableRedaction"
    user(home, {"security": {"environmentVariableRedaction": {"allowed": ["GITHUB_TOKEN"]}}})
    shown = alhena("trust", "--status").out
    assert f"MCP server s is given what {key}.allowed lets through: GITHUB_TOKEN" in shown
    assert f"tools.discoveryCommand is given what {key}.allowed lets through" in shown
    user(home, {"security": {"environmentVariableRedaction": {"enabled": False}}})
    shown = alhena("trust", "--status").out
    assert "MCP server s is given" not in shown
    assert "tools.discoveryCommand is given all your variables, secrets too" in shown
