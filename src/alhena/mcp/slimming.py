"""Messages with more values than are built at once: what is needed of them, found without the rest.

Of a result the entries of its lists are built a few at a time, and its structured content stays the
text that it is: nobody wants more of it. Of other messages hardly anything is needed.
"""

import asyncio
from typing import Any

import msgspec

from alhena.mcp.mending import mended
from alhena.mcp.readable import LONG, LONGEST, no_answer, understood, unreadable
from alhena.mcp.scan import MANY, scanned, scanned_in_steps
from alhena.tools.daemon import in_daemon_thread

MOST = 300_000
"""Values in one list of a result. An answer with more is none that can be used."""

_TURN_S = 0.004
"""Seconds after which others have theirs."""

_NONE = msgspec.Raw(b"")


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
        if field.name == "structured_content" and raw:
            fields[field.encode_name] = raw
        elif raw:
            data = bytes(raw)
            fields[field.encode_name] = await (_list(data) if data[:1] == b"[" else _value(data))
    return fields


async def _list(data: bytes) -> list[object]:
    """Its entries, None for those with too many values. Raises _TooManyError."""
    if (await scanned_in_steps(data, MOST)).too_many:
        raise _TooManyError
    entries: list[object] = []
    loop = asyncio.get_running_loop()
    begin = loop.time()
    for raw in msgspec.json.decode(data, type=list[msgspec.Raw]):
        entry = bytes(raw)
        entries.append(await _value(entry) if len(entry) > LONG else _short(entry))
        if loop.time() - begin > _TURN_S:
            await asyncio.sleep(0)
            begin = loop.time()
    return entries


async def _value(data: bytes) -> object:
    """None for one with too many values."""
    if len(data) <= LONG:
        return _short(data)
    if (await scanned_in_steps(data)).too_many:
        return None
    return await in_daemon_thread(lambda: understood(data, whole=False)[0])


def _short(data: bytes) -> object:
    return None if scanned(data).too_many else understood(data, whole=False)[0]


def _small(raw: msgspec.Raw) -> object:
    """A text or a number; None for anything else, and for what is long."""
    data = bytes(raw)
    value = _short(data) if len(data) <= LONG else None
    return value if type(value) is int or isinstance(value, str) else None
