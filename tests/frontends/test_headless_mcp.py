"""Unattended runs with MCP servers: which servers there are, which calls need no approval."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.kit import kitchen, odd, tool
from tests.support.command import ALHENA, Ran, alhena, keyed
from tests.support.patience import PATIENCE_S
from tests.support.server import ScriptedServer, call, chunk, sse, text


def user(home: Path, document: dict[str, Any]) -> None:
    folder = home / ".gemini"
    folder.mkdir(exist_ok=True)
    (folder / "settings.json").write_text(json.dumps(document), encoding="utf-8")


def asked_for(server: ScriptedServer, *names: str) -> Ran:
    """A run whose model calls these tools in turn."""
    server.reply(*(sse(chunk(call(each, {}, id=each), finish="STOP")) for each in names))
    server.reply(sse(text("done")))
    return alhena("-p", "go", "-o", "stream-json", **keyed(server))


def statuses(ran: Ran) -> list[str]:
    return [line["status"] for line in ran.of_type("tool_result")]


@pytest.mark.parametrize("key", ["allowed", "excluded"])
def test_a_star_names_all_servers(
    home: Path, project: Path, server: ScriptedServer, key: str
) -> None:
    entries = {name: odd(project, {"tools": [tool(f"of_{name}")]}, name) for name in ("a", "b")}
    user(home, {"mcpServers": entries, "mcp": {key: ["*"]}})
    ran = asked_for(server, "of_a", "of_b")
    assert ran.code == 0, ran.err
    assert statuses(ran) == ["success" if key == "allowed" else "error"] * 2


def test_calls_run_unattended_where_settings_say_so_and_no_rule_says_otherwise(
    home: Path, project: Path, server: ScriptedServer
) -> None:
    entries = {"a": odd(project, {"tools": [tool("fine"), tool("bad")]})}
    rules = home / ".gemini" / "policies"
    user(home, {"mcpServers": entries})
    assert statuses(asked_for(server, "fine")) == ["error"]
    user(home, {"mcpServers": entries, "mcp": {"autoAllowInHeadless": True}})
    rules.mkdir()
    deny = '[[rule]]\nmcpName = "a"\ntoolName = "bad"\ndecision = "deny"\npriority = 5\n'
    (rules / "mine.toml").write_text(deny, encoding="utf-8")
    ran = asked_for(server, "fine", "bad")
    assert (statuses(ran), "autoAllow" in ran.err) == (["success", "error"], False)


def test_a_workspace_cannot_let_its_servers_run_unattended(
    home: Path, project: Path, server: ScriptedServer
) -> None:
    user(home, {"mcpServers": {"mine": odd(project, {"tools": [tool("of_mine")]}, "mine")}})
    theirs = {"s": odd(project, {"tools": [tool("of_s")]})}
    user(project, {"mcpServers": theirs, "mcp": {"autoAllowInHeadless": True}})
    server.reply(*(sse(chunk(call(each, {}, id=each), finish="STOP")) for each in ("of_mine",)))
    server.reply(sse(text("done")))
    trusting = {**keyed(server), "GEMINI_CLI_TRUST_WORKSPACE": "true"}
    ran = alhena("-p", "go", "-o", "stream-json", **trusting)
    assert statuses(ran) == ["error"]
    assert "mcp.autoAllowInHeadless" in ran.err


@pytest.mark.parametrize(
    ("rule", "near"),
    [
        ('toolName = "s__serch"', "s__search"),
        ('toolName = ["mcp_s_serch", "mcp_s_search"]', "mcp_s_search"),
        ('mcpName = "s"\ntoolName = "serch"', "search"),
        ('mcpName = "s"\ntoolName = "delete_everything"', ""),
        ('mcpName = "s"\ntoolName = "s__search"', None),
        ('mcpName = "*"\ntoolName = "serch"', None),
        ('mcpName = "other"\ntoolName = "serch"', None),
        ('toolName = "s__se*"', None),
        ('toolName = "s__left_out"', None),
        ('toolName = "mcp_down_serch"', None),
    ],
)
def test_a_rule_for_a_tool_that_its_server_does_not_have_is_told(
    home: Path, project: Path, server: ScriptedServer, rule: str, near: str | None
) -> None:
    entry = odd(project, {"tools": [tool("search"), tool("left_out")]})
    down = {"command": "/nonexistent/server"}
    servers = {"s": {**entry, "excludeTools": ["left_out"]}, "down": down}
    user(home, {"mcpServers": servers})
    (home / ".gemini" / "policies").mkdir()
    (home / ".gemini" / "policies" / "mine.toml").write_text(
        f'[[rule]]\n{rule}\ndecision = "deny"\npriority = 5\n', encoding="utf-8"
    )
    server.reply(sse(text("done")))
    ran = alhena("-p", "go", **keyed(server))
    told = [line for line in ran.err.splitlines() if "no tool of the MCP server 's'" in line]
    assert (ran.code, len(told)) == (0, 0 if near is None else 1)
    if near is not None:
        assert "mine.toml" in told[0]
        assert ("Did you mean" in told[0], f"Did you mean {near}?" in told[0]) == (bool(near),) * 2


def sent(server: ScriptedServer) -> str:
    """The last text that the model was sent."""
    return server.requests[-1].json["contents"][-1]["parts"][-1]["text"]


def test_a_prompt_of_a_server_is_a_command(
    home: Path, project: Path, server: ScriptedServer
) -> None:
    user(home, {"mcpServers": {"kitchen": kitchen()}})
    server.reply(sse(text("served")))
    ran = alhena("-p", "/review a.py", **keyed(server))
    assert (ran.code, ran.out) == (0, "served\n"), ran.err
    assert sent(server) == 'Review "a.py", above all everything.'
    assert "no command" not in ran.err


def test_a_prompt_of_a_server_without_its_arguments_is_a_usage_error(
    home: Path, project: Path, server: ScriptedServer
) -> None:
    user(home, {"mcpServers": {"kitchen": kitchen()}})
    ran = alhena("-p", "/review", **keyed(server))
    assert ran.code == 42
    assert "Missing required argument" in ran.err
    assert not server.requests


def test_a_word_that_is_no_command_is_sent_with_a_warning(
    home: Path, project: Path, server: ScriptedServer
) -> None:
    server.reply(sse(text("fine")), sse(text("fine")))
    ran = alhena("-p", "/greet Bob", **keyed(server))
    assert (ran.code, sent(server)) == (0, "/greet Bob")
    assert "/greet is no command here" in ran.err
    ran = alhena("-p", "/etc/hosts is what?", **keyed(server))
    assert (ran.code, sent(server)) == (0, "/etc/hosts is what?")
    assert "no command" not in ran.err


@pytest.mark.parametrize("prompt", ["/word x", "see @mine:thing"])
def test_an_interrupt_while_a_prompt_waits_for_servers_ends_the_run_before_any_request(
    home: Path, project: Path, server: ScriptedServer, prompt: str
) -> None:
    code = "import time; open('begun', 'w').close(); time.sleep(100)"
    silent = {"command": sys.executable, "args": ["-c", code], "cwd": str(project)}
    user(home, {"mcpServers": {"mine": silent}, "mcp": {"startupWait": 60}})
    server.reply(sse(text("sent")))
    with subprocess.Popen(
        [ALHENA, "-p", prompt],
        env=os.environ | keyed(server),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as run:
        while not (project / "begun").exists():
            time.sleep(0.01)
        time.sleep(0.5)  # an earlier signal ends it in another way
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=PATIENCE_S)
    assert (run.returncode, out) == (130, b"")
    assert b"the run was interrupted" in err
    assert not server.requests
