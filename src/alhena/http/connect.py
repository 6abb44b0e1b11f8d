"""TCP and TLS connections as byte streams with idle timeouts."""

import asyncio
import threading
from collections import deque
from contextlib import suppress
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, cast

from alhena.http.addresses import HEAD_START, preferred_families, refusal

if TYPE_CHECKING:
    from ssl import SSLContext

HIGH_WATER = 1 << 18
"""Unread bytes (256 KiB) above which reading pauses."""

_BUFFER = 1 << 16
"""Bytes read from the socket at once. The buffer is reused: allocating the transport's default 256
KiB costs more than processing a small piece."""


class _Link(asyncio.BufferedProtocol):
    """The lifecycle of a connection, and the single task that may wait on it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._ended = False
        self._fault: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._deadline = 0.0
        self._silence: asyncio.TimerHandle | None = None
        self._closed = self._loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Stores the transport of the new connection."""
        self._transport = cast("asyncio.Transport", transport)

    def eof_received(self) -> None:
        """Records that the peer has closed its side."""
        self._ended = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Records that the socket is closed; `exc` is the reason, None after a regular end."""
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
        """Closes the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    async def aclose(self) -> None:
        """Closes the connection and waits until the socket is closed."""
        if self._transport is not None:
            self._transport.abort()
            await self._closed

    def _woken(self, idle: float) -> asyncio.Future[None]:
        """Done when woken, or with TimeoutError; one timer is reused, because every piece has a
        wait."""
        self._waiter = self._loop.create_future()
        self._deadline = self._loop.time() + idle
        if self._silence is None or self._silence.when() > self._deadline:
            self._start_timer()
        return self._waiter

    def _start_timer(self) -> None:
        if self._silence is not None:
            self._silence.cancel()
        self._silence = self._loop.call_at(self._deadline, self._check_silence)

    def _check_silence(self) -> None:
        self._silence = None
        if self._waiter is None or self._waiter.done():
            return
        if self._loop.time() < self._deadline:
            self._start_timer()
        else:
            self._waiter.set_exception(TimeoutError())

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class _ReadBuffer(threading.local):
    """The buffer into which all connections of a thread receive, one after the other."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(_BUFFER))


_received = _ReadBuffer()


class Channel(_Link):
    """One connection. It reads while a request is still being written, so that an early answer (a
    refusal of a large body) is not lost when the peer then closes.

    Only one task at a time may wait on it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._writable = True
        self._pieces: deque[bytes] = deque()
        self._unread = 0

    def get_buffer(self, sizehint: int) -> memoryview:
        """The buffer for the next bytes, which `buffer_updated` takes out at once."""
        del sizehint
        return _received.view

    def buffer_updated(self, nbytes: int) -> None:
        """Stores received bytes; pauses reading when too much is unread."""
        self._pieces.append(bytes(_received.view[:nbytes]))
        self._unread += nbytes
        if self._unread > HIGH_WATER and self._transport is not None:
            self._transport.pause_reading()
        self._wake()

    def pause_writing(self) -> None:
        """Records that the peer reads too slowly."""
        self._writable = False

    def resume_writing(self) -> None:
        """Records that the peer has caught up."""
        self._writable = True
        self._wake()

    @property
    def usable(self) -> bool:
        """True when an idle connection is open and has no unexpected data."""
        return not self._ended and not self._pieces

    @property
    def arrived(self) -> bool:
        """True when unread bytes have arrived."""
        return bool(self._pieces)

    @property
    def flushed(self) -> bool:
        """True when all written bytes have been sent."""
        return self._transport is not None and not self._transport.get_write_buffer_size()

    async def secure(self, tls: "SSLContext", host: str) -> None:
        """Starts TLS, with `host` as the peer's name. Raises OSError such as ssl.SSLError."""
        if self._transport is None:
            raise ConnectionResetError
        if self._pieces:  # they would be mistaken for encrypted data
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
        """Sends without waiting for the peer."""
        if self._transport is not None and not self._ended:
            self._transport.write(data)

    async def write(self, data: bytes, idle: float) -> None:
        """Sends; returns when the data is sent, an answer arrives or the peer has closed.

        Raises TimeoutError after `idle` seconds in which the peer accepted nothing.
        """
        self.put(data)
        while not self._writable and not self._pieces and not self._ended:
            await self._woken(idle)

    async def read(self, idle: float) -> bytes:
        """The received bytes, at least one; b"" once the peer has closed.

        Raises TimeoutError after `idle` seconds of silence, OSError when the connection failed.
        """
        while not self._pieces:
            if self._fault is not None:
                raise self._fault
            if self._ended:
                return b""
            await self._woken(idle)
        return self.take()

    def take(self) -> bytes:
        """The received bytes, without waiting."""
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        if self._unread > HIGH_WATER and self._transport is not None and not self._ended:
            self._transport.resume_reading()
        self._unread = 0
        return data


