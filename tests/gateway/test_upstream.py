"""Requests of clients as they are sent to a Gemini model."""

from typing import Any

import pytest

from alhena.gateway.upstream import sendable
from alhena.wire.content import SIGNATURE_SENTINEL, Part
from alhena.wire.dialects import anthropic
from alhena.wire.dialects.conversation import DialectRequest
from alhena.wire.errors import ConformanceError

PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
USE = {"type": "tool_use", "id": "c1", "name": "read_file", "input": {}}


def conversation(result: Any, **fields: Any) -> DialectRequest:
    """A call of read_file and its result."""
    messages = [
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": [USE]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c1", "content": result}],
        },
    ]
    return anthropic.read_request({"model": "m", "messages": messages, **fields})


def test_older_models_get_the_media_of_results_beside_them() -> None:
    parts = sendable(conversation([PNG]), model="gemini-2.5-pro").contents[2].content.parts
    assert parts[0].function_response is not None
    assert parts[0].function_response.parts is None
    assert "read_file, call c1" in (parts[1].text or "")
    assert parts[2].inline_data is not None


def test_thinking_is_never_sent_and_takes_its_signature_with_it() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "other"}
    secret = {"type": "redacted_thinking", "data": "other"}
    own = {"type": "thinking", "thinking": "so", "signature": "gemini-own:QUJD"}
    body = {
        "model": "m",
        "messages": [
            {"role": "user", "content": "look"},
            {"role": "assistant", "content": [thinking, secret, {"type": "text", "text": "Yes."}]},
            {"role": "user", "content": "look"},
            {"role": "assistant", "content": [own, USE]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1"}]},
        ],
    }
    sent = sendable(anthropic.read_request(body), model="gemini-3-flash-preview")
    assert sent.contents[1].content.parts == (Part(text="Yes."),)
    (call,) = sent.contents[3].content.parts
    assert call.thought_signature == SIGNATURE_SENTINEL


def test_what_can_be_repaired_is_and_what_cannot_is_refused() -> None:
    sent = sendable(conversation("x"), model="gemini-3-flash-preview")
    assert sent.contents[1].content.parts[0].thought_signature
    tool = {"name": "read_file", "input_schema": {"type": "object"}}
    twice = conversation("x", tools=[tool, tool])
    with pytest.raises(ConformanceError, match="T2"):
        sendable(twice, model="gemini-3-flash-preview")
