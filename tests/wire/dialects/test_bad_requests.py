"""Malformed requests of each dialect are refused with the place of the error."""

import copy
import random
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alhena.wire.dialects import anthropic, gemini, openai
from alhena.wire.dialects.fields import DialectError
from tests.support.each import for_each
from tests.wire.dialects.conversations import anthropic_conversations, openai_conversations

ASK = {"role": "user", "content": "hi"}
USE = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "x"}
CALL = {"id": "t1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
TOLD = {"role": "tool", "tool_call_id": "t1", "content": "x"}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def message_with_calls(*calls: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


@for_each(
    ("messages", "path", "clause"),
    [
        ([], "messages", "no message"),
        ([ASK, "x"], "messages[1]", "must be an object, not a string"),
        ([{"content": "x"}], "messages[0].role", "is missing"),
        ([{"role": "tool", "content": "x"}], "messages[0].role", '"tool" is not supported'),
        ([{"role": "user"}], "messages[0].content", "is missing"),
        ([user({"text": "x"})], "messages[0].content[0].type", "is missing"),
        ([user({"type": "video"})], "messages[0].content[0].type", '"video" is not supported'),
        ([user({"type": "text"})], "messages[0].content[0].text", "is missing"),
        ([user({"type": "text", "text": 3})], "messages[0].content[0].text", "not a number"),
        ([user({"type": "image"})], "messages[0].content[0].source", "is missing"),
        ([assistant(USE)], "messages[0].role", "must be the user's"),
        ([ASK, assistant({"type": "text", "text": "Well"})], "messages", "ends with a message"),
        ([ASK, assistant(USE)], "messages", 'the results of the calls "t1"'),
        ([ASK, assistant(USE), ASK], "messages[2]", 'the results of the calls "t1"'),
        ([ASK, assistant(USE, USE)], "messages[1]", "two calls of one message"),
        ([user(RESULT)], "messages[0].content[0]", "which the message before it does not make"),
        ([ASK, assistant(USE), user(RESULT, RESULT)], "messages[2].content[1]", "does not make"),
        (
            [ASK, assistant(USE, {**USE, "id": "t2"}), user(RESULT, RESULT)],
            "messages[2].content[1]",
            "already",
        ),
        (
            [ASK, assistant(USE), user({"type": "text", "text": "a"}, RESULT)],
            "messages[2].content[1]",
            "comes after other content",
        ),
        ([ASK, assistant({**USE, "id": ""}), user(RESULT)], "messages[1].content[0].id", "empty"),
    ],
)
def test_a_bad_anthropic_conversation_is_refused_with_its_place(
    messages: list[Any], path: str, clause: str
) -> None:
    with pytest.raises(DialectError) as raised:
        anthropic.read_request({"model": "m", "max_tokens": 1, "messages": messages})
    assert raised.value.path == path
    assert clause in str(raised.value)


@for_each(
    ("messages", "path", "clause"),
    [
        ([], "messages", "no message"),
        ([{"role": "function", "content": "x"}], "messages[0].role", "not supported"),
        ([ASK, message_with_calls(CALL)], "messages", 'the results of the calls "t1"'),
        ([ASK, message_with_calls(CALL, CALL), TOLD], "messages[1]", "two calls of one message"),
        ([ASK, TOLD], "messages[1]", "does not make"),
        ([ASK, message_with_calls(CALL), ASK], "messages[2]", 'the results of the calls "t1"'),
        (
            [ASK, {**message_with_calls(), "function_call": {}}],
            "messages[1].function_call",
            "use tool_calls",
        ),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "messages[0].content[0].type", ""),
        (
            [user({"type": "image_url", "image_url": {"url": "data:image/png,xx"}})],
            "messages[0].content[0].image_url.url",
            "data:TYPE;base64,DATA",
        ),
        (
            [user({"type": "image_url", "image_url": {"url": "cat.png"}})],
            "messages[0].content[0].image_url.url",
            "no URL",
        ),
    ],
)
def test_a_bad_openai_conversation_is_refused_with_its_place(
    messages: list[Any], path: str, clause: str
) -> None:
    with pytest.raises(DialectError) as raised:
        openai.read_request({"model": "m", "messages": messages})
    assert raised.value.path == path
    assert clause in str(raised.value)


@for_each(
    ("settings", "path"),
    [
        ({"n": 2}, "n"),
        ({"n": 0}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"functions": []}, "functions"),
        ({"tool_choice": "sometimes"}, "tool_choice"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"reasoning_effort": "much"}, "reasoning_effort"),
        ({"temperature": float("nan")}, "temperature"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"stop": [1]}, "stop[0]"),
        ({"stream": "yes"}, "stream"),
    ],
)
def test_a_setting_that_cannot_be_kept_is_refused(settings: dict[str, Any], path: str) -> None:
    with pytest.raises(DialectError) as raised:
        openai.read_request({"model": "m", "messages": [ASK], **settings})
    assert raised.value.path == path


def test_a_field_of_geminis_that_would_be_lost_is_refused() -> None:
    body = {"contents": [{"role": "user", "parts": [{"text": "a", "new": {"b": 1}}]}]}
    with pytest.raises(DialectError) as raised:
        gemini.read_request(body, "m")
    assert raised.value.path == "contents[0].parts[0].new"
    with pytest.raises(DialectError) as raised:
        gemini.read_request({"contents": [{"parts": [{"text": []}]}]}, "m")
    assert raised.value.path == "contents[0].parts[0].text"


@settings(max_examples=50, deadline=None)
@given(anthropic_conversations() | openai_conversations(), st.integers(0, 2**32))
def test_whatever_is_wrong_with_a_request_it_is_refused_or_read(
    body: dict[str, Any], seed: int
) -> None:
    rng = random.Random(seed)
    broken = copy.deepcopy(body)
    for _ in range(rng.randint(1, 3)):
        _break(broken, rng)
    for read in (anthropic.read_request, openai.read_request, read_gemini):
        with suppress(DialectError):
            read(broken)


def read_gemini(body: object) -> object:
    return gemini.read_request(body, "m")


ODD: tuple[Any, ...] = (None, 0, "", "\ud800", [], {}, [[]], {"type": "text"}, True, 1e999, -1)


def _break(value: Any, rng: random.Random) -> None:
    """Replaces or removes one value somewhere inside."""
    while True:
        keys: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = rng.choice(keys)
        inner = value[key]
        if isinstance(inner, dict | list) and inner and rng.random() < 0.8:
            value = inner
            continue
        if isinstance(value, dict) and rng.random() < 0.3:
            del value[key]
        else:
            value[key] = copy.deepcopy(rng.choice(ODD))
        return