async def open_channel(host: str, port: int, tls: "SSLContext | None", limit: float) -> Channel:
    """Connects within `limit` seconds, name resolution and TLS handshake included.

    Raises TimeoutError or OSError (such as socket.gaierror and ssl.SSLError).
    """
    if refused := refusal(host):
        from alhena.errors import ProgramError

        raise ProgramError(refused, remedy="Use a TestModel or a replay instead.")
    async with asyncio.timeout(limit):
        for family in preferred_families():
            with suppress(OSError):
                return await _open_first(host, port, tls, host, family=family)
        loop = asyncio.get_running_loop()
        if isinstance(loop, asyncio.BaseEventLoop):
            return await _open_first(host, port, tls, host, happy_eyeballs_delay=HEAD_START)
        # Other loops, such as uvloop's, try one address after the other.
        return await _race_addresses(await resolve_addresses(host, port), host, port, tls)


async def _open_first(
    address: str, port: int, tls: "SSLContext | None", host: str, **options: Any
) -> Channel:
    """Connects to the first address that answers, with `host` as the peer's name."""
    _transport, channel = await asyncio.get_running_loop().create_connection(
        Channel,
        address,
        port,
        ssl=tls,
        server_hostname=host if tls is not None else None,
        **options,
    )
    return channel


async def resolve_addresses(host: str, port: int) -> list[str]:
    """The addresses of a host, with the families by turns (RFC 8305, 4). Raises OSError."""
    import socket

    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    first = [str(each[4][0]) for each in found if each[0] == found[0][0]]
    others = [str(each[4][0]) for each in found if each[0] != found[0][0]]
    pairs = zip_longest(first, others)
    return [address for pair in pairs for address in pair if address is not None]


async def _race_addresses(
    addresses: list[str], host: str, port: int, tls: "SSLContext | None"
) -> Channel:
    """Connects to the address that answers first; the next one is tried after `HEAD_START`."""
    waiting = deque(addresses)
    attempts: set[asyncio.Task[Channel]] = set()
    errors: list[OSError] = []
    try:
        while waiting or attempts:
            if waiting:
                attempt = _open_first(waiting.popleft(), port, tls, host)
                attempts.add(asyncio.ensure_future(attempt))
            done, _ = await asyncio.wait(
                attempts,
                timeout=HEAD_START if waiting else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for task in done:
                attempts.remove(task)
                try:
                    return task.result()
                except OSError as error:
                    errors.append(error)
    finally:
        await _end_attempts(attempts)
    raise errors[0] if errors else ConnectionError(f"{host} has no address")


async def _end_attempts(running: "set[asyncio.Task[Channel]]") -> None:
    """Ends attempts that another one has overtaken, and closes what they opened meanwhile."""
    for task in running:
        task.cancel()
    for result in await asyncio.gather(*running, return_exceptions=True):
        if isinstance(result, Channel):
            result.abort()
