"""Takes a connection that `early` opened into the event loop of its first request."""

import asyncio
import select
import socket
import time
from concurrent.futures import Future
from contextlib import suppress
from typing import cast

from alhena.http.addresses import HEAD_START
from alhena.http.connect import Channel
from alhena.http.early import PIECE, Opened, Peer, TlsState, close, take_attempt


async def take_early(peer: Peer, limit: float) -> Channel | None:
    """The connection that `open_early` opened; None without one that can be used. Waits for a
    handshake that is under way, `limit` seconds at most."""
    attempt = take_attempt(peer)
    if attempt is None:
        return None
    late = not attempt.connected and time.monotonic() - attempt.begun > HEAD_START
    if late or attempt.expired:  # the usual way tries several addresses at once
        attempt.when_done(close)
        return None
    done: Future[Opened | None] = Future()
    attempt.when_done(done.set_result)
    try:
        async with asyncio.timeout(limit):
            opened = await asyncio.shield(asyncio.wrap_future(done))
    except (TimeoutError, asyncio.CancelledError) as error:
        attempt.when_done(close)
        if isinstance(error, asyncio.CancelledError):
            raise
        return None
    if opened is None:
        return None
    try:
        return await _adopt(opened)
    except OSError:
        opened.sock.close()
        return None


async def _adopt(opened: Opened) -> Channel:
    """The channel over an open connection. Raises OSError for one that has ended meanwhile."""
    sock, state = opened.sock, opened.state
    sock.setblocking(False)
    _require_open(sock, state)
    loop = asyncio.get_running_loop()
    channel = Channel()
    if state is None:
        await loop.create_connection(lambda: channel, sock=sock)
    else:
        await loop.create_connection(lambda: _Decryption(channel, state), sock=sock)
    return channel


def _require_open(sock: socket.socket, state: TlsState | None) -> None:
    """Raises OSError when the peer has closed the connection, or has sent more than TLS needs."""
    while select.select([sock], [], [], 0)[0]:
        data = sock.recv(PIECE)
        if not data or state is None:
            raise ConnectionResetError
        state.incoming.write(data)
    if state is not None:
        import ssl

        with suppress(ssl.SSLWantReadError):
            state.tls.read(1)
            raise ConnectionResetError


class _Decryption(asyncio.Protocol):
    """Between a socket's transport and a `Channel`, whose transport it is: decrypts what comes and
    encrypts what goes, after a handshake that was done elsewhere."""

    def __init__(self, channel: Channel, state: TlsState) -> None:
        self._channel = channel
        self._tls, self._incoming, self._outgoing = state.tls, state.incoming, state.outgoing
        self._raw: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Hands itself to the channel as its transport."""
        self._raw = cast("asyncio.Transport", transport)
        self._channel.connection_made(self)  # pyright: ignore[reportArgumentType]

    def data_received(self, data: bytes) -> None:
        """Gives the channel what it can decrypt."""
        import ssl

        self._incoming.write(data)
        try:
            while True:
                buffer = self._channel.get_buffer(PIECE)
                count = self._tls.read(len(buffer), buffer)  # pyright: ignore[reportArgumentType]
                if not count:
                    break
                self._channel.buffer_updated(count)  # pyright: ignore[reportArgumentType]
        except ssl.SSLWantReadError:
            self._flush()
        except ssl.SSLZeroReturnError:
            self._channel.eof_received()
        except ssl.SSLError as error:
            self._channel.connection_lost(error)
            self.abort()

    def eof_received(self) -> None:
        """Tells the channel that the peer has closed."""
        self._channel.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tells the channel that the connection is gone."""
        self._raw = None
        self._channel.connection_lost(exc)

    def pause_writing(self) -> None:
        """Passes on that the peer reads too slowly."""
        self._channel.pause_writing()

    def resume_writing(self) -> None:
        """Passes on that the peer has caught up."""
        self._channel.resume_writing()

    def write(self, data: bytes) -> None:
        """Encrypts and sends, as `asyncio.Transport`."""
        self._tls.write(data)
        self._flush()

    def get_write_buffer_size(self) -> int:
        """As `asyncio.Transport`."""
        return 0 if self._raw is None else self._raw.get_write_buffer_size()

    def pause_reading(self) -> None:
        """As `asyncio.Transport`."""
        if self._raw is not None:
            self._raw.pause_reading()

    def resume_reading(self) -> None:
        """As `asyncio.Transport`."""
        if self._raw is not None:
            self._raw.resume_reading()

    def abort(self) -> None:
        """As `asyncio.Transport`."""
        if self._raw is not None:
            self._raw.abort()

    def _flush(self) -> None:
        if self._raw is not None and (data := self._outgoing.read()):
            self._raw.write(data)
