"""A connection that is opened in a thread while the rest of a program loads, for its first request.

Only the connection is opened; nothing is sent over it. What fails here fails silently: the request
then connects in the usual way, which says what is wrong.
"""

import asyncio
import select
import socket
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, cast

import msgspec

from alhena.errors import AlhenaError
from alhena.http.connect import HEAD_START, Channel, preferred_families, refusal, tls_context

if TYPE_CHECKING:
    from ssl import MemoryBIO, SSLContext, SSLObject

LASTS_S = 90.0
"""Seconds after which an unused connection is closed."""
_CONNECT_S = 10.0
_PIECE = 1 << 16


class Peer(msgspec.Struct, frozen=True):
    """The host and port of a connection; `secure`: with TLS."""

    host: str
    port: int
    secure: bool


class _TlsState(msgspec.Struct, frozen=True):
    """A finished handshake, and the encrypted bytes on their way in and out."""

    tls: "SSLObject"
    incoming: "MemoryBIO"
    outgoing: "MemoryBIO"


class _Opened(msgspec.Struct, frozen=True):
    sock: socket.socket
    state: _TlsState | None


class _Attempt:
    """A connection that a thread opens. `connected` is set when its TCP connection is there."""

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self.connected = False
        self.done: Future[_Opened | None] = Future()

    @property
    def expired(self) -> bool:
        """True for one that is too old to be used."""
        return time.monotonic() - self.begun > LASTS_S


_attempts: dict[Peer, _Attempt] = {}


def open_early(peer: Peer, environ: Mapping[str, str]) -> None:
    """Begins to open a connection, and returns at once. Does nothing while one is ready."""
    if refusal(peer.host):
        return
    earlier = _attempts.get(peer)
    if earlier is not None and not earlier.expired:
        return
    if earlier is not None:
        earlier.done.add_done_callback(_close)
    attempt = _attempts[peer] = _Attempt()
    work = Thread(target=_open, args=(attempt, peer, lambda: tls_context(environ)), daemon=True)
    work.start()


def _open(attempt: _Attempt, peer: Peer, context: "Callable[[], SSLContext]") -> None:
    opened: _Opened | None = None
    try:
        sock = _connect(peer)
        attempt.connected = True
        try:
            opened = _Opened(
                sock, _shake_hands(sock, peer.host, context()) if peer.secure else None
            )
        finally:
            if opened is None:
                sock.close()
    except (OSError, AlhenaError):
        opened = None  # the request will meet the same, and say it
    finally:
        attempt.done.set_result(opened)


def _connect(peer: Peer) -> socket.socket:
    """A TCP connection to the first address that answers. Raises OSError."""
    found = socket.getaddrinfo(peer.host, peer.port, type=socket.SOCK_STREAM)
    preferred = preferred_families()
    found.sort(key=lambda each: each[0] not in preferred)
    problem: OSError = ConnectionError(f"{peer.host} has no address")
    for family, kind, protocol, _, address in found:
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(_CONNECT_S)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.connect(address)
        except OSError as error:
            sock.close()
            problem = error
        else:
            return sock
    raise problem


def _shake_hands(sock: socket.socket, host: str, context: "SSLContext") -> _TlsState:
    """Does a TLS handshake. Raises OSError."""
    import ssl

    state = _TlsState(
        context.wrap_bio(
            incoming := ssl.MemoryBIO(), outgoing := ssl.MemoryBIO(), server_hostname=host
        ),
        incoming,
        outgoing,
    )
    while True:
        try:
            state.tls.do_handshake()
        except ssl.SSLWantReadError:
            sock.sendall(outgoing.read())
            data = sock.recv(_PIECE)
            if not data:
                raise ConnectionResetError from None
            incoming.write(data)
        else:
            sock.sendall(outgoing.read())
            return state


def _close(done: "Future[_Opened | None]") -> None:
    opened = done.result()
    if opened is not None:
        opened.sock.close()


def close_unused() -> None:
    """Closes the connections that no request has taken."""
    while _attempts:
        _, attempt = _attempts.popitem()
        attempt.done.add_done_callback(_close)


async def take_early(peer: Peer, limit: float) -> Channel | None:
    """The connection that `open_early` opened; None without one that can be used. Waits for a
    handshake that is under way, `limit` seconds at most."""
    attempt = _attempts.pop(peer, None)
    if attempt is None:
        return None
    late = not attempt.connected and time.monotonic() - attempt.begun > HEAD_START
    if late or attempt.expired:  # the usual way tries several addresses at once
        attempt.done.add_done_callback(_close)
        return None
    try:
        async with asyncio.timeout(limit):
            opened = await asyncio.shield(asyncio.wrap_future(attempt.done))
    except (TimeoutError, asyncio.CancelledError) as error:
        attempt.done.add_done_callback(_close)
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


async def _adopt(opened: _Opened) -> Channel:
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


def _require_open(sock: socket.socket, state: _TlsState | None) -> None:
    """Raises OSError when the peer has closed the connection, or has sent more than TLS needs."""
    while select.select([sock], [], [], 0)[0]:
        data = sock.recv(_PIECE)
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

    def __init__(self, channel: Channel, state: _TlsState) -> None:
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
                buffer = self._channel.get_buffer(_PIECE)
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
