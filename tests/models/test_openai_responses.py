"""Models that answer to OpenAI's Responses API."""

import asyncio
import json
from contextlib import aclosing
from typing import Any

import pytest

from alhena import Agent
from alhena.agent.between_prompts import switch_model
from alhena.errors import AlhenaError, InputError, ServerFaultError, StreamCutError
from alhena.http.addresses import parse_endpoint
from alhena.models import OpenAICompatible
from alhena.models.catalogue import (
    answers_to_responses,
    bare_name,
    foreign_name,
    foreign_service,
    model_info,
)
from alhena.models.errors import (
    ModelNotFoundError,
    RateLimitError,
    RequestRejectedError,
    SignatureError,
    SpentQuotaError,
)
from alhena.models.providers.openai_compatible import OpenAiCompatible
from alhena.wire.content import (
    Blob,
    Content,
    FunctionCall,
    FunctionResponse,
    FunctionResponsePart,
    Part,
    text_content,
)
from alhena.wire.dialects.fields import DialectError
from alhena.wire.encode import EncodedContent
from alhena.wire.errors import DecodeError
from alhena.wire.request import (
    FunctionCallingConfig,
    FunctionCallingMode,
    FunctionDeclaration,
    GenerateContentConfig,
    GenerateContentRequest,
    GenerationConfig,
    ThinkingConfig,
    ToolConfig,
    ToolDeclarations,
)
from tests.gateway.kit import client, gateway
from tests.support.command import alhena
from tests.support.responses import (
    function_call,
    input_items,
    message,
    reasoning,
    refusal,
    response,
    stream,
    whole,
)
from tests.support.server import Received, Reply, ScriptedServer, json_reply, sse

FORCED = "openai-responses:m"
ONLY = "This model is only supported in v1/responses and not in v1/chat/completions."
NOT_CHAT = (
    "This is not a chat model and thus not supported in the v1/chat/completions endpoint. "
    "Did you mean to use v1/completions?"
)


def asking(*contents: Content, model: str = FORCED, **config: Any) -> GenerateContentRequest:
    return GenerateContentRequest(
        model=model,
        contents=tuple(map(EncodedContent, contents or (text_content("user", "hi"),))),
        config=GenerateContentConfig(**config),
    )


def connected(server: ScriptedServer, key: str = "") -> OpenAiCompatible:
    return OpenAiCompatible(parse_endpoint(f"{server.url}/v1", "OPENAI_BASE_URL"), key)


async def taken(server: ScriptedServer, request: GenerateContentRequest) -> list[Any]:
    generator = connected(server, "key-1")
    async with aclosing(generator), aclosing(generator.stream(request)) as chunks:
        return [chunk async for chunk in chunks]


async def answered(server: ScriptedServer, request: GenerateContentRequest) -> Any:
    async with aclosing(connected(server)) as generator:
        return await generator.generate(request)


def answer_of(chunks: list[Any]) -> Content:
    """The answer as a history keeps it."""
    parts = [part for chunk in chunks for part in chunk.parts if not part.thought]
    return Content(role="model", parts=tuple(parts))


def results_for(*calls: FunctionCall) -> Content:
    answers = [FunctionResponse(id=c.id, name=c.name, response={"output": c.id}) for c in calls]
    return Content(role="user", parts=tuple(Part(function_response=a) for a in answers))


@pytest.mark.parametrize(
    ("name", "responses"),
    [
        *((name, True) for name in ("gpt-5-codex", "gpt-5.1-codex-max", "gpt-5.3-codex-2026-02")),
        *((name, True) for name in ("gpt-5-pro", "gpt-5.2-pro-2025-12-11", "o1-pro", "o3-pro")),
        *((name, True) for name in ("codex-mini-latest", "o3-deep-research")),
        *((name, True) for name in ("o4-mini-deep-research", "computer-use-preview")),
        *((name, False) for name in ("gpt-5", "gpt-5-mini", "gpt-4.1", "o3", "gpt-4o")),
        *((name, False) for name in ("qwen3-pro", "deepseek-pro", "gpt-oss:20b", "gemini-3-pro")),
        *((name, False) for name in ("openai/gpt-5-pro", "gpt-5-professor", "codex")),
    ],
)
def test_names_say_which_models_answer_there_only(name: str, responses: bool):
    assert answers_to_responses(name) is responses


