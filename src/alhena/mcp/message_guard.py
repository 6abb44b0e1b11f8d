"""Guards the SDK against server messages: limits them, repairs near-JSON, truncates long lists.

Long or deeply structured results are kept here; the SDK, which would traverse them more than once,
gets a placeholder that refers to the real one.

Servers send NaN, lone surrogates, and answers that violate the protocol. The SDK drops messages it
cannot read, so the caller would wait until its timeout. Such messages are repaired instead, in
slices: processing the whole at once would block all threads.

Building, traversing and freeing a message full of brackets blocks everything for seconds. So the
text is first scanned in slices by C functions: strings are removed, and the remaining brackets and
commas are counted.

Only schemas below any level that is checked or declared to a model are cut: otherwise one deep
schema would cost a server all of its tools.

List entries of a result are built a few at a time, and its structured content stays encoded. Hardly
anything of other messages is needed.
"""

import asyncio
import codecs
import re
from array import array
from collections.abc import Iterator
from functools import cache
from itertools import accumulate, chain
from typing import Any, cast

import msgspec

from alhena.mcp.connection import MAX_ENTRIES
from alhena.tools.threads import in_daemon_thread

SLICE = 64 * 1024
_ESCAPES, _WORDS = 24, 9
"""Bytes at the end of a slice that may start a sequence which must not be split: a surrogate pair,
or a word like -Infinity."""

_HIGH = rb"\\u[dD][89abAB][0-9a-fA-F]{2}"
_LOW = rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_TOKEN = re.compile(
    rb"(?P<pair>%b%b)|(?P<half>%b|%b)|\\.|(?P<quote>\")|(?P<constant>-?(?:NaN|Infinity)\b)"
    % (_HIGH, _LOW, _HIGH, _LOW),
    re.DOTALL,
)
_ODD = re.compile(rb"\\u[dD]|NaN|Infinity")
_WORD = re.compile(rb"[-A-Za-z]*\Z")
_HALF = re.compile(_HIGH)


def mended(data: bytes) -> bytes:
    """Repairs a text that is nearly JSON."""
    return b"".join(_pieces(data))


def _pieces(data: bytes) -> Iterator[bytes]:
    inside = False

    def put(found: re.Match[bytes]) -> bytes:
        nonlocal inside
        match found.lastgroup:
            case "quote":
                inside = not inside
            case "half":
                return rb"\ufffd"
            case "constant" if not inside:
                return b"null"
            case _:
                pass
        return found[0]

    rest = b""
    for piece in chain(_in_utf8(data), (b"",)):
        text = rest + piece
        cut = _cut(text) if piece else len(text)
        part, rest = text[:cut], text[cut:]
        if _ODD.search(part):
            yield _TOKEN.sub(put, part)
        else:
            plain = part.replace(b"\\\\", b"").replace(b'\\"', b"")
            inside ^= plain.count(b'"') % 2 == 1
            yield part


def _in_utf8(data: bytes) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for start in range(0, len(data), SLICE):
        yield decoder.decode(data[start : start + SLICE]).encode()
    yield decoder.decode(b"", final=True).encode()


def _cut(text: bytes) -> int:
    """Start of the part that may continue in the next slice."""
    cut = text.find(b"\\", max(len(text) - _ESCAPES, 0))
    if cut < 0:
        word = _WORD.search(text, max(len(text) - _WORDS, 0))
        cut = len(text) if word is None else word.start()
    if _HALF.fullmatch(text[:cut][-6:]):
        cut -= 6
    before = text[:cut]
    return cut - (len(before) - len(before.rstrip(b"\\"))) % 2


MANY = 10_000
"""Values built at once, which takes milliseconds."""

MAX_DEPTH = 180
"""Maximum nesting; the SDK's reader fails at 200."""

_SLICE = 64 * 1024
_BRACKETS = b"[{]}"
_STEPS = bytes.maketrans(_BRACKETS, b"\x01\x01\xff\xff")
_OTHERS = bytes(each for each in range(256) if each not in _BRACKETS)


