"""Counts, titles and directories for editors; deleting sessions and logging out."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from acp import RequestError, text_block
from acp.schema import (
    DeleteSessionRequest,
    InitializeResponse,
    LogoutRequest,
    PermissionOption,
    SessionInfoUpdate,
    UsageUpdate,
)

from alhena.frontends.acp.questions import choices
from alhena.tools.contract import Question, QuestionOption
from tests.support.command import at_work, keyed
from tests.support.editor import Editor, connected, prompted
from tests.support.patience import PATIENCE_S
from tests.support.server import ScriptedServer, call, chunk, json_reply, sse, text

pytestmark = pytest.mark.requirement("ACP-01")
COUNTS = {
    "promptTokenCount": 40,
    "candidatesTokenCount": 7,
    "thoughtsTokenCount": 3,
    "totalTokenCount": 50,
}
BEGIN = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": 1}}


async def _ask(conn: Any, method: str, request: Any) -> Any:
    """A request that the package has a model for, and no method."""
    params = request.model_dump(mode="json", by_alias=True, exclude_none=True)
    return await asyncio.wait_for(conn._conn.send_request(method, params), PATIENCE_S)


async def test_a_prompt_tells_its_counts_the_window_and_the_title(
    project: Path, server: ScriptedServer, tmp_path: Path
):
    beside = tmp_path / "beside"
    beside.mkdir()
    (beside / "b.txt").write_text("beta\n")
    read = chunk(call("read_file", {"file_path": str(beside / "b.txt")}), finish="STOP")
    server.reply(sse(read | {"usageMetadata": COUNTS}))
    server.reply(sse(chunk({"text": "beta"}, finish="STOP", usage=COUNTS)), sse(text("again")))
    editor = Editor()
    async with connected(editor, server) as conn:
        session = await conn.new_session(
            cwd=str(project), additional_directories=[str(beside)], mcp_servers=[]
        )
        own = session.session_id
        answer = await conn.prompt(session_id=own, prompt=[text_block("read b")])
        assert answer.usage.total_tokens == 100
        assert (answer.usage.input_tokens, answer.usage.output_tokens) == (80, 14)
        assert answer.usage.thought_tokens == 6
        await prompted(conn, own, text_block("once more"))
        listed = await conn.list_sessions(cwd=str(project))
        assert [each.session_id for each in listed.sessions] == [own]
        with pytest.raises(RequestError, match="no directory"):
            await conn.new_session(
                cwd=str(project), additional_directories=["/no/such"], mcp_servers=[]
            )
    assert "beta" in str(server.requests[1].json["contents"][-1])
    used = [UsageUpdate.model_validate(each) for each in editor.of("usage_update")]
    assert [each.used for each in used[:2]] == [50, 50]
    assert used[0].size == 1_048_576
    assert used[0].cost is not None
    assert used[0].cost.currency == "USD"
    told = [SessionInfoUpdate.model_validate(each) for each in editor.of("session_info_update")]
    assert [each.title for each in told] == ["read b", None]
    assert all(each.updated_at for each in told)


async def test_a_deleted_session_is_not_listed_and_cannot_be_loaded(
    project: Path, server: ScriptedServer
):
    server.reply(sse(text("one")), sse(text("two")))
    where: dict[str, Any] = {"cwd": str(project), "mcp_servers": []}
    async with connected(Editor(), server) as conn:
        first = (await conn.new_session(**where)).session_id
        await prompted(conn, first, text_block("one"))
        await conn.close_session(session_id=first)
        other = (await conn.new_session(**where)).session_id
        await prompted(conn, other, text_block("two"))
        for own in (first, other):
            await _ask(conn, "session/delete", DeleteSessionRequest(session_id=own))
            with pytest.raises(RequestError, match="not found"):
                await conn.load_session(session_id=own, **where)
        assert (await conn.list_sessions(cwd=str(project))).sessions == []
        await _ask(conn, "session/delete", DeleteSessionRequest(session_id=other))
        with pytest.raises(RequestError):
            await _ask(conn, "session/delete", DeleteSessionRequest(session_id="../x"))


async def test_logging_out_deletes_the_login_and_the_key(project: Path, server: ScriptedServer):
    folder = Path.home() / ".gemini"
    folder.mkdir(parents=True, exist_ok=True)
    kept = [folder / "oauth_creds.json", folder / "api_key.json"]
    for path in kept:
        path.write_text("{}")
    async with connected(Editor(), server) as conn:
        await _ask(conn, "logout", LogoutRequest())
    assert not any(path.exists() for path in kept)


async def test_models_that_there_are_not_and_those_for_vectors_are_not_offered(
    project: Path, server: ScriptedServer
):
    served = {"name": "models/gemini-9-flash", "supportedGenerationMethods": ["generateContent"]}
    server.reply(json_reply({"models": [served]}))
    async with connected(Editor(), server) as conn:
        session = await conn.new_session(cwd=str(project), mcp_servers=[])
        offered = [each.value for each in session.config_options[0].options]
        assert "gemini-3.8-flash" in offered
        assert not [name for name in offered if "embedding" in name]
        own = session.session_id
        for name in ("no-such-model", "gemini-9-pro"):
            with pytest.raises(RequestError, match=r"no model.*gemini-9-flash"):
                await conn.set_config_option(session_id=own, config_id="model", value=name)
        with pytest.raises(RequestError, match="answers no prompts"):
            await conn.set_config_option(
                session_id=own, config_id="model", value="gemini-embedding-001"
            )
        await conn.set_config_option(session_id=own, config_id="model", value="gemini-9-flash")


async def _exchange(server: ScriptedServer, *lines: bytes) -> list[dict[str, Any]]:
    """The messages that answer these lines, by id, as many as lines have one."""
    async with at_work("--acp", **keyed(server)) as end:
        reader, writer = await asyncio.open_connection(sock=end)
        writer.write(b"".join(line + b"\n" for line in lines))
        found: list[dict[str, Any]] = []
        while len(found) < len(lines):
            message = json.loads(await asyncio.wait_for(reader.readline(), PATIENCE_S))
            found += [message] if "id" in message else []
        writer.close()
    return sorted(found, key=lambda each: each["id"])


async def test_half_a_character_never_leaves_a_request_without_its_answer(
    project: Path, server: ScriptedServer
):
    server.reply(sse(text("fine")))
    new = {"cwd": str(project), "mcpServers": []}
    async with at_work("--acp", **keyed(server)) as end:
        reader, writer = await asyncio.open_connection(sock=end)

        async def ask(line: bytes) -> dict[str, Any]:
            writer.write(line + b"\n")
            while True:
                message = json.loads(await asyncio.wait_for(reader.readline(), PATIENCE_S))
                if "id" in message:
                    return message

        await ask(json.dumps(BEGIN).encode())
        opened = await ask(
            json.dumps({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": new}).encode()
        )
        own = opened["result"]["sessionId"]
        for number, half in ((7, b'"\\ud83d!"'), (8, b'"\xf0\x9f!"'), (9, b'"\xed\xa0\xbd!"')):
            server.reply(sse(text("fine")))
            prompt = (
                b'{"jsonrpc":"2.0","id":%d,"method":"session/prompt","params":{"sessionId":"%s",'
                b'"prompt":[{"type":"text","text":%s}]}}' % (number, own.encode(), half)
            )
            answer = await ask(prompt)
            assert (answer["id"], answer["result"]["stopReason"]) == (number, "end_turn")
        method = await ask(b'{"jsonrpc":"2.0","id":10,"method":"x\\ud800","params":{"\\udc00":1}}')
        assert (method["id"], method["error"]["code"]) == (10, -32601)
        writer.close()
    assert "\ufffd!" in str(server.requests[-1].json["contents"][-1])


async def test_a_version_as_text_is_told_clearly(server: ScriptedServer):
    bad = BEGIN | {"params": {"protocolVersion": "1"}}
    told, begun = await _exchange(
        server, json.dumps(bad).encode(), json.dumps(BEGIN | {"id": 1}).encode()
    )
    assert "has to be a whole number such as 1" in told["error"]["message"]
    able = InitializeResponse.model_validate(begun["result"]).agent_capabilities
    assert able is not None
    assert able.auth is not None
    assert able.auth.logout is not None
    sessions = able.session_capabilities
    assert sessions is not None
    assert sessions.delete is not None
    assert sessions.additional_directories is not None


def test_options_never_have_the_same_words():
    labels = ("Yes", "Yes", "Dismiss")
    options = tuple(QuestionOption(label=label, description="") for label in labels)
    question = Question(question="Sure?", header="Sure", type="choice", options=options)
    offered, answers = choices(question)
    names = [PermissionOption.model_validate(each).name for each in offered]
    assert len(set(names)) == len(names) == 5
    assert len(answers) == len(offered) - 1


def _line(method: str, params: dict[str, Any], number: int | None = None) -> bytes:
    named = {} if number is None else {"id": number}
    told = {"jsonrpc": "2.0", **named, "method": method, "params": params}
    return json.dumps(told).encode() + b"\n"


@pytest.mark.parametrize("first", [(), (1,)], ids=["alone", "behind another prompt"])
async def test_a_prompt_is_cancelled_also_before_it_has_begun(
    project: Path, server: ScriptedServer, first: tuple[int, ...]
):
    """A client may cancel at once; what is busy reads both messages together."""
    hold = threading.Event()
    server.reply(*(sse(text("begun", None), hold=hold) for _ in first), sse(text("too late")))
    async with at_work("--acp", **keyed(server)) as end:
        reader, writer = await asyncio.open_connection(sock=end)

        async def answers(*numbers: int) -> list[Any]:
            found: dict[int, Any] = {}
            while set(numbers) - set(found):
                message = json.loads(await asyncio.wait_for(reader.readline(), PATIENCE_S))
                found |= {message["id"]: message["result"]} if "id" in message else {}
            return [found[each] for each in numbers]

        writer.write(json.dumps(BEGIN).encode() + b"\n")
        await answers(0)
        writer.write(_line("session/new", {"cwd": str(project), "mcpServers": []}, 9))
        (opened,) = await answers(9)
        own = {"sessionId": opened["sessionId"]}
        prompt = own | {"prompt": [{"type": "text", "text": "go"}]}
        for number in first:
            writer.write(_line("session/prompt", prompt, number))
            while not server.requests:
                await asyncio.sleep(0.01)
        writer.write(_line("session/prompt", prompt, 2) + _line("session/cancel", own))
        found = await answers(*first, 2)
        hold.set()
        writer.close()
    assert [each["stopReason"] for each in found] == ["cancelled"] * len(found)
    assert len(server.requests) == len(first)
