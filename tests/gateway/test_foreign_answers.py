"""Answers of OpenAI-compatible services that are none, or were cut off, behind the gateway."""

from typing import Any

import pytest

from alhena.http.addresses import parse_endpoint
from alhena.models.providers.openai_compatible import OpenAiCompatible
from tests.gateway.kit import client, gateway
from tests.support.server import ScriptedServer, json_reply, sse

ANTHROPIC, OPENAI = "/v1/messages", "/v1/chat/completions"
RESPONSES = "/v1/responses"
GOOGLE = "/v1beta/models/gemini-2.5-flash"
TOOL = {"name": "f", "parameters": {"type": "object"}}
CUT = {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"a": "lo'}}


def asking(path: str, *, stream: bool = False) -> tuple[str, dict[str, Any]]:
    messages = [{"role": "user", "content": "hi"}]
    body: dict[str, Any] = {"model": "m", "messages": messages, "stream": stream, "max_tokens": 50}
    if path == OPENAI:
        return path, {**body, "tools": [{"type": "function", "function": TOOL}]}
    if path == RESPONSES:
        tools = [{"type": "function", **TOOL}]
        return path, {"model": "m", "input": "hi", "stream": stream, "tools": tools}
    if path == ANTHROPIC:
        return path, {**body, "tools": [{"name": "f", "input_schema": {"type": "object"}}]}
    method = ":streamGenerateContent?alt=sse" if stream else ":generateContent"
    contents = [{"role": "user", "parts": [{"text": "hi"}]}]
    return f"{path}{method}", {"contents": contents, "tools": [{"functionDeclarations": [TOOL]}]}


def service(server: ScriptedServer) -> OpenAiCompatible:
    return OpenAiCompatible(parse_endpoint(f"{server.url}/v1", "OPENAI_BASE_URL"), "key")


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ({}, 502),
        ({"choices": []}, 502),
        ({"choices": None}, 502),
        ({"choices": [{"message": {"content": None}}]}, 502),
        ({"object": "error", "message": "not available", "code": 404}, 404),
        ({"object": "error", "message": "not available"}, 502),
    ],
)
@pytest.mark.parametrize("path", [OPENAI, ANTHROPIC, RESPONSES, GOOGLE])
async def test_an_answer_that_is_none_is_not_passed_on_as_an_empty_one(
    server: ScriptedServer, path: str, answer: Any, status: int
):
    server.reply(json_reply(answer))
    async with (
        gateway(service(server), model="openai:x", gemini=False) as running,
        client(running) as http,
    ):
        url, body = asking(path)
        got = await http.post(url, json=body)
    assert got.status_code == status, got.text
    assert "error" in got.json()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "word"),
    [
        (OPENAI, '"finish_reason":"length"'),
        (ANTHROPIC, '"stop_reason":"max_tokens"'),
        (RESPONSES, '"reason":"max_output_tokens"'),
        (GOOGLE, '"finishReason":"MAX_TOKENS"'),
    ],
)
async def test_a_call_that_the_output_limit_cut_off_ends_an_answer_as_that_limit_does(
    server: ScriptedServer, path: str, word: str, stream: bool
):
    if stream:
        delta = {"content": "Now:", "tool_calls": [{"index": 0, **CUT}]}
        reply = sse({"choices": [{"delta": delta}]}, {"choices": [{"finish_reason": "length"}]})
        reply.pieces.append(b"data: [DONE]\n\n")
    else:
        message = {"content": "Now:", "tool_calls": [CUT]}
        reply = json_reply({"choices": [{"message": message, "finish_reason": "length"}]})
    server.reply(reply)
    async with (
        gateway(service(server), model="openai:x", gemini=False) as running,
        client(running) as http,
    ):
        url, body = asking(path, stream=stream)
        got = await http.post(url, json=body)
    assert got.status_code == 200, got.text
    assert word in got.text
    assert "Now:" in got.text
    assert '"error":{' not in got.text
    kinds = ("tool_use", '"tool_calls', "functionCall", "function_call")
    assert not [kind for kind in kinds if kind in got.text]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_spent_quota_of_the_service_is_told_as_one(server: ScriptedServer, stream: bool):
    error = {"message": "You exceeded it.", "type": "insufficient_quota", "param": None}
    server.reply(json_reply({"error": {**error, "code": "insufficient_quota"}}, 429))
    async with (
        gateway(service(server), model="openai:x", gemini=False) as running,
        client(running) as http,
    ):
        url, body = asking(OPENAI, stream=stream)
        got = await http.post(url, json=body)
    assert got.status_code == 429
    assert got.json()["error"]["code"] == "insufficient_quota"
    assert got.headers["x-should-retry"] == "false"


@pytest.mark.parametrize(
    ("message", "headers", "wait"),
    [
        ("Limit 30000. Please try again in 7.2s.", {}, "8"),
        ("slow", {"retry-after-ms": "2500"}, "3"),
        ("Please try again in 2s.", {"retry-after-ms": "2500", "retry-after": "4"}, "4"),
    ],
)
async def test_a_wait_that_the_service_asks_for_is_passed_on(
    server: ScriptedServer, message: str, headers: dict[str, str], wait: str
):
    error = {"message": message, "type": "tokens", "code": "rate_limit_exceeded"}
    server.reply(json_reply({"error": error}, 429, headers=headers))
    async with (
        gateway(service(server), model="openai:x", gemini=False) as running,
        client(running) as http,
    ):
        url, body = asking(OPENAI)
        got = await http.post(url, json=body)
    assert (got.status_code, got.headers["retry-after"]) == (429, wait)
    assert got.json()["error"]["code"] == "rate_limit_exceeded"
    assert "x-should-retry" not in got.headers


@pytest.mark.parametrize("stream", [False, True])
async def test_what_a_gemini_client_cannot_have_of_the_service_is_a_bad_request(
    server: ScriptedServer, stream: bool
):
    async with (
        gateway(service(server), model="openai:x", gemini=False) as running,
        client(running) as http,
    ):
        url, body = asking(GOOGLE, stream=stream)
        got = await http.post(url, json={**body, "tools": [{"googleSearch": {}}]})
    assert got.status_code == 400, got.text
    assert "tools[0]" in got.text
    assert not server.requests