def test_a_forced_model_has_the_properties_of_its_service():
    name = "openai-responses:gpt-5"
    assert (foreign_service(name), foreign_name(name)) == ("openai", "gpt-5")
    assert model_info(name).input_limit == model_info("openai:gpt-5").input_limit
    assert bare_name(name) == bare_name("openai:gpt-5")


async def test_reasoning_text_and_calls_side_by_side_are_read_and_sent_back(
    server: ScriptedServer,
):
    first = (
        reasoning(1, "First part.", "Second part."),
        message("Let me see.", phase="commentary"),
        reasoning(2),
        reasoning(3),
        function_call("call_a", "read", {"path": "a"}),
        function_call("call_b", "list", {}),
    )
    server.reply(stream(*first), stream(message("Done.")))
    chunks = await taken(server, asking())
    thoughts = [p.text for c in chunks for p in c.parts if p.thought]
    assert "".join(thoughts) == "First part.\n\nSecond part."
    assert [c.parts[-1].text for c in chunks if c.parts][:2] == ["First", " part."]
    usage = chunks[-1].usage_metadata
    assert (usage.prompt_token_count, usage.candidates_token_count) == (20, 5)
    assert (usage.cached_content_token_count, usage.thoughts_token_count) == (8, 4)
    assert (chunks[-1].finish_reason, chunks[-1].model_version) == ("STOP", "gpt-5.1-codex-2026")
    answer = answer_of(chunks)
    calls = [part.function_call for part in answer.parts if part.function_call]
    assert [(call.id, call.name, call.args) for call in calls] == [
        ("call_a", "read", {"path": "a"}),
        ("call_b", "list", {}),
    ]
    # What the journal writes is JSON.
    kept = json.loads(bytes(EncodedContent(answer).raw))
    assert json.dumps(kept).count("encrypted_content") == 3
    await taken(server, asking(text_content("user", "hi"), answer, results_for(*calls)))
    items = input_items(server.requests[1].json)
    assert items == [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        first[0],
        {
            "type": "message",
            "role": "assistant",
            "content": "Let me see.",
            "phase": "commentary",
        },
        first[2],
        first[3],
        {"type": "function_call", "call_id": "call_a", "name": "read", "arguments": '{"path":"a"}'},
        {"type": "function_call", "call_id": "call_b", "name": "list", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_a", "output": "call_a"},
        {"type": "function_call_output", "call_id": "call_b", "output": "call_b"},
    ]


async def test_the_request_says_everything_and_nothing_is_stored(server: ScriptedServer):
    server.reply(stream(message("ok")))
    png = FunctionResponsePart(inline_data=Blob(mime_type="image/png", data="AAAA"))
    called = FunctionCall(id="c1", name="f", args={})
    result = FunctionResponse(id="c1", name="f", response={"output": "x"}, parts=(png,))
    pdf = Blob(mime_type="application/pdf", data="JVBERi0=")
    request = asking(
        Content(role="user", parts=(Part(text="see"), Part(inline_data=pdf))),
        Content(
            role="model",
            parts=(
                Part(text="a thought", thought=True),
                Part(function_call=called, thought_signature="QUJD"),  # Gemini's
            ),
        ),
        Content(role="user", parts=(Part(function_response=result),)),
        system_instruction=text_content("user", "be brief"),
        tools=(
            ToolDeclarations(
                function_declarations=(
                    FunctionDeclaration(name="f", parameters_json_schema={"type": "object"}),
                )
            ),
        ),
        tool_config=ToolConfig(
            function_calling_config=FunctionCallingConfig(
                mode=FunctionCallingMode.ANY, allowed_function_names=("f",)
            )
        ),
        generation_config=GenerationConfig(
            max_output_tokens=9,
            response_mime_type="application/json",
            response_json_schema={"type": "object"},
            thinking_config=ThinkingConfig(thinking_level="HIGH", include_thoughts=True),
        ),
    )
    await taken(server, request)
    (sent,) = server.requests
    assert sent.path == "/v1/responses"
    assert sent.headers["authorization"] == "Bearer key-1"
    body = sent.json
    picture = {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"}
    file = "data:application/pdf;base64,JVBERi0="
    assert input_items(body) == [
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "see"},
                {"type": "input_file", "filename": "file.pdf", "file_data": file},
            ],
        },
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {
            "type": "function_call_output",
            "call_id": "c1",
            "output": [{"type": "input_text", "text": "x"}, picture],
        },
    ]
    del body["input"]
    assert body == {
        "model": "m",
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "instructions": "be brief",
        "tools": [
            {
                "type": "function",
                "name": "f",
                "description": "",
                "parameters": {"type": "object"},
                "strict": False,
            }
        ],
        "parallel_tool_calls": True,
        "tool_choice": {"type": "function", "name": "f"},
        "max_output_tokens": 16,
        "text": {"format": {"type": "json_schema", "name": "answer", "schema": {"type": "object"}}},
        "reasoning": {"effort": "high", "summary": "auto"},
        "stream": True,
    }


