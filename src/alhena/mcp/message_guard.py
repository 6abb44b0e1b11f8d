"""Guards what servers send before the SDK reads it: bounded, decoded off the loop when long,
mended where it is nearly JSON.

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
"""

import asyncio
import codecs
import re
from array import array
from collections.abc import Iterator
from itertools import accumulate, chain
from typing import Any, cast

import msgspec

from alhena.mcp.screen import slimmed
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
        """Whether there are more values than were asked about."""
        return self.values > self._most

    @property
    def too_deep(self) -> bool:
        """Whether anything is nested deeper than the reader goes."""
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


KEPT = "alhena/kept"
MAX_KEPT = 100
"""Results on their way. One that nobody waits for any more may stay behind."""

MAX_HELD = 128 * 1024 * 1024
"""Bytes of memory that they may take."""

_WIDE = 4
"""Bytes that each character of a text takes in memory where one of them is far from ASCII."""

HEAVY = 16 * 1024
"""Bytes of a message that count as much as a message does."""

MANIFOLD = 100
"""Values of a message that do."""


class Intake:
    """The messages of one connection: what they weigh, and results that go around the SDK.
    `most` bytes of memory are taken by these."""

    def __init__(self, most: int = MAX_HELD) -> None:
        self._most = most
        self._kept: dict[str, tuple[dict[str, Any], int]] = {}
        self._held = 0
        self._count = 0
        self._answers: dict[str | int, int] = {}
        self._told = 0

    async def value(self, data: bytes) -> object:
        """A message as a value. Raises ValueError for what is none."""
        return (await self._understood(data))[0]

    async def text(self, data: bytes) -> bytes:
        """A message for a reader that would hold up the loop with a long one. What is no message is
        left to it."""
        try:
            value, text = await self._understood(data)
        except ValueError:
            return data if len(data) <= LONG else b'"no message"'
        if not isinstance(value, dict):
            return text
        message = cast("dict[str, Any]", value)
        result: object = message.get("result")
        if not isinstance(result, dict) or (text and len(text) <= LONG):
            return text or msgspec.json.encode(message)
        marked = {"_meta": {KEPT: self._keep(cast("dict[str, Any]", result), _size(data))}}
        return msgspec.json.encode({"jsonrpc": "2.0", "id": message.get("id"), "result": marked})

    def real(self, result: dict[str, Any]) -> dict[str, Any] | None:
        """The result that this one stands for, itself for one that stands for none; None for one
        that had to make room for others."""
        meta: object = result.get("_meta")
        mark: object = cast("dict[str, Any]", meta).get(KEPT) if isinstance(meta, dict) else None
        if not isinstance(mark, str):
            return result
        real, size = self._kept.pop(mark, (None, 0))
        self._held -= size
        return real

    def _keep(self, result: dict[str, Any], size: int) -> str:
        """The mark by which a result of this size is found again."""
        while self._kept and (len(self._kept) >= MAX_KEPT or self._held + size > self._most):
            self._held -= self._kept.pop(next(iter(self._kept)))[1]
        self._count += 1
        self._kept[str(self._count)] = result, size
        self._held += size
        return str(self._count)

    def weight(self, number: object = None) -> int:
        """What the answer with this id weighs beside that it is a message; without one, what has
        been told since this was last asked."""
        if isinstance(number, str | int):
            return self._answers.pop(number, 0)
        told, self._told = self._told, 0
        return told

    async def _understood(self, data: bytes) -> tuple[object, bytes]:
        """A message, and how it is written; b"" where that was too much."""
        scan = await scanned_in_steps(data)
        try:
            if scan.too_many:
                value, text = await slimmed(data), b""
            elif len(data) > LONG:
                value, text = await in_daemon_thread(lambda: understood(data))
            else:
                value, text = understood(data)
        except ValueError:
            self._told += _weight(scan, data)
            raise
        self._weigh(value, _weight(scan, data))
        return value, text

    def _weigh(self, value: object, weight: int) -> None:
        message = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        number: object = message.get("id")
        if not weight:
            return
        if "method" in message or not isinstance(number, str | int):
            self._told += weight
        else:
            self._answers[number] = weight
            while len(self._answers) > MAX_KEPT:
                del self._answers[next(iter(self._answers))]


def _size(data: bytes) -> int:
    """Bytes of memory that the texts of a message may take, as a value."""
    return len(data) if data.isascii() and b"\\u" not in data else _WIDE * len(data)


def _weight(scan: Scan, data: bytes) -> int:
    return max(len(data) // HEAVY, scan.values // MANIFOLD)
