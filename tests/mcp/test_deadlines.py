"""Whose time a deadline counts."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from alhena.config.mcp_servers import McpServer
from alhena.mcp.connection import (
    ListPages,
    McpTimeoutError,
    Progress,
    ServerEvents,
    Subject,
)
from alhena.mcp.opening import opener
from alhena.mcp.server import Server, ServerPace, ServerState
from alhena.system.processes import ProcessGroups
from tests.mcp.kit import QUICK, odd, rigged, surroundings, tool
from tests.support.steady import skip

PACE = ServerPace(connect=0.1)
LONGER = 0.2


class Empty:
    """A connection with nothing after it."""

    instructions = ""
    changes_tools = False
    subjects: frozenset[Subject] = frozenset()

    async def pages(self, subject: Subject) -> ListPages:
        raise AssertionError(subject)

    async def call_tool(
        self, name: str, arguments: dict[str, Any], progress: Progress | None = None
    ) -> dict[str, Any]:
        raise AssertionError((name, arguments, progress))

    async def get_prompt(self, name: str, arguments: dict[str, str]) -> dict[str, Any]:
        raise AssertionError((name, arguments))

    async def read_resource(self, uri: str) -> dict[str, Any]:
        raise AssertionError(uri)


def server(*, loading: float, connecting: float) -> Server:
    """One whose library takes so long to import, and which takes so long itself."""

    @asynccontextmanager
    async def opened(_name: str, _config: McpServer, events: ServerEvents) -> AsyncIterator[Any]:
        await asyncio.sleep(loading)
        events.loaded()
        await asyncio.sleep(connecting)
        yield Empty()

    return Server("s", McpServer(command="x"), opened, lambda _server: None, PACE)


@pytest.mark.parametrize(
    ("loading", "connecting", "state", "why"),
    [
        (LONGER, 0.0, ServerState.CONNECTED, ""),
        (0.0, LONGER, ServerState.DISCONNECTED, "it did not answer within 0.1 s"),
    ],
)
async def test_what_is_imported_first_takes_nothing_from_a_servers_time(
    loading: float, connecting: float, state: ServerState, why: str
) -> None:
    some = server(loading=loading, connecting=connecting)
    some.start()
    await some.settled.wait()
    assert (some.state, some.why) == (state, why)
    assert some.loaded.is_set()
    await some.close()


async def test_one_that_fails_to_load_is_not_waited_for() -> None:
    @asynccontextmanager
    async def opened(_name: str, _config: McpServer, _events: ServerEvents) -> AsyncIterator[Any]:
        raise ImportError("no such library")
        yield Empty()

    some = Server("s", McpServer(command="x"), opened, lambda _server: None, PACE)
    some.start()
    await some.loaded.wait()
    assert some.state is ServerState.DISCONNECTED
    assert "no such library" in some.why
    await some.close()


def reporting(project: Path, *, times: int) -> dict[str, Any]:
    does = {"work": {"do": "report", "times": times, "pause": 0.05}}
    return odd(project, {"tools": [tool("work")], "does": does})


async def test_a_call_that_reports_progress_gets_its_time_anew(project: Path) -> None:
    entry = {**reporting(project, times=5), "timeout": 60_000}
    async with rigged({"odd": entry}, project) as rig:
        result = await rig.server().call_tool("work", {}, lambda _line: skip(40))
        assert result["content"][0]["text"] == "at last"


async def test_progress_without_end_does_not_make_a_call_last_for_ever(project: Path) -> None:
    groups = ProcessGroups()
    around = msgspec.structs.replace(surroundings(project, groups), longest_s=150)
    entry = {**reporting(project, times=10_000), "timeout": 60_000}
    config = msgspec.convert(entry, McpServer)
    some = Server("s", config, opener(around), lambda _server: None, QUICK)
    some.start()
    try:
        await some.settled.wait()
        with pytest.raises(McpTimeoutError, match="did not answer within 150 s"):
            await some.call_tool("work", {}, lambda _line: skip(40))
    finally:
        await some.close()
        await groups.close()
