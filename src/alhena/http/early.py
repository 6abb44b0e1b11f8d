"""A connection that is opened in a thread while the rest of a program loads, for its first request.

Only the connection is opened; nothing is sent over it. What fails here fails silently: the request
then connects in the usual way, which says what is wrong.
"""

import socket
import time
from collections.abc import Callable, Mapping
from threading import Lock, Thread
from typing import TYPE_CHECKING

import msgspec

from alhena.errors import AlhenaError, ConfigError
from alhena.http.addresses import Endpoint, parse_proxy, preferred_families, proxy_for, refusal

if TYPE_CHECKING:
    from ssl import MemoryBIO, SSLContext, SSLObject

LASTS_S = 90.0
"""Seconds after which an unused connection is closed."""
_CONNECT_S = 10.0
PIECE = 1 << 16


class Peer(msgspec.Struct, frozen=True):
    """The host and port of a connection; `secure`: with TLS."""

    host: str
    port: int
    secure: bool


class TlsState(msgspec.Struct, frozen=True):
    """A finished handshake, and the encrypted bytes on their way in and out."""

    tls: "SSLObject"
    incoming: "MemoryBIO"
    outgoing: "MemoryBIO"


class Opened(msgspec.Struct, frozen=True):
    """An open connection; `state` is that of its TLS, if any."""

    sock: socket.socket
    state: TlsState | None


class EarlyAttempt:
    """A connection that a thread opens. `connected` is set when its TCP connection is there."""

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self.connected = False
        # A Future would import `logging`, before the connection is begun.
        self._lock = Lock()
        self._ended = False
        self._opened: Opened | None = None
        self._waiting: list[Callable[[Opened | None], object]] = []

    @property
    def expired(self) -> bool:
        """True for one that is too old to be used."""
        return time.monotonic() - self.begun > LASTS_S

    def end(self, opened: Opened | None) -> None:
        """Stores what was opened; None is a failure."""
        with self._lock:
            self._ended, self._opened = True, opened
            waiting, self._waiting = self._waiting, []
        for tell in waiting:
            tell(opened)

    def when_done(self, tell: "Callable[[Opened | None], object]") -> None:
        """Has `tell` called with what was opened: by the thread, or at once after its end."""
        with self._lock:
            if not self._ended:
                self._waiting.append(tell)
                return
        tell(self._opened)


_attempts: dict[Peer, EarlyAttempt] = {}


def prepare_connection(endpoint: Endpoint, environ: Mapping[str, str]) -> None:
    """Begins to open a connection to a service, or to the proxy that leads to it, for the next
    request of this process; returns at once. Nothing is sent, and failures are silent."""
    proxy = proxy_for(endpoint, environ)
    if proxy is None:
        _open_early(Peer(endpoint.host, endpoint.port, endpoint.secure), environ)
        return
    try:
        known = parse_proxy(proxy)
    except ConfigError:
        return  # the request says what is wrong with it
    # TLS to a proxy carries another TLS, which asyncio only puts on top of its own.
    if known.scheme != "https":
        _open_early(Peer(known.host, known.port, secure=False), environ)


def _open_early(peer: Peer, environ: Mapping[str, str]) -> None:
    """Begins to open a connection, and returns at once. Does nothing while one is ready."""
    if refusal(peer.host):
        return
    earlier = _attempts.get(peer)
    if earlier is not None and not earlier.expired:
        return
    if earlier is not None:
        earlier.when_done(close)
    attempt = _attempts[peer] = EarlyAttempt()
    work = Thread(target=_open, args=(attempt, peer, environ), daemon=True)
    work.start()


def _open(attempt: EarlyAttempt, peer: Peer, environ: Mapping[str, str]) -> None:
    opened: Opened | None = None
    try:
        sock = _connect(peer)
        attempt.connected = True
        try:
            state = None
            if peer.secure:
                from alhena.http.certificates import tls_context

                state = _shake_hands(sock, peer.host, tls_context(environ))
            opened = Opened(sock, state)
        finally:
            if opened is None:
                sock.close()
    except (OSError, AlhenaError):
        opened = None  # the request will meet the same, and say it
    finally:
        attempt.end(opened)


def _connect(peer: Peer) -> socket.socket:
    """A TCP connection to the first address that answers. Raises OSError."""
    # As bytes: for text Python would load its codec for names that are not ASCII, for 2 ms.
    name = peer.host.encode("ascii")
    found = socket.getaddrinfo(name, peer.port, type=socket.SOCK_STREAM)
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


def _shake_hands(sock: socket.socket, host: str, context: "SSLContext") -> TlsState:
    """Does a TLS handshake. Raises OSError."""
    import ssl

    state = TlsState(
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
            data = sock.recv(PIECE)
            if not data:
                raise ConnectionResetError from None
            incoming.write(data)
        else:
            sock.sendall(outgoing.read())
            return state


def close(opened: Opened | None) -> None:
    """Closes what no request will use."""
    if opened is not None:
        opened.sock.close()


def close_unused() -> None:
    """Closes the connections that no request has taken."""
    while _attempts:
        _, attempt = _attempts.popitem()
        attempt.when_done(close)


def take_attempt(peer: Peer) -> EarlyAttempt | None:
    """The attempt to open this connection, which its caller uses or closes."""
    return _attempts.pop(peer, None)
