"""Checks the messages of servers before the SDK reads them, within limits of size.

The SDK drops a message that it cannot read, and the caller would wait until its timeout. So text
that is nearly JSON is repaired, and an answer that is still unreadable becomes an error.
"""

import re
from typing import Any, cast

import msgspec

MAX_MESSAGE = 16 * 1024 * 1024
"""Maximum bytes of a message; only media need that much."""

MAX_CONTAINERS = 500_000
"""Maximum brackets in a message: lists and objects take many times the memory of their text."""

NO_ANSWER = "its answer is not a valid response"
TOO_MANY = f"its answer has more than {MAX_CONTAINERS:,} lists and objects"
PARSE_ERROR = -32700

_ENDS = 200
"""Bytes at either end of an unreadable answer that are searched for its id."""


def readable(data: bytes) -> bytes:
    """The message as the SDK can read it: unchanged, repaired, or an error for the call it answers.
    Anything else that is unreadable is returned unchanged."""
    return understood(data)[1]


def understood(data: bytes) -> tuple[object, bytes]:
    """Decodes a message and returns it with its text, see `readable`; None if unreadable."""
    from pydantic_core import from_json

    if data.count(b"[") + data.count(b"{") > MAX_CONTAINERS:
        return _error_response(_id_of(data), data, TOO_MANY)
    try:
        value: object = from_json(data, allow_inf_nan=False)
    except ValueError:
        try:
            data = _repair_json(data)
            value = from_json(data)
        except (ValueError, RecursionError):
            return _error_response(_id_of(data), data)
    if isinstance(value, dict):
        message = cast("dict[str, Any]", value)
        if "method" not in message and not _is_answer(message):
            return _error_response(message.get("id"), data)
    return cast("object", value), data


def _repair_json(data: bytes) -> bytes:
    """Replaces NaN and infinity by null, and invalid UTF-8 and lone surrogates by U+FFFD: Python
    servers send the former, JavaScript servers the latter after cutting a text inside an emoji."""
    import json

    value: object = json.loads(data.decode("utf-8", "replace"), parse_constant=lambda _name: None)
    text = json.dumps(value, ensure_ascii=False)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def _is_answer(message: dict[str, Any]) -> bool:
    if "error" not in message:
        return isinstance(message.get("result"), dict)
    error: object = message["error"]
    if not isinstance(error, dict):
        return False
    fields = cast("dict[str, Any]", error)
    return type(fields.get("code")) is int and isinstance(fields.get("message"), str)


def _id_of(data: bytes) -> int | None:
    """The id of an unreadable answer; None for other messages."""
    ends = data[:_ENDS] + b"\n" + data[-_ENDS:]
    if b'"method"' in ends or not re.search(rb'"(?:result|error)"', ends):
        return None
    found = re.search(rb'"id"\s*:\s*(\d{1,15})\s*[,}]', ends)
    return None if found is None else int(found[1])


def _error_response(number: object, data: bytes, why: str = NO_ANSWER) -> tuple[object, bytes]:
    """An error for the call with this id; without a valid id nothing, and the text."""
    if type(number) is not int and not isinstance(number, str):
        return None, data
    refusal = {"jsonrpc": "2.0", "id": number, "error": {"code": PARSE_ERROR, "message": why}}
    return refusal, msgspec.json.encode(refusal)
