"""Models behind Anthropic's Messages API."""

from contextlib import aclosing
from typing import Any

import pytest

from alhena.errors import ModelError, ServerFaultError, StreamCutError
from alhena.http.addresses import parse_endpoint
from alhena.models.errors import CredentialsError, QuotaError, RequestRejectedError
from alhena.models.providers.anthropic_api import AnthropicApi, anthropic_from
from alhena.wire.content import Content, FunctionCall, FunctionResponse, Part, text_content
from alhena.wire.encode import EncodedContent
from alhena.wire.errors import DecodeError
from alhena.wire.request import (
    GenerateContentConfig,
    GenerateContentRequest,
    GenerationConfig,
    ThinkingConfig,
)
from tests.support.command import alhena
from tests.support.server import Reply, ScriptedServer, json_reply, sse

DONE = "[DONE]"
THINKING = GenerationConfig(
    temperature=1.0, top_p=0.9, thinking_config=ThinkingConfig(thinking_budget=1024)
)


def asking(
    *contents: Content, model: str = "anthropic:claude-x", **config: Any
) -> GenerateContentRequest:
    return GenerateContentRequest(
        model=model,
        contents=tuple(map(EncodedContent, contents or (text_content("user", "hi"),))),
        config=GenerateContentConfig(**config),
    )


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": one} for one in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def message(*blocks: list[dict[str, Any]], stop: str = "tool_use", end: bool = True) -> Reply:
    start = {"id": "msg_1", "model": "claude-x", "usage": {"input_tokens": 4, "output_tokens": 1}}
    last = [
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 8}},
        {"type": "message_stop"},
    ]
    events = [event for one in blocks for event in one]
    opening = [{"type": "message_start", "message": start}, {"type": "ping"}]
    return sse(*opening, *events, *(last if end else []))


def words(text: str) -> list[dict[str, Any]]:
    return block(0, {"type": "text", "text": ""}, {"type": "text_delta", "text": text})


def connected(server: ScriptedServer) -> AnthropicApi:
    return AnthropicApi(parse_endpoint(server.url, "ANTHROPIC_BASE_URL"), "key-1")


async def taken(generator: AnthropicApi, request: GenerateContentRequest) -> list[Any]:
    async with aclosing(generator.stream(request)) as chunks:
        return [chunk async for chunk in chunks]


async def test_an_answer_with_a_thought_and_a_call_goes_back_as_it_came(server: ScriptedServer):
    thought = block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "hm"},
        {"type": "signature_delta", "signature": "SIGNED=="},
    )
    call = block(
        1,
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}},
        {"type": "input_json_delta", "partial_json": '{"a"'},
        {"type": "input_json_delta", "partial_json": ": 1}"},
    )
    server.reply(message(thought, call), message(words("done"), stop="end_turn"))
    generator = connected(server)
    async with aclosing(generator):
        chunks = await taken(generator, asking(generation_config=THINKING))
        parts = tuple(part for chunk in chunks for part in chunk.parts)
        answer = FunctionResponse(id="toolu_1", name="f", response={"error": "no"})
        history = (
            text_content("user", "hi"),
            Content(role="model", parts=parts),
            Content(role="user", parts=(Part(function_response=answer),)),
        )
        last = await taken(generator, asking(*history, generation_config=THINKING))
    assert chunks[-1].usage_metadata.total_token_count == 12
    assert last[0].parts[0].text == "done"
    first, second = server.requests
    assert first.path == "/v1/messages"
    assert first.headers["x-api-key"] == "key-1"
    assert first.headers["anthropic-version"] == "2023-06-01"
    assert first.json["model"] == "claude-x"
    assert (first.json["temperature"], "top_p" in first.json) == (1.0, False)
    assert second.json["thinking"] == {"type": "enabled", "budget_tokens": 1024}
    assert second.json["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "SIGNED=="},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}},
    ]
    result = second.json["messages"][2]["content"][0]
    assert (result["tool_use_id"], result["is_error"]) == ("toolu_1", True)


async def test_signatures_of_others_are_not_sent_and_no_thinking_is_asked_for_without_its_thought(
    server: ScriptedServer,
):
    server.reply(message(words("done"), stop="end_turn"))
    called = FunctionCall(id="c", name="f", args={})
    history = (
        text_content("user", "hi"),
        Content(
            role="model",
            parts=(
                Part(text="a thought of another model", thought=True),
                Part(function_call=called, thought_signature="b3RoZXI="),
            ),
        ),
        Content(role="user", parts=(Part(function_response=FunctionResponse(id="c", name="f")),)),
    )
    generator = connected(server)
    async with aclosing(generator):
        await taken(generator, asking(*history, generation_config=THINKING))
    body = server.requests[0].json
    assert body["messages"][1]["content"] == [
        {"type": "tool_use", "id": "c", "name": "f", "input": {}}
    ]
    assert "thinking" not in body


async def test_a_stream_that_ends_too_early_is_told_as_one(server: ScriptedServer):
    server.reply(message(words("half"), end=False))
    generator = connected(server)
    async with aclosing(generator):
        with pytest.raises(StreamCutError):
            await taken(generator, asking())


async def test_an_error_event_is_the_services(server: ScriptedServer):
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "too much to do"}}
    server.reply(sse(error), json_reply(error, 529))
    generator = connected(server)
    async with aclosing(generator):
        for _ in range(2):
            with pytest.raises(ServerFaultError, match="too much to do"):
                await taken(generator, asking())


