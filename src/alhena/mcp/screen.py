"""Between a transport and the SDK's session: results kept aside as the server gave them, floods
slowed, long lists cut.

The SDK takes a result apart by the letter of the specification, and one odd tool or block of
content would cost all of them. So it gets an empty result of the same kind, with a mark by which
the real one is found again.

Of a result the entries of its lists are built a few at a time, and its structured content stays the
text that it is: nobody wants more of it. Of other messages hardly anything is needed.
"""

import asyncio
import time
from collections.abc import Callable
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

import anyio
import msgspec

from alhena.mcp.connection import MAX_ENTRIES
from alhena.mcp.message_guard import (
    LONG,
    LONGEST,
    MANY,
    PARSE_ERROR,
    Intake,
    mended,
    no_answer,
    scanned_in_steps,
    understood,
    unreadable,
)
from alhena.tools.threads import in_daemon_thread

if TYPE_CHECKING:
    from mcp.client._transport import ReadStream, WriteStream
    from mcp.shared.message import SessionMessage

MARK = "alhena/result"

CROWDED_OUT = "its answer came with more of them than are kept"

COURTESY_S = 0.5
"""Seconds that a server has to take the news that nobody waits for an answer."""

MAX_OWED = 32
"""Requests of a server that may wait for our answers before nothing more of it is read."""

BURST = 1_000
"""Messages that nobody asked for which a server may send at once."""

RATE = 500.0
"""Such messages a second that are read beyond it. A heavy one counts for many (see `Intake`)."""

PROGRESS_BURST = 50_000
"""Messages about the progress of calls under way that are read as they come. Of those only as many
go on as of messages that nobody asked for; the others are dropped, which costs little."""

PROGRESS_RATE = 5_000.0
"""Such messages a second that are read beyond it."""

_EMPTY: dict[str, dict[str, Any]] = {
    "tools/list": {"tools": []},
    "prompts/list": {"prompts": []},
    "resources/list": {"resources": []},
    "tools/call": {"content": []},
    "prompts/get": {"messages": []},
    "resources/read": {"contents": []},
}
_KEPT = ("resultType", "ttlMs", "cacheScope")
"""What later revisions want beside the result itself."""


class Pace:
    """How fast messages that nobody asked for are read: who sends more of them has to wait, so that
    it costs no session its processor. `hurried` hears of it once; `clock` gives seconds."""

    def __init__(
        self,
        hurried: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
        *,
        burst: float = BURST,
        rate: float = RATE,
    ) -> None:
        self._hurried: Callable[[], None] | None = hurried
        self._clock = clock
        self._burst = burst
        self._rate = rate
        self._left = float(burst)
        self._at = clock()

    def came(self, count: int = 1) -> None:
        """So many were read."""
        now = self._clock()
        self._left = min(self._left + (now - self._at) * self._rate, self._burst) - count
        self._at = now

    def wait_s(self) -> float:
        """Seconds until the next message may be read."""
        if self._left >= 0:
            return 0.0
        if self._hurried is not None:
            self._hurried()
            self._hurried = None
        return max(-self._left / self._rate - (self._clock() - self._at), 0.0)


