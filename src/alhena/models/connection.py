"""HTTP/1.1 on one connection: a request, then its response piece by piece."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import h11

from alhena.models.channel import Channel
from alhena.models.endpoint import Endpoint
from alhena.models.errors import NetworkError, StreamCutError
from alhena.models.http import Body, Headers

if TYPE_CHECKING:
    from alhena.models.chunked import ChunkedBody

MAX_HEAD_BYTES = 128 * 1024
SMALL = 16 * 1024
"""Bytes of a body that are sent together with the head."""


class Connection:
    """One keep-alive connection to the service at `endpoint`."""

    def __init__(self, channel: Channel, endpoint: Endpoint, idle: float) -> None:
        self._channel = channel
        self._place = endpoint.place
        self._source = endpoint.source
        self._idle = idle
        self._http = _client()
        self._chunks: ChunkedBody | None = None
        self._lasts = True
        self._heard = False

    async def exchange(
        self, method: str, path: str, headers: Headers, body: Body
    ) -> h11.Response | None:
        """Sends a request and waits for the head of its response.

        None when the peer closed without a byte of answer, as it may do with a connection that was
        idle. Raises NetworkError.
        """
        self._heard = False
        length = [("content-length", str(len(body)))] if body or method != "GET" else []
        request = h11.Request(method=method, target=path, headers=[*headers, *length])
        try:
            for data in self._sent(request, body):
                await self._channel.write(data, self._idle)
            return await self._head()
        except TimeoutError as error:
            raise self._silence() from error
        except OSError as error:
            if not self._heard:
                return None
            raise NetworkError(f"{self._place} broke the connection: {_reason(error)}.") from error
        except h11.RemoteProtocolError as error:
            raise NetworkError(
                f"{self._place} does not answer in HTTP: {error}.",
                remedy=f"Check the host and port of {self._source}.",
            ) from error

    def _sent(self, request: h11.Request, body: Body) -> Iterator[bytes]:
        """The bytes of a request, joined as they are asked for."""
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

    async def _head(self) -> h11.Response | None:
        while True:
            event = self._http.next_event()
            if isinstance(event, h11.Response):
                self._read_chunks(event)
                return event
            if event is h11.NEED_DATA:
                data = await self._channel.read(self._idle)
                if not data and not self._heard:
                    return None
                self._heard = True
                self._http.receive_data(data)

    def _read_chunks(self, head: h11.Response) -> None:
        """Leaves a body in chunks to `ChunkedBody`."""
        if self._http.their_state is not h11.SEND_BODY:
            return
        said = [(name, value.lower()) for name, value in head.headers]
        if (b"transfer-encoding", b"chunked") not in said:
            return
        from alhena.models.chunked import ChunkedBody

        self._chunks = ChunkedBody()
        closes = any(name == b"connection" and b"close" in value for name, value in said)
        self._lasts = head.http_version >= b"1.1" and not closes
        arrived, _ = self._http.trailing_data
        if arrived:
            self._chunks.feed(arrived)

    async def read(self) -> bytes:
        """The next bytes of the body, as many as have arrived; b"" at its end.

        Raises StreamCutError when the connection ends before the body does, NetworkError after too
        long a silence.
        """
        try:
            while True:
                data, done = self._arrived()
                if data or done:
                    return data
                self._receive(await self._channel.read(self._idle))
        except TimeoutError as error:
            raise self._silence() from error
        except (OSError, h11.RemoteProtocolError) as error:
            raise StreamCutError(
                f"the connection to {self._place} ended in the middle of the answer.",
                remedy="Run again.",
            ) from error

    def _arrived(self) -> tuple[bytes, bool]:
        """The body bytes that need no waiting, and whether the body ends with them.

        A fault after some bytes is met on the next call, so that those bytes are not lost.
        """
        if self._chunks is not None:
            return self._chunks.take(), self._chunks.done
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

    def _receive(self, data: bytes) -> None:
        if self._chunks is not None:
            self._chunks.feed(data)
        else:
            self._http.receive_data(data)

    def renew(self) -> bool:
        """Whether the exchange is complete and the connection ready for another one.

        The end of a body that has arrived but was not asked for counts as read.
        """
        try:
            if not self._arrived()[1] and (data := self._channel.take()):
                self._receive(data)
                self._arrived()
        except h11.RemoteProtocolError:
            return False
        if self._chunks is not None:
            whole = self._chunks.done and self._http.our_state is h11.DONE
            renewed = whole and self._lasts and not self._chunks.rest
            self._chunks = None
            self._http = _client()
            return renewed and self._channel.usable
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
            return self._channel.usable
        return False

    @property
    def usable(self) -> bool:
        """Whether the peer still holds the idle connection open."""
        return self._channel.usable

    def abort(self) -> None:
        """Closes at once."""
        self._channel.abort()

    async def aclose(self) -> None:
        """Closes and waits until the socket is gone."""
        await self._channel.aclose()

    def _silence(self) -> NetworkError:
        return NetworkError(
            f"{self._place} sent nothing for {self._idle:g} s.",
            remedy="Check the network and run again.",
        )


def _client() -> h11.Connection:
    return h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error) or type(error).__name__).lower()
