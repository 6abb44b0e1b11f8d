"""Servers over standard input and output, as real processes, good and bad."""

import asyncio
import json
import os
import resource
from pathlib import Path

import pytest

from alhena.config.mcp_servers import McpServer
from alhena.mcp.connection import McpError, McpLostError, McpTimeoutError
from alhena.mcp.message_guard import MAX_MESSAGE
from alhena.mcp.opening import opener
from alhena.mcp.server import Server, ServerState
from alhena.mcp.stdio import LineSplitter
from alhena.tools.contract import ExecutionContext, ToolErrorType
from alhena.tools.registry import ToolRegistry
from tests.mcp.kit import called, kitchen, made, odd, rigged, surroundings, tool
from tests.support.steady import skip_when


def is_alive(pid: int) -> bool:
    """True if a process exists and is no zombie."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


@pytest.mark.requirement("MCP-01")
async def test_a_server_of_the_official_sdk_is_connected_and_its_tools_are_registered(
    project: Path,
) -> None:
    async with rigged({"kitchen": kitchen()}, project) as rig:
        assert rig.server("kitchen").state is ServerState.CONNECTED
        assert (await called(rig, "echo", {"text": "hallo"})).llm_content
        result = await called(rig, "roots")
        assert result.display == project.as_uri()
        assert rig.server("kitchen").offer.instructions.startswith("Say please")


async def test_a_server_that_knows_only_the_newer_handshake_is_understood(project: Path) -> None:
    modern = {
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}},
        "ttlMs": 0,
        "cacheScope": "private",
    }
    done = {"resultType": "complete", "content": [{"type": "text", "text": "new"}]}
    listed = {
        "": {"tools": [tool("t")], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    }
    script = {
        "modern": modern,
        "tools": listed,
        "does": {"t": {"do": "result", "result": done}},
    }
    async with rigged({"odd": odd(project, script)}, project) as rig:
        assert rig.warnings == []
        assert (await called(rig, "t")).display == "new"


async def test_calls_at_the_same_time_get_their_own_answers(project: Path) -> None:
    async with rigged({"odd": odd(project, {"tools": [tool("echo")]})}, project) as rig:
        results = await asyncio.gather(*(called(rig, "echo", {"n": n}) for n in range(50)))
        assert [result.display for result in results] == [f'{{"n": {n}}}' for n in range(50)]


async def test_it_can_be_closed_at_any_moment_and_leaves_nothing(project: Path) -> None:
    for steps in range(0, 60, 4):
        script = {"tools": [tool("never")], "does": {"never": {"do": "never"}}}
        async with rigged({}, project) as rig:
            server = Server(
                "odd",
                McpServer(**odd(project, script)),
                opener(surroundings(project, rig.groups)),
                lambda _server: None,
            )
            server.start()
            for _ in range(steps):
                await asyncio.sleep(0)
            if steps > 40:
                await server.settled.wait()
                call = asyncio.create_task(server.call_tool("never", {}))
                await asyncio.sleep(0)
                await server.close()
                with pytest.raises(McpError):
                    await call
            await server.close()
            assert rig.groups.members == ()


async def test_the_server_ends_with_its_session(project: Path) -> None:
    script = {"does": {"fork": {"do": "fork"}}, "tools": [tool("fork")]}
    async with rigged({"odd": odd(project, script)}, project) as rig:
        result = await called(rig, "fork")
        grandchild = int(str(result.display))
        assert is_alive(grandchild)
    assert not is_alive(grandchild)


async def test_one_that_hangs_crashes_or_is_not_there_takes_nothing_from_the_others(
    project: Path,
) -> None:
    entries = {
        "hangs": {**odd(project, {"silent": True}, "hangs"), "timeout": 300},
        "ends": odd(project, {"exit": 3, "stderr": "no licence"}, "ends"),
        "missing": {"command": "/nowhere/at/all"},
        "good": odd(project, {"tools": [tool("fine")]}, "good"),
    }
    async with rigged(entries, project) as rig:
        assert (await called(rig, "fine")).display == "{}"
        states = {report.name: report.state for report in rig.servers.reports()}
        assert states["good"] is ServerState.CONNECTED
        assert states["ends"] is states["missing"] is ServerState.DISCONNECTED
        await rig.until(lambda: rig.server("hangs").state is ServerState.DISCONNECTED)
        assert "MCP server 'ends': it exited with code 3: no licence." in rig.warnings
        assert any("'missing': Could not start /nowhere/at/all" in each for each in rig.warnings)
        assert any("'hangs': it did not answer within 0.3 s" in each for each in rig.warnings)


async def test_a_crash_in_a_call_is_a_typed_failure_and_the_next_call_starts_it_anew(
    project: Path,
) -> None:
    mark = project / "crashed"
    script = {
        "tools": [tool("once")],
        "does": {"once": {"do": "crash once", "mark": str(mark)}},
    }
    async with rigged({"odd": odd(project, script)}, project) as rig:
        first = await called(rig, "once")
        assert first.error is not None
        assert first.error.type is ToolErrorType.MCP_TOOL_ERROR
        assert "'odd' failed: the connection was closed before it answered" in first.error.message
        assert "answered: it exited with code 7" in first.error.message
        assert (await called(rig, "once")).display == "back again"


async def test_lines_that_are_no_messages_and_answers_to_nobody_cost_nothing(
    project: Path,
) -> None:
    script = {
        "tools": [tool("garbage"), tool("wrong")],
        "does": {"garbage": {"do": "garbage"}, "wrong": {"do": "wrong id"}},
    }
    async with rigged({"odd": odd(project, script)}, project) as rig:
        assert (await called(rig, "garbage")).display == "behind the garbage"
        assert (await called(rig, "wrong")).display == "the right one"
        assert any("a line that is no message" in note for note in rig.server().notes)


async def test_a_line_without_an_end_ends_the_server_and_not_the_memory(project: Path) -> None:
    script = {
        "tools": [tool("flood")],
        "does": {"flood": {"do": "long line", "megabytes": 1000}},
    }
    async with rigged({"odd": odd(project, script)}, project) as rig:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        result = await called(rig, "flood")
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert result.error is not None
        await rig.until(lambda: rig.server().why != "")
        assert f"it sent a message of more than {MAX_MESSAGE:,} bytes" in "".join(
            rig.server().notes
        )
        assert grown < 80_000  # kilobytes


async def test_a_call_that_takes_too_long_is_given_up_and_the_server_hears_of_it(
    project: Path,
) -> None:
    heard = project / "heard"
    script = {
        "tools": [tool("never"), tool("loris")],
        "does": {"never": {"do": "never"}, "loris": {"do": "slow loris"}},
        "heard": str(heard),
    }
    entry = {**odd(project, script), "timeout": 60_000}

    def heard_calls(times: int) -> bool:
        return heard.read_text(encoding="utf-8").count('"tools/call"') == times

    async with rigged({"odd": entry}, project) as rig:
        late = asyncio.create_task(skip_when(60, lambda: heard_calls(1)))
        with pytest.raises(McpTimeoutError, match="did not answer within 60 s"):
            await rig.server().call_tool("never", {})
        await late
        await rig.until(lambda: given_up(heard) == 1)
        late = asyncio.create_task(skip_when(60, lambda: heard_calls(2)))
        with pytest.raises(McpTimeoutError):
            await rig.server().call_tool("loris", {})
        await late


async def test_a_cancelled_call_tells_the_server(project: Path) -> None:
    heard = project / "heard"
    script = {
        "tools": [tool("never"), tool("echo")],
        "does": {"never": {"do": "never"}},
        "heard": str(heard),
    }
    async with rigged({"odd": odd(project, script)}, project) as rig:
        call = asyncio.create_task(rig.server().call_tool("never", {}))
        await rig.until(lambda: heard.read_text(encoding="utf-8").count('"tools/call"') == 1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await rig.until(lambda: given_up(heard) == 1)
        assert (await called(rig, "echo", {"x": 1})).display == '{"x": 1}'


def given_up(heard: Path) -> int:
    """Number of cancelled calls the server was told of, each by its own request id."""
    messages = [json.loads(line) for line in heard.read_text(encoding="utf-8").splitlines()]
    calls = {each["id"] for each in messages if each.get("method") == "tools/call"}
    return sum(
        each.get("method") == "notifications/cancelled" and each["params"]["requestId"] in calls
        for each in messages
    )


async def test_progress_is_live_output(project: Path) -> None:
    async with rigged({"kitchen": kitchen()}, project) as rig:
        said: list[str] = []
        found = rig.registry.get("slow")
        assert found is not None
        context = ExecutionContext(project, update_output=said.append)
        result = await made(found, {"steps": 2}).execute(context)
        assert result.display == "done"
        assert said == ["1 of 2: step 1\n", "2 of 2: step 2\n"]


async def test_progress_without_end_is_cut(project: Path) -> None:
    async with rigged({"kitchen": kitchen()}, project) as rig:
        said: list[str] = []
        found = rig.registry.get("slow")
        assert found is not None
        context = ExecutionContext(project, update_output=said.append)
        await made(found, {"steps": 1500}).execute(context)
        assert len(said) == 1000
        assert said[-1] == "1000 of 1500: step 1000\n… further progress is not shown\n"


async def test_a_server_gets_no_secrets_but_those_of_its_own_entry(project: Path) -> None:
    entry = {
        **kitchen(),
        "env": {"OWN_TOKEN": "$MY_TOKEN", "DEFAULTED": "${NONE:-fallback}", "LD_PRELOAD": "/x.so"},
    }
    environ = {**os.environ, "MY_TOKEN": "tok-123456", "GEMINI_API_KEY": "k" * 20}
    async with rigged({"kitchen": entry}, project, environ=environ) as rig:
        values = {
            name: (await called(rig, "environment", {"name": name})).display
            for name in ("OWN_TOKEN", "DEFAULTED", "GEMINI_API_KEY", "MY_TOKEN", "LD_PRELOAD")
        }
        assert values == {
            "OWN_TOKEN": "tok-123456",
            "DEFAULTED": "fallback",
            "GEMINI_API_KEY": "(not set)",
            "MY_TOKEN": "(not set)",
            "LD_PRELOAD": "(not set)",
        }
        assert any("LD_PRELOAD" in note for note in rig.server("kitchen").notes)


async def test_a_closed_output_is_a_lost_connection(project: Path) -> None:
    script = {"tools": [tool("close")], "does": {"close": {"do": "close output"}}}
    async with rigged({"odd": odd(project, script)}, project) as rig:
        with pytest.raises(McpLostError):
            await rig.server().call_tool("close", {})


async def test_list_changed_brings_new_tools_and_takes_old_ones(project: Path) -> None:
    lists = project / "lists.json"
    lists.write_text(json.dumps([tool("become"), tool("old")]), encoding="utf-8")
    script = {
        "list_from": str(lists),
        "does": {"become": {"do": "become", "tools": [tool("become"), tool("new")]}},
    }
    async with rigged({"odd": odd(project, script)}, project) as rig:
        assert rig.registry.names == ("become", "old")
        await called(rig, "become")
        await rig.until(lambda: rig.registry.names == ("become", "new"))


async def test_a_storm_of_changes_is_few_listings(project: Path) -> None:
    heard = project / "heard"
    script = {
        "tools": [tool("storm")],
        "does": {"storm": {"do": "storm", "times": 2000}},
        "heard": str(heard),
    }
    async with rigged({"odd": odd(project, script)}, project) as rig:
        before = len(rig.changes)
        await called(rig, "storm")
        await rig.until(lambda: len(rig.changes) > before)
        await called(rig, "storm")
    listings = heard.read_text(encoding="utf-8").count('"tools/list"')
    assert 2 <= listings <= 12


async def test_all_pages_are_read_and_cursors_in_a_circle_end(project: Path) -> None:
    pages = {
        "": {"tools": [tool("one")], "nextCursor": "a"},
        "a": {"tools": [tool("two")], "nextCursor": "b"},
        "b": {"tools": [tool("three")], "nextCursor": "a"},
    }
    async with rigged({"odd": odd(project, {"tools": pages})}, project) as rig:
        assert rig.registry.names == ("one", "three", "two")
        assert any("leads back to a page" in each for each in rig.warnings)


async def test_a_list_that_is_refused_is_told(project: Path) -> None:
    script = {"tools": [tool("x")], "list_error": True}
    async with rigged({"odd": odd(project, script)}, project) as rig:
        assert rig.registry.names == ()
        assert rig.warnings == ["MCP server 'odd': MCP error -32603: the list is lost."]


async def test_a_server_with_nothing_is_told(project: Path) -> None:
    async with rigged({"odd": odd(project, {"tools": []})}, project) as rig:
        assert rig.warnings == [
            "MCP server 'odd': No prompts, tools, or resources found on the server."
        ]


async def test_what_is_logged_is_kept_as_notes_and_bounded(project: Path) -> None:
    script = {"tools": [tool("talk")], "does": {"talk": {"do": "chatter", "times": 500}}}
    async with rigged({"odd": odd(project, script)}, project) as rig:
        await called(rig, "talk")
        await rig.until(lambda: any("line 499" in note for note in rig.server().notes))
        assert len(rig.server().notes) <= 20


def test_lines_are_whole_whatever_the_pieces() -> None:
    lines = LineSplitter(limit=10)
    for piece in (b"ab", b"c\n\n  \nde", b"f", b"\nrest"):
        lines.feed(piece)
    assert [lines.take() for _ in range(3)] == [b"abc", b"def", None]
    assert lines.held == 0
    lines.feed(b"x" * 10)
    assert lines.problem


async def test_built_in_tools_keep_their_names(project: Path) -> None:
    script = {"tools": [tool("read_file"), tool("grep"), tool("own")]}
    async with rigged({"odd": odd(project, script)}, project, registry=ToolRegistry()) as rig:
        assert rig.registry.names == ("odd__grep", "odd__read_file", "own")
