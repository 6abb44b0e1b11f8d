"""Models behind OpenAI-compatible servers, as the smaller of these really answer."""

from contextlib import aclosing
from typing import Any

import pytest

from alhena.config.settings import AuthSettings, SecuritySettings, Settings
from alhena.errors import ServerFaultError, StreamCutError
from alhena.http.addresses import parse_endpoint
from alhena.models.errors import (
    CredentialsError,
    ModelNotFoundError,
    QuotaError,
    RequestRejectedError,
    SpentQuotaError,
)
from alhena.models.providers.openai_compatible import OpenAiCompatible, openai_from
from alhena.models.providers.select import ModelChoice, choose_generator
from alhena.wire.content import (
    Blob,
    Content,
    FunctionCall,
    FunctionResponse,
    FunctionResponsePart,
    Part,
    text_content,
)
from alhena.wire.encode import EncodedContent
from alhena.wire.errors import DecodeError, SseError
from alhena.wire.request import (
    FunctionDeclaration,
    GenerateContentConfig,
    GenerateContentRequest,
    GenerationConfig,
    ToolDeclarations,
)
from tests.support.command import alhena
from tests.support.server import Reply, ScriptedServer, json_reply, sse

DONE = b"data: [DONE]\n\n"


def asking(*contents: Content, **config: Any) -> GenerateContentRequest:
    return GenerateContentRequest(
        model="openai:qwen3:8b",
        contents=tuple(map(EncodedContent, contents or (text_content("user", "hi"),))),
        config=GenerateContentConfig(**config),
    )


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"id": "c1", "choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def stream(*chunks: Any, end: bytes = DONE, **options: Any) -> Reply:
    reply = sse(*chunks, **options)
    reply.pieces.append(end)
    return reply


def connected(server: ScriptedServer, key: str = "") -> OpenAiCompatible:
    return OpenAiCompatible(parse_endpoint(f"{server.url}/v1", "OPENAI_BASE_URL"), key)


async def taken(generator: OpenAiCompatible, request: GenerateContentRequest) -> list[Any]:
    async with aclosing(generator), aclosing(generator.stream(request)) as chunks:
        return [chunk async for chunk in chunks]


def piece(index: int | None, name: str | None, arguments: Any, **more: Any) -> dict[str, Any]:
    function = {
        key: value for key, value in {"name": name, "arguments": arguments}.items() if value
    }
    at = {} if index is None else {"index": index}
    return {**at, "function": function, **more}


