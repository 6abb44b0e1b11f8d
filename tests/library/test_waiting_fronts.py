"""A run that waits behind an editor (ACP) and is answered behind a web server, and back."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from acp import connect_to_agent, run_agent, text_block
from acp.schema import (
    DeniedOutcome,
    InitializeResponse,
    NewSessionResponse,
    PermissionOption,
    PromptResponse,
    ToolCallUpdate,
)

from alhena import Answer
from alhena.testing import Call
from tests.library.test_waiting import Shop
from tests.support.editor import Editor, choosing

OPTIONS = [
    PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
    PermissionOption(option_id="no", name="No", kind="reject_once"),
]


class EditorFront:
    """Serves agents of a shop to an editor; what it leaves open is kept in a file."""

    def __init__(self, shop: Shop, kept: Path, *answers: Any) -> None:
        self.agent, self.kept = shop.agent(*answers), kept
        self.editor: Any = None

    def on_connect(self, conn: Any) -> None:
        self.editor = conn

    async def initialize(self, protocol_version: int, **_more: Any) -> InitializeResponse:
        return InitializeResponse(protocol_version=protocol_version)

    async def new_session(self, cwd: str, **_more: Any) -> NewSessionResponse:
        return NewSessionResponse(session_id="one")

    async def prompt(self, session_id: str, prompt: Any, **_more: Any) -> PromptResponse:
        state = self.kept.read_bytes() if self.kept.exists() else None
        if state is None:
            result = await self.agent.run(prompt[0].text)
            self.kept.write_bytes(result.state())
        else:
            answers = {call_id: await self._ask(call_id) for call_id in prompt[0].text.split()}
            result = await self.agent.resume(state, answers)
        return PromptResponse(
            stop_reason="end_turn",
            field_meta={
                "stop": result.stop_reason,
                "said": result.output,
                "waits": [each.call_id for each in result.pending],
            },
        )

    async def _ask(self, call_id: str) -> Answer:
        call = ToolCallUpdate(tool_call_id=call_id, title="pay")
        asked = await self.editor.request_permission("one", call, OPTIONS)
        chosen = asked.outcome
        return Answer.no("not now") if isinstance(chosen, DeniedOutcome) else Answer.yes()


@asynccontextmanager
async def connect(front: EditorFront, editor: Editor) -> AsyncIterator[Any]:
    """A connection of an editor to a front in this process."""
    ends = [await asyncio.open_connection(sock=each) for each in socket.socketpair()]
    (agent_reader, agent_writer), (reader, writer) = ends
    serving = asyncio.create_task(run_agent(cast("Any", front), agent_writer, agent_reader))
    conn = connect_to_agent(cast("Any", editor), writer, reader)
    await conn.initialize(protocol_version=1)
    await conn.new_session(cwd="/", mcp_servers=[])
    try:
        yield conn
    finally:
        await conn.close()
        for each in (writer, agent_writer):
            each.close()
            await each.wait_closed()
        await serving


def web_front(shop: Shop, kept: Path, *answers: Any) -> Any:
    """The same over HTTP."""
    fastapi = pytest.importorskip("fastapi", reason="FastAPI is not installed")
    app, agent = fastapi.FastAPI(), shop.agent(*answers)

    @app.post("/ask")
    async def ask(prompt: str) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        result = await agent.run(prompt)
        kept.write_bytes(result.state())
        return {"waits": [each.call_id for each in result.pending]}

    @app.post("/answer/{call_id}")
    async def answer(call_id: str) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        result = await agent.resume(kept.read_bytes(), {call_id: Answer.yes()})
        return {"said": result.output}

    return app


@pytest.mark.requirement("LIB-10")
async def test_what_an_editor_leaves_open_is_answered_over_http_and_the_other_way(tmp_path: Path):
    testclient = pytest.importorskip("fastapi.testclient", reason="FastAPI is not installed")
    shop, kept = Shop(), tmp_path / "kept"
    front = EditorFront(shop, kept, Call("pay", amount=5))
    async with connect(front, Editor()) as conn:
        left = await conn.prompt(session_id="one", prompt=[text_block("Pay.")])
    assert left.field_meta["stop"] == "pending"
    (waits,) = left.field_meta["waits"]
    client = testclient.TestClient(web_front(shop, kept, "Paid."))
    told = await asyncio.to_thread(client.post, f"/answer/{waits}")
    assert (told.json(), shop.done) == ({"said": "Paid."}, ["pay 5"])

    client = testclient.TestClient(web_front(shop, kept, Call("pay", amount=6)))
    told = await asyncio.to_thread(client.post, "/ask", params={"prompt": "Pay more."})
    (waits,) = told.json()["waits"]
    front = EditorFront(shop, kept, "Paid again.")
    async with connect(front, Editor(choosing("allow_once"))) as conn:
        done = await conn.prompt(session_id="one", prompt=[text_block(waits)])
    assert done.field_meta["said"] == "Paid again."
    assert shop.done == ["pay 5", "pay 6"]
