"""A TCP or TLS connection as bytes in and bytes out, with limits on silence."""

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Self, cast

if TYPE_CHECKING:
    from contextvars import Context
    from ssl import SSLContext

HIGH_WATER = 1 << 18
"""Unread bytes (256 KiB) above which the peer is made to wait."""


_BUFFER = 1 << 16
"""Bytes taken from the socket at once. The buffer is made once: a new one of the 256 KiB that a
transport otherwise asks for costs more than all that is done with a small piece."""


class _Wait:
    """What a task waits for: to the task a future, of which it uses these methods and no others.

    A future has the task go on in the next turn of the event loop, which costs another look at all
    sockets and as much time as is taken by what is then done with a small piece. `go_on` does
    without: the task runs within it, until it waits again.
    """

    __slots__ = ("_asyncio_future_blocking", "_context", "_fault", "_loop", "_resume", "done")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.done = False
        self._loop = loop
        self._fault: BaseException | None = None
        self._resume: Callable[[Self], object] | None = None
        self._context: Context | None = None
        self._asyncio_future_blocking = False

    def __await__(self) -> Generator[Self, None, None]:
        """Waits; raises what it was ended with."""
        self._asyncio_future_blocking = True
        yield self

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """The event loop."""
        return self._loop

    def add_done_callback(
        self, resume: Callable[[Self], object], *, context: "Context | None" = None
    ) -> None:
        """The task waits from now on."""
        self._resume = resume
        self._context = context

    def cancel(self, msg: str | None = None) -> bool:
        """The task is cancelled."""
        if self.done:
            return False
        self.end(asyncio.CancelledError() if msg is None else asyncio.CancelledError(msg))
        return True

    def result(self) -> None:
        """Raises what the task is to go on with."""
        if self._fault is not None:
            raise self._fault

    def end(self, fault: BaseException | None = None) -> None:
        """Ends the wait, as a future does."""
        self.done = True
        self._fault = fault
        if self._resume is not None:
            self._loop.call_soon(self._resume, self, context=self._context)

    def go_on(self) -> None:
        """Ends the wait, and has the task go on at once unless another one is running."""
        if self._resume is None or self._context is None or _running(self._loop) is not None:
            self.end()
        else:
            self.done = True
            self._context.run(self._resume, self)


_running = asyncio.current_task


class _Link(asyncio.BufferedProtocol):
    """A connection's life, and the one task that may wait for something to happen on it."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._ended = False
        self._fault: Exception | None = None
        self._loop = asyncio.get_running_loop()
        self._waiter: _Wait | None = None
        self._deadline = 0.0
        self._silence: asyncio.TimerHandle | None = None
        self._closed = self._loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The event loop has connected."""
        self._transport = cast("asyncio.Transport", transport)

    def eof_received(self) -> None:
        """The peer sends no more."""
        self._ended = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone; `exc` says why, None after an orderly end."""
        self._ended = True
        self._fault = exc
        self._transport = None
        self._wake()
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None
        if not self._closed.done():
            self._closed.set_result(None)

    def abort(self) -> None:
        """Closes at once; the peer sees it without delay."""
        if self._transport is not None:
            self._transport.abort()

    async def aclose(self) -> None:
        """Closes and waits until the socket is gone."""
        if self._transport is not None:
            self._transport.abort()
            await self._closed

    async def _wait(self, idle: float) -> None:
        """Waits to be woken; one timer serves all waits, for there is one for each chunk."""
        self._waiter = waiter = _Wait(self._loop)
        self._deadline = self._loop.time() + idle
        if self._silence is None or self._silence.when() > self._deadline:
            self._watch_from_now()
        try:
            await waiter
        finally:
            self._waiter = None

    def _watch_from_now(self) -> None:
        if self._silence is not None:
            self._silence.cancel()
        self._silence = self._loop.call_at(self._deadline, self._judge_silence)

    def _judge_silence(self) -> None:
        self._silence = None
        if self._waiter is None or self._waiter.done:
            return
        if self._loop.time() < self._deadline:
            self._watch_from_now()
        else:
            self._waiter.end(TimeoutError())

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done:
            self._waiter.end()


class Channel(_Link):
    """One connection. Reading goes on while a request is still being written, so that an answer
    that comes early (a refusal of a large body) is not lost when the peer then hangs up.

    One task at a time may wait on it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._buffer = memoryview(bytearray(_BUFFER))
        self._pieces: deque[bytes] = deque()
        self._unread = 0
        self._writable = True

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next bytes go."""
        del sizehint
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Keeps what arrived; pauses the peer when too much is unread."""
        self._pieces.append(bytes(self._buffer[:nbytes]))
        self._unread += nbytes
        if self._unread > HIGH_WATER and self._transport is not None:
            self._transport.pause_reading()
        if self._waiter is not None and not self._waiter.done:
            self._waiter.go_on()

    def pause_writing(self) -> None:
        """The peer does not keep up."""
        self._writable = False

    def resume_writing(self) -> None:
        """The peer has caught up."""
        self._writable = True
        self._wake()

    @property
    def usable(self) -> bool:
        """Whether an idle connection can take a request: open, and nothing unasked arrived."""
        return not self._ended and not self._pieces

    @property
    def arrived(self) -> bool:
        """Whether something can be taken."""
        return bool(self._pieces)

    @property
    def flushed(self) -> bool:
        """Whether all that was written has left for the network."""
        return self._transport is not None and not self._transport.get_write_buffer_size()

    async def secure(self, tls: "SSLContext", host: str) -> None:
        """Goes on in TLS, with `host` at the other end. Raises OSError, ssl.SSLError among them."""
        if self._transport is None:
            raise ConnectionResetError
        if self._pieces:  # they would pass for the beginning of what comes encrypted
            self._transport.abort()
            raise ConnectionAbortedError
        raw = self._transport
        try:
            secured = await self._loop.start_tls(raw, self, tls, server_hostname=host)
        except BaseException:
            raw.abort()
            raise
        if secured is None:
            raise ConnectionResetError
        self._transport = secured

    def put(self, data: bytes) -> None:
        """Sends without waiting for the peer to take it."""
        if self._transport is not None and not self._ended:
            self._transport.write(data)

    async def write(self, data: bytes, idle: float) -> None:
        """Sends; returns when the data is on its way, an answer arrives or the peer is gone.

        Raises TimeoutError after `idle` seconds in which the peer took nothing.
        """
        self.put(data)
        while not self._writable and not self._pieces and not self._ended:
            await self._wait(idle)

    async def read(self, idle: float) -> bytes:
        """What has arrived, waiting for at least a byte; b"" once the peer has closed.

        Raises TimeoutError after `idle` seconds of silence, OSError when the connection broke.
        """
        while not self._pieces:
            if self._fault is not None:
                raise self._fault
            if self._ended:
                return b""
            await self._wait(idle)
        return self.take()

    def take(self) -> bytes:
        """What has arrived, without waiting."""
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        if self._unread > HIGH_WATER and self._transport is not None and not self._ended:
            self._transport.resume_reading()
        self._unread = 0
        return data