async def test_a_setting_that_would_be_lost_is_refused_by_name(server: ScriptedServer):
    with pytest.raises(DialectError, match=r"generationConfig\.stopSequences"):
        await taken(server, asking(generation_config=GenerationConfig(stop_sequences=("x",))))
    assert server.requests == []


@pytest.mark.parametrize("said", [ONLY, NOT_CHAT])
@pytest.mark.parametrize("streams", [True, False])
async def test_a_404_that_says_so_leads_to_the_responses_api_once_and_for_all(
    server: ScriptedServer, said: str, streams: bool
):
    answer = stream if streams else whole
    server.reply(refusal(said), answer(message("one")), answer(message("two")))
    request = asking(model="openai:gpt-6")
    for word in ("one", "two"):
        if streams:
            found = answer_of(await taken(server, request)).parts
        else:
            found = (await answered(server, request)).parts
        assert "".join(part.text or "" for part in found) == word
    assert [sent.path for sent in server.requests] == [
        "/v1/chat/completions",
        "/v1/responses",
        "/v1/responses",
    ]
    assert server.requests[1].json["model"] == "gpt-6"


async def test_requests_beside_each_other_learn_it_together(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
):
    def reply(received: Received) -> Reply:
        return stream(message("hi")) if received.path == "/v1/responses" else refusal(ONLY)

    monkeypatch.setattr(server, "take", reply)
    request = asking(model="openai:gpt-7")
    generator = connected(server)

    async def ask() -> str:
        async with aclosing(generator.stream(request)) as chunks:
            return "".join([p.text or "" async for chunk in chunks for p in chunk.parts])

    async with aclosing(generator):
        assert await asyncio.gather(ask(), ask()) == ["hi", "hi"]


async def test_any_other_404_is_an_error(server: ScriptedServer):
    server.reply(refusal("The model `gpt-6` does not exist"))
    with pytest.raises(ModelNotFoundError, match="does not exist"):
        await taken(server, asking(model="openai:gpt-6"))
    assert len(server.requests) == 1


async def test_a_server_without_the_responses_api_is_asked_by_chat_completions(
    server: ScriptedServer,
):
    done = {"choices": [{"delta": {"content": "hi"}, "finish_reason": "stop"}]}
    server.reply(refusal("404 page not found"), sse(done), sse(done))
    for _ in range(2):
        chunks = await taken(server, asking(model="openai:gpt-5-codex"))
        assert chunks[0].parts[0].text == "hi"
    assert [sent.path for sent in server.requests] == [
        "/v1/responses",
        "/v1/chat/completions",
        "/v1/chat/completions",
    ]


