"""Answers that take several requests are one answer to the clients of the gateway."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from alhena.http.addresses import parse_endpoint
from alhena.models.providers.gemini_api import GeminiApi, GeminiService
from alhena.models.retry import REPLAY, RetryingGenerator
from tests.gateway.kit import client, gateway
from tests.support.continuing import ContinuingServer, Drop, piece, words
from tests.support.server import call

USER = [{"role": "user", "content": "go"}]
OPENAI = {"model": "gemini-4-argon", "messages": USER}
ANTHROPIC = OPENAI | {"max_tokens": 100}
GOOGLE = {"contents": [{"role": "user", "parts": [{"text": "go"}]}]}


@asynccontextmanager
async def serving(server: ContinuingServer) -> AsyncIterator[httpx2.AsyncClient]:
    service = GeminiService(api_key="k", endpoint=parse_endpoint(server.url, "URL"))
    generator = RetryingGenerator(GeminiApi(service), REPLAY)
    async with gateway(generator, model="gemini-4-argon") as running, client(running) as http:
        yield http


def openai_text(body: str, *, stream: bool) -> tuple[str, Any, int]:
    if not stream:
        whole = json.loads(body)
        choice = whole["choices"][0]
        tokens = whole["usage"]["prompt_tokens"]
        return choice["message"]["content"], choice["finish_reason"], tokens
    lines = [line[6:] for line in body.splitlines() if line.startswith("data: {")]
    chunks = [json.loads(line) for line in lines]
    choices = [choice for each in chunks for choice in each["choices"]]
    said = "".join(choice["delta"].get("content") or "" for choice in choices)
    reasons = [choice["finish_reason"] for choice in choices if choice["finish_reason"]]
    return said, *reasons, chunks[-1]["usage"]["prompt_tokens"]


@pytest.mark.requirement("TODAY-03")
@pytest.mark.parametrize("stream", [False, True])
async def test_a_chat_completion_is_one_answer(stream: bool):
    body = OPENAI | {"stream": stream}
    body |= {"stream_options": {"include_usage": True}} if stream else {}
    with ContinuingServer(words("one ", "two ", "three")) as server:
        async with serving(server) as http:
            answer = await http.post("/v1/chat/completions", json=body)
    assert openai_text(answer.text, stream=stream) == ("one two three", "stop", 330)
    assert server.tokens == [None, "at-1", "at-2"]


@pytest.mark.requirement("TODAY-03")
@pytest.mark.parametrize("stream", [False, True])
async def test_a_message_has_the_call_that_spans_two_requests(stream: bool):
    parts = [
        call("note", {"text": "a"}, id="1"),
        piece("$.text", "b", name="note", id="2"),
        piece("$.text", "c", goes_on=False),
    ]
    tools = [{"name": "note", "input_schema": {"type": "object", "properties": {}}}]
    with ContinuingServer(parts) as server:
        async with serving(server) as http:
            body = ANTHROPIC | {"stream": stream, "tools": tools}
            answer = (await http.post("/v1/messages", json=body)).text
    if stream:
        events = [json.loads(line[6:]) for line in answer.splitlines() if line[:6] == "data: "]
        inputs = [
            json.loads(each["delta"]["partial_json"])
            for each in events
            if each["type"] == "content_block_delta"
        ]
        reasons = [
            each["delta"]["stop_reason"] for each in events if each["type"] == "message_delta"
        ]
    else:
        whole = json.loads(answer)
        inputs = [each["input"] for each in whole["content"]]
        reasons = [whole["stop_reason"]]
    assert inputs == [{"text": "a"}, {"text": "bc"}]
    assert reasons == ["tool_use"]


@pytest.mark.requirement("TODAY-03")
@pytest.mark.parametrize("method", ["generateContent", "streamGenerateContent?alt=sse"])
@pytest.mark.parametrize("drop", [None, Drop(1), Drop(2)])
async def test_a_client_of_geminis_dialect_sees_no_token(method: str, drop: Drop | None):
    drops = {2: drop} if drop is not None and "stream" in method else {}
    with ContinuingServer(words("one ", "two ", "three"), limit=2, drops=drops) as server:
        async with serving(server) as http:
            answer = await http.post(f"/v1beta/models/gemini-4-argon:{method}", json=GOOGLE)
    assert "ontinuation" not in answer.text.lower().replace("c", "") + answer.text
    chunks = (
        [json.loads(line[6:]) for line in answer.text.splitlines() if line[:6] == "data: "]
        if "stream" in method
        else [answer.json()]
    )
    candidates = [each["candidates"][0] for each in chunks]
    parts = [part["text"] for each in candidates for part in each["content"].get("parts", ())]
    assert "".join(parts) == "one two three"
    assert [each["finishReason"] for each in candidates if "finishReason" in each] == ["STOP"]
