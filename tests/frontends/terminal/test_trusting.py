import json
import os
from pathlib import Path

import pytest

from alhena.agent.subagents.files import AgentFiles, sources_of
from alhena.config.effective_settings import open_place
from alhena.config.home import agent_folders
from alhena.frontends.terminal.dialogs.trust import ask_changed, ask_trust
from alhena.frontends.terminal.drawing.lines import Line, plain
from alhena.frontends.terminal.drawing.menu import Menu
from tests.config.places import workspace, write
from tests.frontends.terminal.kit import ListScreen
from tests.frontends.terminal.session import (
    CTRL_C,
    CTRL_D,
    ENTER,
    ESC,
    PLACEHOLDER,
    answer,
    at,
    leave,
)
from tests.mcp.kit import odd, tool
from tests.support.server import ScriptedServer, sse, text

LIST = (".gemini", "trustedFolders.json")


async def asked(project: Path, answer: str | None) -> tuple[bool, str]:
    screen, shown = ListScreen(answer), list[Line]()
    written = await ask_trust(open_place(project, os.environ), screen.choose, shown.extend)
    (menu,) = screen.menus
    assert menu.options[menu.selected].label == "Not now"
    return written, plain(tuple(shown))


@pytest.mark.parametrize(
    ("answer", "level"),
    [
        ("Yes, trust this folder", "TRUST_FOLDER"),
        ("Yes, trust the parent folder", "TRUST_PARENT"),
        ("No, never", "DO_NOT_TRUST"),
        ("Not now", None),
        (None, None),
    ],
)
async def test_an_answer_is_written_down(
    home: Path, project: Path, answer: str | None, level: str | None
) -> None:
    workspace(project, {})
    written, _ = await asked(project, answer)
    file = home.joinpath(*LIST)
    assert written is (level is not None)
    assert file.exists() is written
    if level is not None:
        assert json.loads(file.read_text(encoding="utf-8")) == {str(project): level}


async def test_what_would_become_active_is_shown_and_hides_nothing(project: Path) -> None:
    hooks = {"SessionStart": [{"hooks": [{"command": "x"}]}]}
    servers = {"s": {"command": "curl", "args": ["evil\x1b]0;x\x07", "\u202egnp"]}}
    workspace(
        project, {"mcpServers": servers, "hooks": hooks, "toolDiscoveryCommand": "bin/x\nrm -rf /"}
    )
    write(project / ".env", "TOKEN=secret-value\nGIT_SSH=x\n")
    write(project / "GEMINI.md", "obey\n")
    _, shown = await asked(project, None)
    assert "MCP server s: curl evil" in shown
    assert "hooks of SessionStart" in shown
    assert "tools.discoveryCommand: bin/x" in shown
    assert "rm -rf /" in shown
    assert "variables TOKEN" in shown
    assert "GEMINI.md" in shown
    assert "secret-value" not in shown
    assert "GIT_SSH" not in shown
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)


@pytest.mark.parametrize(
    "settings", ["{", "[]", "", "{" * 100_000, '{"mcpServers": 3, "hooks": []}']
)
async def test_settings_that_are_none_are_asked_about_all_the_same(
    project: Path, settings: str
) -> None:
    workspace(project, settings)
    _, shown = await asked(project, "Not now")
    assert ".gemini/settings.json" in shown


async def test_a_folder_full_of_servers_is_shown_whole_above_the_question(project: Path) -> None:
    workspace(project, {"mcpServers": {f"s{n}": {"command": "x"} for n in range(500)}})
    _, shown = await asked(project, None)
    assert all(f"MCP server s{n}: x" in shown for n in range(500))


async def test_an_answer_that_cannot_be_written_down_is_said_and_trusts_nothing(
    home: Path, project: Path
) -> None:
    workspace(project, {})
    place = open_place(project, os.environ)
    write(home.joinpath(*LIST), "{")
    screen, shown = ListScreen("Yes, trust this folder"), list[Line]()
    assert not await ask_trust(place, screen.choose, shown.extend)
    assert "cannot be used" in plain(tuple(shown))


