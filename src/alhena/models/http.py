"""One request at a time to one service: which transport carries it, and what comes back.

The requests go over `models.direct`, which loads in a fraction of the time a full HTTP client
takes; `models.proxied` has its connections lead through a proxy.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from alhena.models.endpoint import Endpoint
from alhena.models.errors import ServerFaultError, StreamCutError
from alhena.wire.encode import RequestBody

Headers = Sequence[tuple[str, str]]
PIECE = 1 << 20


class Timeouts(msgspec.Struct, frozen=True):
    """Limits in seconds: to get a connection, and without a byte moving on it."""

    connect: float = 10.0
    idle: float = 300.0


Body = bytes | RequestBody
"""What a request carries; the second is joined as it is sent."""


class HttpResponse(Protocol):
    """A response whose head has arrived; the body is read piece by piece."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    def header(self, name: str) -> str:
        """The value of a header (lower-case name), "" when absent."""
        ...

    async def read(self) -> bytes:
        """The next piece of the body as sent; b"" at its end.

        Raises StreamCutError when the connection ends first, NetworkError when it goes silent.
        """
        ...

    async def aclose(self) -> None:
        """Gives the connection back, or closes it when the body was not read to its end."""
        ...


class HttpTransport(Protocol):
    """Carries requests to one service."""

    async def send(
        self, method: str, path: str, headers: Headers, body: Body = b""
    ) -> HttpResponse:
        """Sends and waits for the response's head; raises NetworkError.

        `headers` say everything but the length, Host included; `path` is quoted already.
        """
        ...

    async def aclose(self) -> None:
        """Closes all connections."""
        ...


def open_transport(
    endpoint: Endpoint, environ: Mapping[str, str], timeouts: Timeouts
) -> HttpTransport:
    """The transport to `endpoint`, through the proxy that `environ` names for it, if any.

    Raises ConfigError when the proxy's address cannot be used.
    """
    from alhena.models.proxy import proxy_for

    proxy = proxy_for(endpoint, environ)
    if proxy is None:
        from alhena.models.direct import DirectTransport

        return DirectTransport(endpoint, timeouts, environ)
    from alhena.models.proxied import ProxiedTransport

    return ProxiedTransport(endpoint, proxy, timeouts, environ)


class _Inflater(Protocol):
    """What this module uses of zlib's decompression objects."""

    @property
    def eof(self) -> bool: ...
    @property
    def unconsumed_tail(self) -> bytes: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = ..., /) -> bytes: ...
    def flush(self) -> bytes: ...


class BodyReader:
    """A response's body without its content coding (gzip)."""

    def __init__(self, response: HttpResponse) -> None:
        self._response = response
        self._started = False
        self._coding = response.header("content-encoding").strip().lower()
        self._inflater: _Inflater | None = None
        if self._coding in {"gzip", "x-gzip"}:
            self._inflater = _inflater()

    async def read(self) -> bytes:
        """The next piece, never empty before the end; b"" at the end.

        Raises StreamCutError when the compressed data is damaged or incomplete, ServerFaultError
        for a coding that was not asked for.
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
                # The members of a gzip stream follow one another (RFC 1952, 2.2).
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
    """At most PIECE bytes more; what zlib still holds when `data` is empty."""
    import zlib

    try:
        return inflater.decompress(data, PIECE) if data else inflater.flush()
    except zlib.error as error:
        raise StreamCutError("the compressed answer is damaged.") from error
