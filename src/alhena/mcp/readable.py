"""Messages of servers as a strict reader takes them.

Servers write NaN, halves of surrogate pairs, and answers without the shape that the protocol wants.
The SDK drops what it cannot read, and whoever waits for that answer would wait until its deadline.
"""

import re
from typing import Any, cast

import msgspec

from alhena.mcp.flattening import flattened

NO_ANSWER = "its answer is none of the protocol"
PARSE_ERROR = -32700

_LOOKED_AT = 200
"""Bytes at either end of what is no JSON in which the id of an answer may stand."""


def readable(data: bytes, *, whole: bool = True) -> bytes:
    """A message as it is, if that can be read; else what it says without what cannot, and an answer
    that is none as an error. What is no message at all, and what may be a part of one (not `whole`)
    and makes no sense by itself, is left to the reader."""
    data = flattened(data)
    try:
        value: object = msgspec.json.decode(data)
    except (ValueError, RecursionError):
        value = _leniently(data)
        if not isinstance(value, dict):
            return (_error(_id_in(data)) if whole else None) or data
        data = flattened(msgspec.json.encode(value))
    if whole and isinstance(value, dict):
        message = cast("dict[str, Any]", value)
        if "method" not in message and not _is_answer(message):
            return _error(message.get("id")) or data
    return data


def _leniently(data: bytes) -> object:
    """What is nearly JSON; None for what is none."""
    import json

    try:
        value: object = json.loads(data.decode("utf-8", "replace"), parse_constant=_nothing)
        text = json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        return None
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    try:
        return cast("object", json.loads(whole))
    except (ValueError, RecursionError):
        return None


def _nothing(_name: str) -> None:
    """What NaN and Infinity stand for in JSON."""


def _is_answer(message: dict[str, Any]) -> bool:
    if "error" not in message:
        return isinstance(message.get("result"), dict)
    error: object = message["error"]
    if not isinstance(error, dict):
        return False
    fields = cast("dict[str, Any]", error)
    return type(fields.get("code")) is int and isinstance(fields.get("message"), str)


def _id_in(data: bytes) -> object:
    """The id of an answer that cannot be read, if that much of it can."""
    ends = data[:_LOOKED_AT] + b"\n" + data[-_LOOKED_AT:]
    if b'"method"' in ends or not re.search(rb'"(?:result|error)"', ends):
        return None
    found = re.search(rb'"id"\s*:\s*(\d{1,15})\s*[,}]', ends)
    return None if found is None else int(found[1])


def _error(number: object) -> bytes | None:
    if type(number) is not int and not isinstance(number, str):
        return None
    error = {"code": PARSE_ERROR, "message": NO_ANSWER}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": number, "error": error})
