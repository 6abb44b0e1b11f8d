"""The command line, the terminal and editors show the same rows."""

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from acp import text_block

from alhena.commands import sources_of
from alhena.config.effective_settings import open_place
from tests.frontends.terminal.kit import ListScreen
from tests.frontends.terminal.test_conversation import finished, sitting
from tests.mcp.kit import kitchen
from tests.skills.test_files import written
from tests.support.command import alhena, keyed
from tests.support.editor import Editor, connected, prompted
from tests.support.scripted import ScriptedGenerator
from tests.support.server import ScriptedServer, sse, text

LISTS = {
    "tools": ("tools", "list"),
    "agents": ("agents", "list"),
    "skills": ("skills", "list"),
    "hooks": ("hooks", "list"),
    "commands": ("commands", "list"),
    "extensions": ("extensions", "list"),
    "mcp": ("mcp", "list"),
    "memory list": ("memory", "show"),
}
"""Slash commands, and the commands of the same lists."""


@pytest.fixture
def furnished(home: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with one of everything that is listed, and one of each kind that is not used."""
    monkeypatch.setenv("GEMINI_CLI_TRUST_WORKSPACE", "true")
    own = home / ".gemini"
    written(own / "skills", "good")
    written(own / "skills", "bad", "---\nname: bad\ndescription: `does` harm\n---\n")
    for name, text_of in {
        "agents/helper.md": "---\nname: helper\ndescription: helps\n---\nHelp.\n",
        "agents/idle.md": "---\nname: idle\ndescription: rests\n---\nRest.\n",
        "commands/say.toml": 'description = "says it"\nprompt = "Say {{args}}"\n',
        "commands/broken.toml": "prompt = 3\n",
        "GEMINI.md": "",
    }.items():
        path = own / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text_of, encoding="utf-8")
    (project / "GEMINI.md").write_text("Be brief.\n", encoding="utf-8")
    hook = {"type": "command", "command": "true", "description": "does nothing"}
    off = {"type": "command", "command": "false", "name": "off"}
    settings = {
        "hooks": {"BeforeTool": [{"matcher": "write_file", "hooks": [hook, off]}]},
        "hooksConfig": {"disabled": ["off"]},
        "skills": {"disabled": ["bad"]},
        "agents": {"overrides": {"idle": {"enabled": False}}},
    }
    (own / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    extension = home / "demo"
    extension.mkdir()
    manifest = {"name": "demo", "version": "1.2.3", "description": "shows things"}
    (extension / "gemini-extension.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert alhena("extensions", "install", str(extension), "--consent").code == 0
    return home


def rows(shown: str) -> list[str]:
    """The lines of a list without what is particular to one form of it."""
    lines = (
        re.sub(r"( - |[\s:`])+", " ", each.strip().removeprefix("- "))
        for each in shown.splitlines()
    )
    return [each.strip() for each in lines if each.strip()]


async def listed_in_a_terminal(command: str) -> str:
    place = open_place(Path.cwd(), os.environ)
    screen = ListScreen()
    own: dict[str, Any] = {"settings": place.settings, "extensions": place.extensions}
    prompts = ["hello"] if command == "mcp" else []  # which connects to the servers
    async with sitting(ScriptedGenerator([text("Hi.")]), screen, **own) as conversation:
        conversation.prompts.load(sources_of(place))
        return await finished(conversation, screen, *prompts, f"/{command}")


async def listed_in_an_editor(command: str, project: Path, server: ScriptedServer) -> str:
    editor = Editor()
    async with connected(editor, server) as conn:
        session = await conn.new_session(cwd=str(project), mcp_servers=[])
        assert await prompted(conn, session.session_id, text_block(f"/{command}")) == "end_turn"
    return editor.said()


@pytest.mark.parametrize("command", LISTS)
def test_a_list_has_the_same_rows_on_the_command_line_in_a_terminal_and_in_an_editor(
    furnished: Path, project: Path, server: ScriptedServer, command: str
):
    if command == "mcp":
        servers = {"k": kitchen(), "wrong": {"command": 7}}
        file = furnished / ".gemini" / "settings.json"
        known = json.loads(file.read_text(encoding="utf-8"))
        file.write_text(json.dumps({**known, "mcpServers": servers}), encoding="utf-8")
    ran = alhena(*LISTS[command])
    assert ran.code == 0
    expected = rows(ran.out)
    if command == "memory list":
        expected = expected[expected.index("Memory Files") :]
    if command == "tools":  # a session has this one in plan mode alone
        expected = [each for each in expected if not each.startswith("exit_plan_mode")]
    at_terminal = rows(asyncio.run(listed_in_a_terminal(command)))
    in_editor = rows(asyncio.run(listed_in_an_editor(command, project, server)))
    assert len(expected) > 1
    assert [each for each in expected if each not in at_terminal] == []
    assert [each for each in expected if each not in in_editor] == []
    assert not server.requests


async def test_an_editor_gets_lists_as_markdown_and_carries_out_their_words(
    furnished: Path, project: Path, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
):
    written(furnished / ".gemini" / "skills", "odd", "---\nname: a`b\ndescription: tick\n---\n")
    monkeypatch.delenv("GEMINI_CLI_TRUST_WORKSPACE")
    (project / ".gemini").mkdir()
    (project / ".gemini" / "settings.json").write_text("{}", encoding="utf-8")

    async def answer(command: str, *arguments: str) -> str:
        editor = Editor()
        async with connected(editor, server, *arguments) as conn:
            session = await conn.new_session(cwd=str(project), mcp_servers=[])
            await prompted(conn, session.session_id, text_block(command))
        return editor.said()

    shown = await answer("/skills disable good")
    assert shown == "good is disabled, for later sessions too."
    shown = await answer("/skills")
    assert "**3 skills**\n\n" in shown
    assert "\n- `` a`b ``: tick\n  - " in shown
    assert "\n- `good` (disabled): does good\n" in shown
    assert await answer("/tools none") == "Usage: /tools or /tools desc"
    held = "Warning: Not read, because this folder is not trusted: .gemini/settings.json."
    assert f"{held} To trust it: alhena trust" in await answer("/hooks")
    assert held not in await answer("/hooks", "--skip-trust")
    assert "```text\nMemory Files\n" in await answer("/memory list", "--skip-trust")
    assert (await answer("/mcp")).startswith("No MCP servers. Add one with alhena mcp add")
    assert not server.requests


def test_recorded_sessions_have_the_same_titles_everywhere(project: Path, server: ScriptedServer):
    server.reply(sse(text("Hello.")))
    assert alhena("-p", "greet\nme", **keyed(server)).code == 0
    (recorded,) = alhena("sessions", "list", "--json").json["sessions"]
    (line,) = alhena("sessions", "list").out.splitlines()[1:]
    assert line == f"  1. greet me (just now) [{recorded['sessionId']}]"

    async def in_editor() -> Any:
        async with connected(Editor(), server) as conn:
            return (await conn.list_sessions(cwd=str(project))).sessions

    async def at_terminal() -> str:
        screen = ListScreen(None)
        async with sitting(ScriptedGenerator(), screen) as conversation:
            await finished(conversation, screen, "/resume")
        (option,) = screen.menus[0].options
        return f"{option.label} ({option.detail})"

    (listed,) = asyncio.run(in_editor())
    assert (listed.session_id, listed.title) == (recorded["sessionId"], recorded["title"])
    shown = asyncio.run(at_terminal())
    assert shown.startswith("greet me (just now · ")
    assert shown.endswith(f" · {recorded['sessionId'][:8]})")