class Scan:
    """State of a scan. `values` is an upper estimate, and counting stops once the limit is
    exceeded."""

    def __init__(self, most: int = MANY) -> None:
        self._most = most
        self._inside = False
        self._depth = 0
        self._deepest = 0
        self.values = 1

    @property
    def too_many(self) -> bool:
        """True when there are more values than the limit."""
        return self.values > self._most

    @property
    def too_deep(self) -> bool:
        """True when the nesting exceeds the reader's limit."""
        return self._deepest > MAX_DEPTH

    def feed(self, piece: bytes) -> None:
        """Scans bytes that do not end within an escape sequence."""
        parts = piece.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        plain = b"".join(parts[1::2] if self._inside else parts[::2])
        self._inside ^= len(parts) % 2 == 0
        opening = plain.count(b"[") + plain.count(b"{")
        self.values += opening + plain.count(b",")
        if self._depth + opening > MAX_DEPTH:
            steps = array("b", plain.translate(_STEPS, _OTHERS))
            self._deepest = max(self._deepest, *accumulate(steps, initial=self._depth))
        self._depth += opening - plain.count(b"]") - plain.count(b"}")


def scanned(data: bytes, most: int = MANY) -> Scan:
    """Scans a short text at once."""
    scan = Scan(most)
    for piece in _slices(data):
        scan.feed(piece)
        if scan.too_many:
            break
    return scan


async def scanned_in_steps(data: bytes, most: int = MANY) -> Scan:
    """Scans a text of any length and yields to other tasks."""
    scan = Scan(most)
    for number, piece in enumerate(_slices(data)):
        if number:
            await asyncio.sleep(0)
        scan.feed(piece)
        if scan.too_many:
            break
    return scan


