"""HTTP/1.1 on one connection: a request, then its response piece by piece, read with h11;
and the errors for failed connections and answers that are no HTTP.

h11 takes long to import, so it is imported only after a request is on its way.
"""

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from alhena.errors import NetworkError, NoServerError, StreamCutError
from alhena.http import MAX_HEAD_BYTES, MOST_INTERIM, MalformedResponseError, ResponseHead
from alhena.http.addresses import Endpoint, is_loopback
from alhena.http.connect import Channel

if TYPE_CHECKING:
    from alhena.http.response import ResponseReader

Headers = Sequence[tuple[str, str]]


class BodyPieces(Protocol):
    """A body in pieces, joined while it is sent; its length counts all bytes."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[bytes]: ...


Body = bytes | BodyPieces

SMALL = 16 * 1024
"""Bytes of a body sent together with the head."""


class NamedPeer(Protocol):
    """The peer's description in messages."""

    @property
    def place(self) -> str:
        """Its address."""
        ...

    @property
    def source(self) -> str:
        """The variable or setting of its address."""
        ...


class HttpConnection:
    """One keep-alive connection to the service `named`. `idle`: timeout of silence in seconds,
    which may be changed between exchanges."""

    def __init__(self, channel: Channel, named: NamedPeer, idle: float) -> None:
        self._channel = channel
        self._named = named
        self.idle = idle
        self._method = ""
        self._response: ResponseReader | None = None
        self._sent = False

    async def exchange(
        self, method: str, path: str, headers: Headers, body: Body
    ) -> ResponseHead | None:
        """Sends a request and waits for the head of its response.

        None when the peer closed without an answer, as it may do with an idle connection. A refusal
        before the whole body was sent stops sending. Raises NetworkError.
        """
        self._method, self._response, self._sent = method, None, False
        ended = False
        try:
            head = await self._send(_request(method, path, headers, body), body)
            response = self._reader
            while head is None and (head := response.head()) is None:
                arrived = await self._channel.read(self.idle)
                if not arrived:
                    if not response.begun:
                        return None
                    ended = True
                    raise MalformedResponseError("the connection ended before the answer")
                response.feed(arrived)
            return head
        except TimeoutError as error:
            raise self._silence() from error
        except OSError as error:
            if self._response is None or not self._response.begun:
                return None
            raise NetworkError(
                f"The connection broke: {_reason(error)} ({self._named.place})."
            ) from error
        except MalformedResponseError as error:
            raise unreadable(
                self._reader.start, self._named, interim=self._reader.interim, ended=ended
            ) from error

    async def _send(self, ahead: bytes, body: Body) -> ResponseHead | None:
        """Sends a request whose head is `ahead`; returns the head of an early answer, if any."""
        head = None
        for data in _join_head(ahead, body):
            if head is not None:
                self._channel.put(data)  # after its answer the peer may never read it
                continue
            await self._channel.write(data, self.idle)
            if self._channel.arrived:
                response = self._reader
                response.feed(self._channel.take())
                head = response.head()
                # A service that accepts a request early may still want to read it.
                if head is not None and head.status >= 300:
                    return head
        self._sent = True
        return head

    @property
    def _reader(self) -> "ResponseReader":
        if self._response is None:
            from alhena.http.response import ResponseReader

            self._response = ResponseReader(self._method)
        return self._response

    async def read(self) -> bytes:
        """The bytes of the body received so far; b"" at its end.

        Raises StreamCutError when the connection ends before the body, NetworkError after a
        timeout.
        """
        response = self._reader
        try:
            while True:
                data, done = response.body()
                if data or done:
                    return data
                response.feed(await self._channel.read(self.idle))
        except TimeoutError as error:
            raise self._silence() from error
        except (OSError, MalformedResponseError) as error:
            raise StreamCutError(
                f"The connection ended in the middle of the answer ({self._named.place}).",
                remedy="Run again.",
            ) from error

    def renew(self) -> bool:
        """True when the exchange is complete and the connection can be reused.

        An unread end of the body that has arrived counts as read. Data after it answers no request:
        it would be mistaken for the next answer.
        """
        response = self._reader
        try:
            if not response.body()[1] and (data := self._channel.take()):
                response.feed(data)
                response.body()
        except MalformedResponseError:
            return False
        complete = self._sent and response.complete and self._channel.flushed
        return complete and self._channel.usable

    @property
    def surplus(self) -> bool:
        """True when data followed the head of the answer to a CONNECT."""
        return self._reader.surplus or self._channel.arrived

    @property
    def usable(self) -> bool:
        """True while the peer keeps the idle connection open."""
        return self._channel.usable

    def abort(self) -> None:
        """Closes the connection at once."""
        self._channel.abort()

    async def aclose(self) -> None:
        """Closes the connection and waits until the socket is closed."""
        await self._channel.aclose()

    def _silence(self) -> NetworkError:
        return NetworkError(
            f"Nothing arrived for {self.idle:g} s ({self._named.place}).",
            remedy="Check the network and run again.",
        )


