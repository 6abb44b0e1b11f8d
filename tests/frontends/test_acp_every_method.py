"""One conversation with every method, by each of the official clients."""

import asyncio
import json
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from acp import RequestError, text_block
from acp.schema import (
    AcceptElicitationResponse,
    ClientCapabilities,
    CreateTerminalResponse,
    ElicitationCapabilities,
    ElicitationFormCapabilities,
    EmbeddedResourceContentBlock,
    FileSystemCapabilities,
    ImageContentBlock,
    ReadTextFileResponse,
    ResourceContentBlock,
    TerminalOutputResponse,
    TextResourceContents,
    WaitForTerminalExitResponse,
)

from tests.support.command import ALHENA, keyed
from tests.support.editor import Editor, choosing, connected, prompted
from tests.support.patience import PATIENCE_S
from tests.support.server import ScriptedServer, call, chunk, sse, text

MODULES = os.environ.get("ALHENA_ACP_NODE", str(Path(__file__).parents[2]))
"""A directory whose node_modules has `@agentclientprotocol/sdk`."""
SDK = Path(MODULES) / "node_modules" / "@agentclientprotocol" / "sdk"

ASKED = [
    *("elicitation", "read", "permission", "write"),
    *("permission", "create", "wait", "output", "release"),
]
UPDATES = {
    *("agent_message_chunk", "agent_thought_chunk", "user_message_chunk"),
    *("tool_call", "tool_call_update", "plan", "available_commands_update"),
    *("usage_update", "session_info_update"),
}
RESULTS = [1, "default", "gemini-2.5-flash", "end_turn", "cancelled", 1, "end_turn", -32002]


class Everything(Editor):
    """An editor that offers all there is, and records what it is asked."""

    def __init__(self, files: dict[str, str]) -> None:
        super().__init__(choosing("allow_once"))
        self.files = files
        self.calls: list[str] = []
        self.begun = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **more: Any) -> None:
        await super().session_update(session_id, update, **more)
        if self.said().endswith("begun"):
            self.begun.set()

    async def request_permission(self, *args: Any, **more: Any) -> Any:
        self.calls.append("permission")
        return await super().request_permission(*args, **more)

    async def create_elicitation(self, **_more: Any) -> Any:
        self.calls.append("elicitation")
        return AcceptElicitationResponse(action="accept", content={"0": "SQLite"})

    async def read_text_file(self, path: str, **_more: Any) -> Any:
        self.calls.append("read")
        return ReadTextFileResponse(content=self.files.get(path, ""))

    async def write_text_file(self, content: str, path: str, **_more: Any) -> None:
        self.calls.append("write")
        self.files[path] = content

    async def create_terminal(self, **_more: Any) -> Any:
        self.calls.append("create")
        return CreateTerminalResponse(terminal_id="t1")

    async def wait_for_terminal_exit(self, **_more: Any) -> Any:
        self.calls.append("wait")
        return WaitForTerminalExitResponse(exit_code=0)

    async def terminal_output(self, **_more: Any) -> Any:
        self.calls.append("output")
        return TerminalOutputResponse(output="from the editor", truncated=False)

    async def release_terminal(self, **_more: Any) -> None:
        self.calls.append("release")


@pytest.fixture
def scripted(project: Path) -> Any:
    """A model that thinks, asks, reads, writes, runs a command and plans; then one that is cut."""
    (project / "a.txt").write_text("saved\n", encoding="utf-8")
    store = [{"label": "SQLite"}, {"label": "Postgres"}]
    asks = {"questions": [{"question": "Which?", "header": "Store", "options": store}]}
    todos = {"todos": [{"description": "one", "status": "completed"}]}
    beta = {"file_path": str(project / "b.txt"), "content": "beta\n"}
    hold = threading.Event()
    with ScriptedServer() as server:
        server.reply(
            sse(
                chunk({"text": "**Plan**\nask", "thought": True}),
                chunk(call("ask_user", asks), finish="STOP"),
            ),
            sse(chunk(call("read_file", {"file_path": str(project / "a.txt")}), finish="STOP")),
            sse(chunk(call("write_file", beta), finish="STOP")),
            sse(chunk(call("run_shell_command", {"command": "touch made"}), finish="STOP")),
            sse(chunk(call("write_todos", todos), finish="STOP")),
            sse(text("done")),
            sse(text("begun", None), text(" more"), hold=hold),
            sse(text("forked")),
        )
        yield server
        hold.set()


async def test_the_python_client_plays_every_method(project: Path, scripted: ScriptedServer):
    editor = Everything({str(project / "a.txt"): "unsaved\n"})
    able = ClientCapabilities(
        fs=FileSystemCapabilities(read_text_file=True, write_text_file=True),
        terminal=True,
        elicitation=ElicitationCapabilities(form=ElicitationFormCapabilities()),
    )
    where: dict[str, Any] = {"cwd": str(project), "mcp_servers": []}
    async with connected(editor, scripted, able=able) as conn:
        await conn.authenticate(method_id="gemini-api-key")
        session = await conn.new_session(**where)
        own = session.session_id
        results: list[Any] = [1, session.modes.current_mode_id]
        await conn.set_session_mode(session_id=own, mode_id="plan")
        await conn.set_session_mode(session_id=own, mode_id="default")
        changed = await conn.set_config_option(
            session_id=own, config_id="model", value="gemini-2.5-flash"
        )
        results.append(changed.config_options[0].current_value)
        embedded = TextResourceContents(uri="file:///b.txt", text="beta")
        link = (project / "a.txt").as_uri()
        blocks = [
            text_block("hello"),
            ImageContentBlock(type="image", data="AAAA", mime_type="image/png"),
            EmbeddedResourceContentBlock(type="resource", resource=embedded),
            ResourceContentBlock(type="resource_link", name="a.txt", uri=link),
        ]
        results.append(await prompted(conn, own, *blocks))
        running = asyncio.create_task(prompted(conn, own, text_block("hello")))
        await asyncio.wait_for(editor.begun.wait(), PATIENCE_S)
        await conn.cancel(session_id=own)
        results.append(await running)
        results.append(len((await conn.list_sessions(cwd=str(project))).sessions))
        await conn.close_session(session_id=own)
        await conn.load_session(session_id=own, **where)
        await conn.resume_session(session_id=own, **where)
        fork = await conn.fork_session(session_id=own, **where)
        results.append(await prompted(conn, fork.session_id, text_block("hello")))
        with pytest.raises(RequestError) as gone:
            await conn.load_session(session_id="gone", **where)
        results.append(gone.value.code)
    assert results == RESULTS
    assert editor.calls == ASKED
    assert {each["sessionUpdate"] for each in editor.updates} == UPDATES
    assert editor.files[str(project / "b.txt")] == "beta\n"


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.skipif(
    not SDK.is_dir(), reason="npm install @agentclientprotocol/sdk, and set ALHENA_ACP_NODE"
)
async def test_the_typescript_client_plays_every_method(project: Path, scripted: ScriptedServer):
    script = str(Path(__file__).parent / "acp_client.mjs")
    process = await asyncio.create_subprocess_exec(
        *("node", script, ALHENA, str(project), MODULES),
        env={**os.environ, **keyed(scripted)},
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    record = json.loads(out)
    assert record["results"] == RESULTS
    assert record["asked"] == ASKED
    assert set(record["updates"]) == UPDATES
    assert (record["file"], record["code"]) == ("beta\n", 0)
