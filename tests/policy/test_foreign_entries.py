"""Names of other programs' tools in lists of tools, of agents and of extensions."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.config.places import user, write
from tests.support.command import alhena, keyed
from tests.support.server import ScriptedServer, call, chunk, sse, text


def decide_call(tool: str, **args: Any) -> str:
    asked = ("policy", "explain", "--tool", tool, "--args", json.dumps(args), "--json")
    ran = alhena(*asked)
    assert ran.code == 0, ran.err
    return ran.json["decision"]


@pytest.mark.parametrize(
    ("entry", "allowed", "other"),
    [
        ("Bash(make:*)", "make all", "cp a b"),
        ("Bash(make *)", "make -C x all", "makefile"),
        ("Bash(make all)", "make all", "make all install"),
        ("run_shell_command(make *)", "make all", "cp a b"),
        ("run_shell_command(make:*)", "make all", "cp a b"),
        ("ShellTool(make:)", "make all", "cp a b"),
        ("run_shell_command(make)", "make all", "cp a b"),
    ],
)
def test_a_command_entry_of_another_program_allows_what_it_means(
    entry: str, allowed: str, other: str, home: Path
) -> None:
    user(home, {"tools": {"allowed": [entry]}})
    assert decide_call("run_shell_command", command=allowed) == "allow"
    assert decide_call("run_shell_command", command=other) == "ask_user"


@pytest.mark.parametrize(
    ("entry", "tool"),
    [
        ("Read", "read_file"),
        ("Read", "read_many_files"),
        ("Grep", "search_file_content"),
        ("Edit", "replace"),
        ("MultiEdit", "replace"),
        ("WebFetch", "web_fetch"),
        ("Task", "delegate_to_agent"),
        ("Bash", "run_shell_command"),
        ("Bash(*)", "run_shell_command"),
        ("mcp__jira__search", "jira__search"),
        ("mcp__jira", "jira__search"),
    ],
)
def test_a_name_of_another_program_denies_the_tool_it_means(
    entry: str, tool: str, home: Path
) -> None:
    user(home, {"tools": {"exclude": [entry]}})
    assert decide_call(tool, command="ls") == "deny"


def test_core_leaves_what_other_programs_names_mean(home: Path) -> None:
    user(home, {"tools": {"core": ["Read", "Bash(git:*)"]}})
    assert decide_call("read_file", file_path="a") == "allow"
    assert decide_call("run_shell_command", command="git status") == "allow"
    assert decide_call("run_shell_command", command="ls") == "deny"
    assert decide_call("glob", pattern="*") == "deny"


@pytest.mark.parametrize("entry", ["Bash(git * main)", "Read(./.env)", "WebFetch(domain:x.org)"])
def test_what_cannot_be_meant_is_a_warning_where_ignoring_it_is_stricter(
    entry: str, home: Path, server: ScriptedServer
) -> None:
    for key in ("allowed", "core"):
        user(home, {"tools": {key: [entry, "glob"]}})
        server.reply(sse(text("fine")))
        ran = alhena("-p", "hi", **keyed(server))
        assert ran.code == 0
        assert f"settings: tools.{key}" in ran.err
        assert entry in ran.err
    user(home, {"tools": {"exclude": [entry]}})
    assert alhena("-p", "hi", **keyed(server)).code == 52


def test_what_an_extension_excludes_stops_no_run(home: Path, server: ScriptedServer) -> None:
    excluded = ["Read(./.env)", "Bash(rm:*)"]
    manifest = {"name": "ex", "version": "1", "excludeTools": excluded}
    write(home / ".gemini" / "extensions" / "ex" / "gemini-extension.json", manifest)
    server.reply(sse(text("fine")))
    ran = alhena("-p", "hi", **keyed(server))
    assert ran.code == 0
    assert "Read(./.env)" in ran.err
    assert decide_call("run_shell_command", command="rm -r x") == "deny"


AGENT = "---\nname: looker\ndescription: Looks\ntools: {}\n---\nLook.\n"


def test_an_agent_gets_what_other_programs_names_mean_and_says_what_it_lacks(
    home: Path, server: ScriptedServer
) -> None:
    path = home / ".gemini" / "agents" / "looker.md"
    write(path, AGENT.format("Read, Grep, Bash(git:*), Nonsense, mcp__jira__search"))
    told = alhena("agents", "validate", str(path))
    assert "no tool for Nonsense: none is called so" in told.err
    given = {"agent_name": "looker", "objective": "look"}
    server.reply(sse(chunk(call("delegate_to_agent", given), finish="STOP")))
    done = call("complete_task", {"result": "seen"})
    server.reply(sse(chunk(done, finish="STOP")))
    server.reply(sse(text("fine")))
    ran = alhena("-y", "--skip-trust", "-p", "hi", **keyed(server))
    assert ran.code == 0
    assert "agent looker: there is no tool Nonsense, mcp__jira__search" in ran.err
    declared = server.requests[1].json["tools"][0]["functionDeclarations"]
    names = {each["name"] for each in declared}
    assert {"read_file", "search_file_content", "run_shell_command"} <= names
    assert "looker" not in alhena("agents", "list").err


def test_an_installed_agent_with_odd_tools_says_so(home: Path) -> None:
    folder = home.parent / "source"
    write(folder / "gemini-extension.json", {"name": "ex", "version": "1"})
    write(folder / "agents" / "a.md", AGENT.format("[Nonsense, Read]"))
    done = alhena("extensions", "install", str(folder), "--consent")
    assert done.code == 0
    assert "agent looker gets no tool for Nonsense" in done.err
