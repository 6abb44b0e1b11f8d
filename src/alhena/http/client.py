"""Requests to one service over keep-alive connections, and their responses.

`open_transport` chooses a direct connection or a proxy (`http.proxy`).
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Protocol
from weakref import WeakKeyDictionary

import msgspec

from alhena.errors import (
    ConfigError,
    NetworkError,
    ProgramError,
    ServerFaultError,
    StreamCutError,
)
from alhena.http import ResponseHead
from alhena.http.connect import Endpoint, open_channel
from alhena.http.early import Peer, open_early, take_early
from alhena.http.exchange import Body, Headers, HttpConnection, NamedPeer, unreachable

if TYPE_CHECKING:
    from ssl import SSLContext

    from alhena.http.proxy import ProxyConnector

PIECE = 1 << 20
"""Maximum bytes decompressed at once."""
KEEP_ALIVE = 90.0
"""Seconds after which an idle connection is discarded: routers drop them silently."""


class Timeouts(msgspec.Struct, frozen=True):
    """Timeouts in seconds: for connecting, and without data on a connection."""

    connect: float = 10.0
    idle: float = 300.0


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


def prepare_connection(endpoint: Endpoint, environ: Mapping[str, str]) -> None:
    """Begins to open a connection to a service, or to the proxy that leads to it, for the next
    request of this process; returns at once. Nothing is sent, and failures are silent."""
    proxy = proxy_for(endpoint, environ)
    if proxy is None:
        open_early(Peer(endpoint.host, endpoint.port, endpoint.secure), environ)
        return
    from alhena.http.proxy import parse_proxy

    try:
        known = parse_proxy(proxy)
    except ConfigError:
        return  # the request says what is wrong with it
    # TLS to a proxy carries another TLS, which asyncio only puts on top of its own.
    if known.scheme != "https":
        open_early(Peer(known.host, known.port, secure=False), environ)


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
            from alhena.http.connect import tls_context

            self._tls = tls_context(self._environ)
        return self._tls


class Transports:
    """The transports to one service, one for each event loop that sends: connections belong to the
    loop that opened them, and are closed when it ends."""

    def __init__(self, endpoint: Endpoint, environ: Mapping[str, str], timeouts: Timeouts) -> None:
        self._endpoint = endpoint
        self._environ = environ
        self._timeouts = timeouts
        self._closed = False
        self._open: WeakKeyDictionary[asyncio.AbstractEventLoop, _Kept] = WeakKeyDictionary()

    async def here(self) -> Transport:
        """The transport of the running loop, opened now if there is none. Raises ConfigError for
        an invalid proxy address."""
        if self._closed:
            raise ProgramError(
                f"the connections to {self._endpoint.place} are closed.",
                remedy="Use the model inside of its `async with`, or make another one.",
            )
        loop = asyncio.get_running_loop()
        kept = self._open.get(loop)
        if kept is None:
            transport = open_transport(self._endpoint, self._environ, self._timeouts)
            kept = self._open[loop] = _Kept(transport, _close_at_end(transport))
            await anext(kept.end)
        return kept.transport

    async def aclose(self) -> None:
        """Closes the idle connections of all loops; those of loops in other threads soon after.
        Nothing can be sent from now on."""
        self._closed = True
        here = asyncio.get_running_loop()
        for loop, kept in list(self._open.items()):
            del self._open[loop]
            if loop is here:
                await kept.end.aclose()
            elif loop.is_running():
                asyncio.run_coroutine_threadsafe(kept.transport.aclose(), loop)


class _Kept(msgspec.Struct, frozen=True):
    """A transport, and what closes it with its loop."""

    transport: Transport
    end: AsyncGenerator[None, None]


async def _close_at_end(transport: Transport) -> AsyncGenerator[None, None]:
    """A generator that has begun: the loop closes it, and it the transport, before its own end
    (`shutdown_asyncgens`, which `asyncio.run` calls)."""
    try:
        yield
    finally:
        await transport.aclose()


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


def proxy_for(endpoint: Endpoint, environ: Mapping[str, str]) -> str | None:
    """The proxy URL for `endpoint`, None for a direct connection.

    HTTPS_PROXY or HTTP_PROXY by scheme, else ALL_PROXY; lower-case names take precedence, an empty
    value means none. NO_PROXY lists hosts, domains (with or without a leading dot), addresses,
    networks and host:port pairs that are reached directly; "*" matches all.
    """
    proxy = _variable(environ, f"{endpoint.scheme}_proxy") or _variable(environ, "all_proxy")
    if not proxy or _is_bypassed(endpoint, _variable(environ, "no_proxy")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _variable(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name)
    # CGI servers set HTTP_PROXY from a client's "Proxy:" header.
    if value is None and not (name == "http_proxy" and "REQUEST_METHOD" in environ):
        value = environ.get(name.upper())
    return (value or "").strip()


def _is_bypassed(endpoint: Endpoint, listed: str) -> bool:
    return any(_covers(entry.strip().lower(), endpoint) for entry in listed.split(","))


def _covers(entry: str, endpoint: Endpoint) -> bool:
    """True when an entry of NO_PROXY covers the endpoint."""
    if not entry:
        return False
    if entry == "*":
        return True
    host = endpoint.host.rstrip(".")
    if "/" in entry:
        return _in_network(host, entry)
    name, port = _host_and_port(entry)
    if port and port != str(endpoint.port):
        return False
    name = name.removeprefix("*").removeprefix(".")
    return bool(name) and (host == name or host.endswith(f".{name}"))


def _host_and_port(entry: str) -> tuple[str, str]:
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        return name, rest.removeprefix(":")
    if entry.count(":") == 1:
        name, _, port = entry.partition(":")
        return name, port
    return entry, ""


def _in_network(host: str, network: str) -> bool:
    import ipaddress

    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False
