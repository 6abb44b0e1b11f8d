"""/mcp: the servers of a session, signing in to them, turning them on and off."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from alhena.config.settings import settings_of
from alhena.frontends.terminal.conversation import Conversation
from tests.agent.serving import declared
from tests.frontends.terminal.kit import ListScreen
from tests.frontends.terminal.test_conversation import sitting
from tests.mcp.kit import kitchen, odd, tool
from tests.mcp.oauth_server import OAuthServer
from tests.models.auth.kit import get
from tests.support.scripted import ScriptedGenerator
from tests.support.server import text


@pytest.fixture(autouse=True)
def no_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_BROWSER", "1")


def having(**servers: Any) -> dict[str, Any]:
    return {"settings": settings_of({"mcpServers": servers}, "test")}


async def said(conversation: Conversation, screen: ListScreen, what: str, shown: str) -> str:
    """Output of `what`; `shown` is part of it."""
    before = len(screen.text)
    conversation.submit(what)
    await screen.until(lambda: shown in screen.text[before:])
    return screen.text[before:]


async def test_all_servers_are_listed_with_what_they_have(project: Path, tmp_path: Path) -> None:
    servers = having(
        k={**kitchen(), "description": "A kitchen."},
        bad={"command": "/nowhere/at-all"},
        wrong={"command": [7]},
    )
    screen = ListScreen()
    async with sitting(ScriptedGenerator([text("one")]), screen, **servers) as conversation:
        await said(conversation, screen, "hello", "|one|")
        listed = await said(conversation, screen, "/mcp", "3 MCP servers")
        offers = r"connected: \d+ tools, 1 prompt, 2 resources"
        assert re.search(rf"✓ k: .*kitchen\.py .*\(stdio\) - {offers}", listed)
        assert "A kitchen." in listed
        assert "tool echo" in listed
        assert "prompt review\n" in listed
        assert "resource kitchen://menu\n" in listed
        assert "✗ bad: /nowhere/at-all (stdio) - not connected: " in listed
        assert listed.count("/nowhere/at-all") == 2
        assert "✗ wrong - not connected: settings: mcpServers.wrong.command" in listed
        told = await said(conversation, screen, "/mcp desc", "3 MCP servers")
        assert "resource kitchen://menu: The menu." in told
        assert '"properties"' not in told
        assert '"properties"' in await said(conversation, screen, "/mcp schema", "3 MCP servers")


async def test_without_servers_it_is_said_how_to_get_some(project: Path) -> None:
    screen = ListScreen()
    async with sitting(ScriptedGenerator(), screen) as conversation:
        await said(conversation, screen, "/mcp", "No MCP servers. Add one with alhena mcp add")


@pytest.mark.parametrize("words", ["nothing", "auth a b", "enable", "desc x", "refresh now"])
async def test_words_that_mean_nothing_are_told(project: Path, words: str) -> None:
    screen = ListScreen()
    off = having(k={"command": "true"})
    async with sitting(ScriptedGenerator(), screen, **off) as conversation:
        await said(conversation, screen, f"/mcp {words}", "Usage: /mcp, /mcp desc")


@pytest.mark.requirement("MCP-07")
async def test_a_person_signs_in_and_the_tools_are_there(
    project: Path, guarded: OAuthServer
) -> None:
    screen = ListScreen()
    servers = having(g={"httpUrl": guarded.mcp})
    generator = ScriptedGenerator([text("one")], [text("two")])
    async with sitting(generator, screen, **servers) as conversation:
        await said(conversation, screen, "hello", "|one|")
        assert "needs you to sign in: /mcp auth g" in screen.text
        await said(conversation, screen, "/mcp auth", "/mcp auth g")
        shown = await said(conversation, screen, "/mcp auth g", "state=")
        url = next(word for word in shown.split() if word.startswith(f"{guarded.url}/authorize"))
        status, _page = await asyncio.to_thread(get, url)
        assert status == 200
        await screen.until(lambda: "Signed in to MCP server 'g'." in screen.text)
        assert "very-secret" not in screen.text
        await said(conversation, screen, "again", "|two|")
    assert "echo" in declared(generator, 1)


async def test_a_sign_in_is_given_up_by_the_person_or_by_leaving(
    project: Path, guarded: OAuthServer
) -> None:
    screen = ListScreen()
    servers = having(g={"httpUrl": guarded.mcp})
    async with sitting(ScriptedGenerator([text("one")]), screen, **servers) as conversation:
        await said(conversation, screen, "hello", "|one|")
        await said(conversation, screen, "/mcp auth g", "state=")
        assert conversation.interrupt()
        await screen.until(lambda: "You stopped it before it had ended" in screen.text)
        await said(conversation, screen, "/mcp auth g", "state=")
    # leaving does not wait for the five minutes that a person has


async def test_one_that_is_turned_off_is_gone_until_it_is_turned_on(
    project: Path, home: Path, tmp_path: Path
) -> None:
    screen = ListScreen()
    servers = having(
        a=odd(tmp_path, {"tools": [tool("ping")]}), b=odd(tmp_path, {"tools": [tool("pong")]}, "b")
    )
    generator = ScriptedGenerator(*([text(str(number))] for number in range(4)))
    file = home / ".gemini" / "mcp-server-enablement.json"

    async with sitting(generator, screen, **servers) as conversation:
        await said(conversation, screen, "hello", "|0|")
        await said(conversation, screen, "/mcp disable a", "'a' is turned off.")
        assert json.loads(file.read_text()) == {"a": {"enabled": False}}
        assert "- a - turned off" in await said(conversation, screen, "/mcp", "2 MCP servers")
        await said(conversation, screen, "hello", "|1|")
        await said(conversation, screen, "/mcp enable a", "'a' is turned on.")
        assert json.loads(file.read_text()) == {}
        off = "'b' is turned off for this session."
        await said(conversation, screen, "/mcp disable b --session", off)
        await said(conversation, screen, "hello", "|2|")
        assert json.loads(file.read_text()) == {}
        await said(conversation, screen, "/mcp enable b --session", "turned on for this session.")
        await said(conversation, screen, "hello", "|3|")
    assert [{"ping", "pong"} & set(declared(generator, number)) for number in range(4)] == [
        {"ping", "pong"},
        {"pong"},
        {"ping"},
        {"ping", "pong"},
    ]


async def test_one_that_is_not_there_is_told(project: Path) -> None:
    screen = ListScreen()
    servers = having(k={"command": "true"})
    async with sitting(ScriptedGenerator(), screen, **servers) as conversation:
        for words in ("disable x", "enable x", "auth x"):
            await said(conversation, screen, f"/mcp {words}", "There is no MCP server 'x'")


async def test_a_refresh_connects_anew_and_reads_what_is_there(
    project: Path, tmp_path: Path
) -> None:
    screen = ListScreen()
    lists = tmp_path / "tools.json"
    lists.write_text(json.dumps([tool("ping")]), encoding="utf-8")
    servers = having(a=odd(tmp_path, {"list_from": str(lists)}))
    async with sitting(ScriptedGenerator([text("one")]), screen, **servers) as conversation:
        await said(conversation, screen, "hello", "|one|")
        assert "tool ping" in await said(conversation, screen, "/mcp", "1 MCP server")
        lists.write_text(json.dumps([tool("pong")]), encoding="utf-8")
        listed = await said(conversation, screen, "/mcp refresh", "1 MCP server\n")
        assert "tool pong" in listed
        assert "tool ping" not in listed