def _request(method: str, path: str, headers: Headers, body: Body) -> bytes:
    """The head of a request. Raises ValueError for characters that would end a line of it."""
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    if body or method not in {"GET", "CONNECT"}:
        lines.append(f"content-length: {len(body)}")
    if not all(line.isascii() and line.isprintable() for line in lines):
        raise ValueError("a header or path of the request has a control or non-ASCII character")
    return "\r\n".join((*lines, "", "")).encode("ascii")


def _join_head(ahead: bytes, body: Body) -> Iterator[bytes]:
    """The bytes of a request, a small first piece together with its head."""
    for piece in (body,) if isinstance(body, bytes) else body:
        if ahead and len(piece) > SMALL:
            yield ahead
            ahead = b""
        yield b"".join((ahead, piece)) if ahead else piece
        ahead = b""


def _reason(error: OSError) -> str:
    return (error.strerror or str(error) or type(error).__name__).lower()


_TRUST = (
    "If a proxy or gateway inspects TLS here, let SSL_CERT_FILE name its certificate authority."
)
_HTTP_1 = b"HTTP/1."
_ALERT, _HANDSHAKE = 0x15, 0x16
_SETTINGS = 4


def _is_refused(error: OSError) -> bool:
    """True if nothing listens at the address, or at any of a name's: asyncio joins these errors."""
    import errno

    if error.errno is not None or not str(error).startswith("Multiple exceptions"):
        return isinstance(error, ConnectionRefusedError)
    return str(error).count("[Errno ") == str(error).count(f"[Errno {errno.ECONNREFUSED}]")


def unreachable(error: OSError, endpoint: Endpoint, limit: float) -> NetworkError:
    """The error for a connection that failed or timed out after `limit` seconds."""
    import socket
    import ssl

    place = endpoint.place
    address = f"Check the network, {endpoint.source} and the proxy variables."
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = error.verify_message
        return NetworkError(f"the certificate of {place} is not trusted: {reason}.", remedy=_TRUST)
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or "handshake failed").replace("_", " ").lower()
        return NetworkError(f"no TLS connection to {place}: {reason}.", remedy=address)
    if isinstance(error, socket.gaierror):
        return NetworkError(f"cannot find the host {endpoint.host}.", remedy=address)
    if isinstance(error, TimeoutError) and error.errno is None:
        return NetworkError(f"No connection within {limit:g} s ({place}).", remedy=address)
    if is_loopback(endpoint.host) and _is_refused(error):
        return NoServerError(
            f"cannot connect to {place}: connection refused, nothing listens there.",
            remedy=f"Start the server, or check {endpoint.source}.",
        )
    if error.errno:
        reason = os.strerror(error.errno).lower()
    elif isinstance(error, ConnectionError):
        reason = "it closed the connection"
    else:
        reason = "none of its addresses answers"
    return NetworkError(f"cannot connect to {place}: {reason}.", remedy=address)


def unreadable(start: bytes, named: NamedPeer, *, interim: int, ended: bool) -> NetworkError:
    """The error for an answer that begins with `start`, after `interim` answers of status 1xx.
    `ended`: the connection was closed there."""
    again = f"Run again; if it stays so, check {named.source}."
    address = f"Check the host and port of {named.source}."
    if interim > MOST_INTERIM:
        said, remedy = f"sent {interim} interim answers (1xx) and no other.", again
    elif not start:
        said, remedy = "closed the connection after an interim answer (1xx).", again
    elif _is_http_2(start):
        said = "answers in HTTP/2 where HTTP/1.1 was asked for."
        remedy = f"Check {named.source}: it must name an HTTP/1.1 server."
    elif start[0] in {_ALERT, _HANDSHAKE} and start[1:2] == b"\x03":
        said = "answers in TLS to a request without it."
        remedy = f"Check {named.source}: such an address begins with https://."
    elif not start.startswith(_HTTP_1[: len(start)]):
        said, remedy = "does not answer in HTTP.", address
    elif start[len(_HTTP_1) + 1 :].startswith(b" 101"):
        said = "changes to another protocol (status 101), which was not asked for."
        remedy = f"Check {named.source}: it has to be the address of a model service."
    elif ended:
        said, remedy = "closed the connection in the middle of the head of its answer.", again
    else:
        size = MAX_HEAD_BYTES // 1024
        said = f"does not answer in HTTP: the head is malformed, or longer than {size} KiB."
        remedy = address
    return NetworkError(f"{named.place} {said}", remedy=remedy)


def _is_http_2(start: bytes) -> bool:
    """True for the start of an HTTP/2 answer: its name, or a settings frame."""
    return start.startswith(b"HTTP/2") or (
        start[:2] == b"\0\0" and start[3:4] == bytes([_SETTINGS])
    )
