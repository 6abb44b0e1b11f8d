"""Messages with more values than are built at once: what is needed of them, found without the rest.

Of a result the entries of its lists are built a few at a time, and its structured content stays the
text that it is: nobody wants more of it. Of other messages hardly anything is needed.
"""

import asyncio
from functools import cache
from typing import Any, cast

import msgspec

from alhena.mcp.connection import MAX_ENTRIES
from alhena.mcp.mending import mended
from alhena.mcp.readable import LONG, LONGEST, no_answer, understood, unreadable
from alhena.mcp.scan import MANY, scanned_in_steps
from alhena.tools.daemon import in_daemon_thread

MOST = 300_000
"""Values in one list of a result. An answer with more is none that can be used."""

MOST_LISTED = 500_000
"""Values of the entries of a page of what a server has. It goes without the entries behind them."""

CUT = "alhena/cut"
"""What a page of which that was done has beside its entries."""

LEFT_OUT = f"[a block with more than {MANY:,} values is left out]"

_TURN_S = 0.004
"""Seconds after which others have theirs."""

_NONE = msgspec.Raw(b"")

_LISTED = ("tools", "prompts", "resources")
_BLOCK: dict[str, Any] = {"type": "text", "text": LEFT_OUT}
_INSTEAD: dict[str, dict[str, Any]] = {
    "content": _BLOCK,
    "contents": {"text": LEFT_OUT},
    "messages": {"role": "user", "content": _BLOCK},
}
"""What stands for an entry with too many values, where its loss would not be seen."""


class _Error(msgspec.Struct):
    code: int
    message: str


class _Result(msgspec.Struct, rename="camel"):
    """What is used of any result."""

    content: msgspec.Raw = _NONE
    structured_content: msgspec.Raw = _NONE
    is_error: msgspec.Raw = _NONE
    tools: msgspec.Raw = _NONE
    prompts: msgspec.Raw = _NONE
    resources: msgspec.Raw = _NONE
    contents: msgspec.Raw = _NONE
    messages: msgspec.Raw = _NONE
    next_cursor: msgspec.Raw = _NONE
    result_type: msgspec.Raw = _NONE
    ttl_ms: msgspec.Raw = _NONE
    cache_scope: msgspec.Raw = _NONE
    protocol_version: msgspec.Raw = _NONE
    capabilities: msgspec.Raw = _NONE
    server_info: msgspec.Raw = _NONE
    instructions: msgspec.Raw = _NONE


class _Message(msgspec.Struct):
    """A message with the fields that tell what it is."""

    id: msgspec.Raw = _NONE
    method: msgspec.Raw = _NONE
    error: msgspec.Raw = _NONE


class _Answer(_Message):
    """One whose result, if it has any, is an object."""

    result: _Result | None = None


class _TooManyError(Exception):
    """A list has more values than are taken."""


async def slimmed(data: bytes) -> dict[str, Any]:
    """A message that says no more than is needed of this one. Structured content is a msgspec.Raw.
    Raises ValueError for what is no message."""
    message = _read(data)
    if message is None:
        text = await in_daemon_thread(lambda: mended(data))
        message = _read(text) if len(text) <= LONGEST else None
    if message is None:
        refusal = unreadable(data)
        if refusal is None:
            raise ValueError("it is no JSON")
        return msgspec.json.decode(refusal)
    await asyncio.sleep(0)
    number = _small(message.id)
    if message.method:
        return _asking(number, _small(message.method))
    if message.error:
        return _failed(number, message.error)
    if not isinstance(message, _Answer) or message.result is None:
        return _refused(number)
    try:
        return {"jsonrpc": "2.0", "id": number, "result": await _fields(message.result)}
    except _TooManyError:
        return _refused(number, f"its answer has a list of more than {MOST:,} values")


def _read(data: bytes) -> _Message | None:
    """None for what is no message. What is no answer in order is looked at once more."""
    for kind in (_Answer, _Message):
        try:
            return msgspec.json.decode(data, type=kind)
        except msgspec.ValidationError:
            continue
        except (ValueError, RecursionError):
            break
    return None


