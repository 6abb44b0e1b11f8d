"""Servers of one session whose tools are called alike, and what is told of all of them."""

import json
from pathlib import Path

import pytest

from alhena.mcp.server import ServerState
from tests.mcp.kit import called, odd, rigged, tool


@pytest.mark.requirement("MCP-02")
async def test_tools_of_two_servers_that_are_called_alike_are_both_there(project: Path) -> None:
    entries = {
        "one": odd(project, {"tools": [tool("find"), tool("only")]}, "one"),
        "two": odd(project, {"tools": [tool("find")]}, "two"),
    }
    async with rigged(entries, project) as rig:
        assert rig.registry.names == ("find", "only", "two__find")
        entry = rig.registry.find("mcp_one_find")
        assert entry is not None
        assert entry.server == "one"
        other = rig.registry.find("mcp_two_find")
        assert other is not None
        assert other.server == "two"


async def test_a_name_that_a_model_was_told_is_not_given_away(project: Path) -> None:
    lists = project / "lists.json"
    lists.write_text(json.dumps([]), encoding="utf-8")
    first = {
        "list_from": str(lists),
        "does": {"become": {"do": "become", "tools": [tool("become"), tool("find")]}},
    }
    entries = {
        "one": odd(project, first, "one"),
        "two": odd(project, {"tools": [tool("find")]}, "two"),
    }
    async with rigged(entries, project) as rig:
        rig.servers.begin()
        assert rig.registry.names == ("find",)
        await rig.server("one").call_tool("become", {})
        await rig.until(lambda: len(rig.registry.names) == 3)
        assert set(rig.registry.names) == {"become", "one__find", "find"}
        found = rig.registry.find("find")
        assert found is not None
        assert found.server == "two"


@pytest.mark.requirement("MCP-02")
async def test_a_name_that_could_be_said_of_two_tools_reaches_neither(project: Path) -> None:
    entries = {
        "a": odd(project, {"tools": [tool("b_c")]}, "a"),
        "a_b": odd(project, {"tools": [tool("c")]}, "a_b"),
    }
    async with rigged(entries, project) as rig:
        assert rig.registry.get("mcp_a_b_c") is None
        assert rig.registry.suggestions("mcp_a_b_c") == (
            'Tool "mcp_a_b_c" is ambiguous: it could be said of more than one tool. '
            'Call the one that is meant by its exact name: "b_c" or "c".'
        )
        for name in ("b_c", "c", "a__b_c", "a_b__c"):
            assert rig.registry.get(name) is not None
        rig.registry.exclude(["b_c"])
        assert rig.registry.get("mcp_a_b_c") is None
        assert rig.registry.suggestions("mcp_a_b_c").endswith('its exact name: "c".')
        rig.registry.exclude(["c"])
        assert "ambiguous" not in rig.registry.suggestions("mcp_a_b_c")


async def test_reports_tell_of_every_server_of_the_settings(project: Path) -> None:
    entries = {
        "good": {
            **odd(
                project,
                {
                    "tools": [tool("a/b"), {"name": "no", "inputSchema": ["x"]}],
                    "prompts": [{"name": "p"}],
                },
            ),
            "description": "Good.",
            "excludeTools": ["c"],
        },
        "bad": {"command": [5]},
        "off": {"command": "x"},
    }
    async with rigged(entries, project, mcp={"excluded": ["off"]}) as rig:
        good, bad, off = rig.servers.reports()
        assert (good.state, good.description, good.transport) == (
            ServerState.CONNECTED,
            "Good.",
            "stdio",
        )
        assert good.tools == {"a/b": "a_b"}
        assert [prompt.name for prompt in good.prompts] == ["p"]
        assert list(good.left_out) == ["no"]
        assert bad.state is ServerState.DISCONNECTED
        assert "mcpServers.bad.command" in bad.why
        assert (off.state, off.why) == (ServerState.DISABLED, "mcp.excluded names it")


async def test_only_the_tools_that_are_wanted_are_there(project: Path) -> None:
    entry = {
        **odd(project, {"tools": [tool(name) for name in "abcd"]}),
        "includeTools": ["a", "b(x)"],
        "excludeTools": ["a"],
    }
    async with rigged({"odd": entry}, project) as rig:
        assert rig.registry.names == ("b",)
        assert (await called(rig, "b")).error is None
