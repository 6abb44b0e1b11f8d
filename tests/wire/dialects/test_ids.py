"""Ids of calls: one for each call of an answer, whatever the model says (NATIVE-01)."""

from typing import Any

import pytest

from alhena.native import AssistantMessageParser, provider_chunks
from alhena.wire.content import MODEL, Content, FunctionCall, Part
from alhena.wire.dialects import anthropic, openai
from alhena.wire.dialects.conversation import ToolNameMap
from alhena.wire.response import Candidate, GenerateContentResponse
from tests.wire.dialects.conversations import ids


def calling(*call_ids: str | None) -> GenerateContentResponse:
    parts = tuple(Part(function_call=FunctionCall(id=one, name="f")) for one in call_ids)
    content = Content(role=MODEL, parts=parts)
    return GenerateContentResponse(candidates=(Candidate(content=content, finish_reason="STOP"),))


@pytest.mark.requirement("NATIVE-01")
def test_no_two_calls_of_an_answer_have_one_id_in_any_dialect() -> None:
    answer, names = calling("x", "x", None, "y", "x"), ToolNameMap()
    expected = ["x", "new-f-1", "new-f-2", "y", "new-f-3"]
    message = anthropic.write_response(answer, model="m", names=names, new_id=ids())
    assert [block["id"] for block in message["content"]] == expected
    whole = openai.write_response(answer, model="m", names=names, new_id=ids(), created=0)
    assert [one["id"] for one in whole["choices"][0]["message"]["tool_calls"]] == expected
    read = openai.read_response(whole, names, ids())
    assert [part.function_call.id for part in read.parts if part.function_call] == expected


@pytest.mark.requirement("NATIVE-01")
def test_the_chunks_of_a_stream_know_the_ids_of_the_chunks_before() -> None:
    answer, names = calling("x"), ToolNameMap()
    parser, new_id, taken = AssistantMessageParser(), ids(), set[str]()
    events = anthropic.EventWriter(model="m", names=names, new_id=ids())
    chunks = openai.EventWriter(model="m", names=names, new_id=ids(), created=0)
    told: list[Any] = []
    pieces: list[Any] = []
    for _ in range(2):
        for one in provider_chunks(answer, names=names, new_id=new_id, taken=taken):
            parser.feed(one)
        told += events.feed(answer)
        pieces += chunks.feed(answer)
    assert [block["id"] for block in parser.content_blocks] == ["x", "new-f-1"]
    starts = [event["content_block"]["id"] for event in told if "content_block" in event]
    assert starts == ["x", "new-f-1"]
    deltas = [piece["choices"][0]["delta"].get("tool_calls", ()) for piece in pieces]
    assert [call["id"] for calls in deltas for call in calls] == ["x", "new-f-1"]


@pytest.mark.requirement("NATIVE-01")
def test_servers_that_repeat_an_id_or_an_index_lose_no_call() -> None:
    def piece(call_id: str, arguments: str, name: str | None = "f") -> dict[str, Any]:
        call = {"index": 0, "id": call_id, "function": {"name": name, "arguments": arguments}}
        return {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}

    reader = openai.EventReader(ToolNameMap(), ids())
    for event in (piece("a", '{"n":'), piece("a", "1}", None), piece("b", '{"n":2}')):
        reader.feed(event)
    calls = [part.function_call for part in reader.finish()[0].parts]
    assert [(call.id, call.args) for call in calls if call] == [("a", {"n": 1}), ("b", {"n": 2})]
