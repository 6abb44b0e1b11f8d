"""Servers that write without end wait, and what they say then arrives."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest

from alhena.mcp.sdk import EveryMethod, RawDispatcher
from alhena.mcp.stdio import stdio_transport
from alhena.system.processes import ProcessCommand, ProcessGroups
from tests.support.patience import PATIENCE_S

AFTER = """
import os
data = {data!r} * (1 << 20)
for _ in range({times}):
    os.write({descriptor}, data)
os.write(1, b'{{"jsonrpc":"2.0","method":"notifications/x"}}\\n')
os.read(0, 1)
"""


@pytest.mark.parametrize(
    ("descriptor", "data"), [(1, b"\n"), (2, b"x")], ids=["empty lines", "stderr"]
)
async def test_what_follows_a_flood_arrives(project: Path, descriptor: int, data: bytes) -> None:
    script = AFTER.format(descriptor=descriptor, data=data, times=8)
    argv = (sys.executable, "-S", "-c", script)
    command = ProcessCommand(argv=argv, cwd=str(project), env=dict(os.environ), label="a flood")
    groups = ProcessGroups()
    try:
        async with (
            stdio_transport(command, groups, lambda _why: None) as (reading, _),
            asyncio.timeout(PATIENCE_S),
        ):
            found = await reading.receive()
            assert not isinstance(found, Exception)
            assert getattr(found.message, "method", "") == "notifications/x"
    finally:
        await groups.close()


@pytest.mark.parametrize("method", ["ping", "no/such/method"])
async def test_a_server_that_reads_no_answers_cannot_go_on_asking(method: str) -> None:
    to_session, reading = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    writing, answers = anyio.create_memory_object_stream[SessionMessage](0)
    dispatcher = RawDispatcher(reading, writing, inline_methods=EveryMethod())
    dispatcher.ended = lambda: None

    async def answer(*_request: Any) -> dict[str, Any]:
        return {}

    async def ignore(*_notification: Any) -> None:
        raise AssertionError

    def question(number: int) -> SessionMessage:
        return SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=number, method=method))

    async with to_session, answers, anyio.create_task_group() as tasks:
        tasks.start_soon(dispatcher.run, answer, ignore)
        await to_session.send(question(1))
        for _ in range(10):
            await asyncio.sleep(0)
        with pytest.raises(anyio.WouldBlock):
            to_session.send_nowait(question(2))
        await answers.receive()
        await to_session.send(question(2))
        tasks.cancel_scope.cancel()