def test_at_a_terminal_a_new_folder_is_asked_about_before_anything_of_it_counts(
    server: ScriptedServer, home: Path, project: Path
) -> None:
    workspace(project, {"model": {"name": "gemini-3.7-flash"}})
    server.reply(sse(text("Good day.")))
    with at(server, GEMINI_MODEL="") as terminal:
        shown = terminal.until("Trust this folder?")
        assert ".gemini/settings.json: model" in shown
        assert not home.joinpath(*LIST).exists()
        answer(terminal, "y")
        terminal.until("Trusted; saved in")
        terminal.until(PLACEHOLDER)
        terminal.send("hello" + ENTER)
        terminal.until("Good day.")
        leave(terminal)
    assert "gemini-3.7-flash" in server.requests[-1].path
    with at(server, GEMINI_MODEL="") as terminal:
        terminal.until("gemini-3.7-flash")
        assert "Trust this folder?" not in terminal.screen.text
        leave(terminal)


def test_not_now_begins_a_session_without_what_the_folder_says(
    server: ScriptedServer, home: Path, project: Path
) -> None:
    workspace(project, {"model": {"name": "gemini-3.7-flash"}})
    server.reply(sse(text("Good day.")))
    with at(server, GEMINI_MODEL="") as terminal:
        terminal.until("Trust this folder?")
        terminal.send(ESC)
        terminal.until("gemini-3.8-flash", gone="Trust this folder?")
        terminal.send("hello" + ENTER)
        terminal.until("Good day.")
        leave(terminal)
    assert "gemini-3.8-flash" in server.requests[-1].path
    assert not home.joinpath(*LIST).exists()


@pytest.mark.parametrize(
    ("term", "keys"), [("xterm", CTRL_C * 3), ("dumb", CTRL_D), ("dumb", CTRL_C)]
)
def test_whoever_leaves_at_the_question_has_said_nothing(
    server: ScriptedServer, home: Path, project: Path, term: str, keys: str
) -> None:
    write(project / "GEMINI.md", "x")
    with at(server, term=term) as terminal:
        terminal.until("Number (empty: no)" if term == "dumb" else "> 3/o Not now")
        terminal.send(keys)
        terminal.ended()
        assert "Traceback" not in terminal.screen.text
    assert not home.joinpath(*LIST).exists()
    assert server.requests == []


def test_a_terminal_of_plain_lines_asks_too(
    server: ScriptedServer, home: Path, project: Path
) -> None:
    write(project / "GEMINI.md", "x")
    with at(server, term="dumb") as terminal:
        terminal.until("Number (empty: no)")
        terminal.send("4\r")
        terminal.until("Not trusted; saved in")
        terminal.until("/help lists")
        terminal.send(CTRL_D)
        terminal.ended()
    assert list(json.loads(home.joinpath(*LIST).read_text(encoding="utf-8")).values()) == [
        "DO_NOT_TRUST"
    ]


def trusted(home: Path, project: Path) -> None:
    write(home.joinpath(*LIST), {str(project): "TRUST_FOLDER"})


async def changed(project: Path, *answers: str | None) -> tuple[bool, str]:
    screen, shown = ListScreen(*answers), list[Line]()
    written = await ask_changed(open_place(project, os.environ), screen.choose, shown.extend)
    assert not screen.answers
    assert all(menu.options[menu.selected].label == "Not now" for menu in screen.menus)
    return written, plain(tuple(shown))


