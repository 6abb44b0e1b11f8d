"""Tool names of ours that a service of another dialect does not take."""

import re
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.http.addresses import parse_endpoint
from alhena.models.providers.openai_compatible import OpenAiCompatible
from alhena.wire.content import Content, FunctionCall, FunctionResponse, Part, text_content
from alhena.wire.dialects.conversation import ServiceNames, ToolNameMap
from alhena.wire.encode import EncodedContent
from alhena.wire.request import (
    FunctionCallingConfig,
    FunctionCallingMode,
    FunctionDeclaration,
    GenerateContentConfig,
    GenerateContentRequest,
    ToolConfig,
    ToolDeclarations,
)
from tests.support.server import Reply, ScriptedServer, json_reply, sse

TAKEN = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def asking(name: str, *others: str) -> GenerateContentRequest:
    """A request with a tool of this name: declared, demanded, and called before."""
    call = Part(function_call=FunctionCall(id="c1", name=name, args={}))
    answer = Part(function_response=FunctionResponse(id="c1", name=name, response={"output": "x"}))
    contents = (
        text_content("user", "hi"),
        Content(role="model", parts=(call,)),
        Content(role="user", parts=(answer,)),
    )
    declared = tuple(
        FunctionDeclaration(name=each, parameters_json_schema={"type": "object"})
        for each in (name, *others)
    )
    calling = FunctionCallingConfig(mode=FunctionCallingMode.ANY, allowed_function_names=(name,))
    return GenerateContentRequest(
        model="openai:m",
        contents=tuple(map(EncodedContent, contents)),
        config=GenerateContentConfig(
            tools=(ToolDeclarations(function_declarations=declared),),
            tool_config=ToolConfig(function_calling_config=calling),
        ),
    )


def calls(name: str) -> list[dict[str, Any]]:
    return [{"index": 0, "id": "c2", "function": {"name": name, "arguments": "{}"}}]


def streamed(name: str) -> Reply:
    delta = {"tool_calls": calls(name)}
    reply = sse({"choices": [{"delta": delta, "finish_reason": "tool_calls"}]})
    reply.pieces.append(b"data: [DONE]\n\n")
    return reply


@pytest.mark.requirement("NATIVE-06")
@pytest.mark.parametrize("name", ["issues.list", "ns:get", "x" * 70, "2 words", "é", "fine"])
async def test_a_tool_has_one_name_that_the_service_takes_wherever_it_stands(
    server: ScriptedServer, name: str
):
    request = asking(name, f"{name}_2", "list")
    sent = ServiceNames(request.config.function_names()).original(name)
    message = {"role": "assistant", "content": None, "tool_calls": calls(sent)}
    whole = {"choices": [{"message": message, "finish_reason": "tool_calls"}]}
    server.reply(streamed(sent), json_reply(whole))
    generator = OpenAiCompatible(parse_endpoint(f"{server.url}/v1", "OPENAI_BASE_URL"))
    async with aclosing(generator), aclosing(generator.stream(request)) as chunks:
        parts = [part for chunk in [chunk async for chunk in chunks] for part in chunk.parts]
        answer = await generator.generate(request)
    for received in server.requests:
        body = received.json
        told = [tool["function"]["name"] for tool in body["tools"]]
        assert told[0] == sent
        assert len(set(told)) == 3
        assert all(TAKEN.fullmatch(each) for each in told)
        assert body["messages"][1]["tool_calls"][0]["function"]["name"] == sent
        assert body["tool_choice"] == {"type": "function", "function": {"name": sent}}
    for called in (parts[0].function_call, answer.parts[0].function_call):
        assert called is not None
        assert called.name == name


@given(st.lists(st.text(st.sampled_from("ab._:é"), max_size=5), max_size=12))
def test_names_for_a_service_are_taken_by_it_and_stand_for_one_tool_each(known: list[str]):
    first = ServiceNames(known)
    known += [first.original(name) for name in known[:3]]  # tools named as another one was called
    names = ServiceNames(known)
    sent = {name: names.original(name) for name in known}
    assert len(set(sent.values())) == len(sent)
    for name, told in sent.items():
        assert TAKEN.fullmatch(told)
        assert names.wire(told) == name
        assert told == name or not TAKEN.fullmatch(name)
    assert ServiceNames(reversed(known)).original(known[0] if known else "a.") == (
        sent[known[0]] if known else "a."
    )


@given(st.lists(st.text(st.sampled_from("ab._:é"), max_size=5), max_size=12))
def test_names_of_a_client_stand_for_one_tool_each_for_gemini_too(known: list[str]):
    first = ToolNameMap(known)
    known += [first.wire(name) for name in known[:3]]
    names = ToolNameMap(known)
    sent = {name: names.wire(name) for name in known}
    assert len(set(sent.values())) == len(sent)
    for name, told in sent.items():
        assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,62}", told)
        assert names.original(told) == name
