"""Messages of servers as a strict reader takes them.

Servers write NaN, halves of surrogate pairs, and answers without the shape that the protocol wants.
The SDK drops what it cannot read, and whoever waits for that answer would wait until its deadline.
"""

import re
from typing import Any, cast

import msgspec

from alhena.mcp.flattening import flattened
from alhena.mcp.mending import mended

NO_ANSWER = "its answer is none of the protocol"
PARSE_ERROR = -32700

LONG = 64 * 1024
"""Bytes of what is not read on the loop."""

LENIENT = 1024 * 1024
"""Bytes of what is nearly JSON that are read in one go, if nobody waits meanwhile."""

LONGEST = 16 * 1024 * 1024
"""Bytes of a message that is read. Media within may take that much, and nothing else does."""

_LOOKED_AT = 200
"""Bytes at either end of what is no JSON in which the id of an answer may stand."""


def readable(data: bytes, *, whole: bool = True) -> bytes:
    """A message as it is, if that can be read; else what it says without what cannot, and an answer
    that is none as an error. What is no message at all, and what may be a part of one (not `whole`)
    and makes no sense by itself, is left to the reader."""
    return understood(data, whole=whole)[1]


def understood(data: bytes, *, whole: bool = True) -> tuple[object, bytes]:
    """What `readable` makes of a text, as a value, too; that is None for what is left to the
    reader."""
    data = flattened(data)
    try:
        value: object = msgspec.json.decode(data)
    except (ValueError, RecursionError):
        nearly = _leniently(data) if len(data) <= LONG else _mended(data)
        if not isinstance(nearly, dict):
            refusal = unreadable(data) if whole else None
            return (None, data) if refusal is None else (msgspec.json.decode(refusal), refusal)
        data = flattened(msgspec.json.encode(cast("object", nearly)))
        value = msgspec.json.decode(data)
    if whole and isinstance(value, dict):
        message = cast("dict[str, Any]", value)
        if "method" not in message and not _is_answer(message):
            refusal = no_answer(message.get("id"))
            if refusal is not None:
                return msgspec.json.decode(refusal), refusal
    return cast("object", value), data


def _mended(data: bytes) -> object:
    """What a long text says that is nearly JSON; None for what is none."""
    text = mended(data)
    if len(text) > LONGEST:
        return None
    try:
        return cast("object", msgspec.json.decode(text))
    except (ValueError, RecursionError):
        return _leniently(text) if len(text) <= LENIENT else None


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


def unreadable(data: bytes) -> bytes | None:
    """What is no JSON as an error for whoever waits for it, if it is an answer and that much of it
    can be read; else None."""
    ends = data[:_LOOKED_AT] + b"\n" + data[-_LOOKED_AT:]
    if b'"method"' in ends or not re.search(rb'"(?:result|error)"', ends):
        return None
    found = re.search(rb'"id"\s*:\s*(\d{1,15})\s*[,}]', ends)
    return None if found is None else no_answer(int(found[1]))


def no_answer(number: object, message: str = NO_ANSWER) -> bytes | None:
    """An error for whoever waits for the answer with this id; None where it is no id."""
    if type(number) is not int and not isinstance(number, str):
        return None
    error = {"code": PARSE_ERROR, "message": message}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": number, "error": error})
