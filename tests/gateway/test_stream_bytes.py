"""The bytes of streams: what is written short is what is written long."""

import re
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from alhena.gateway.dialects import AnthropicDialect, OpenAiDialect, event
from alhena.wire.content import MODEL, Blob, Content, FunctionCall, Part, encode_value
from alhena.wire.dialects import anthropic, openai
from alhena.wire.response import (
    Candidate,
    FinishReason,
    GenerateContentResponse,
    PromptFeedback,
    UsageMetadata,
)

IDS = re.compile(rb'"(?:call_|toolu_|new-)[^"]*"')
CREATED = re.compile(rb'"created":[0-9]+')
texts = st.text(max_size=6) | st.just("{}")
parts = st.one_of(
    st.builds(Part, text=texts),
    st.just(Part(text="plain")),
    st.builds(Part, text=texts, thought=st.just(value=True)),
    st.builds(Part, text=texts, thought_signature=st.just("QQ==")),
    st.just(Part(function_call=FunctionCall(name="f", args={}))),
    st.just(Part(inline_data=Blob(mime_type="image/png", data="QQ=="))),
)
candidates = st.builds(
    Candidate,
    content=st.builds(Content, role=st.just(MODEL), parts=st.lists(parts, max_size=2).map(tuple)),
    finish_reason=st.sampled_from([None, FinishReason.SAFETY]),
)
responses = st.builds(
    GenerateContentResponse,
    candidates=candidates.map(lambda one: (one,)) | st.sampled_from([(), (Candidate(),)]),
    usage_metadata=st.builds(UsageMetadata, prompt_token_count=st.integers(0, 9)) | st.none(),
    prompt_feedback=st.sampled_from([None, None, PromptFeedback(block_reason="SAFETY")]),
    response_id=st.sampled_from([None, "r1"]),
)


def spoken(count: int, *parts: Part) -> GenerateContentResponse:
    """A chunk in the middle of an answer, with a number of tokens."""
    content = Content(role=MODEL, parts=parts or (Part(text="plain"),))
    return GenerateContentResponse(
        candidates=(Candidate(content=content),),
        usage_metadata=UsageMetadata(prompt_token_count=count),
    )


BOTH = Part(text="x", function_call=FunctionCall(id="1", name="f", args={}))


@example([spoken(1), spoken(2)], "m")
@example([spoken(1), spoken(1, BOTH)], "m")
@example([spoken(1), spoken(1, Part(text="a"), Part(text="b"))], "m")
@settings(max_examples=40, deadline=None)
@given(st.lists(responses, min_size=1, max_size=4), texts)
def test_the_bytes_of_a_stream_of_openai_are_those_of_its_chunks(
    fed: list[GenerateContentResponse], model: str
):
    body: Any = {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "user", "content": "hi"}],
    }
    asked = replace(openai.read_request(body), model=model)
    form = OpenAiDialect().stream(asked)
    made = b"".join(form.feed(one) for one in fed) + form.finish()
    writer = openai.EventWriter(
        model=model, names=asked.names, new_id=_next_id(), created=0, include_usage=True
    )
    chunks = [chunk for one in fed for chunk in writer.feed(one)] + writer.finish()
    expected = b"".join(event(encode_value(chunk)) for chunk in chunks) + event(b"[DONE]")
    assert _plain(made) == _plain(expected)


CALL = Part(function_call=FunctionCall(id="1", name="f", args={}))


@example([spoken(1), spoken(2), spoken(3, CALL), spoken(4), spoken(5)])
@example([spoken(1), spoken(1, BOTH), spoken(1)])
@example([spoken(1, Part(text="a", thought=True)), spoken(1), spoken(1, Part(text="a"))])
@example([spoken(1), spoken(1, Part(text="a", thought_signature="QQ==")), spoken(1), spoken(1)])
@settings(max_examples=40, deadline=None)
@given(st.lists(responses, min_size=1, max_size=5))
def test_the_bytes_of_a_stream_of_anthropic_are_those_of_its_events(
    fed: list[GenerateContentResponse],
):
    body: Any = {
        "model": "m",
        "stream": True,
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "hi"}],
    }
    asked = anthropic.read_request(body)
    form = AnthropicDialect().stream(asked)
    made = b"".join(form.feed(one) for one in fed) + form.finish()
    writer = anthropic.EventWriter(model="m", names=asked.names, new_id=_next_id())
    events = [each for one in fed for each in writer.feed(one)] + writer.finish()
    assert _plain(made) == _plain(b"".join(event(encode_value(one), one["type"]) for one in events))


def _next_id() -> Any:
    return lambda call: f"new-{call}"


def _plain(data: bytes) -> bytes:
    """The bytes without the time and the ids that are made."""
    return IDS.sub(b'"id"', CREATED.sub(b"", data))
