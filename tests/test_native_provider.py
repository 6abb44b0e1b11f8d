"""`alhena.native`: chunks of a stream, and the history that a program keeps."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alhena import ConfigError
from alhena.native import (
    AssistantMessageParser,
    NativeFunction,
    NativeProvider,
    NativeToolCall,
    NativeToolCallsChunk,
    ReasoningChunk,
    TextChunk,
    native_request,
    provider_chunks,
    tool_results,
)
from alhena.wire.content import Content, EncodedContent, FunctionCall, Part
from alhena.wire.dialects.conversation import ToolNameMap
from alhena.wire.dialects.fields import DialectError
from alhena.wire.dialects.gemini import write_request
from alhena.wire.encode import enveloped_body
from alhena.wire.request import FunctionCallingMode, GenerateContentRequest
from alhena.wire.response import Candidate, GenerateContentResponse, UsageMetadata
from tests.support import server as wire
from tests.support.scripted import ScriptedGenerator
from tests.support.server import ScriptedServer, sse
from tests.wire.dialects.conversations import arguments, ids

PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}}
READ = {
    "type": "function",
    "function": {
        "name": "read_file",
        "description": "Reads a file.",
        "parameters": PARAMETERS,
    },
}
OTHER = {"type": "function", "function": {"name": "other", "parameters": PARAMETERS}}
PROMPT = {"role": "user", "content": "What does config.json say?"}


def chunk(*parts: Part, **fields: Any) -> GenerateContentResponse:
    return GenerateContentResponse(
        candidates=(Candidate(content=Content(role="model", parts=parts)),), **fields
    )


def a_call(id: str | None = "call-123", path: str = "config.json", **fields: Any) -> Part:
    return Part(function_call=FunctionCall(id=id, name="read_file", args={"path": path}), **fields)


def parsed(*responses: GenerateContentResponse) -> AssistantMessageParser:
    parser, new_id = AssistantMessageParser(), ids("toolu")
    for response in responses:
        for one in provider_chunks(response, names=ToolNameMap(), new_id=new_id):
            parser.feed(one)
    parser.finish()
    return parser


@pytest.mark.requirement("NATIVE-01")
def test_a_stream_yields_text_reasoning_usage_and_native_tool_calls() -> None:
    usage = UsageMetadata(prompt_token_count=9, candidates_token_count=3, thoughts_token_count=2)
    response = chunk(
        Part(text="hm", thought=True), Part(text="I look."), a_call(), usage_metadata=usage
    )
    chunks = provider_chunks(response, names=ToolNameMap(), new_id=ids())
    assert json.loads(msgspec.json.encode(chunks)) == [
        {"type": "reasoning", "text": "hm"},
        {"type": "text", "text": "I look.", "signature": None},
        {
            "type": "native_tool_calls",
            "toolCalls": [
                {
                    "id": "call-123",
                    "type": "function",
                    "function": {"name": "read_file", "arguments": '{"path":"config.json"}'},
                    "signature": None,
                }
            ],
        },
        {"type": "usage", "inputTokens": 9, "outputTokens": 5, "cacheReadTokens": 0},
    ]


@pytest.mark.requirement("NATIVE-01")
def test_an_id_that_was_made_is_the_same_in_call_history_and_result() -> None:
    parser = parsed(chunk(a_call(None, "a"), a_call(None, "b")), chunk(a_call(None, "c")))
    shown = [block["id"] for block in parser.content_blocks]
    kept = [block["id"] for block in parser.message["content"]]
    assert shown == kept == [f"toolu-read_file-{number}" for number in (1, 2, 3)]
    results = tool_results([{"tool_use_id": one, "content": "x"} for one in shown])
    messages = [PROMPT, parser.message, results]
    request = native_request(model="m", system="s", messages=messages, tools=[READ])
    called = [part.function_call for part in request.contents[1].parts]
    answered = [part.function_response for part in request.contents[2].parts]
    assert [call and call.id for call in called] == shown
    assert [(one and one.id, one and one.name) for one in answered] == [
        (id_, "read_file") for id_ in shown
    ]


@pytest.mark.requirement("NATIVE-02")
def test_tools_of_openais_form_are_declared_and_a_tool_can_be_forced() -> None:
    messages = [PROMPT]
    request = native_request(
        model="m",
        system="Be brief.",
        messages=messages,
        tools=[READ],
        mode=FunctionCallingMode.ANY,
    )
    sent = GenerateContentRequest(
        model="gemini-2.5-pro",
        contents=tuple(map(EncodedContent, request.contents)),
        config=request.config,
    )
    body = json.loads(bytes(enveloped_body(sent, "my-project")))
    assert body == {
        "model": "gemini-2.5-pro",
        "project": "my-project",
        "request": {
            "contents": [{"role": "user", "parts": [{"text": PROMPT["content"]}]}],
            "systemInstruction": {"role": "user", "parts": [{"text": "Be brief."}]},
            "tools": [
                {
                    "functionDeclarations": [
                        {
                            "name": "read_file",
                            "description": "Reads a file.",
                            "parametersJsonSchema": PARAMETERS,
                        }
                    ]
                }
            ],
            "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
        },
    }
    free = native_request(model="m", system="", messages=messages, tools=[READ])
    assert "toolConfig" not in write_request(free)


@pytest.mark.requirement("NATIVE-03")
def test_names_of_tools_are_checked_and_no_tools_may_be_none() -> None:
    def ask(**more: Any) -> Any:
        return native_request(model="m", system="", messages=[PROMPT], **more)

    assert ask(tools=None).config.tools is None
    with pytest.raises(DialectError, match=r"tools\[1\].function.name: .* 'read_file' already"):
        ask(tools=[READ, READ])
    with pytest.raises(DialectError, match="allowed_tools: there is no tool 'write_file'"):
        ask(tools=[READ], allowed_tools=["write_file"])


def test_calls_and_text_become_content_blocks_in_order() -> None:
    parser = parsed(
        chunk(Part(text="First "), Part(text="this.")), chunk(a_call()), chunk(Part(text="Then."))
    )
    assert parser.content_blocks == [
        {"type": "text", "content": "First this.", "partial": False},
        {
            "type": "tool_use",
            "id": "call-123",
            "name": "read_file",
            "params": {"path": "config.json"},
            "partial": False,
        },
        {"type": "text", "content": "Then.", "partial": False},
    ]


def test_text_is_partial_until_something_follows_it() -> None:
    parser = AssistantMessageParser()
    parser.feed(TextChunk(text="Wait"))
    assert parser.content_blocks[0]["partial"] is True
    call = NativeToolCall(id="1", function=NativeFunction(name="t", arguments=""))
    parser.feed(NativeToolCallsChunk(tool_calls=(call,)))
    assert [block["partial"] for block in parser.content_blocks] == [False, False]


@pytest.mark.requirement("NATIVE-04")
def test_a_turn_of_calls_only_is_whole_in_the_next_request() -> None:
    """An assistant's turn without text was once saved as an empty one."""
    parser = parsed(chunk(a_call("call-1", "a"), a_call("call-2", "b")))
    assert parser.message == {
        "role": "assistant",
        "content": [
            {"type": "tool_use", "id": "call-1", "name": "read_file", "input": {"path": "a"}},
            {"type": "tool_use", "id": "call-2", "name": "read_file", "input": {"path": "b"}},
        ],
    }
    history = json.loads(json.dumps([PROMPT, parser.message]))
    results = [{"tool_use_id": "call-2", "content": "B"}, {"tool_use_id": "call-1", "content": "A"}]
    messages = [*history, tool_results(results)]
    body = write_request(native_request(model="m", system="", messages=messages, tools=[READ]))
    assert body["contents"][1] == {
        "role": "model",
        "parts": [
            {"functionCall": {"id": "call-1", "name": "read_file", "args": {"path": "a"}}},
            {"functionCall": {"id": "call-2", "name": "read_file", "args": {"path": "b"}}},
        ],
    }
    answers = [part["functionResponse"] for part in body["contents"][2]["parts"]]
    assert answers == [
        {"id": "call-1", "name": "read_file", "response": {"output": "A"}},
        {"id": "call-2", "name": "read_file", "response": {"output": "B"}},
    ]


