"""Services behind the gateway that do not speak Gemini."""

from itertools import count
from typing import Any

import msgspec
import pytest
from anthropic import AsyncAnthropic
from hypothesis import given, settings
from hypothesis import strategies as st

from alhena.errors import AlhenaError
from alhena.gateway.faults import FaultKind, fault_of
from alhena.gateway.upstream import ModelNames, Upstream
from alhena.http.addresses import parse_endpoint
from alhena.models.providers.anthropic_api import AnthropicApi
from alhena.models.providers.openai_compatible import OpenAiCompatible
from alhena.wire.dialects import anthropic, gemini, openai
from alhena.wire.dialects.conversation import DialectRequest
from tests.gateway.kit import client, gateway
from tests.gateway.test_hostile_bodies import broken
from tests.support.scripted import ScriptedGenerator
from tests.support.server import ScriptedServer, json_reply, sse
from tests.wire.dialects import conversations

THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "SIG-_no base64"}
CALL = {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "r"}]}


async def test_signed_thinking_reaches_the_service_that_signed_it(server: ScriptedServer):
    done = {"content": [{"type": "text", "text": "done"}], "stop_reason": "end_turn"}
    server.reply(json_reply({"content": [THOUGHT, CALL], "stop_reason": "tool_use"}))
    server.reply(json_reply(done))
    service = AnthropicApi(parse_endpoint(server.url, "ANTHROPIC_BASE_URL"), "key")
    messages: list[Any] = [{"role": "user", "content": "go"}]
    asked: dict[str, Any] = {
        "model": "c",
        "max_tokens": 3000,
        "thinking": {"type": "enabled", "budget_tokens": 2000},
        "tools": [{"name": "f", "input_schema": {"type": "object"}}],
    }
    async with (
        gateway(service, model="anthropic:claude-x", gemini=False) as running,
        client(running) as http,
    ):
        first = await http.post("/v1/messages", json={**asked, "messages": messages})
        assert first.json()["content"] == [THOUGHT, CALL]
        messages.append({"role": "assistant", "content": first.json()["content"]})
        messages.append({"role": "user", "content": [RESULT]})
        second = await http.post("/v1/messages", json={**asked, "messages": messages})
    assert second.json()["content"] == done["content"]
    sent = server.requests[1].json
    assert sent["messages"][1]["content"] == [THOUGHT, CALL]
    assert sent["messages"][2]["content"] == [RESULT]
    assert sent["thinking"] == {"type": "enabled", "budget_tokens": 2000}


def called(call_id: str | None, name: str) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": {}} | ({"id": call_id} if call_id else {})}


def answered(call_id: str | None, name: str, said: str) -> dict[str, Any]:
    answer = {"name": name, "response": {"output": said}}
    return {"functionResponse": answer | ({"id": call_id} if call_id else {})}


def content(role: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "parts": list(parts)}


DISORDERED: list[Any] = [
    content("user", {"text": "go"}),
    content("model", called("a", "f"), called("b", "g"), called(None, "h")),
    content("user", answered("zz", "nobody", "stray"), answered("b", "g", "two")),
    content("user", answered("a", "f", "one")),
    content("model", {"text": "and"}),
]


async def test_calls_and_results_of_a_gemini_client_reach_an_anthropic_service_in_pairs(
    server: ScriptedServer,
):
    server.reply(
        json_reply({"content": [{"type": "text", "text": "x"}], "stop_reason": "end_turn"})
    )
    service = AnthropicApi(parse_endpoint(server.url, "ANTHROPIC_BASE_URL"), "key")
    async with (
        gateway(service, model="anthropic:claude-x", gemini=False) as running,
        client(running) as http,
    ):
        path = "/v1beta/models/gemini-2.5-pro:generateContent"
        answer = await http.post(path, json={"contents": DISORDERED})
    assert answer.json()["candidates"][0]["content"]["parts"] == [{"text": "x"}]
    sent = server.requests[0].json["messages"]
    assert [message["role"] for message in sent] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ]
    calls, results = sent[1]["content"], sent[2]["content"]
    assert [item["name"] for item in calls] == ["f", "g", "h"]
    assert [item["tool_use_id"] for item in results] == [item["id"] for item in calls]
    assert [item["id"] for item in calls[:2]] == ["a", "b"]
    assert "one" in str(results[0])
    assert "two" in str(results[1])
    assert "whether it took effect is unknown" in str(results[2])
    assert "stray" not in str(sent)


async def test_calls_and_results_of_a_gemini_client_reach_an_openai_service_in_pairs(
    server: ScriptedServer,
):
    message = {"role": "assistant", "content": "x"}
    server.reply(json_reply({"choices": [{"message": message, "finish_reason": "stop"}]}))
    service = OpenAiCompatible(parse_endpoint(server.url, "OPENAI_BASE_URL"), "key")
    async with (
        gateway(service, model="openai:qwen", gemini=False) as running,
        client(running) as http,
    ):
        path = "/v1beta/models/gemini-2.5-pro:generateContent"
        answer = await http.post(path, json={"contents": DISORDERED})
    assert answer.json()["candidates"][0]["content"]["parts"] == [{"text": "x"}]
    sent = server.requests[0].json["messages"]
    ids = [call["id"] for call in sent[1]["tool_calls"]]
    assert [message["tool_call_id"] for message in sent[2:5]] == ids
    assert [message["role"] for message in sent[5:]] == ["assistant", "user"]


