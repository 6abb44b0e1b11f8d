"""Between a transport and the SDK's session: long messages decoded off the loop, results kept
aside, floods slowed.

Results that are long, or all structure, are kept here; the SDK, which would look at all of them
more than once, is given one that says where the real one is.

The SDK takes a result apart by the letter of the specification, and one odd tool or block of
content would cost all of them. So it gets an empty result of the same kind, with a mark by which
the real one is found again.

Of a result the entries of its lists are built a few at a time, and its structured content stays the
text that it is: nobody wants more of it. Of other messages hardly anything is needed.
"""

import asyncio
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

import anyio
import msgspec

from alhena.mcp.message_guard import (
    LONG,
    PARSE_ERROR,
    Scan,
    scanned_in_steps,
    slimmed,
    understood,
)
from alhena.tools.threads import in_daemon_thread

if TYPE_CHECKING:
    from mcp.client._transport import ReadStream, WriteStream
    from mcp.shared.message import SessionMessage

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
        """True when it tells of a request of ours. The SDK's tokens are the ids of requests."""
        params: object = getattr(message, "params", None)
        if not isinstance(params, dict):
            return False
        token: object = cast("dict[str, Any]", params).get("progressToken")
        return isinstance(token, str | int) and (token in self._open or _other(token) in self._open)

    def _answers(self, number: str | int) -> bool:
        """True when a request with this id has had no answer yet. It has one now."""
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


def _refused(item: "SessionMessage", number: str | int) -> "SessionMessage":
    """A refusal in the place of a result that is not there any more."""
    from mcp_types import ErrorData, JSONRPCError

    error = ErrorData(code=PARSE_ERROR, message=CROWDED_OUT)
    refusal = JSONRPCError(jsonrpc="2.0", id=number, error=error)
    return type(item)(message=refusal, metadata=item.metadata)
