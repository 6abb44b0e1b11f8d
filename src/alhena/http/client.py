"""Requests to one service over keep-alive connections, and their responses.

`open_transport` chooses a direct connection or a proxy (`http.proxy`).
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from alhena.errors import NetworkError, ServerFaultError, StreamCutError
from alhena.http import ResponseHead, Timeouts
from alhena.http.addresses import Endpoint, proxy_for
from alhena.http.adoption import take_early
from alhena.http.connect import open_channel
from alhena.http.early import Peer
from alhena.http.exchange import Body, Headers, HttpConnection, NamedPeer, unreachable

if TYPE_CHECKING:
    from ssl import SSLContext

    from alhena.http.proxy import ProxyConnector

PIECE = 1 << 20
"""Maximum bytes decompressed at once."""
KEEP_ALIVE = 90.0
"""Seconds after which an idle connection is discarded: routers drop them silently."""


def open_transport(
    endpoint: Endpoint, environ: Mapping[str, str], timeouts: Timeouts
) -> "Transport":
    """The transport to `endpoint`, through the proxy that `environ` names for it, if any.

    Raises ConfigError for an invalid proxy address.
    """
    proxy = proxy_for(endpoint, environ)
    if proxy is None:
        return Transport(endpoint, timeouts, environ)
    from alhena.http.proxy import ProxyConnector

    return Transport(endpoint, timeouts, environ, ProxyConnector(endpoint, proxy))


class Transport:
    """Sends requests to one service, through a `proxy` if there is one; reuses idle connections,
    newest first."""

    def __init__(
        self,
        endpoint: Endpoint,
        timeouts: Timeouts,
        environ: Mapping[str, str],
        proxy: "ProxyConnector | None" = None,
    ) -> None:
        self._endpoint = endpoint
        self._proxy = proxy
        self._named: NamedPeer = endpoint if proxy is None else proxy.named
        self._timeouts = timeouts
        self._environ = environ
        self._tls: SSLContext | None = None
        self._idle: list[tuple[HttpConnection, float]] = []
        self._closed = False

    async def send(
        self,
        method: str,
        path: str,
        headers: Headers,
        body: Body = b"",
        idle: float | None = None,
    ) -> "Response":
        """Sends over an idle connection or a new one and waits for the head of the response.

        `headers` include everything but the length, also Host; `path` is already quoted. `idle`:
        timeout of silence for this exchange, None for the usual one. Raises NetworkError.
        """
        if self._proxy is not None:
            path, headers = self._proxy.adapt_request(path, headers)
        while True:
            kept = self._take_idle() or await self._take_early()
            connection = kept or await self._connect()
            connection.idle = idle or self._timeouts.idle
            head = None
            try:
                head = await connection.exchange(method, path, headers, body)
            finally:
                if head is None:
                    connection.abort()
            if head is not None:
                if self._proxy is not None and self._proxy.refuses(head):
                    self.give_back(connection)
                    raise self._proxy.refusal_error(head)
                return Response(self, connection, head)
            if kept is None:
                raise NetworkError(
                    f"The connection closed without an answer ({self._named.place}).",
                    remedy=f"Run again; if it stays so, check {self._named.source}.",
                )

    async def aclose(self) -> None:
        """Closes the idle connections; those in use close with their response."""
        self._closed = True
        while (connection := self._take_idle()) is not None:
            await connection.aclose()

    def give_back(self, connection: HttpConnection) -> None:
        """Keeps a connection whose exchange is complete, closes any other."""
        if connection.renew() and not self._closed:
            self._idle.append((connection, self.now() + KEEP_ALIVE))
        else:
            connection.abort()

    def now(self) -> float:
        """The time of a monotonic clock in seconds."""
        return asyncio.get_running_loop().time()

    def _take_idle(self) -> HttpConnection | None:
        while self._idle:
            connection, expiry = self._idle.pop()
            if connection.usable and self.now() < expiry:
                return connection
            connection.abort()
        return None

    async def _take_early(self) -> HttpConnection | None:
        """The connection that `prepare_connection` opened to the service itself."""
        endpoint = self._endpoint
        if self._proxy is not None:
            return None
        peer = Peer(endpoint.host, endpoint.port, endpoint.secure)
        channel = await take_early(peer, self._timeouts.connect)
        return channel and HttpConnection(channel, self._named, self._timeouts.idle)

    async def _connect(self) -> HttpConnection:
        endpoint, limit = self._endpoint, self._timeouts.connect
        if self._proxy is not None:
            channel = await self._proxy.connect(self._tls_context, limit)
        else:
            tls = self._tls_context() if endpoint.secure else None
            try:
                channel = await open_channel(endpoint.host, endpoint.port, tls, limit)
            except OSError as error:
                raise unreachable(error, endpoint, limit) from error
        return HttpConnection(channel, self._named, self._timeouts.idle)

    def _tls_context(self) -> "SSLContext":
        if self._tls is None:
            from alhena.http.certificates import tls_context

            self._tls = tls_context(self._environ)
        return self._tls


class Response:
    """A response whose head has arrived; the body is read piece by piece."""

    def __init__(
        self, transport: Transport, connection: HttpConnection, head: ResponseHead
    ) -> None:
        self._transport = transport
        self._connection: HttpConnection | None = connection
        self._head = head

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self._head.status

    def header(self, name: str) -> str:
        """The value of a header (lower-case name), "" when absent."""
        wanted = name.encode("ascii")
        for key, value in self._head.headers:
            if key == wanted:
                return value.decode("latin-1")
        return ""

    def body(self) -> "BodyReader":
        """The reader of its decompressed body."""
        return BodyReader(self)

    async def read(self) -> bytes:
        """The next piece of the body; b"" at its end. Raises StreamCutError or NetworkError."""
        return await self._connection.read() if self._connection is not None else b""

    async def aclose(self) -> None:
        """Returns the connection to the pool, or closes it when the body has not ended."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._transport.give_back(connection)