@pytest.mark.requirement("NATIVE-04")
def test_signatures_are_kept_in_the_history_and_come_back_on_their_parts() -> None:
    signed = a_call("c1", thought_signature="QUJD")
    text = Part(text="Done?", thought_signature="REVG")
    parser = parsed(chunk(Part(text="hm", thought=True)), chunk(text), chunk(signed, a_call("c2")))
    results = [{"tool_use_id": one, "content": "x"} for one in ("c1", "c2")]
    messages = json.loads(json.dumps([PROMPT, parser.message, tool_results(results)]))
    request = native_request(model="m", system="", messages=messages)
    assert request.contents[1].parts == (text, signed, a_call("c2"))


@pytest.mark.requirement("NATIVE-05")
def test_results_keep_their_text_and_their_pictures() -> None:
    image = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
    content = [
        {"type": "text", "text": "before"},
        {"type": "image", "source": image},
        {"type": "text", "text": "after"},
    ]
    parser = parsed(chunk(a_call("c1"), a_call("c2"), a_call("c3")))
    results = tool_results(
        [
            {"tool_use_id": "c1", "content": "plain"},
            {"tool_use_id": "c2", "content": content},
            {"tool_use_id": "c3", "content": "no such file", "is_error": True},
        ]
    )
    messages = [PROMPT, parser.message, results]
    body = write_request(native_request(model="m", system="", messages=messages))
    answers = [part["functionResponse"] for part in body["contents"][2]["parts"]]
    assert answers[0]["response"] == {"output": "plain"}
    assert answers[1]["response"] == {"output": "before\n[media 1]\nafter"}
    assert answers[1]["parts"] == [{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}]
    assert answers[2]["response"] == {"error": "no such file"}


