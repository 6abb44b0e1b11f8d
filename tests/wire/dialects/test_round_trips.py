"""To Gemini and back: nothing is lost, and what Gemini gets keeps its rules (NATIVE-06)."""

from typing import Any

import pytest
from hypothesis import given, settings

from alhena.wire.conformance.check import check_request
from alhena.wire.content import Content, EncodedContent
from alhena.wire.dialects import anthropic, gemini, openai, responses
from alhena.wire.dialects.conversation import DialectRequest
from alhena.wire.dialects.results import beside_results
from alhena.wire.errors import Severity
from alhena.wire.request import GenerateContentRequest
from tests.wire.dialects.conversations import (
    anthropic_conversations,
    ids,
    openai_conversations,
    responses_conversations,
)


def errors(request: DialectRequest, contents: tuple[Content, ...]) -> list[Any]:
    sent = GenerateContentRequest(
        model=request.model, contents=tuple(map(EncodedContent, contents)), config=request.config
    )
    return [found for found in check_request(sent) if found.level is Severity.ERROR]


@pytest.mark.requirement("NATIVE-06")
@settings(max_examples=40, deadline=None)
@given(anthropic_conversations())
def test_an_anthropic_conversation_comes_back_as_it_was(body: dict[str, Any]) -> None:
    request = anthropic.read_request(body)
    assert anthropic.write_request(request, new_id=ids()) == body


@pytest.mark.requirement("NATIVE-06")
@settings(max_examples=40, deadline=None)
@given(openai_conversations())
def test_an_openai_conversation_comes_back_as_it_was(body: dict[str, Any]) -> None:
    request = openai.read_request(body)
    assert openai.write_request(request, new_id=ids()) == body


@settings(max_examples=20, deadline=None)
@given(anthropic_conversations())
def test_what_an_anthropic_conversation_becomes_keeps_the_rules(body: dict[str, Any]) -> None:
    request = anthropic.read_request(body)
    assert errors(request, request.contents) == []
    assert errors(request, beside_results(request.contents)) == []


@settings(max_examples=20, deadline=None)
@given(openai_conversations())
def test_what_an_openai_conversation_becomes_keeps_the_rules(body: dict[str, Any]) -> None:
    request = openai.read_request(body)
    assert errors(request, request.contents) == []
    assert errors(request, beside_results(request.contents)) == []


@settings(max_examples=20, deadline=None)
@given(anthropic_conversations())
def test_geminis_own_body_comes_back_as_it_was(body: dict[str, Any]) -> None:
    request = anthropic.read_request(body)
    written = gemini.write_request(request)
    assert gemini.write_request(gemini.read_request(written, "m")) == written


@settings(max_examples=20, deadline=None)
@given(anthropic_conversations())
def test_no_call_and_no_result_is_lost_on_the_way_to_the_other_dialect(
    body: dict[str, Any],
) -> None:
    there = openai.write_request(anthropic.read_request(body), new_id=ids())
    blocks = [block for message in body["messages"] for block in message["content"]]
    calls = [call for m in there["messages"] for call in m.get("tool_calls") or ()]
    asked = [block for block in blocks if block["type"] == "tool_use"]
    assert [call["id"] for call in calls] == [block["id"] for block in asked]
    assert [call["function"]["name"] for call in calls] == [block["name"] for block in asked]
    answered = [
        message["tool_call_id"] for message in there["messages"] if message["role"] == "tool"
    ]
    results = [block for block in blocks if block["type"] == "tool_result"]
    assert answered == [block["tool_use_id"] for block in results]
    assert openai.write_request(openai.read_request(there), new_id=ids()) == there


def comparable(body: dict[str, Any]) -> dict[str, Any]:
    """The body without the generated ids of reasoning items."""
    items = [
        {key: value for key, value in item.items() if key != "id" or "_answer_" not in value}
        for item in body["input"]
    ]
    return {**body, "input": items}


@settings(max_examples=40, deadline=None)
@given(responses_conversations())
def test_a_responses_conversation_comes_back_as_it_was(body: dict[str, Any]) -> None:
    request = responses.read_request(body)
    assert comparable(responses.write_request(request, new_id=ids())) == body


@settings(max_examples=20, deadline=None)
@given(responses_conversations())
def test_a_responses_conversation_passes_geminis_own_form(body: dict[str, Any]) -> None:
    request = responses.read_request(body)
    through = gemini.read_request(gemini.write_request(request), "m")
    assert through.contents == request.contents


@settings(max_examples=20, deadline=None)
@given(anthropic_conversations())
def test_no_call_is_lost_on_the_way_to_responses(body: dict[str, Any]) -> None:
    body.pop("stop_sequences", None)  # there is no such setting
    there = responses.write_request(anthropic.read_request(body), new_id=ids())
    blocks = [block for message in body["messages"] for block in message["content"]]
    asked = [block["id"] for block in blocks if block["type"] == "tool_use"]
    called = [item["call_id"] for item in there["input"] if item["type"] == "function_call"]
    answered = [i["call_id"] for i in there["input"] if i["type"] == "function_call_output"]
    assert called == asked
    assert answered == [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"]