class Screen:
    """The results of one connection that have not been taken yet. `unreadable` hears of messages
    that are none, `ended` that no more will come, `hurried` that more come than are wanted, and how
    many a second are read. `intake` knows what they weigh."""

    def __init__(
        self,
        unreadable: Callable[[Exception], None],
        ended: Callable[[], None],
        hurried: Callable[[float], None],
        clock: Callable[[], float] = time.monotonic,
        intake: Intake | None = None,
    ) -> None:
        self._intake = intake or Intake()
        self._pace = Pace(lambda: hurried(RATE), clock)
        self._progress = Pace(
            lambda: hurried(PROGRESS_RATE), clock, burst=PROGRESS_BURST, rate=PROGRESS_RATE
        )
        self._passed_on = Pace(lambda: None, clock)
        self._open: set[str | int] = set()
        self._asked: dict[str | int, str] = {}
        self._results: dict[str, dict[str, Any]] = {}
        self._owed = 0
        self._room = asyncio.Event()
        self.unreadable = unreadable
        self.ended = ended

    def take(self, meta: object) -> dict[str, Any]:
        """The result that an empty one stands for; {} when it is none of these."""
        mark: object = cast("dict[str, Any]", meta).get(MARK) if isinstance(meta, dict) else None
        return self._results.pop(str(mark), {})

    def pause_s(self) -> float:
        """Seconds until the next message may be read."""
        return max(self._pace.wait_s(), self._progress.wait_s())

    async def room(self) -> None:
        """Returns when not too many answers are owed to the server: one that asks without end, and
        reads none of what it is told, has to wait itself, and so has one that tells without end."""
        if (pause := self.pause_s()) > 0:
            await asyncio.sleep(pause)
        while self._owed >= MAX_OWED:
            self._room.clear()
            await self._room.wait()

    def sent(self, message: object) -> None:
        """Takes note of a request, or of one that was given up: its result is not kept. An answer
        is none that is owed any longer."""
        method, number = getattr(message, "method", None), getattr(message, "id", None)
        if method is None and number is not None:
            self._settle()
        if method == "notifications/cancelled":
            params: object = getattr(message, "params", None)
            if isinstance(params, dict):
                given_up = cast("dict[str, Any]", params).get("requestId", "")
                self._asked.pop(given_up, None)
                self._open.discard(given_up)
                self._results.pop(str(given_up), None)
        if method is not None and isinstance(number, str | int):
            self._open.add(number)
        if method in _EMPTY and isinstance(number, str | int):
            self._asked[number] = method

    def received(self, item: "SessionMessage | Exception") -> "SessionMessage | Exception | None":
        """What goes on to the session in place of `item`; None when nothing does."""
        if isinstance(item, Exception):
            self._pace.came(1 + self._intake.weight())
            self.unreadable(item)
            return item
        message = item.message
        number, result = getattr(message, "id", None), getattr(message, "result", None)
        if hasattr(message, "method"):
            return item if self._told(message, number) else None
        weight = self._intake.weight(number)
        awaited = number is not None and self._answers(number)
        if not awaited:
            self._pace.came(1 + weight)
        if number is None:
            return item
        method = self._asked.pop(number, None) or self._asked.pop(_other(number), None)
        if not isinstance(result, dict):
            return item
        real = self._intake.real(cast("dict[str, Any]", result))
        if not awaited:
            return item
        if real is None:
            return _refused(item, number)
        if method is not None and real.get("resultType", "complete") == "complete":
            return _with_result(item, self._set_aside(str(number), method, real))
        return item if real is result else _with_result(item, real)

    def _set_aside(self, mark: str, method: str, real: dict[str, Any]) -> dict[str, Any]:
        """Keeps a result; what goes on in its place."""
        self._results[mark] = real
        empty = {**_EMPTY[method], "_meta": {MARK: mark}}
        return empty | {key: real[key] for key in _KEPT if key in real}

    def _told(self, message: object, number: object) -> bool:
        """Takes note of a request or a notification; returns whether the session is to have it."""
        method = getattr(message, "method", None)
        weight = 1 + self._intake.weight()
        if method == "notifications/progress" and self._under_way(message):
            self._progress.came(weight)
            if self._passed_on.wait_s() > 0:
                return False
            self._passed_on.came(weight)
            return True
        self._pace.came(weight)
        if number is not None:
            self._owed += 1
        elif method == "notifications/cancelled":
            self._settle()  # nobody waits for that answer
        return True

    def _under_way(self, message: object) -> bool:
        """Whether it tells of a request of ours. The SDK's tokens are the ids of requests."""
        params: object = getattr(message, "params", None)
        if not isinstance(params, dict):
            return False
        token: object = cast("dict[str, Any]", params).get("progressToken")
        return isinstance(token, str | int) and (token in self._open or _other(token) in self._open)

    def _answers(self, number: str | int) -> bool:
        """Whether a request with this id has had no answer yet. It has one now."""
        for each in (number, _other(number)):
            if each in self._open:
                self._open.discard(each)
                return True
        return False

    def _settle(self) -> None:
        self._owed = max(self._owed - 1, 0)
        self._room.set()