class _Inflater(Protocol):
    """The used interface of zlib's decompression objects."""

    @property
    def eof(self) -> bool: ...
    @property
    def unconsumed_tail(self) -> bytes: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = ..., /) -> bytes: ...
    def flush(self) -> bytes: ...


class BodyReader:
    """A response's body, decompressed (gzip)."""

    def __init__(self, response: Response) -> None:
        self._response = response
        self._started = False
        self._coding = response.header("content-encoding").strip().lower()
        self._inflater: _Inflater | None = None
        if self._coding in {"gzip", "x-gzip"}:
            self._inflater = _inflater()

    async def read(self) -> bytes:
        """The next piece, never empty before the end; b"" at the end.

        Raises StreamCutError when the compressed data is damaged or incomplete, ServerFaultError
        for an unrequested coding.
        """
        if self._inflater is not None:
            return await self._read_inflated(self._inflater)
        if self._coding not in {"", "identity"}:
            raise ServerFaultError(
                f"the answer is encoded as {self._coding[:40]!r}, which was not asked for."
            )
        return await self._response.read()

    async def _read_inflated(self, inflater: _Inflater) -> bytes:
        while True:
            if inflater.eof:
                following = inflater.unused_data or await self._response.read()
                if not following:
                    return b""
                # A gzip stream may have several members (RFC 1952, 2.2).
                self._inflater = inflater = _inflater()
                data = following
            else:
                data = inflater.unconsumed_tail or await self._response.read()
            plain = _inflate(inflater, data)
            if plain:
                self._started = True
                return plain
            if not data and not inflater.eof:
                if self._started:
                    raise StreamCutError("the compressed answer ended before its end.")
                return b""
            self._started = True


def _inflater() -> _Inflater:
    import zlib

    return zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)


def _inflate(inflater: _Inflater, data: bytes) -> bytes:
    """At most PIECE more bytes; with empty `data`, those zlib still holds."""
    import zlib

    try:
        return inflater.decompress(data, PIECE) if data else inflater.flush()
    except zlib.error as error:
        raise StreamCutError("the compressed answer is damaged.") from error