async def test_a_model_without_reasoning_is_not_asked_for_it_again(server: ScriptedServer):
    server.reply(
        refusal("Encrypted content is not supported with this model.", 400),
        stream(message("hi")),
        stream(message("hi")),
    )
    called = FunctionCall(id="c1", name="f", args={})
    history = (
        text_content("user", "hi"),
        Content(role="model", parts=(Part(function_call=called, thought_signature="QUJD"),)),
        results_for(called),
    )
    for _ in range(2):
        await taken(server, asking(*history))
    kinds = [[item["type"] for item in input_items(sent.json)] for sent in server.requests]
    assert kinds == [["message", "function_call", "function_call_output"]] * 3
    assert ["include" in sent.json for sent in server.requests] == [True, False, False]


async def test_a_killed_stream_is_no_answer(server: ScriptedServer):
    server.reply(stream(message("a long text"), keep=3))
    with pytest.raises(StreamCutError):
        await taken(server, asking())


async def test_a_stream_that_ends_before_its_last_event_is_no_answer(server: ScriptedServer):
    reply = stream(message("a long text"), keep=5)
    reply.cut = False
    server.reply(reply)
    with pytest.raises(StreamCutError):
        await taken(server, asking())


@pytest.mark.parametrize(
    ("reason", "finish"), [("max_output_tokens", "MAX_TOKENS"), ("content_filter", "SAFETY")]
)
async def test_incomplete_answers_say_why(server: ScriptedServer, reason: str, finish: str):
    end = response(status="incomplete", incomplete_details={"reason": reason})
    server.reply(stream(message("half"), end=end))
    chunks = await taken(server, asking())
    assert chunks[-1].finish_reason == finish


@pytest.mark.parametrize(
    ("status", "details", "finish"),
    [
        ("incomplete", {"reason": "max_output_tokens"}, "MAX_TOKENS"),
        ("completed", None, "MALFORMED_FUNCTION_CALL"),
    ],
)
async def test_a_call_that_was_cut_off_is_not_run(
    server: ScriptedServer, status: str, details: Any, finish: str
):
    cut = function_call("a", "write", '{"path": "x', status="incomplete")
    server.reply(stream(cut, end=response(cut, status=status, incomplete_details=details)))
    chunks = await taken(server, asking())
    assert not answer_of(chunks).parts
    assert chunks[-1].finish_reason == finish
    assert "write" in chunks[-1].candidates[0].finish_message


async def test_a_refusal_is_the_answer(server: ScriptedServer):
    refused = message("", content=[{"type": "refusal", "refusal": "I cannot."}])
    server.reply(stream(refused))
    assert "".join(p.text or "" for p in answer_of(await taken(server, asking())).parts) == (
        "I cannot."
    )


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": "server_error", "message": "boom"}, ServerFaultError),
        ({"code": "rate_limit_exceeded", "message": "try again in 2s"}, RateLimitError),
        ({"code": "invalid_prompt", "message": "no"}, RequestRejectedError),
    ],
)
@pytest.mark.parametrize("form", ["failed", "error", "whole"])
async def test_a_failure_is_a_typed_error(
    server: ScriptedServer, error: dict[str, Any], kind: type[AlhenaError], form: str
):
    failed = response(status="failed", error=error)
    if form == "failed":
        server.reply(stream(end=failed))
    elif form == "error":
        server.reply(sse({"type": "error", "sequence_number": 1, "param": None, **error}))
    else:
        server.reply(json_reply(failed))
    asked = (answered if form == "whole" else taken)(server, asking())
    with pytest.raises(kind, match=error["message"]):
        await asked