async def test_calls_come_in_pieces_and_words_as_they_are_said(server: ScriptedServer):
    server.reply(
        stream(
            delta(role="assistant", content=""),
            delta(reasoning_content="hm"),
            delta(content="Let me "),
            delta(content="see."),
            delta(tool_calls=[piece(0, "read", '{"pa', id="call_1", type="function")]),
            delta(tool_calls=[piece(1, "list", "", id="call_2")]),
            delta(tool_calls=[piece(0, None, 'th": "a"}')]),
            delta("tool_calls"),
            {"id": "c1", "choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 9}},
        )
    )
    chunks = await taken(connected(server), asking())
    parts = [part for chunk in chunks for part in chunk.parts]
    assert [(part.text, part.thought) for part in parts[:3]] == [
        ("hm", True),
        ("Let me ", None),
        ("see.", None),
    ]
    calls = [part.function_call for part in parts[3:]]
    assert [(call.id, call.name, call.args) for call in calls] == [
        ("call_1", "read", {"path": "a"}),
        ("call_2", "list", {}),
    ]
    assert chunks[-1].finish_reason == "STOP"
    assert chunks[-1].usage_metadata.total_token_count == 14


async def test_calls_without_ids_and_indexes_and_with_objects_for_arguments(server: ScriptedServer):
    server.reply(
        stream(
            {"choices": []},
            delta(tool_calls=[piece(None, "read", {"path": "a"})]),
            delta(tool_calls=[piece(None, "read", '{"path": "b"}')]),
            delta("stop"),
        )
    )
    parts = [part for chunk in await taken(connected(server), asking()) for part in chunk.parts]
    calls = [part.function_call for part in parts]
    assert [call.args["path"] for call in calls] == ["a", "b"]
    assert len({call.id for call in calls}) == 2
    assert all(call.id for call in calls)


async def test_what_is_sent_is_what_such_servers_take(server: ScriptedServer):
    server.reply(stream(delta("stop", content="ok")))
    png = FunctionResponsePart(inline_data=Blob(mime_type="image/png", data="AAAA"))
    answer = FunctionResponse(id="c1", name="f", response={"output": "done"}, parts=(png,))
    history = (
        text_content("user", "hi"),
        Content(
            role="model",
            parts=(
                Part(text="a thought", thought=True),
                Part(function_call=FunctionCall(id="c1", name="f", args={"a": 1})),
            ),
        ),
        Content(role="user", parts=(Part(function_response=answer),)),
    )
    declared = FunctionDeclaration(name="f", parameters_json_schema={"type": "object"})
    request = asking(
        *history,
        system_instruction=text_content("user", "be brief"),
        tools=(ToolDeclarations(function_declarations=(declared,)),),
        generation_config=GenerationConfig(max_output_tokens=9, temperature=0),
    )
    await taken(connected(server, "key-1"), request)
    sent = server.requests[0]
    assert sent.path == "/v1/chat/completions"
    assert sent.headers["authorization"] == "Bearer key-1"
    body = sent.json
    assert body["model"] == "qwen3:8b"
    assert body["stream_options"] == {"include_usage": True}
    assert (body["max_tokens"], body["temperature"]) == (9, 0)
    assert "max_completion_tokens" not in body
    roles = [message["role"] for message in body["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "user"]
    assert body["messages"][2]["tool_calls"][0]["id"] == "c1"
    assert "reasoning_content" not in body["messages"][2]
    assert body["messages"][3]["content"] == "done"
    assert body["messages"][4]["content"][-1]["image_url"]["url"] == "data:image/png;base64,AAAA"
    assert body["tools"][0]["function"]["name"] == "f"


@pytest.mark.parametrize("end", [b"", b'data: {"choices": [{"index": 0, "del'])
async def test_a_stream_that_ends_too_early_is_told_as_one(server: ScriptedServer, end: bytes):
    server.reply(stream(delta(content="half"), end=end))
    with pytest.raises(StreamCutError):
        await taken(connected(server), asking())


@pytest.mark.parametrize(
    ("end", "reason"), [("length", "MAX_TOKENS"), ("tool_calls", "MALFORMED_FUNCTION_CALL")]
)
async def test_arguments_that_end_too_early_are_no_call(
    server: ScriptedServer, end: str, reason: str
):
    server.reply(stream(delta(tool_calls=[piece(0, "read", '{"pa')]), delta(end)))
    chunks = await taken(connected(server), asking())
    assert chunks[-1].finish_reason == reason
    assert "a call to read" in chunks[-1].candidates[0].finish_message
    assert not any(part.function_call for chunk in chunks for part in chunk.parts)


async def test_an_error_object_with_the_status_of_an_answer_is_the_services(
    server: ScriptedServer,
):
    error = {"object": "error", "message": "The model is not available", "code": 404}
    server.reply(json_reply(error))
    generator = connected(server)
    async with aclosing(generator):
        with pytest.raises(ModelNotFoundError, match="not available"):
            await generator.generate(asking())


async def test_an_error_in_the_stream_is_the_services(server: ScriptedServer):
    server.reply(stream(delta(content="a"), {"error": {"message": "out of memory"}}))
    with pytest.raises(ServerFaultError, match="out of memory"):
        await taken(connected(server), asking())


async def test_a_page_instead_of_a_stream_is_no_matter_of_geminis_address(server: ScriptedServer):
    server.reply(Reply(content_type="text/html", pieces=[b"<html>login</html>"]))
    with pytest.raises(SseError) as raised:
        await taken(connected(server), asking())
    assert "address of the service" in str(raised.value)
    assert "Gemini" not in str(raised.value)


async def test_a_spent_quota_that_a_stream_tells_is_one(server: ScriptedServer):
    error = {"message": "none left", "type": "insufficient_quota", "code": "insufficient_quota"}
    server.reply(stream(delta(content="a"), {"error": error}))
    with pytest.raises(SpentQuotaError, match="none left"):
        await taken(connected(server), asking())


async def test_words_without_a_finish_reason_are_whole_where_the_stream_says_its_end(
    server: ScriptedServer,
):
    server.reply(stream(delta(content="hi")), stream())
    chunks = await taken(connected(server), asking())
    assert (chunks[0].parts[0].text, chunks[-1].finish_reason) == ("hi", "STOP")
    chunks = await taken(connected(server), asking())
    assert chunks[-1].finish_reason is None


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, RequestRejectedError),
        (401, CredentialsError),
        (404, ModelNotFoundError),
        (429, QuotaError),
        (500, ServerFaultError),
    ],
)
async def test_a_refusal_is_a_typed_error(server: ScriptedServer, status: int, error: type):
    body = {"error": {"message": "rate limit: no, key-12345", "type": "x", "code": None}}
    server.reply(json_reply(body, status))
    with pytest.raises(error) as raised:
        await taken(connected(server, "key-12345"), asking())
    assert raised.value.status == status
    assert "key-12345" not in str(raised.value)


