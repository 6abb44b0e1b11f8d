"""Answers of Gemini's in other dialects, whole and streamed, and back."""

from typing import Any

import pytest
from anthropic.types import RawMessageStreamEvent
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionChunk
from pydantic import TypeAdapter

from alhena.wire.content import Blob, Content, FunctionCall, Part
from alhena.wire.dialects import anthropic, openai
from alhena.wire.dialects.conversation import ToolNameMap
from alhena.wire.dialects.fields import DialectError, InexpressibleAnswerError
from alhena.wire.response import (
    Candidate,
    GenerateContentResponse,
    PromptFeedback,
    UsageMetadata,
)
from tests.wire.dialects.conversations import TOOLS, ids, opaque, texts

USAGE = UsageMetadata(
    prompt_token_count=100,
    candidates_token_count=20,
    thoughts_token_count=5,
    cached_content_token_count=40,
    tool_use_prompt_token_count=7,
    total_token_count=132,
)
NAMES = ToolNameMap(TOOLS)
event_type: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)


def answer(*parts: Part, finish: str | None = "STOP", **fields: Any) -> GenerateContentResponse:
    candidate = Candidate(content=Content(role="model", parts=parts), finish_reason=finish)
    return GenerateContentResponse(candidates=(candidate,), response_id="r1", **fields)


def a_call(name: str = "read_file", id: str | None = "c1", **args: Any) -> Part:
    return Part(function_call=FunctionCall(id=id, name=NAMES.wire(name), args=args))


@st.composite
def answers(draw: st.DrawFn) -> tuple[Part, ...]:
    """Parts as a stream brings them, calls with ids, no two of a kind that could be joined."""
    parts: list[Part] = []
    for number in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(["text", "signed", "thought", "call", "signed call"]))
        signature = draw(opaque) if kind.startswith("signed") else None
        if kind in {"text", "signed"}:
            part = Part(text=draw(texts), thought_signature=signature)
        elif kind == "thought":
            part = Part(text=draw(texts), thought=True)
        else:
            made = a_call(draw(st.sampled_from(TOOLS)), f"c{number}", **{draw(texts): 1})
            part = Part(function_call=made.function_call, thought_signature=signature)
        before = parts[-1] if parts else None
        if before is None or not joins(before, part):
            parts.append(part)
    return tuple(parts)


def joins(before: Part, part: Part) -> bool:
    """Would a stream make one block of the two?"""
    worded = before.text is not None and part.text is not None
    return worded and before.thought == part.thought and not before.thought_signature


def test_neighbouring_texts_of_an_answer_are_one_block():
    parts = (Part(text="Hel"), Part(text="lo, "), Part(text="world"))
    message = anthropic.write_response(answer(*parts), model="m", names=NAMES, new_id=ids())
    assert [b["text"] for b in message["content"] if b["type"] == "text"] == ["Hello, world"]


def through_events(parts: tuple[Part, ...]) -> tuple[list[dict[str, Any]], tuple[Part, ...]]:
    writer = anthropic.EventWriter(model="m", names=NAMES, new_id=ids())
    events = [event for part in parts for event in writer.feed(answer(part, finish=None))]
    events += writer.feed(answer(usage_metadata=USAGE))
    events += writer.finish()
    reader = anthropic.EventReader(NAMES, ids())
    chunks = [chunk for event in events for chunk in reader.feed(event)] + reader.finish()
    return events, tuple(part for chunk in chunks for part in chunk.parts)


@settings(max_examples=40, deadline=None)
@given(answers())
def test_an_answer_survives_the_way_through_a_message(parts: tuple[Part, ...]) -> None:
    message = anthropic.write_response(answer(*parts), model="m", names=NAMES, new_id=ids())
    assert anthropic.read_response(message, NAMES, ids()).parts == parts


@settings(max_examples=40, deadline=None)
@given(answers())
def test_an_answer_survives_the_way_through_message_events(parts: tuple[Part, ...]) -> None:
    events, back = through_events(parts)
    assert back == parts
    starts = [event["index"] for event in events if event["type"] == "content_block_start"]
    assert starts == list(range(len(starts)))


@settings(max_examples=40, deadline=None)
@given(answers())
def test_no_call_of_an_answer_is_lost_in_chunks_of_a_completion(parts: tuple[Part, ...]) -> None:
    writer = openai.EventWriter(model="m", names=NAMES, new_id=ids(), created=0)
    chunks = [chunk for part in parts for chunk in writer.feed(answer(part, finish=None))]
    chunks += writer.finish()
    reader = openai.EventReader(NAMES, ids())
    back = [part for chunk in chunks for made in reader.feed(chunk) for part in made.parts]
    back += [part for made in reader.finish() for part in made.parts]
    assert [p for p in back if p.function_call] == [p for p in parts if p.function_call]
    spoken = [p.text for p in parts if p.text and not p.thought]
    assert "".join(p.text or "" for p in back if not p.thought) == "".join(spoken)


