"""HTTP/1.1 on one connection: a request, then its response piece by piece, with h11;
and the errors for failed connections and answers that are no HTTP."""

import os
from collections.abc import Iterator, Sequence
from typing import Protocol

import h11

from alhena.errors import NetworkError, StreamCutError
from alhena.http.connect import Channel, Endpoint

Headers = Sequence[tuple[str, str]]


class Pieces(Protocol):
    """A body in pieces, joined while it is sent; its length counts all bytes."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[bytes]: ...


Body = bytes | Pieces

MAX_HEAD_BYTES = 128 * 1024
SMALL = 16 * 1024
"""Bytes of a body sent together with the head."""
MOST_INTERIM = 32
"""Maximum interim answers (1xx) to one request."""
_START = 32


class Named(Protocol):
    """The peer's description in messages."""

    @property
    def place(self) -> str:
        """Its address."""
        ...

    @property
    def source(self) -> str:
        """The variable or setting of its address."""
        ...


class Connection:
    """One keep-alive connection to the service `named`. `idle`: timeout of silence in seconds."""

    def __init__(self, channel: Channel, named: Named, idle: float) -> None:
        self._channel = channel
        self._named = named
        self._idle = idle
        self._http = _client()
        self._answer: h11.Response | None = None
        self._start = b""  # of the answer, after any interim ones
        self._interim = 0
        self._ended = False

    async def exchange(
        self, method: str, path: str, headers: Headers, body: Body
    ) -> h11.Response | None:
        """Sends a request and waits for the head of its response.

        None when the peer closed without an answer, as it may do with an idle connection. A refusal
        before the whole body was sent stops sending. Raises NetworkError.
        """
        self._answer, self._start, self._interim, self._ended = None, b"", 0, False
        sized = bool(body) or method not in {"GET", "CONNECT"}
        length = [("content-length", str(len(body)))] if sized else []
        request = h11.Request(method=method, target=path, headers=[*headers, *length])
        try:
            for data in self._sent(request, body):
                if self._answer is not None:
                    self._channel.put(data)  # after its answer the peer may never read it
                    continue
                await self._channel.write(data, self._idle)
                if self._channel.arrived and self._is_refused():
                    break
            self._answer = self._answer or self._next_head()
            while self._answer is None:
                arrived = await self._channel.read(self._idle)
                if not arrived:
                    if not self._start and not self._interim:
                        return None
                    self._ended = True
                    raise h11.RemoteProtocolError("the connection ended before the answer")
                self._hear(arrived)
                self._answer = self._next_head()
            return self._answer
        except TimeoutError as error:
            raise self._silence() from error
        except OSError as error:
            if not self._start and not self._interim:
                return None
            raise NetworkError(
                f"{self._named.place} broke the connection: {_reason(error)}."
            ) from error
        except h11.RemoteProtocolError as error:
            raise unreadable(
                self._start, self._named, interim=self._interim, ended=self._ended
            ) from error

    def _sent(self, request: h11.Request, body: Body) -> Iterator[bytes]:
        """Yields the bytes of a request, joined on demand."""
        ahead = self._http.send(request) or b""
        for piece in (body,) if isinstance(body, bytes) else body:
            if ahead and len(piece) > SMALL:
                yield ahead
                ahead = b""
            if piece:
                self._http.send_with_data_passthrough(h11.Data(data=piece))
            yield b"".join((ahead, piece)) if ahead else piece
            ahead = b""
        self._http.send(h11.EndOfMessage())

    def _is_refused(self) -> bool:
        """True when an early answer makes the rest of the body useless. A service that accepts a
        request early may still want to read it."""
        self._hear(self._channel.take())
        self._answer = self._next_head()
        return self._answer is not None and self._answer.status_code >= 300

    def _hear(self, data: bytes) -> None:
        if len(self._start) < _START:
            self._start += data[:_START]
        self._http.receive_data(data)

    def _next_head(self) -> h11.Response | None:
        """The head of the answer, if it has arrived."""
        while (event := self._http.next_event()) is not h11.NEED_DATA:
            if isinstance(event, h11.Response):
                return event
            self._interim += 1
            if self._interim > MOST_INTERIM:
                raise h11.RemoteProtocolError("too many interim responses")
            self._start = self._http.trailing_data[0][:_START]
        return None

    async def read(self) -> bytes:
        """The bytes of the body received so far; b"" at its end.

        Raises StreamCutError when the connection ends before the body, NetworkError after a
        timeout.
        """
        try:
            while True:
                data, done = self._arrived()
                if data or done:
                    return data
                self._http.receive_data(await self._channel.read(self._idle))
        except TimeoutError as error:
            raise self._silence() from error
        except (OSError, h11.RemoteProtocolError) as error:
            raise StreamCutError(
                f"the connection to {self._named.place} ended in the middle of the answer.",
                remedy="Run again.",
            ) from error

    def _arrived(self) -> tuple[bytes, bool]:
        """The available body bytes, and True if the body ends with them.

        An error after some bytes is raised by the next call, so that those bytes are not lost.
        """
        if self._http.their_state is h11.ERROR:
            raise h11.RemoteProtocolError("the body is malformed")
        pieces: list[bytes] = []
        while self._http.their_state is h11.SEND_BODY:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError:
                if not pieces:
                    raise
                return b"".join(pieces), False
            if isinstance(event, h11.Data):
                pieces.append(bytes(event.data))
            elif event is h11.NEED_DATA:
                return b"".join(pieces), False
        return b"".join(pieces), True

    def renew(self) -> bool:
        """True when the exchange is complete and the connection can be reused.

        An unread end of the body that has arrived counts as read. Data after it answers no request:
        it would be mistaken for the next answer.
        """
        try:
            if not self._arrived()[1] and (data := self._channel.take()):
                self._http.receive_data(data)
                self._arrived()
        except h11.RemoteProtocolError:
            return False
        complete = self._http.our_state is h11.DONE and self._http.their_state is h11.DONE
        renewed = complete and self._channel.flushed and not self._http.trailing_data[0]
        self._http = _client()
        return renewed and self._channel.usable

    @property
    def surplus(self) -> bool:
        """True when data followed the head of the answer to a CONNECT."""
        return bool(self._http.trailing_data[0]) or self._channel.arrived

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
            f"{self._named.place} sent nothing for {self._idle:g} s.",
            remedy="Check the network and run again.",
        )


def _client() -> h11.Connection:
    return h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error) or type(error).__name__).lower()


_TRUST = (
    "If a proxy or gateway inspects TLS here, let SSL_CERT_FILE name its certificate authority."
)
_HTTP_1 = b"HTTP/1."
_ALERT, _HANDSHAKE = 0x15, 0x16
_SETTINGS = 4


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
        return NetworkError(f"no connection to {place} within {limit:g} s.", remedy=address)
    if error.errno:
        reason = os.strerror(error.errno).lower()
    elif isinstance(error, ConnectionError):
        reason = "it closed the connection"
    else:
        reason = "none of its addresses answers"
    return NetworkError(f"cannot connect to {place}: {reason}.", remedy=address)


def unreadable(start: bytes, named: Named, *, interim: int, ended: bool) -> NetworkError:
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
