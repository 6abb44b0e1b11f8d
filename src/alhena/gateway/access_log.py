"""Logs one line of JSON for each request, written by a separate thread; also a fast path for
chunks.

Each message of an ASGI application passes every layer of it and of the server, and becomes an event
of the HTTP library. Stream chunks need none of that and bypass it; the start and the end of an
answer take the usual way.
"""

import asyncio
import threading
import time
from collections.abc import Callable, MutableMapping
from queue import Full, Queue
from typing import Any, cast

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from alhena.events import timestamp
from alhena.gateway.dialects import answer_id
from alhena.gateway.faults import FaultKind
from alhena.wire.response import GenerateContentResponse

_LINE = "alhena.line"


class BodyWriter:
    """Writes chunks of an answer's body after its head was sent. `tell` receives the number of body
    bytes of each."""

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self.tell: Callable[[int], None] = _unheard
        self._cycle = cycle
        self._flow = cycle.flow
        self._transport = cycle.transport

    async def write(self, data: bytes) -> None:
        """Sends non-empty bytes once the client has accepted enough of the previous ones."""
        cycle = self._cycle
        if self._flow.write_paused and not cycle.disconnected:
            await self._flow.drain()
        if self._transport.is_closing():
            # The connection failed, which the cycle will learn in the next loop iteration.
            await asyncio.sleep(0)
        elif not cycle.disconnected:
            self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))
            self.tell(len(data))


class ChunkedProtocol(H11Protocol):
    """Gives a `BodyWriter` to each request whose answer can be chunked, which excludes HTTP/1.0."""

    def handle_events(self) -> None:
        """Handles events of h11; a request that begins with them has not been processed yet."""
        super().handle_events()
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is not None and self.conn.their_http_version == b"1.1":
            scope = cast("MutableMapping[str, Any]", cycle.scope)
            if _LINE not in scope:
                scope[_LINE] = BodyWriter(cycle)


def line_of(scope: Any) -> BodyWriter | None:
    """The line of a request; None without one, or behind another server."""
    line: BodyWriter | None = scope.get(_LINE)
    return line


def _unheard(count: int) -> None:
    del count


ENTRY = "alhena.entry"
STALLED = "client stalled"
"""The outcome of an answer whose client accepted nothing for too long."""
_CUT = 503


class LogEntry(msgspec.Struct, rename="camel", omit_defaults=True):
    """The log entry of a request. `status` is 499 when the client disconnected before the answer;
    `outcome` describes an incomplete end, `detail` the private part of the reason: addresses and
    file names."""

    id: str
    time: str
    method: str
    path: str
    dialect: str = ""
    model: str = ""
    served_by: str = ""
    stream: bool = False
    status: int = 0
    outcome: str = ""
    detail: str = ""
    ms: float = 0.0
    first_byte_ms: float | None = None
    bytes_in: int = 0
    bytes_out: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None

    def line(self) -> str:
        """Encodes the log line."""
        return msgspec.json.encode(self).decode("utf-8") + "\n"

    def count(self, response: GenerateContentResponse) -> None:
        """Records the token counts of an answer."""
        usage = response.usage_metadata
        if usage is not None:
            self.input_tokens = usage.prompt_token_count
            self.output_tokens = usage.candidates_token_count + usage.thoughts_token_count


class AccessLog:
    """Logs a line for each request answered by `app`, and adds its id to answers. `write` gets text
    with its newline; it must not block.

    Paths are logged without their query, which may contain a key.
    """

    def __init__(self, app: ASGIApp, write: Callable[[str], None]) -> None:
        self._app = app
        self._write = write

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        entry = LogEntry(
            id=answer_id(),
            time=timestamp(time.time_ns()),
            method=scope["method"],
            path=scope["path"][:300],
        )
        scope[ENTRY] = entry
        start = time.perf_counter()

        def wrote(count: int) -> None:
            if count and entry.first_byte_ms is None:
                entry.first_byte_ms = _since(start)
            entry.bytes_out += count

        async def send_and_count(message: Message) -> None:
            if message["type"] == "http.response.body":
                wrote(len(message.get("body", b"")))
            else:
                entry.status = message["status"]
                token = entry.id.encode("ascii")
                known = [(b"x-request-id", token), (b"request-id", token)]
                message["headers"] = [*message["headers"], *known]
            await send(message)

        if (line := line_of(scope)) is not None:
            line.tell = wrote
        try:
            await self._app(scope, receive, send_and_count)
        except asyncio.CancelledError:  # only the server's shutdown does that
            entry.outcome = entry.outcome or FaultKind.STOPPING
            entry.status = entry.status or _CUT
            raise
        finally:
            entry.ms = _since(start)
            self._write(entry.line())


def entry_of(scope: Any) -> LogEntry:
    """The entry of a current request."""
    entry: LogEntry = scope[ENTRY]
    return entry


def _since(start: float) -> float:
    return round((time.perf_counter() - start) * 1000, 2)


CAPACITY = 4096
"""Maximum lines waiting to be written."""


class LogWriter:
    """Passes lines to `write`, which may block. When `capacity` lines wait, further ones are
    dropped; their number is logged once there is room again."""

    def __init__(self, write: Callable[[str], None], *, capacity: int = CAPACITY) -> None:
        self._write = write
        self._lines: Queue[str | None] = Queue(capacity)
        self._dropped = 0
        self._lock = threading.Lock()
        # A stuck reader must not keep the process from exiting.
        self._thread = threading.Thread(target=self._run, name="gateway-log", daemon=True)
        self._thread.start()

    def put(self, line: str) -> None:
        """Queues a line with its newline; never waits."""
        try:
            self._lines.put_nowait(line)
        except Full:
            with self._lock:
                self._dropped += 1

    def close(self, timeout_s: float) -> bool:
        """Waits up to `timeout_s` until all lines are written; True if they are."""
        try:
            self._lines.put(None, timeout=timeout_s)
        except Full:
            return False
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (line := self._lines.get()) is not None:
            self._write(line)
            self._tell_dropped()
        self._tell_dropped()

    def _tell_dropped(self) -> None:
        with self._lock:
            count, self._dropped = self._dropped, 0
        if count:
            message = f"{count} lines of this log were dropped: its reader was too slow."
            told = {"level": "warning", "message": message, "dropped": count}
            self._write(msgspec.json.encode(told).decode("utf-8") + "\n")
