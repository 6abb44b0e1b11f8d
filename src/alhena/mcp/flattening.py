"""JSON that is nested too deeply for the SDK's reader, cut to a depth it can take.

Otherwise one deep schema would cost a server all of its tools. What is cut are schemas below any
level that is looked at, or told to a model.
"""

from typing import Any, cast

import msgspec

from alhena.mcp.scan import MAX_DEPTH, scanned


def flattened(data: bytes) -> bytes:
    """`data` as it is, or what it says without what is nested deeper. What is no JSON is left to
    the reader."""
    if not scanned(data, len(data)).too_deep:
        return data
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return data
    return msgspec.json.encode(cut(value))


def cut(value: object, left: int = MAX_DEPTH) -> object:
    """A value without what is nested deeper than so many levels."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {key: cut(item, left - 1) for key, item in members.items()} if left else {}
    if isinstance(value, list):
        return [cut(item, left - 1) for item in cast("list[Any]", value)] if left else []
    return value
