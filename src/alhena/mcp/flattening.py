"""JSON that is nested too deeply for the SDK's reader, cut to a depth it can take.

Otherwise one deep schema would cost a server all of its tools. What is cut are schemas below any
level that is looked at, or told to a model.
"""

from typing import Any, cast

import msgspec

MAX_DEPTH = 180
"""Levels of arrays and objects; the reader gives up at 200."""


def flattened(data: bytes) -> bytes:
    """`data` as it is, or what it says without what is nested deeper. What is no JSON is left to
    the reader."""
    if data.count(b"{") + data.count(b"[") <= MAX_DEPTH:
        return data
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return data
    if not _is_deeper(value):
        return data
    return msgspec.json.encode(_cut(value, MAX_DEPTH))


def _is_deeper(value: object) -> bool:
    waiting = [(value, MAX_DEPTH)]
    while waiting:
        item, left = waiting.pop()
        below = _below(item)
        if below and left == 0:
            return True
        waiting.extend((each, left - 1) for each in below)
    return False


def _below(value: object) -> list[Any]:
    if isinstance(value, dict):
        return list(cast("dict[str, Any]", value).values())
    return cast("list[Any]", value) if isinstance(value, list) else []


def _cut(value: object, left: int) -> object:
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {key: _cut(item, left - 1) for key, item in members.items()} if left else {}
    if isinstance(value, list):
        return [_cut(item, left - 1) for item in cast("list[Any]", value)] if left else []
    return value
