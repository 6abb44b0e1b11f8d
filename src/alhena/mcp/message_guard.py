"""Guards what servers send before the SDK reads it: bounded, mended where it is nearly JSON,
long lists cut.

Results that are long, or all structure, are kept here; the SDK, which would look at all of them
more than once, is given one that says where the real one is.

Servers write NaN, halves of surrogate pairs, and answers without the shape that the protocol wants.
The SDK drops what it cannot read, and whoever waits for that answer would wait until its deadline.

They are mended where they stand, a slice at a time: what is done to the whole in one go holds up
all threads.

What a server sends may be all brackets, and building that, walking it and letting go of it again
holds up everybody for seconds. So a text is looked at first, a slice at a time, by what is done in
C: what stands in strings is taken out, and the brackets and commas that are left are counted.

Otherwise one deep schema would cost a server all of its tools. What is cut are schemas below any
level that is looked at, or told to a model.

Of a result the entries of its lists are built a few at a time, and its structured content stays the
text that it is: nobody wants more of it. Of other messages hardly anything is needed.
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
"""Bytes before the end of a slice in which may stand what has to stay together: halves of a pair,
and a word like -Infinity."""

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
    """What a text says, in JSON if it is nearly that."""
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
    """Where what may go on in the next slice begins."""
    cut = text.find(b"\\", max(len(text) - _ESCAPES, 0))
    if cut < 0:
        word = _WORD.search(text, max(len(text) - _WORDS, 0))
        cut = len(text) if word is None else word.start()
    if _HALF.fullmatch(text[:cut][-6:]):
        cut -= 6
    before = text[:cut]
    return cut - (len(before) - len(before.rstrip(b"\\"))) % 2


MANY = 10_000
"""Values that are built at once, which takes milliseconds."""

MAX_DEPTH = 180
"""Levels of arrays and objects; the SDK's reader gives up at 200."""

_SLICE = 64 * 1024
_BRACKETS = b"[{]}"
_STEPS = bytes.maketrans(_BRACKETS, b"\x01\x01\xff\xff")
_OTHERS = bytes(each for each in range(256) if each not in _BRACKETS)


class Scan:
    """What has been found so far. `values` are not less than there are, and no more are counted
    than it takes to know that there are too many."""

    def __init__(self, most: int = MANY) -> None:
        self._most = most
        self._inside = False
        self._depth = 0
        self._deepest = 0
        self.values = 1

    @property
    def too_many(self) -> bool:
        """True when there are more values than were asked about."""
        return self.values > self._most

    @property
    def too_deep(self) -> bool:
        """True when anything is nested deeper than the reader goes."""
        return self._deepest > MAX_DEPTH

    def feed(self, piece: bytes) -> None:
        """Takes bytes of which the last is not the first half of an escape."""
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
    """A text that is short, or that nobody waits for."""
    scan = Scan(most)
    for piece in _slices(data):
        scan.feed(piece)
        if scan.too_many:
            break
    return scan


async def scanned_in_steps(data: bytes, most: int = MANY) -> Scan:
    """A text of any length, while others have their turns."""
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
    """True when no block is there, so that others may stand in for them."""
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
