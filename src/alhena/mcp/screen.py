"""Filters messages between a transport and the SDK's session: decodes long ones off the event loop,
sets results aside, limits message floods.

Long or deeply structured results are kept here; the SDK, which would traverse them more than once,
gets a placeholder that refers to the real one.

The SDK validates results strictly, so that one invalid tool or content block would lose all of
them. So it gets an empty result of the same kind, with a mark that identifies the real one.

List entries of a result are built a few at a time, and its structured content stays encoded. Hardly
anything of other messages is needed.
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
"""Maximum number of pending results. Abandoned ones may remain."""

MAX_HELD = 128 * 1024 * 1024
"""Maximum bytes of memory they use."""

_WIDE = 4
"""Bytes per character of a text in memory if it contains wide characters."""

HEAVY = 16 * 1024
"""Bytes of a message that count as one more message."""

MANIFOLD = 100
"""Values of a message that count as one more message."""


class Intake:
    """The messages of one connection: their weight, and the results that bypass the SDK. These use
    at most `most` bytes of memory."""

    def __init__(self, most: int = MAX_HELD) -> None:
        self._most = most
        self._kept: dict[str, tuple[dict[str, Any], int]] = {}
        self._held = 0
        self._count = 0
        self._answers: dict[str | int, int] = {}
        self._told = 0

    async def value(self, data: bytes) -> object:
        """Decodes a message. Raises ValueError for an invalid one."""
        return (await self._understood(data))[0]

    async def text(self, data: bytes) -> bytes:
        """Reduces a long message for a reader that would block the loop. Invalid messages are left
        to the reader."""
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
        """The result behind a placeholder, or the result itself; None for one that was evicted."""
        meta: object = result.get("_meta")
        mark: object = cast("dict[str, Any]", meta).get(KEPT) if isinstance(meta, dict) else None
        if not isinstance(mark, str):
            return result
        real, size = self._kept.pop(mark, (None, 0))
        self._held -= size
        return real

    def _keep(self, result: dict[str, Any], size: int) -> str:
        """Stores a result of this size and returns its mark."""
        while self._kept and (len(self._kept) >= MAX_KEPT or self._held + size > self._most):
            self._held -= self._kept.pop(next(iter(self._kept)))[1]
        self._count += 1
        self._kept[str(self._count)] = result, size
        self._held += size
        return str(self._count)

    def weight(self, number: object = None) -> int:
        """Extra weight of the answer with this id; without an id, the weight of other messages
        since the last call."""
        if isinstance(number, str | int):
            return self._answers.pop(number, 0)
        told, self._told = self._told, 0
        return told

    async def _understood(self, data: bytes) -> tuple[object, bytes]:
        """The decoded message and its encoding; b"" if it was too large."""
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
    """Upper bound of the memory for the texts of a decoded message."""
    return len(data) if data.isascii() and b"\\u" not in data else _WIDE * len(data)


def _weight(scan: Scan, data: bytes) -> int:
    return max(len(data) // HEAVY, scan.values // MANIFOLD)


MARK = "alhena/result"

CROWDED_OUT = "its answer came with more of them than are kept"

COURTESY_S = 0.5
"""Seconds a server has to accept a cancellation."""

MAX_OWED = 32
"""Maximum number of unanswered requests of a server before reading pauses."""

BURST = 1_000
"""Number of unsolicited messages a server may send at once."""

RATE = 500.0
"""Further unsolicited messages read per second. A heavy one counts for many (see `Intake`)."""

PROGRESS_BURST = 50_000
"""Number of progress messages of running calls read without delay. Only as many as unsolicited
messages are passed on; the others are dropped cheaply."""

PROGRESS_RATE = 5_000.0
"""Further progress messages read per second."""

_EMPTY: dict[str, dict[str, Any]] = {
    "tools/list": {"tools": []},
    "prompts/list": {"prompts": []},
    "resources/list": {"resources": []},
    "tools/call": {"content": []},
    "prompts/get": {"messages": []},
    "resources/read": {"contents": []},
}
_KEPT = ("resultType", "ttlMs", "cacheScope")
"""Fields that later protocol revisions require beside the result."""


class Pace:
    """Rate limit for unsolicited messages, so that a server cannot use up the processor. `hurried`
    is called once when it applies; `clock` gives seconds."""

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
        """Counts messages read."""
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
    """The pending results of one connection. `unreadable` receives invalid messages, `ended` is
    called at the end of the stream, `hurried` when the rate limit applies, with the rate. `intake`
    knows the weights of messages."""

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
        """Takes the result behind a placeholder; {} for an unknown mark."""
        mark: object = cast("dict[str, Any]", meta).get(MARK) if isinstance(meta, dict) else None
        return self._results.pop(str(mark), {})

    def pause_s(self) -> float:
        """Seconds until the next message may be read."""
        return max(self._pace.wait_s(), self._progress.wait_s())

    async def room(self) -> None:
        """Waits until few answers are owed to the server and the rate limit allows reading: a
        server that sends endless requests without reading answers has to wait."""
        if (pause := self.pause_s()) > 0:
            await asyncio.sleep(pause)
        while self._owed >= MAX_OWED:
            self._room.clear()
            await self._room.wait()

    def sent(self, message: object) -> None:
        """Records a sent request, or its cancellation: its result is then dropped. A sent answer is
        no longer owed."""
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
        """The message to pass to the session instead of `item`; None to drop it."""
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
        """Stores a result and returns its placeholder."""
        self._results[mark] = real
        empty = {**_EMPTY[method], "_meta": {MARK: mark}}
        return empty | {key: real[key] for key in _KEPT if key in real}

    def _told(self, message: object, number: object) -> bool:
        """Records a request or a notification; returns True if the session should get it."""
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
            self._settle()  # its answer was cancelled
        return True

    def _under_way(self, message: object) -> bool:
        """True for progress of a request of ours. The SDK uses request ids as progress tokens."""
        params: object = getattr(message, "params", None)
        if not isinstance(params, dict):
            return False
        token: object = cast("dict[str, Any]", params).get("progressToken")
        return isinstance(token, str | int) and (token in self._open or _other(token) in self._open)

    def _answers(self, number: str | int) -> bool:
        """True once for each pending request id, which is then marked as answered."""
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
    """A stream that is closed with the transport's stream."""

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
    """The transport's messages, filtered."""

    def __init__(self, inner: "ReadStream[SessionMessage | Exception]", screen: Screen) -> None:
        super().__init__(inner)
        self._inner = inner
        self._screen = screen

    @property
    def last_context(self) -> object:
        """Context of the last message, for transports that have one."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> "SessionMessage | Exception":
        """Returns the next message. Raises anyio.EndOfStream."""
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
    """The stream to the transport; reports sent messages to the screen."""

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
            # A server that does not read would block the cancelled caller.
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
    """An error that replaces an evicted result."""
    from mcp_types import ErrorData, JSONRPCError

    error = ErrorData(code=PARSE_ERROR, message=CROWDED_OUT)
    refusal = JSONRPCError(jsonrpc="2.0", id=number, error=error)
    return type(item)(message=refusal, metadata=item.metadata)