@pytest.mark.parametrize(
    ("status", "fields", "kind"),
    [
        (429, {"code": "insufficient_quota", "type": "insufficient_quota"}, SpentQuotaError),
        (400, {"code": "invalid_encrypted_content"}, SignatureError),
        (400, {"code": "context_length_exceeded"}, RequestRejectedError),
    ],
)
async def test_a_refused_request_is_a_typed_error(
    server: ScriptedServer, status: int, fields: dict[str, Any], kind: type[AlhenaError]
):
    server.reply(refusal("no", status, **fields))
    with pytest.raises(kind):
        await taken(server, asking())


async def test_whole_answers_and_ones_that_are_none(server: ScriptedServer):
    server.reply(
        whole(reasoning(1, "Hm."), message("hi"), function_call("a", "f", {"x": 1})),
        json_reply(response() | {"output": None}),
        json_reply(response(status="in_progress")),
    )
    async with aclosing(connected(server)) as generator:
        answer = await generator.generate(asking())
        for _ in range(2):
            with pytest.raises(DecodeError):
                await generator.generate(asking())
    thought, lead, said, called = answer.parts
    assert (thought.text, thought.thought, said.text) == ("Hm.", True, "hi")
    assert "gAAAA+1==" in lead.thought_signature
    assert called.function_call.args == {"x": 1}


async def test_unknown_events_and_items_are_ignored(server: ScriptedServer):
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    odd = [
        {"type": "response.web_search_call.searching", "output_index": 0, "item_id": "ws_1"},
        {"type": "response.output_item.done", "output_index": 0, "item": search},
        {"type": "response.of_tomorrow", "delta": {"a": 1}},
        {"type": 7},
        {"type": "response.output_text.delta", "delta": "hi"},
        {"type": "response.completed", "response": {"output": [search], "usage": {}}},
    ]
    server.reply(sse(*odd))
    chunks = await taken(server, asking())
    assert "".join(p.text or "" for p in answer_of(chunks).parts) == "hi"


def test_the_command_carries_reasoning_through_calls_and_a_resume(
    server: ScriptedServer, project: Any
):
    (project / "note.txt").write_text("the answer is 42\n", encoding="utf-8")
    path = str(project / "note.txt")
    first = (reasoning(1, "Look."), function_call("call_1", "read_file", {"file_path": path}))
    server.reply(
        stream(*first),
        stream(reasoning(2), message("It is 42.")),
        stream(message("Still 42.")),
        stream(message("As another model says.")),
    )
    environ = {"OPENAI_BASE_URL": f"{server.url}/v1"}
    ran = alhena("-m", "openai-responses:gpt-5", "-p", "what does note.txt say?", **environ)
    assert (ran.code, ran.out.strip()) == (0, "It is 42."), ran.err
    again = ("-r", "latest", "-p", "sure?")
    assert alhena("-m", "openai-responses:gpt-5", *again, **environ).code == 0
    other = alhena("-m", "openai-responses:gpt-9", *again, **environ)
    assert (other.code, other.out.strip()) == (0, "As another model says."), other.err
    _, second, third, fourth = (input_items(sent.json) for sent in server.requests)
    kinds = [item["type"] for item in second[-3:]]
    assert kinds == ["reasoning", "function_call", "function_call_output"]
    assert second[-3] == first[0]
    assert "the answer is 42" in second[-1]["output"]
    resumed = [item for item in third if item["type"] == "reasoning"]
    assert [item["encrypted_content"] for item in resumed] == ["gAAAA+1==", "gAAAA+2=="]
    assert [item["type"] for item in fourth].count("reasoning") == 0
    assert [item["type"] for item in fourth].count("function_call") == 1