def _asking(number: object, method: object) -> dict[str, Any]:
    """A request without its parameters; a notification comes to no more than that there was one."""
    if number is not None:
        return {"jsonrpc": "2.0", "id": number, "method": method}
    if isinstance(method, str) and method.endswith("/list_changed"):
        return {"jsonrpc": "2.0", "method": method}  # its parameters say nothing
    said = f"{method} with more than {MANY:,} values is not looked at"
    params = {"level": "warning", "data": said}
    return {"jsonrpc": "2.0", "method": "notifications/message", "params": params}


def _failed(number: object, raw: msgspec.Raw) -> dict[str, Any]:
    try:
        error = msgspec.json.decode(raw, type=_Error)
    except (ValueError, RecursionError):
        return _refused(number)
    return {"jsonrpc": "2.0", "id": number, "error": msgspec.structs.asdict(error)}


def _refused(number: object, *message: str) -> dict[str, Any]:
    """Raises ValueError where nobody waits."""
    refusal = no_answer(number, *message)
    if refusal is None:
        raise ValueError("it answers nothing")
    return msgspec.json.decode(refusal)


async def _fields(result: _Result) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for field in msgspec.structs.fields(_Result):
        raw: msgspec.Raw = getattr(result, field.name)
        data, name = bytes(raw), field.encode_name
        if field.name == "structured_content":
            if data not in (b"", b"null"):
                fields[name] = raw
        elif data[:1] == b"[":
            fields[name], cut = await _list(name, data)
            if cut:
                fields[CUT] = True
        elif data:
            fields[name] = (await _value(data, _INSTEAD.get(name)))[0]
    if "structuredContent" in fields and _all_left_out(fields.get("content")):
        del fields["content"]
    return fields


def _all_left_out(content: object) -> bool:
    """Whether no block is there, so that others may stand in for them."""
    blocks = cast("list[object]", content) if isinstance(content, list) else []
    return bool(blocks) and all(each is _BLOCK for each in blocks)


async def _list(name: str, data: bytes) -> tuple[list[object], bool]:
    """Its entries, as far as there are not too many of what a server has, and whether there were.
    Raises _TooManyError for other lists."""
    if name in _LISTED:
        raws = [raw for raw in msgspec.structs.astuple(_first(data)) if raw]
        left = MOST_LISTED
    elif (await scanned_in_steps(data, MOST)).too_many:
        raise _TooManyError
    else:
        raws = msgspec.json.decode(data, type=list[msgspec.Raw])
        left = MOST
    entries: list[object] = []
    loop = asyncio.get_running_loop()
    begin = loop.time()
    for raw in raws:
        entry, values = await _value(bytes(raw), _INSTEAD.get(name), left)
        left -= values
        if left < 0:
            return entries, True
        entries.append(entry)
        if loop.time() - begin > _TURN_S:
            await asyncio.sleep(0)
            begin = loop.time()
    return entries, False


def _first(data: bytes) -> msgspec.Struct:
    """As many entries of a list as are taken, and one more; the others are not built."""
    return msgspec.json.decode(data, type=_head())


@cache
def _head() -> type[msgspec.Struct]:
    fields = ((f"entry_{each}", msgspec.Raw, _NONE) for each in range(MAX_ENTRIES + 1))
    return msgspec.defstruct("Head", fields, array_like=True)


async def _value(data: bytes, instead: object, most: int = MANY) -> tuple[object, int]:
    """A value, and how many it is made of; `instead` for one of too many, and of more than `most`
    none."""
    scan = await scanned_in_steps(data)
    if scan.too_many:
        return instead, 0
    if scan.values > most:
        return None, scan.values
    if len(data) <= LONG:
        return understood(data, whole=False)[0], scan.values
    return await in_daemon_thread(lambda: understood(data, whole=False)[0]), scan.values


def _small(raw: msgspec.Raw) -> object:
    """A text or a number; None for anything else, and for what is long."""
    data = bytes(raw)
    if len(data) > LONG or data[:1] in b"[{":
        return None
    value = understood(data, whole=False)[0]
    return value if type(value) is int or isinstance(value, str) else None