@pytest.mark.requirement("NATIVE-01")
def test_a_call_without_an_id_gets_one_and_keeps_it() -> None:
    whole = answer(a_call(id=None, path="a"), a_call(id=None, path="b"))
    message = anthropic.write_response(whole, model="m", names=NAMES, new_id=ids())
    assert [block["id"] for block in message["content"]] == ["new-read_file-1", "new-read_file-2"]
    completion = openai.write_response(whole, model="m", names=NAMES, new_id=ids(), created=0)
    calls = completion["choices"][0]["message"]["tool_calls"]
    assert [call["id"] for call in calls] == ["new-read_file-1", "new-read_file-2"]


def test_events_and_chunks_are_ones_that_the_clients_read() -> None:
    parts = (Part(text="hm", thought=True), Part(text="so"), a_call())
    for event in through_events(parts)[0]:
        event_type.validate_python(event)
    writer = openai.EventWriter(model="m", names=NAMES, new_id=ids(), created=0, include_usage=True)
    chunks = [chunk for part in parts for chunk in writer.feed(answer(part))] + writer.finish()
    for chunk in chunks:
        ChatCompletionChunk.model_validate(chunk)
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["total_tokens"] == 0


@pytest.mark.parametrize(
    ("finish", "stop", "reason"),
    [
        ("STOP", "end_turn", "stop"),
        ("MAX_TOKENS", "max_tokens", "length"),
        ("SAFETY", "refusal", "content_filter"),
        ("PROHIBITED_CONTENT", "refusal", "content_filter"),
        ("OTHER", "end_turn", "stop"),
        ("SOMETHING_NEW", "end_turn", "stop"),
        (None, "end_turn", "stop"),
    ],
)
def test_each_dialect_has_a_word_for_how_it_ended(
    finish: str | None, stop: str, reason: str
) -> None:
    given = answer(Part(text="a"), finish=finish)
    message = anthropic.write_response(given, model="m", names=NAMES, new_id=ids())
    completion = openai.write_response(given, model="m", names=NAMES, new_id=ids(), created=0)
    assert message["stop_reason"] == stop
    assert completion["choices"][0]["finish_reason"] == reason


def test_a_blocked_prompt_is_a_refusal() -> None:
    blocked = GenerateContentResponse(prompt_feedback=PromptFeedback(block_reason="SAFETY"))
    message = anthropic.write_response(blocked, model="m", names=NAMES, new_id=ids())
    assert (message["stop_reason"], message["content"]) == ("refusal", [])
    completion = openai.write_response(blocked, model="m", names=NAMES, new_id=ids(), created=0)
    assert completion["choices"][0]["finish_reason"] == "content_filter"


def test_an_answer_that_ended_with_an_unusable_call_is_an_error() -> None:
    given = answer(finish="MALFORMED_FUNCTION_CALL")
    with pytest.raises(InexpressibleAnswerError, match="MALFORMED_FUNCTION_CALL"):
        anthropic.write_response(given, model="m", names=NAMES, new_id=ids())
    writer = openai.EventWriter(model="m", names=NAMES, new_id=ids(), created=0)
    writer.feed(given)
    with pytest.raises(InexpressibleAnswerError):
        writer.finish()


def test_a_picture_in_an_answer_becomes_words() -> None:
    picture = Part(inline_data=Blob(mime_type="image/png", data="AAAA"))
    message = anthropic.write_response(answer(picture), model="m", names=NAMES, new_id=ids())
    assert message["content"] == [
        {"type": "text", "text": "[image/png, which cannot be shown here]"}
    ]


@pytest.mark.requirement("NATIVE-06")
def test_arguments_in_pieces_become_one_call_and_bad_ones_end_the_answer() -> None:
    def pieces(*arguments: str) -> list[dict[str, Any]]:
        first = {"index": 0, "id": "c1", "function": {"name": "read_file", "arguments": ""}}
        calls = [first, *({"index": 0, "function": {"arguments": text}} for text in arguments)]
        deltas: list[dict[str, Any]] = [{"tool_calls": [call]} for call in calls]
        return [{"choices": [{"delta": delta}]} for delta in deltas]

    def read(*chunks: dict[str, Any]) -> GenerateContentResponse:
        reader = openai.EventReader(NAMES, ids())
        assert [made for chunk in chunks for made in reader.feed(chunk)] == []
        (last,) = reader.finish()
        return last

    assert read(*pieces('{"pa', 'th": "a"}')).parts == (a_call(path="a"),)
    done: dict[str, Any] = {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}
    assert read(*pieces(), done).parts == (a_call(),)
    assert read(*pieces('{"path": %s}' % ("1" * 5000))).parts == ()
    bad = read(*pieces('{"path": '))
    assert bad.parts == ()
    assert bad.finish_reason == "MALFORMED_FUNCTION_CALL"
    assert "read_file" in (bad.candidates[0].finish_message or "")


def test_an_error_in_a_stream_is_raised() -> None:
    with pytest.raises(DialectError, match="overloaded_error: try later"):
        anthropic.EventReader(NAMES, ids()).feed(
            {"type": "error", "error": {"type": "overloaded_error", "message": "try later"}}
        )
    with pytest.raises(DialectError, match="out of memory"):
        openai.EventReader(NAMES, ids()).feed({"error": {"message": "out of memory"}})