async def test_a_switch_within_the_service_keeps_the_reasoning_of_the_same_model_alone(
    server: ScriptedServer, project: Any
):
    server.reply(
        stream(reasoning(1), message("one")),
        sse({"choices": [{"delta": {"content": "two"}, "finish_reason": "stop"}]}),
        stream(message("three")),
        stream(message("four")),
    )
    base = f"{server.url}/v1"
    async with (
        OpenAICompatible("openai-responses:gpt-5", base_url=base) as model,
        Agent(model, cwd=project) as agent,
    ):
        await agent.run("go")
        for name in ("openai:gpt-5", "openai-responses:gpt-5", "openai:gpt-5-codex"):
            await switch_model(agent.session, name)
            await agent.run("on")
        with pytest.raises(InputError, match="another service"):
            await switch_model(agent.session, "anthropic:x")
    paths = [sent.path for sent in server.requests]
    assert paths == ["/v1/responses", "/v1/chat/completions", "/v1/responses", "/v1/responses"]
    carried = [b"gAAAA" in sent.body for sent in server.requests]
    assert carried == [False, False, True, False]


def test_refused_reasoning_is_left_out_once(server: ScriptedServer):
    environ = {"OPENAI_BASE_URL": f"{server.url}/v1"}
    server.reply(
        stream(reasoning(1), message("one")),
        refusal(
            "The encrypted content could not be verified.", 400, code="invalid_encrypted_content"
        ),
        stream(message("two")),
    )
    model = "openai-responses:gpt-5"
    assert alhena("-m", model, "-p", "hi", **environ).code == 0
    ran = alhena("-m", model, "-r", "latest", "-p", "more", **environ)
    assert (ran.code, ran.out.strip()) == (0, "two"), ran.err
    kinds = [[item["type"] for item in sent.json["input"]] for sent in server.requests]
    assert "reasoning" in kinds[1]
    assert "reasoning" not in kinds[2]


GOOGLE = "/v1beta/models/gemini-3-flash-preview:generateContent"
ASKED: dict[str, Any] = {
    "/v1/responses": {"model": "m", "input": [{"role": "user", "content": "hi"}]},
    "/v1/messages": {
        "model": "m",
        "max_tokens": 50,
        "messages": [{"role": "user", "content": "hi"}],
    },
    "/v1/chat/completions": {"model": "m", "messages": [{"role": "user", "content": "hi"}]},
    GOOGLE: {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
}


def continued(path: str, body: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """The next request of a client that sends the answer back with the result of its call."""
    if path == "/v1/responses":
        output = {"type": "function_call_output", "call_id": "call_a", "output": "r"}
        return {**body, "input": [*body["input"], *answer["output"], output]}
    if path == "/v1/messages":
        result = {"type": "tool_result", "tool_use_id": "call_a", "content": "r"}
        said = [{"role": "assistant", "content": answer["content"]}]
        return {
            **body,
            "messages": [*body["messages"], *said, {"role": "user", "content": [result]}],
        }
    if path == "/v1/chat/completions":
        result = {"role": "tool", "tool_call_id": "call_a", "content": "r"}
        return {**body, "messages": [*body["messages"], answer["choices"][0]["message"], result]}
    response = {"id": "call_a", "name": "f", "response": {"output": "r"}}
    result = {"role": "user", "parts": [{"functionResponse": response}]}
    return {"contents": [*body["contents"], answer["candidates"][0]["content"], result]}


@pytest.mark.parametrize("path", list(ASKED))
async def test_reasoning_passes_through_the_gateway_and_back(server: ScriptedServer, path: str):
    first = (reasoning(1, "Hm."), function_call("call_a", "f", {"x": 1}))
    server.reply(whole(*first), whole(message("done")))
    async with (
        gateway(connected(server), model=FORCED, gemini=False) as running,
        client(running) as http,
    ):
        answer = await http.post(path, json=ASKED[path])
        assert answer.status_code == 200, answer.text
        last = await http.post(path, json=continued(path, ASKED[path], answer.json()))
    assert last.status_code == 200, last.text
    assert "done" in last.text
    items = input_items(server.requests[1].json)
    assert items[1] == first[0]
    assert [item["type"] for item in items] == [
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
    ]
