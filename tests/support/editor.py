"""A client of `alhena --acp`, by the official Python package."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

from acp import connect_to_agent
from acp.schema import AllowedOutcome, RequestPermissionResponse

from tests.support.command import at_work, keyed
from tests.support.patience import PATIENCE_S
from tests.support.server import ScriptedServer


class Editor:
    """A client that keeps what it is shown, and answers questions by `answer`."""

    def __init__(self, answer: Callable[[Any, Any], Any] | None = None) -> None:
        self.updates: list[dict[str, Any]] = []
        self.asked = asyncio.Event()
        self.options: list[dict[str, Any]] = []
        self._answer = answer

    async def session_update(self, session_id: str, update: Any, **_more: Any) -> None:
        shown = update.model_dump(mode="json", by_alias=True, exclude_none=True)
        self.updates.append({"session": session_id, **shown})

    async def request_permission(
        self, session_id: str, tool_call: Any, options: Any, **_more: Any
    ) -> RequestPermissionResponse:
        del session_id, tool_call
        self.options = [each.model_dump(mode="json", by_alias=True) for each in options]
        self.asked.set()
        if self._answer is None:
            await asyncio.Event().wait()
            raise AssertionError
        return RequestPermissionResponse(outcome=self._answer(None, options))

    def on_connect(self, conn: Any) -> None:
        del conn

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [each for each in self.updates if each["sessionUpdate"] == kind]

    def said(self) -> str:
        return "".join(each["content"]["text"] for each in self.of("agent_message_chunk"))

    def states(self) -> list[str]:
        calls = [each for each in self.updates if each["sessionUpdate"].startswith("tool_call")]
        return [each["status"] for each in calls]


def choosing(kind: str) -> Callable[[Any, Any], Any]:
    def choose(_call: Any, options: Any) -> Any:
        (first, *_) = [each for each in options if each.kind == kind]
        return AllowedOutcome(outcome="selected", option_id=first.option_id)

    return choose


@asynccontextmanager
async def connected(
    editor: Editor, server: ScriptedServer | None, *arguments: str, able: Any = None
) -> AsyncIterator[Any]:
    environ = keyed(server) if server is not None else {}
    async with at_work("--acp", *arguments, **environ) as end:
        reader, writer = await asyncio.open_connection(sock=end)
        conn = connect_to_agent(cast("Any", editor), writer, reader, use_unstable_protocol=True)
        try:
            begun = await conn.initialize(protocol_version=1, client_capabilities=able)
            assert begun.protocol_version == 1
            yield conn
        finally:
            await conn.close()
            writer.close()


async def prompted(conn: Any, session: str, *blocks: Any) -> str:
    asking = conn.prompt(session_id=session, prompt=list(blocks))
    return (await asyncio.wait_for(asking, PATIENCE_S)).stop_reason