async def test_thoughts_of_a_foreign_service_go_back_to_it_through_a_gemini_client(
    server: ScriptedServer,
):
    done = {"content": [{"type": "text", "text": "done"}], "stop_reason": "end_turn"}
    server.reply(json_reply({"content": [THOUGHT, CALL], "stop_reason": "tool_use"}))
    server.reply(json_reply(done))
    service = AnthropicApi(parse_endpoint(server.url, "ANTHROPIC_BASE_URL"), "key")
    declared = [{"functionDeclarations": [{"name": "f", "parameters": {"type": "OBJECT"}}]}]
    thinking = {"thinkingConfig": {"thinkingBudget": 2000, "includeThoughts": True}}
    body: dict[str, Any] = {
        "contents": [content("user", {"text": "go"})],
        "tools": declared,
        "generationConfig": {"maxOutputTokens": 3000, **thinking},
    }
    path = "/v1beta/models/gemini-2.5-pro:generateContent"
    async with (
        gateway(service, model="anthropic:claude-x", gemini=False) as running,
        client(running) as http,
    ):
        first = (await http.post(path, json=body)).json()["candidates"][0]["content"]
        body["contents"] += [first, content("user", answered("t1", "f", "r"))]
        assert (await http.post(path, json=body)).status_code == 200
    assert server.requests[1].json["messages"][1]["content"] == [THOUGHT, CALL]


def taken(body: Any) -> DialectRequest | None:
    """The request sent on to a foreign service; None when it is refused, as expected."""
    upstream = Upstream(ScriptedGenerator(), ModelNames("other", gemini=False))
    try:
        sent = upstream.prepare(gemini.read_request(body, "m"), own=True).request
    except AlhenaError as error:
        fault = fault_of(error)
    else:
        contents = tuple(entry.content for entry in sent.contents)
        return DialectRequest(model="m", contents=contents)
    assert fault.kind is FaultKind.INVALID
    return None


def named(message: Any) -> tuple[list[str], list[str]]:
    """The ids of the calls and of the results in a message of either dialect."""
    blocks = message["content"] if isinstance(message.get("content"), list) else []
    calls = [*message.get("tool_calls", ()), *(one for one in blocks if one["type"] == "tool_use")]
    results = [one["tool_use_id"] for one in blocks if one["type"] == "tool_result"]
    if message["role"] == "tool":
        results.append(message["tool_call_id"])
    return [call["id"] for call in calls], results


@pytest.mark.parametrize("dialect", [anthropic, openai], ids=["anthropic", "openai"])
@settings(max_examples=20)
@given(conversations.anthropic_conversations(), st.data())
def test_what_a_gemini_client_sends_is_refused_or_keeps_the_rules_of_the_other_dialect(
    dialect: Any, body: Any, data: st.DataObject
):
    plain = gemini.write_request(anthropic.read_request(body))
    said = taken(broken(plain, data))
    if said is not None:
        numbers = count()
        written = dialect.write_request(said, new_id=lambda _name: f"n{next(numbers)}")
        waiting: list[str] = []
        for message in msgspec.json.decode(msgspec.json.encode(written["messages"])):
            calls, results = named(message)
            if waiting:  # the results of calls come first, all of them, in order
                assert results == waiting[: len(results)] != []
                waiting = waiting[len(results) :]
            else:
                assert results == []
            assert not (calls and waiting)
            assert len(set(calls)) == len(calls)
            waiting += calls
        assert waiting == []


async def test_redacted_thinking_comes_streamed_and_goes_back(server: ScriptedServer):
    hidden = {"type": "redacted_thinking", "data": "Zm9v-_hidden"}
    blocks = [THOUGHT, hidden, CALL]
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {"id": "m"}}]
    for index, block in enumerate(blocks):
        begun = block
        delta: list[dict[str, Any]] = []
        if block is THOUGHT:
            begun = {"type": "thinking", "thinking": "", "signature": ""}
            delta = [
                {"type": "thinking_delta", "thinking": "hm"},
                {"type": "signature_delta", "signature": THOUGHT["signature"]},
            ]
        events.append({"type": "content_block_start", "index": index, "content_block": begun})
        events += [{"type": "content_block_delta", "index": index, "delta": one} for one in delta]
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": {"stop_reason": "tool_use"}})
    events.append({"type": "message_stop"})
    server.reply(sse(*events))
    server.reply(
        json_reply({"content": [{"type": "text", "text": "x"}], "stop_reason": "end_turn"})
    )
    service = AnthropicApi(parse_endpoint(server.url, "ANTHROPIC_BASE_URL"), "key")
    asked: dict[str, Any] = {"model": "c", "max_tokens": 3000, "tools": [{"name": "f"}]}
    messages: list[Any] = [{"role": "user", "content": "go"}]
    async with (
        gateway(service, model="anthropic:claude-x", gemini=False) as running,
        AsyncAnthropic(api_key="k", base_url=running.url) as connection,
    ):
        async with connection.messages.stream(messages=messages, **asked) as stream:
            answer = await stream.get_final_message()
        said = [block.model_dump(exclude_none=True) for block in answer.content]
        assert said == blocks
        messages += [{"role": "assistant", "content": said}, {"role": "user", "content": [RESULT]}]
        await connection.messages.create(messages=messages, **asked)
    assert server.requests[1].json["messages"][1]["content"] == blocks
