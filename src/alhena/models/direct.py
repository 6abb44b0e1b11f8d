"""Direct connections to one service, kept alive between requests."""

import asyncio
from collections.abc import Mapping
from ssl import SSLContext

import h11

from alhena.models.connection import Connection, Named
from alhena.models.dial import open_channel
from alhena.models.endpoint import Endpoint
from alhena.models.errors import NetworkError
from alhena.models.http import Body, Headers, Timeouts

KEEP_ALIVE = 90.0
"""Seconds after which an idle connection is not trusted any more: routers forget silently."""


class DirectTransport:
    """Connects to the service itself; idle connections are used again, newest first."""

    def __init__(self, endpoint: Endpoint, timeouts: Timeouts, environ: Mapping[str, str]) -> None:
        self._endpoint = endpoint
        self._named: Named = endpoint
        self._timeouts = timeouts
        self._environ = environ
        self._tls: SSLContext | None = None
        self._idle: list[tuple[Connection, float]] = []
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    async def send(
        self, method: str, path: str, headers: Headers, body: Body = b""
    ) -> "DirectResponse":
        """Sends over an idle connection, or a new one. Raises NetworkError."""
        request = (method, path, headers, body)
        while (connection := self._take_idle()) is not None:
            response = await self._exchange(connection, request)
            if response is not None:
                return response
        connection = await self._connect()
        response = await self._exchange(connection, request)
        if response is None:
            raise NetworkError(
                f"{self._named.place} closed the connection without an answer.",
                remedy=f"Run again; if it stays so, check {self._named.source}.",
            )
        return response

    async def aclose(self) -> None:
        """Closes the idle connections; those in use close when their response does."""
        self._closed = True
        while (connection := self._take_idle()) is not None:
            await connection.aclose()

    def give_back(self, connection: Connection) -> None:
        """Keeps a connection whose exchange is complete, closes any other."""
        if connection.renew() and not self._closed:
            self._idle.append((connection, self.now() + KEEP_ALIVE))
        else:
            connection.abort()

    def now(self) -> float:
        """The time in seconds, of a clock that only goes forward."""
        return asyncio.get_running_loop().time()

    async def _exchange(
        self, connection: Connection, request: tuple[str, str, Headers, Body]
    ) -> "DirectResponse | None":
        answered = False
        try:
            head = await connection.exchange(*request)
            answered = head is not None
        finally:
            if not answered:
                connection.abort()
        return DirectResponse(self, connection, head) if head is not None else None

    def _take_idle(self) -> Connection | None:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            # Connections belong to the event loop that opened them and die with it.
            self._loop = loop
            self._idle.clear()
        while self._idle:
            connection, expiry = self._idle.pop()
            if connection.usable and self.now() < expiry:
                return connection
            connection.abort()
        return None

    async def _connect(self) -> Connection:
        endpoint, limit = self._endpoint, self._timeouts.connect
        tls = self._tls_context() if endpoint.secure else None
        try:
            channel = await open_channel(endpoint.host, endpoint.port, tls, limit)
        except OSError as error:
            from alhena.models.unreachable import unreachable

            raise unreachable(error, endpoint, limit) from error
        return Connection(channel, self._named, self._timeouts.idle)

    def _tls_context(self) -> SSLContext:
        if self._tls is None:
            from alhena.models.tls import tls_context

            self._tls = tls_context(self._environ)
        return self._tls


class DirectResponse:
    """A response on a connection of a DirectTransport."""

    def __init__(
        self, transport: DirectTransport, connection: Connection, head: h11.Response
    ) -> None:
        self._transport = transport
        self._connection: Connection | None = connection
        self._head = head

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self._head.status_code

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
        """Gives the connection back, or closes it when the body has not ended."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._transport.give_back(connection)