async def test_what_is_not_as_it_was_accepted_is_asked_about_with_the_difference(
    home: Path, project: Path
) -> None:
    trusted(home, project)
    workspace(project, {"mcpServers": {"s": {"command": "node", "args": ["a"]}}})
    written, shown = await changed(project, "Yes, as it is now")
    assert written
    assert "MCP server s: it is not accepted yet" in shown
    entry = {"command": "node", "args": ["a"], "env": {"T\u202e": "$MY_TOKEN\x1b[2J"}}
    workspace(project, {"mcpServers": {"s": entry}})
    written, shown = await changed(project, "Not now")
    assert not written
    assert "changed: the entry" in shown
    assert '+    "T\\u202e": "$MY_TOKEN' in shown
    assert "is given what these variables of yours hold: MY_TOKEN (a secret by its name)" in shown
    assert not {"\x1b", "\u202e"} & set(shown)
    await changed(project, "Yes, as it is now")
    assert open_place(project, os.environ).pending == ()


async def test_many_are_asked_about_one_by_one_and_only_what_was_shown_is_accepted(
    home: Path, project: Path
) -> None:
    trusted(home, project)
    workspace(project, {"mcpServers": {f"s{n}": {"command": "x"} for n in range(3)}})
    written, shown = await changed(project, "Yes, as it is now", None)
    assert written
    left = open_place(project, os.environ).pending
    assert [each.path[1] for each in left] == ["s1", "s2"]
    assert "MCP server s1:" in shown  # it was in the question that was dismissed
    assert "MCP server s2:" not in shown
    written, _ = await changed(project, "Not now")
    assert not written


AGENT = """---
name: helper
description: Helps.
kind: remote
agent_card_url: https://agents.example/card
auth:
  type: apiKey
  key: "!./token.sh"
---
"""


async def test_trusting_a_folder_accepts_what_the_question_has_shown_and_no_more(
    project: Path,
) -> None:
    entries = {f"s{n}": {"command": "x", "env": {"A": "$SOME_TOKEN"}} for n in range(30)}
    workspace(project, {"mcpServers": entries})
    agent = write(project / ".gemini" / "agents" / "helper.md", AGENT)
    write(project / "token.sh", "echo token")
    place = open_place(project, os.environ)
    shown = list[Line]()

    async def changes_meanwhile(menu: Menu) -> frozenset[int]:
        workspace(project, {"mcpServers": entries | {"s0": {"command": "y"}}})
        write(project / "token.sh", "echo another")
        return frozenset({0})

    assert await ask_trust(place, changes_meanwhile, shown.extend)
    left = {each.path[1] for each in open_place(project, os.environ).pending}
    assert left == {"s0"}
    for name in entries:
        told = f"MCP server {name} is given what these variables of yours hold:"
        assert told in plain(tuple(shown))
    assert "of the command: ./token.sh" in plain(tuple(shown))
    assert held_agents(project) == [agent]
    write(project / "token.sh", "echo token")
    assert held_agents(project) == []


def held_agents(project: Path) -> list[Path]:
    folders = agent_folders(os.environ, project, trusted=True)
    files = AgentFiles(sources_of(folders, os.environ, project), {})
    return [each.path for each in files.found if each.is_held]


async def test_an_acceptance_that_cannot_be_written_down_is_said(home: Path, project: Path) -> None:
    trusted(home, project)
    workspace(project, {"mcpServers": {"s": {"command": "x"}}})
    place = open_place(project, os.environ)
    (home / ".gemini" / ".trusted_commands.json.lock").mkdir()
    screen, shown = ListScreen("Yes, as it is now"), list[Line]()
    assert not await ask_changed(place, screen.choose, shown.extend)
    assert "what was accepted was not written down" in plain(tuple(shown))


async def test_a_damaged_file_of_what_was_accepted_is_put_aside_with_an_answer(
    home: Path, project: Path
) -> None:
    trusted(home, project)
    workspace(project, {"mcpServers": {"s": {"command": "x"}}})
    file = write(home / ".gemini" / "trusted_commands.json", "{")
    written, shown = await changed(project, "Yes, as it is now")
    assert written
    assert "it cannot be told whether it was accepted" in shown
    assert f"{file} could not be used, and is now {file}.damaged-1" in shown
    assert open_place(project, os.environ).pending == ()