async def test_a_whole_answer_and_one_that_is_none(server: ScriptedServer):
    message = {"role": "assistant", "content": "whole"}
    server.reply(
        json_reply({"choices": [{"message": message, "finish_reason": "length"}]}),
        json_reply({"choices": "none"}),
        json_reply([1]),
    )
    generator = connected(server)
    async with aclosing(generator):
        answer = await generator.generate(asking())
        for _ in range(2):
            with pytest.raises(DecodeError):
                await generator.generate(asking())
    assert answer.parts[0].text == "whole"
    assert answer.finish_reason == "MAX_TOKENS"


def test_a_key_is_wanted_for_other_machines_only():
    local = openai_from({"OPENAI_BASE_URL": "http://127.0.0.1:11434/v1"})
    assert local.endpoint.prefix == "/v1"
    for base in ({}, {"OPENAI_BASE_URL": "http://192.168.0.7/v1"}):
        with pytest.raises(CredentialsError, match="OPENAI_API_KEY is not set"):
            openai_from(base)
    with pytest.raises(CredentialsError) as refused:
        openai_from({"OPENAI_API_KEY": "two words"})
    assert "two words" not in str(refused.value)


def test_an_enforced_way_to_sign_in_keeps_other_services_out():
    auth = AuthSettings(enforced_type="oauth-personal")
    settings = Settings(security=SecuritySettings(auth=auth))
    environ = {"OPENAI_API_KEY": "k"}
    with pytest.raises(CredentialsError, match="enforced"):
        choose_generator(ModelChoice(model="openai:x", environ=environ, settings=settings))
    with pytest.raises(CredentialsError, match="names no model"):
        choose_generator(ModelChoice(model="openai:", environ=environ))


def test_the_agent_works_on_a_small_server_end_to_end(server: ScriptedServer, project: Any):
    (project / "note.txt").write_text("the answer is 42\n", encoding="utf-8")
    path = str(project / "note.txt")
    server.reply(
        stream(
            delta(tool_calls=[piece(None, "read_file", '{"absolute_')]),
            delta(tool_calls=[piece(None, None, f'path": "{path}"}}')]),
            delta("tool_calls"),
        ),
        stream(delta(content="It is "), delta("stop", content="42.")),
    )
    base = f"{server.url}/v1"
    ran = alhena("-m", "openai:qwen3:8b", "-p", "what does note.txt say?", OPENAI_BASE_URL=base)
    assert (ran.code, ran.out.strip()) == (0, "It is 42."), ran.err
    assert "authorization" not in server.requests[0].headers
    first, second = (request.json for request in server.requests)
    assert "read_file" in [tool["function"]["name"] for tool in first["tools"]]
    assert "temperature" not in first
    called, answered = second["messages"][-2:]
    assert called["tool_calls"][0]["function"]["name"] == "read_file"
    assert answered["tool_call_id"] == called["tool_calls"][0]["id"]
    assert "the answer is 42" in answered["content"]
