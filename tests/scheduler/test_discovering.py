"""Memory added after a result for the paths a call touched."""

import asyncio
import threading
from contextlib import suppress
from pathlib import Path

from alhena.scheduler.executor import Executor
from alhena.tools.contract import Discover, ExecutionContext, ToolFailure, ToolLocation, ToolResult
from alhena.wire.content import Part
from tests.scheduler.kit import SmallTool, Stage, crash, request, response_of


def stage(tool: SmallTool, discover: Discover) -> Stage:
    executor = Executor(Path.cwd())
    executor.discover = discover
    return Stage(tool, executor=executor)


async def test_what_is_known_of_a_place_follows_the_result_of_a_call_there():
    heard: list[str] = []

    async def discover(tool: str, places: tuple[ToolLocation, ...], stop: threading.Event) -> str:
        heard.append(tool)
        return "" if len(heard) > 1 else "context"

    there = stage(SmallTool("echo"), discover)
    first, second = await there.run(request("1", "echo", text="a"), request("2", "echo", text="b"))
    assert response_of(first) == {"output": "got a"}
    assert first.response.response_parts[1:] == (Part(text="context"),)
    assert response_of(second) == {"output": "got b"}
    assert len(second.response.response_parts) == 1
    assert heard == ["echo", "echo"]


async def test_a_call_that_failed_is_told_nothing():
    async def discover(tool: str, places: tuple[ToolLocation, ...], stop: threading.Event) -> str:
        raise AssertionError("nothing is looked for")

    async def refuse_call(params: object, context: ExecutionContext) -> ToolResult:
        return ToolResult(llm_content="no", error=ToolFailure("no"))

    for body in (crash, refuse_call):
        (done,) = await stage(SmallTool("echo", body), discover).run("echo")
        assert done.status == "error"
        assert "nothing is looked for" not in str(response_of(done))


async def test_a_call_cancelled_while_places_are_looked_into_says_what_its_tool_did():
    looking = asyncio.Event()

    async def discover(tool: str, places: tuple[ToolLocation, ...], stop: threading.Event) -> str:
        looking.set()
        await asyncio.Event().wait()
        return "never"

    there = stage(SmallTool("echo"), discover)
    running = asyncio.ensure_future(there.run(request("1", "echo", text="written")))
    await looking.wait()
    there.scheduler.cancel_all()
    (done,) = await running
    assert done.status == "cancelled"
    assert "got written" in str(done.response)
    assert "never" not in str(done.response)


async def test_a_call_cancelled_behind_them_keeps_what_was_found():
    async def discover(tool: str, places: tuple[ToolLocation, ...], stop: threading.Event) -> str:
        there.scheduler.cancel_all()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "context"

    there = stage(SmallTool("echo"), discover)
    (done,) = await there.run(request("1", "echo", text="written"))
    assert done.status == "cancelled"
    assert response_of(done)["output"] == "got written"
    assert done.response.response_parts[1:] == (Part(text="context"),)