@pytest.mark.parametrize(
    ("kind", "error", "status"),
    [
        ("overloaded_error", ServerFaultError, 529),
        ("rate_limit_error", QuotaError, 429),
        ("api_error", ServerFaultError, 500),
        ("timeout_error", ServerFaultError, 504),
        ("invalid_request_error", RequestRejectedError, 400),
        ("authentication_error", CredentialsError, 401),
        ("what_is_new", ServerFaultError, 500),
    ],
)
async def test_an_error_within_a_stream_is_of_the_kind_that_it_says(
    server: ScriptedServer, kind: str, error: type[ModelError], status: int
):
    server.reply(sse({"type": "error", "error": {"type": kind, "message": "so it is"}}))
    generator = connected(server)
    async with aclosing(generator):
        with pytest.raises(error, match="so it is") as raised:
            await taken(generator, asking())
    assert raised.value.status == status
    if kind == "overloaded_error":
        assert kind in raised.value.message
        assert "HTTP 5" not in raised.value.message


@pytest.mark.parametrize(
    "ending",
    [
        [{"type": "message_delta", "delta": {"stop_reason": "end_turn"}}],
        [{"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, DONE],
        [DONE],
        [{"type": "message_delta", "delta": {}}, {"type": "message_stop"}],
    ],
)
async def test_the_end_of_an_answer_is_known_without_its_last_event(
    server: ScriptedServer, ending: list[Any]
):
    start = {"type": "message_start", "message": {"id": "m"}}
    told = sse({}, start, *words("whole"), *(event for event in ending if event != DONE))
    told.pieces += [b"data: [DONE]\r\n\r\n"] if DONE in ending else []
    server.reply(told)
    generator = connected(server)
    async with aclosing(generator):
        chunks = await taken(generator, asking())
    assert [part.text for chunk in chunks for part in chunk.parts] == ["whole"]
    assert chunks[-1].finish_reason == "STOP"


async def test_a_body_that_is_no_message_is_no_answer(server: ScriptedServer):
    completion = {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}
    server.reply(json_reply({}), json_reply(completion))
    generator = connected(server)
    async with aclosing(generator):
        for _ in range(2):
            with pytest.raises(DecodeError):
                await generator.generate(asking())


async def test_tokens_are_counted_by_the_service(server: ScriptedServer):
    server.reply(json_reply({"input_tokens": 17}))
    generator = connected(server)
    async with aclosing(generator):
        contents = [EncodedContent(text_content("user", "hi"))]
        assert await generator.count_tokens(contents, model="anthropic:claude-x") == 17
        with pytest.raises(RequestRejectedError):
            await generator.embed(contents, model="anthropic:claude-x")
    assert server.requests[0].path == "/v1/messages/count_tokens"
    assert set(server.requests[0].json) == {"model", "messages"}


def test_a_key_or_a_token_is_wanted_for_other_machines():
    with pytest.raises(CredentialsError, match="ANTHROPIC_API_KEY is not set"):
        anthropic_from({})
    assert anthropic_from({"ANTHROPIC_AUTH_TOKEN": "t"}).endpoint.host == "api.anthropic.com"
    assert anthropic_from({"ANTHROPIC_BASE_URL": "http://localhost:1"}).endpoint.port == 1


def test_the_agent_works_on_it_end_to_end(server: ScriptedServer, project: Any):
    (project / "note.txt").write_text("the answer is 42\n", encoding="utf-8")
    start = {"type": "tool_use", "id": "toolu_9", "name": "read_file", "input": {}}
    arguments = f'{{"absolute_path": "{project / "note.txt"}"}}'
    call = block(0, start, {"type": "input_json_delta", "partial_json": arguments})
    server.reply(message(call), message(words("It is 42."), stop="end_turn"))
    ran = alhena(
        *("-m", "anthropic:claude-x", "-p", "what does note.txt say?"),
        ANTHROPIC_BASE_URL=server.url,
    )
    assert (ran.code, ran.out.strip()) == (0, "It is 42."), ran.err
    result = server.requests[1].json["messages"][-1]["content"][0]
    assert result["tool_use_id"] == "toolu_9"
    assert "the answer is 42" in result["content"][0]["text"]


@pytest.mark.parametrize(
    ("budget", "limit", "thinking", "max_tokens"),
    [
        (100, 4000, {"type": "enabled", "budget_tokens": 1024}, 4000),
        (8192, 4000, {"type": "enabled", "budget_tokens": 3999}, 4000),
        (8192, 1024, None, 1024),
        (24576, None, {"type": "enabled", "budget_tokens": 24576}, 24576 + 8192),
        (0, 500, {"type": "disabled"}, 500),
        (-1, 500, {"type": "adaptive"}, 500),
    ],
)
async def test_a_budget_of_thinking_is_one_that_the_service_takes(
    server: ScriptedServer,
    budget: int,
    limit: int | None,
    thinking: dict[str, Any] | None,
    max_tokens: int,
):
    server.reply(message(words("done"), stop="end_turn"))
    asked = ThinkingConfig(thinking_budget=budget)
    config = GenerationConfig(max_output_tokens=limit, thinking_config=asked)
    generator = connected(server)
    async with aclosing(generator):
        await taken(generator, asking(generation_config=config))
    body = server.requests[0].json
    assert (body.get("thinking"), body["max_tokens"]) == (thinking, max_tokens)