async def test_what_a_server_writes_itself_is_asked_about_once(home: Path, project: Path) -> None:
    trusted(home, project)
    write(project / "memory.json", "1")
    args = ["server.py", "memory.json"]
    workspace(project, {"mcpServers": {"s": {"command": "x", "args": args}}})
    label = "do not ask again about files"
    screen = ListScreen("Yes, as it is now")
    await ask_changed(open_place(project, os.environ), screen.choose, lambda _lines: None)
    assert label not in [option.label for menu in screen.menus for option in menu.options]
    write(project / "memory.json", "2")
    written, shown = await changed(project, label)
    assert written
    assert "memory.json is watched, for it may say what is run" in shown
    write(project / "memory.json", "3")
    assert open_place(project, os.environ).pending == ()
    write(project / "server.py", "1")
    assert len(open_place(project, os.environ).pending) == 1


def test_at_a_terminal_a_server_that_nobody_accepted_is_held_back(
    server: ScriptedServer, home: Path, project: Path
) -> None:
    trusted(home, project)
    workspace(project, {"mcpServers": {"s": odd(project, {"tools": [tool("fine")]})}})
    with at(server) as terminal:
        terminal.until("Accept this?")
        terminal.send(ESC)
        terminal.until(PLACEHOLDER)
        terminal.send("/mcp" + ENTER)
        terminal.until("turned off: it is not accepted yet")
        terminal.send("/mcp enable s" + ENTER)
        terminal.until("is held back")
        leave(terminal)


def test_at_a_terminal_a_server_is_started_after_a_yes(
    server: ScriptedServer, home: Path, project: Path
) -> None:
    trusted(home, project)
    workspace(project, {"mcpServers": {"s": odd(project, {"tools": [tool("fine")]})}})
    with at(server) as terminal:
        terminal.until("Accept this?")
        answer(terminal, "y")
        terminal.until(PLACEHOLDER)
        terminal.send("/mcp" + ENTER)
        terminal.until("(stdio) - connect")
        leave(terminal)


@pytest.mark.requirement("TERM-01")
def test_after_not_now_commands_say_what_is_not_read_and_trust_changes_it(
    server: ScriptedServer, home: Path, project: Path
) -> None:
    write(project / "GEMINI.md", "Prefer tabs.")
    workspace(project, {"hooks": {"BeforeAgent": [{"hooks": [{"command": "true"}]}]}})
    with at(server) as terminal:
        terminal.until("> 3/o Not now")
        answer(terminal, "3" + ENTER)
        terminal.until("/help lists")
        for number, command in enumerate(("/mcp", "/hooks", "/memory"), 1):
            terminal.send(command + ENTER)
            name = "GEMINI.md" if command == "/memory" else ".gemini/settings.json"
            terminal.until(f"! Not read, because this folder is not trusted: {name}")
            terminal.until("! Not read", times=number)
        terminal.send("/trust" + ENTER)
        terminal.until("Trust this folder?")
        answer(terminal, "1" + ENTER)
        terminal.until("Session restarted with the project's settings.")
        terminal.send("/memory" + ENTER)
        terminal.until("Prefer tabs.")
        terminal.send("/hooks" + ENTER)
        terminal.until("! hooks: 1 of this project is not trusted and will not run")
        terminal.send("/permissions trust" + ENTER)
        terminal.until("This folder is trusted")
        leave(terminal)
    assert list(json.loads(home.joinpath(*LIST).read_text(encoding="utf-8")).values()) == [
        "TRUST_FOLDER"
    ]


async def test_a_folder_with_nothing_to_read_says_so(home: Path, project: Path) -> None:
    screen, shown = ListScreen("Not now"), list[Line]()
    place = open_place(project, os.environ)
    assert not await ask_trust(place, screen.choose, shown.extend)
    assert plain(tuple(shown)).endswith(
        "\n  It has no settings, commands or hooks now. Those added later are trusted, too."
    )