def _slices(data: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(data):
        piece = data[start : start + _SLICE]
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2:
            piece = data[start : start + _SLICE + 1]
        yield piece
        start += len(piece)


def flattened(data: bytes) -> bytes:
    """Returns `data` without parts nested too deep. Invalid JSON is left to the reader."""
    if not scanned(data, len(data)).too_deep:
        return data
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return data
    return msgspec.json.encode(cut(value))


def cut(value: object, left: int = MAX_DEPTH) -> object:
    """Copies a value without parts nested deeper than `left` levels."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {key: cut(item, left - 1) for key, item in members.items()} if left else {}
    if isinstance(value, list):
        return [cut(item, left - 1) for item in cast("list[Any]", value)] if left else []
    return value


NO_ANSWER = "its answer is none of the protocol"
PARSE_ERROR = -32700

LONG = 64 * 1024
"""Bytes above which a message is decoded off the event loop."""

LENIENT = 1024 * 1024
"""Maximum bytes of near-JSON decoded at once off the loop."""

LONGEST = 16 * 1024 * 1024
"""Maximum bytes of a message; only media need that much."""

_LOOKED_AT = 200
"""Bytes at either end of invalid JSON that are searched for the id of an answer."""


def readable(data: bytes, *, whole: bool = True) -> bytes:
    """Returns a message as it is if readable; otherwise without its unreadable parts, or as an
    error that answers the call. Invalid messages, and fragments (not `whole`) that are unreadable
    by themselves, are left to the reader."""
    return understood(data, whole=whole)[1]


def understood(data: bytes, *, whole: bool = True) -> tuple[object, bytes]:
    """Like `readable`, but also returns the value; None for a message left to the reader."""
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
    """Decodes a long text that is nearly JSON; None if that fails."""
    text = mended(data)
    if len(text) > LONGEST:
        return None
    try:
        return cast("object", msgspec.json.decode(text))
    except (ValueError, RecursionError):
        return _leniently(text) if len(text) <= LENIENT else None


def _leniently(data: bytes) -> object:
    """Decodes near-JSON leniently; None if that fails."""
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
    """Decodes NaN and Infinity to null."""


def _is_answer(message: dict[str, Any]) -> bool:
    if "error" not in message:
        return isinstance(message.get("result"), dict)
    error: object = message["error"]
    if not isinstance(error, dict):
        return False
    fields = cast("dict[str, Any]", error)
    return type(fields.get("code")) is int and isinstance(fields.get("message"), str)


def unreadable(data: bytes) -> bytes | None:
    """Converts unreadable JSON to an error for the waiting call, if it is an answer with a readable
    id; None otherwise."""
    ends = data[:_LOOKED_AT] + b"\n" + data[-_LOOKED_AT:]
    if b'"method"' in ends or not re.search(rb'"(?:result|error)"', ends):
        return None
    found = re.search(rb'"id"\s*:\s*(\d{1,15})\s*[,}]', ends)
    return None if found is None else no_answer(int(found[1]))


def no_answer(number: object, message: str = NO_ANSWER) -> bytes | None:
    """An error that answers the call with this id; None for an invalid id."""
    if type(number) is not int and not isinstance(number, str):
        return None
    error = {"code": PARSE_ERROR, "message": message}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": number, "error": error})


MOST = 300_000
"""Maximum values in one list of a result; a larger result becomes an error."""

MOST_LISTED = 500_000
"""Maximum values in a page of a server's list; later entries are dropped."""

CUT = "alhena/cut"
"""Marks a page whose entries were truncated."""

LEFT_OUT = f"[a block with more than {MANY:,} values is left out]"

_TURN_S = 0.004
"""Seconds after which a scan yields to other tasks."""

_NONE = msgspec.Raw(b"")

_LISTED = ("tools", "prompts", "resources")
_BLOCK: dict[str, Any] = {"type": "text", "text": LEFT_OUT}
_INSTEAD: dict[str, dict[str, Any]] = {
    "content": _BLOCK,
    "contents": {"text": LEFT_OUT},
    "messages": {"role": "user", "content": _BLOCK},
}
"""Placeholders for entries with too many values, where a missing entry would go unnoticed."""


class _Error(msgspec.Struct):
    code: int
    message: str


class _Result(msgspec.Struct, rename="camel"):
    """The fields used of any result."""

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
    """A message with the fields that identify its kind."""

    id: msgspec.Raw = _NONE
    method: msgspec.Raw = _NONE
    error: msgspec.Raw = _NONE


class _Answer(_Message):
    """An answer whose result, if any, is an object."""

    result: _Result | None = None


class _TooManyError(Exception):
    """A list has too many values."""


async def slimmed(data: bytes) -> dict[str, Any]:
    """Reduces a message to the needed fields. Structured content stays a msgspec.Raw. Raises
    ValueError for an invalid message."""
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
    """Decodes a message; None if invalid. Irregular answers are decoded a second way."""
    for kind in (_Answer, _Message):
        try:
            return msgspec.json.decode(data, type=kind)
        except msgspec.ValidationError:
            continue
        except (ValueError, RecursionError):
            break
    return None


def _asking(number: object, method: object) -> dict[str, Any]:
    """A request without its parameters; of a notification only its method remains."""
    if number is not None:
        return {"jsonrpc": "2.0", "id": number, "method": method}
    if isinstance(method, str) and method.endswith("/list_changed"):
        return {"jsonrpc": "2.0", "method": method}  # its parameters are not needed
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
    """Builds an error for the call. Raises ValueError without a valid id."""
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
    """True when every block was dropped, so that placeholders are needed."""
    blocks = cast("list[object]", content) if isinstance(content, list) else []
    return bool(blocks) and all(each is _BLOCK for each in blocks)


async def _list(name: str, data: bytes) -> tuple[list[object], bool]:
    """The list's entries up to the limit, and True if it was truncated. Raises _TooManyError for
    lists that must be complete."""
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
    """Decodes the allowed number of entries and one more; later ones are not built."""
    return msgspec.json.decode(data, type=_head())


@cache
def _head() -> type[msgspec.Struct]:
    fields = ((f"entry_{each}", msgspec.Raw, _NONE) for each in range(MAX_ENTRIES + 1))
    return msgspec.defstruct("Head", fields, array_like=True)


async def _value(data: bytes, instead: object, most: int = MANY) -> tuple[object, int]:
    """A value and its number of parts; `instead` of a value with too many, nothing beyond
    `most`."""
    scan = await scanned_in_steps(data)
    if scan.too_many:
        return instead, 0
    if scan.values > most:
        return None, scan.values
    if len(data) <= LONG:
        return understood(data, whole=False)[0], scan.values
    return await in_daemon_thread(lambda: understood(data, whole=False)[0]), scan.values


def _small(raw: msgspec.Raw) -> object:
    """A short text or a number; None for anything else."""
    data = bytes(raw)
    if len(data) > LONG or data[:1] in b"[{":
        return None
    value = understood(data, whole=False)[0]
    return value if type(value) is int or isinstance(value, str) else None
