"""Parts of requests that a service refuses: adapted, or answered with an error."""

from typing import Any

import pytest

from alhena.http.addresses import parse_endpoint
from alhena.models.providers.anthropic_api import AnthropicApi
from alhena.wire.content import SIGNATURE_SENTINEL
from tests.gateway.kit import client, gateway
from tests.gateway.test_streams import ANTHROPIC, GOOGLE, OPENAI
from tests.support.scripted import ScriptedGenerator
from tests.support.server import ScriptedServer, json_reply, sse, text

GEMINI_PATH = GOOGLE[0].replace(":streamGenerate", ":generate").partition("?")[0]
ASK: list[Any] = [{"role": "user", "content": "hi"}]
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
FUNCTION = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}
FORM = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
DONE = {"content": [{"type": "text", "text": "done"}], "stop_reason": "end_turn"}


def choosing(path: str, choice: str) -> dict[str, Any]:
    """A body that says which tool to call where there is none."""
    if path == GEMINI_PATH:
        contents = [{"role": "user", "parts": [{"text": "hi"}]}]
        mode = {"auto": "AUTO", "none": "NONE", "any": "ANY"}[choice]
        config = {"functionCallingConfig": {"mode": mode}}
        return {"contents": contents, "toolConfig": config}
    said: Any = (
        {"type": choice} if path == ANTHROPIC[0] else {"any": "required"}.get(choice, choice)
    )
    return {"model": "m", "max_tokens": 9, "messages": ASK, "tool_choice": said}


def service(server: ScriptedServer) -> AnthropicApi:
    return AnthropicApi(parse_endpoint(server.url, "ANTHROPIC_BASE_URL"), "key")


@pytest.mark.parametrize("choice", ["auto", "none", "any"])
@pytest.mark.parametrize("path", [ANTHROPIC[0], OPENAI[0], GEMINI_PATH])
async def test_a_choice_among_no_tools_goes_unless_it_demands_a_call(path: str, choice: str):
    generator = ScriptedGenerator([text("x")])
    async with gateway(generator) as running, client(running) as http:
        got = await http.post(path, json=choosing(path, choice))
    assert got.status_code == (400 if choice == "any" else 200), got.text
    assert [request.config.tool_config for request in generator.requests] == (
        [] if choice == "any" else [None]
    )


@pytest.mark.parametrize("choice", ["auto", "none", "any"])
@pytest.mark.parametrize("path", [ANTHROPIC[0], OPENAI[0], GEMINI_PATH])
async def test_the_same_in_front_of_another_service(server: ScriptedServer, path: str, choice: str):
    server.reply(json_reply(DONE))
    async with (
        gateway(service(server), model="anthropic:claude-x", gemini=False) as running,
        client(running) as http,
    ):
        got = await http.post(path, json=choosing(path, choice))
    assert got.status_code == (400 if choice == "any" else 200), got.text
    assert ["tool_choice" in request.json for request in server.requests] == (
        [] if choice == "any" else [False]
    )


@pytest.mark.parametrize(
    ("model", "form", "said"),
    [
        ("gemini-2.5-pro", FORM, '"properties":{"a"'),
        ("gemini-2.0-flash", {"type": "json_object"}, "one JSON object"),
        ("gemini-3-flash-preview", FORM, ""),
    ],
)
async def test_an_answer_of_json_beside_tools_is_asked_for_in_words_before_gemini_3(
    model: str, form: dict[str, Any], said: str
):
    generator = ScriptedGenerator([text("x")], [text("x")])
    body = {"model": "m", "messages": ASK, "response_format": form}
    async with gateway(generator, model=model) as running, client(running) as http:
        await http.post(OPENAI[0], json={**body, "tools": [FUNCTION]})
        await http.post(OPENAI[0], json=body)
    beside, alone = (request.config for request in generator.requests)
    assert alone.generation_config is not None
    assert alone.generation_config.response_mime_type == "application/json"
    assert alone.system_instruction is None
    instruction = beside.system_instruction
    assert (instruction is not None) == bool(said)
    assert said in (instruction.parts[0].text or "" if instruction else "")
    formed = beside.generation_config and beside.generation_config.response_mime_type
    assert bool(formed) == (not said)


@pytest.mark.parametrize("signature", ["gemini:!!!", "gemini:é", "gemini:", "gemini-own:!!!"])
@pytest.mark.parametrize(
    ("model", "sent"), [("gemini-2.5-flash", None), ("gemini-3-flash-preview", SIGNATURE_SENTINEL)]
)
async def test_a_signature_that_a_client_has_changed_is_not_sent(
    model: str, sent: str | None, signature: str
):
    thought = {"type": "thinking", "thinking": "hm", "signature": signature}
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    body = {
        "model": "m",
        "max_tokens": 50,
        "tools": [{"name": "f", "input_schema": {"type": "object"}}],
        "messages": [
            *ASK,
            {"role": "assistant", "content": [thought, call]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}]},
        ],
    }
    generator = ScriptedGenerator([text("x")])
    async with gateway(generator, model=model) as running, client(running) as http:
        assert (await http.post(ANTHROPIC[0], json=body)).status_code == 200
    [part] = generator.seen(0)[1]["parts"]
    assert part.get("thoughtSignature") == sent


@pytest.mark.parametrize(("kind", "status"), [("overloaded_error", 529), ("rate_limit_error", 429)])
async def test_an_error_in_the_stream_of_a_service_has_its_own_status(
    server: ScriptedServer, kind: str, status: int
):
    server.reply(sse({"type": "error", "error": {"type": kind, "message": "later"}}))
    async with (
        gateway(service(server), model="anthropic:claude-x", gemini=False) as running,
        client(running) as http,
    ):
        body = {"model": "m", "max_tokens": 9, "messages": ASK, "stream": True}
        got = await http.post(ANTHROPIC[0], json=body)
    assert (got.status_code, got.json()["error"]["type"]) == (status, kind)


@pytest.mark.parametrize(
    "answer", [{}, {"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}]
)
@pytest.mark.parametrize("path", [ANTHROPIC[0], OPENAI[0], GEMINI_PATH])
async def test_what_is_no_message_is_not_passed_on_as_an_empty_answer(
    server: ScriptedServer, path: str, answer: Any
):
    server.reply(json_reply(answer))
    body = {"model": "m", "max_tokens": 9, "messages": ASK}
    if path == GEMINI_PATH:
        body = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
    async with (
        gateway(service(server), model="anthropic:claude-x", gemini=False) as running,
        client(running) as http,
    ):
        got = await http.post(path, json=body)
    assert got.status_code == 502, got.text


@pytest.mark.parametrize("stream", [False, True])
async def test_a_call_that_the_limit_cut_off_ends_the_answer_at_the_limit(
    server: ScriptedServer, stream: bool
):
    block = {"type": "tool_use", "id": "t", "name": "f", "input": '{"a": "lo'}
    end = {"stop_reason": "max_tokens"}
    if stream:
        start = {"type": "content_block_start", "index": 0, "content_block": block}
        server.reply(sse(start, {"type": "message_delta", "delta": end}, {"type": "message_stop"}))
    else:
        server.reply(json_reply({"content": [block], **end}))
    async with (
        gateway(service(server), model="anthropic:claude-x", gemini=False) as running,
        client(running) as http,
    ):
        body = {"model": "m", "max_tokens": 9, "messages": ASK, "stream": stream}
        got = await http.post(ANTHROPIC[0], json=body)
    assert got.status_code == 200
    assert '"stop_reason":"max_tokens"' in got.text
    assert "tool_use" not in got.text
    assert "error" not in got.text
