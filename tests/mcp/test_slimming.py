"""Messages with more values than are built at once: what is told of them, and what is not lost."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from alhena.mcp.connection import MAX_ENTRIES, Subject
from alhena.mcp.message_guard import CUT, LEFT_OUT, MANY, MOST_LISTED, slimmed
from alhena.mcp.server import ServerState
from alhena.mcp.tool import UNREADABLE, content_of, text_of
from alhena.tools.response import content_text
from tests.mcp.bad_http import Bad, answered, listening
from tests.mcp.kit import called, odd, rigged, tool

NESTED = [[1, 2, {"a": "b"}]] * MANY
TEXT = {"type": "text", "text": "hello"}
HEAVY = TEXT | {"_meta": {"rows": NESTED}}


async def result_of(result: Any) -> Any:
    data = json.dumps({"jsonrpc": "2.0", "id": 7, "result": result}).encode()
    return (await slimmed(data))["result"]


@pytest.mark.parametrize(
    ("content", "told"),
    [([HEAVY], LEFT_OUT), ([TEXT, HEAVY], f"hello\n{LEFT_OUT}")],
)
async def test_a_block_that_is_left_out_is_said(content: list[Any], told: str) -> None:
    found = await result_of({"content": content, "_meta": NESTED})
    assert content_text(content_of("t", found)).split() == told.split()
    assert text_of(found) == told


async def test_structured_content_stands_in_for_blocks_that_are_left_out() -> None:
    found = await result_of({"content": [HEAVY, HEAVY], "structuredContent": {"n": 1}})
    assert content_of("t", found) == '{"n": 1}'
    found = await result_of({"content": [], "structuredContent": None, "_meta": NESTED})
    assert content_of("t", found) == text_of(found) == ""
    found = await result_of({"content": {"rows": NESTED}})
    assert content_of("t", found) == UNREADABLE


async def test_what_of_a_resource_or_a_prompt_is_left_out_is_said() -> None:
    contents = {"contents": [{"uri": "a:b", "text": "A", "_meta": NESTED}]}
    assert (await result_of(contents))["contents"] == [{"text": LEFT_OUT}]
    messages = [{"role": "user", "content": HEAVY}]
    found = await result_of({"messages": messages})
    assert found["messages"] == [{"role": "user", "content": {"type": "text", "text": LEFT_OUT}}]


@pytest.mark.parametrize("subject", Subject)
async def test_that_a_list_has_changed_is_heard_whatever_comes_with_it(subject: Subject) -> None:
    told = {"jsonrpc": "2.0", "method": f"notifications/{subject}/list_changed"}
    data = json.dumps(told | {"params": {"_meta": NESTED}}).encode()
    assert await slimmed(data) == told


async def test_of_a_list_without_end_the_first_entries_are_read() -> None:
    tools = [{"name": str(each)} for each in range(MAX_ENTRIES + 500)]
    found = await result_of({"tools": tools, "_meta": NESTED, "nextCursor": "c"})
    assert found == {"tools": tools[: MAX_ENTRIES + 1], "nextCursor": "c"}
    found = await result_of({"tools": [], "prompts": [1, None, HEAVY], "_meta": NESTED})
    assert found == {"tools": [], "prompts": [1, None, None]}


async def test_of_a_list_with_too_many_values_what_was_read_until_then_is_taken() -> None:
    entry = {"name": "n", "rows": [1] * (MANY // 2)}
    enough = MOST_LISTED // (MANY // 2)
    found = await result_of({"resources": [entry] * enough})
    assert found["resources"] == [entry] * len(found["resources"])
    assert enough * 0.9 < len(found["resources"]) < enough
    assert found[CUT] is True


async def test_a_server_goes_without_what_is_too_much_of_its_lists(project: Path) -> None:
    rows = {"type": "integer", "enum": list(range(MANY // 2))}
    tools = [tool(f"t{each}", rows=rows) for each in range(2 * MOST_LISTED // MANY + 20)]
    async with (
        listening(Bad(tools_list=answered({"tools": tools}))) as bad,
        rigged({"bad": {"httpUrl": bad.url}}, project) as rig,
    ):
        server = rig.server("bad")
        assert server.state is ServerState.CONNECTED
        taken = [each.name for each in server.offer.tools]
        assert taken == [each["name"] for each in tools[: len(taken)]]
        assert len(taken) > 2 * MOST_LISTED // MANY * 0.9
        (problem,) = server.offer.problems
        assert problem.startswith("its list of tools has more than 500,000 values")
        assert problem.endswith(f"of tools beyond the first {len(taken)} nothing is read")
        assert (await called(rig, "t0")).display == "poked"


async def test_many_large_tools_are_all_there(project: Path) -> None:
    fields = {f"field_{each}": {"type": "string", "description": "x"} for each in range(20)}
    script = {"tools": [tool(f"tool_{each}", **fields) for each in range(MAX_ENTRIES)]}
    async with rigged({"odd": odd(project, script)}, project) as rig:
        assert len(rig.server().offer.tools) == MAX_ENTRIES
        assert rig.server().offer.problems == ()


async def test_a_long_handshake_over_http_is_one(project: Path) -> None:
    handshake: dict[str, Any] = {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "bad", "version": "1"},
        "instructions": "i" * 70_000,
    }
    async with (
        listening(Bad(initialize=answered(handshake))) as bad,
        rigged({"bad": {"httpUrl": bad.url}}, project) as rig,
    ):
        assert rig.server("bad").state is ServerState.CONNECTED
        assert rig.server("bad").offer.instructions == handshake["instructions"]
        assert (await called(rig, "poke")).display == "poked"


async def test_structured_content_that_is_nothing_is_not_told() -> None:
    found = await result_of({"structuredContent": {"rows": NESTED}})
    assert msgspec.json.decode(found["structuredContent"]) == {"rows": NESTED}
    assert "structuredContent" not in await result_of({"structuredContent": None, "x": NESTED})