@pytest.mark.requirement("NATIVE-06")
@pytest.mark.parametrize("arguments", ["{", "[1]", '"text"', "null", '{"a": NaN}', "{}}", "\ud800"])
def test_arguments_that_are_no_object_are_a_typed_error_and_add_nothing(arguments: str) -> None:
    parser = AssistantMessageParser()
    good = NativeToolCall(id="1", function=NativeFunction(name="t", arguments="{}"))
    bad = NativeToolCall(id="2", function=NativeFunction(name="t", arguments=arguments))
    with pytest.raises(DialectError, match="no JSON object") as raised:
        parser.process_native_tool_calls([good, bad])
    assert raised.value.path == "tool_calls[1].function.arguments"
    assert parser.content_blocks == []


@pytest.mark.requirement("NATIVE-06")
@settings(max_examples=20, deadline=None)
@given(st.lists(arguments, min_size=1, max_size=4))
def test_a_conversation_of_many_turns_loses_no_call(rounds: list[dict[str, Any]]) -> None:
    messages: list[Any] = [PROMPT]
    new_id = ids()
    for args in rounds:
        parser = AssistantMessageParser()
        call = Part(function_call=FunctionCall(name="read_file", args=args))
        for one in provider_chunks(chunk(call, call), names=ToolNameMap(), new_id=new_id):
            parser.feed(one)
        messages.append(parser.message)
        made = [block["id"] for block in parser.content_blocks]
        messages.append(tool_results([{"tool_use_id": one, "content": one} for one in made]))
    request = native_request(model="m", system="", messages=messages, tools=[READ])
    calls = [p.function_call for c in request.contents for p in c.parts if p.function_call]
    assert [call.args for call in calls] == [args for args in rounds for _ in range(2)]
    answers = [p.function_response for c in request.contents for p in c.parts]
    given_back = [one.response["output"] for one in answers if one is not None]
    assert given_back == [call.id for call in calls]
    assert len(set(given_back)) == 2 * len(rounds)


def test_reasoning_is_shown_and_not_kept() -> None:
    parser = AssistantMessageParser()
    parser.feed(ReasoningChunk(text="hm"))
    assert parser.content_blocks == []


PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}


def calling(path: str, **part: Any) -> dict[str, Any]:
    return {"functionCall": {"name": "read_file", "args": {"path": path}}, **part}


async def answered(provider: NativeProvider, history: list[Any]) -> AssistantMessageParser:
    parser = AssistantMessageParser()
    async for one in provider.create_message("s", history, [READ]):
        parser.feed(one)
    parser.finish()
    history.append(json.loads(json.dumps(parser.message)))
    return parser


@pytest.mark.requirement("NATIVE-04")
async def test_a_conversation_goes_on_over_calls_results_and_signatures() -> None:
    generator = ScriptedGenerator(
        [wire.chunk(calling("a", thoughtSignature="QUJD"), calling("b"), finish="STOP")],
        [wire.chunk({"text": "hm", "thought": True}), wire.chunk({"text": "Both."}, finish="STOP")],
    )
    generator.name = "gemini-3-flash-preview"  # pyright: ignore[reportAttributeAccessIssue]
    provider = NativeProvider(generator)
    history: list[Any] = [{"role": "user", "content": "Compare a and b."}]
    parser = await answered(provider, history)
    calls = [block["id"] for block in parser.content_blocks]
    assert len(set(calls)) == 2
    results = [
        {"tool_use_id": calls[0], "content": [PNG]},
        {"tool_use_id": calls[1], "content": "B"},
    ]
    history.append(tool_results(results))
    parser = await answered(provider, history)
    assert [block["content"] for block in parser.content_blocks] == ["Both."]
    _, called, told = generator.seen(1)
    assert [part["functionCall"]["id"] for part in called["parts"]] == calls
    assert [part.get("thoughtSignature") for part in called["parts"]] == ["QUJD", None]
    assert [part["functionResponse"]["id"] for part in told["parts"]] == calls
    assert told["parts"][0]["functionResponse"]["parts"][0]["inlineData"]["data"] == "AAAA"


async def test_giving_up_an_answer_closes_it() -> None:
    generator = ScriptedGenerator(
        [wire.chunk({"text": "a"}), wire.chunk({"text": "b"}, finish="STOP")]
    )
    messages = [{"role": "user", "content": "x"}]
    stream = NativeProvider(generator).create_message("", messages)
    async for _ in stream:
        break
    await stream.aclose()
    assert generator.closed_early == 1


@pytest.mark.requirement("NATIVE-02")
async def test_a_name_asks_the_service_of_the_environment_and_a_call_may_be_forced(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "x")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
    server.reply(*(sse(wire.chunk(calling("a"), finish="STOP")) for _ in range(4)))
    history: list[Any] = [PROMPT]
    async with NativeProvider("gemini-2.5-flash", mode="ANY") as provider:
        parser = await answered(provider, history)
        chunks = [one async for one in provider.create_message("s", [PROMPT], [READ], mode="AUTO")]
        only: dict[str, Any] = {"allowed_tools": ["read_file"]}
        async for _ in provider.create_message("s", [PROMPT], [READ, OTHER], **only):
            pass
        async for _ in provider.create_message("s", [PROMPT], [READ, OTHER], mode="AUTO", **only):
            pass
    assert [block["name"] for block in parser.content_blocks] == ["read_file"]
    assert isinstance(chunks[0], NativeToolCallsChunk)
    modes = [each.json["toolConfig"]["functionCallingConfig"] for each in server.requests]
    (tools,) = server.requests[3].json["tools"]
    assert [each["name"] for each in tools["functionDeclarations"]] == ["read_file"]
    assert modes[3] == {"mode": "AUTO"}
    assert modes[0] == {"mode": "ANY"}
    assert modes[2] == {"mode": "ANY", "allowedFunctionNames": ["read_file"]}
    with pytest.raises(ConfigError, match="mode cannot be 'MUST'"):
        NativeProvider("gemini-2.5-flash", mode="MUST")
    with pytest.raises(TypeError, match="model"):
        NativeProvider(5)  # pyright: ignore[reportArgumentType]