def _with_result(item: "SessionMessage", result: dict[str, Any]) -> "SessionMessage":
    replaced = cast("Any", item.message).model_copy(update={"result": result})
    return type(item)(message=replaced, metadata=item.metadata)


def _refused(item: "SessionMessage", number: str | int) -> "SessionMessage":
    """What stands for a result that is not there any more."""
    from mcp_types import ErrorData, JSONRPCError

    error = ErrorData(code=PARSE_ERROR, message=CROWDED_OUT)
    refusal = JSONRPCError(jsonrpc="2.0", id=number, error=error)
    return type(item)(message=refusal, metadata=item.metadata)


def _other(number: str | int) -> str | int:
    """The same id in the other type: servers echo 7 as "7"."""
    if isinstance(number, int):
        return str(number)
    return int(number) if number.isascii() and number.isdigit() and len(number) < 18 else number


class _Closing:
    """A stream that is closed with the transport's."""

    def __init__(
        self, inner: "ReadStream[SessionMessage | Exception] | WriteStream[SessionMessage]"
    ) -> None:
        self._stream = inner

    async def aclose(self) -> None:
        """Closes the transport's stream."""
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool | None:
        return await self._stream.__aexit__(exc_type, exc_val, exc_tb)


class ScreenedReader(_Closing):
    """The transport's messages, screened."""

    def __init__(self, inner: "ReadStream[SessionMessage | Exception]", screen: Screen) -> None:
        super().__init__(inner)
        self._inner = inner
        self._screen = screen

    @property
    def last_context(self) -> object:
        """Where the last message came from, for transports that know."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> "SessionMessage | Exception":
        """The next message. Raises anyio.EndOfStream."""
        while True:
            await self._screen.room()
            found = self._screen.received(await self._inner.receive())
            if found is not None:
                return found

    def __aiter__(self) -> "ReadStream[SessionMessage | Exception]":
        return self

    async def __anext__(self) -> "SessionMessage | Exception":
        while True:
            await self._screen.room()
            try:
                item = await self._inner.__anext__()
            except StopAsyncIteration:
                self._screen.ended()
                raise
            if (found := self._screen.received(item)) is not None:
                return found


class WatchedWriter(_Closing):
    """The stream to the transport; the screen learns what is asked."""

    def __init__(self, inner: "WriteStream[SessionMessage]", screen: Screen) -> None:
        super().__init__(inner)
        self._inner = inner
        self._screen = screen

    async def send(self, item: "SessionMessage", /) -> None:
        """Sends a message."""
        answer = not hasattr(item.message, "method")
        if not answer:
            self._screen.sent(item.message)
        if getattr(item.message, "method", None) == "notifications/cancelled":
            # One that reads nothing would have whoever gave up wait for it.
            with anyio.move_on_after(COURTESY_S):
                await self._inner.send(item)
            return
        await self._inner.send(item)
        if answer:
            self._screen.sent(item.message)

    async def aclose(self) -> None:
        """Closes the transport's stream."""
        await self._stream.aclose()


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
        return _refused_list(number)
    try:
        return {"jsonrpc": "2.0", "id": number, "result": await _fields(message.result)}
    except _TooManyError:
        return _refused_list(number, f"its answer has a list of more than {MOST:,} values")


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
        return _refused_list(number)
    return {"jsonrpc": "2.0", "id": number, "error": msgspec.structs.asdict(error)}


def _refused_list(number: object, *message: str) -> dict[str, Any]:
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
