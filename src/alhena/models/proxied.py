"""Requests through a proxy, carried by httpx2."""

from collections.abc import AsyncIterator, Mapping

import httpx2

from alhena.config.errors import ConfigError
from alhena.models.endpoint import Endpoint
from alhena.models.errors import NetworkError, StreamCutError
from alhena.models.http import Body, Headers, Timeouts
from alhena.models.tls import tls_context

_REMEDY = "Check HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY."
KEEP_ALIVE = 90.0


class ProxiedTransport:
    """Talks to one service through one proxy (http, https or, with socksio installed, socks5)."""

    def __init__(
        self, endpoint: Endpoint, proxy: str, timeouts: Timeouts, environ: Mapping[str, str]
    ) -> None:
        self._endpoint = endpoint
        self._timeouts = timeouts
        self._limits = httpx2.Timeout(timeouts.idle, connect=timeouts.connect)
        # Messages name the proxy without the user and password its URL may hold.
        self._proxy = _shown(proxy)
        try:
            self._transport = httpx2.AsyncHTTPTransport(
                verify=tls_context(environ),
                trust_env=False,
                limits=httpx2.Limits(keepalive_expiry=KEEP_ALIVE),
                proxy=proxy,
            )
        except (ValueError, httpx2.InvalidURL):
            # Not chained: the cause quotes the URL.
            raise ConfigError(
                "the proxy's address cannot be used.",
                remedy=f"Write it as http://host:port. {_REMEDY}",
            ) from None
        except ImportError as error:
            raise ConfigError(
                f"the proxy {self._proxy} speaks SOCKS, for which the package socksio is missing.",
                remedy="Install socksio, or name an HTTP proxy.",
            ) from error

    async def send(
        self, method: str, path: str, headers: Headers, body: Body = b""
    ) -> "ProxiedResponse":
        """Sends through the proxy. Raises NetworkError."""
        request = httpx2.Request(
            method,
            f"{self._endpoint.place}{path}",
            headers=list(headers),
            content=bytes(body),
            extensions={"timeout": self._limits.as_dict()},
        )
        try:
            response = await self._transport.handle_async_request(request)
        except httpx2.TransportError as error:
            raise self._failure(error) from error
        if response.status_code == 407:
            await response.aclose()
            raise self._refused("407 Proxy Authentication Required")
        return ProxiedResponse(response, self._endpoint.place, self._timeouts.idle)

    async def aclose(self) -> None:
        """Closes all connections."""
        await self._transport.aclose()

    def _failure(self, error: httpx2.TransportError) -> NetworkError:
        place = self._endpoint.place
        if isinstance(error, httpx2.ProxyError):
            return self._refused(str(error))
        if isinstance(error, httpx2.ConnectTimeout):
            message = f"no connection to {place} through the proxy {self._proxy} within "
            return NetworkError(f"{message}{self._timeouts.connect:g} s.", remedy=_REMEDY)
        if isinstance(error, httpx2.TimeoutException):
            return _silence(place, self._timeouts.idle)
        reason = " ".join(str(error).split())[:160] or type(error).__name__
        return NetworkError(
            f"no connection to {place} through the proxy {self._proxy}: {reason}.", remedy=_REMEDY
        )

    def _refused(self, reason: str) -> NetworkError:
        reason = " ".join(reason.split())[:160]
        return NetworkError(
            f"the proxy {self._proxy} refused to connect to {self._endpoint.place}: {reason}.",
            remedy=_REMEDY,
            status=407 if reason.startswith("407") else None,
        )


class ProxiedResponse:
    """A response that came through a proxy."""

    def __init__(self, response: httpx2.Response, place: str, idle: float) -> None:
        self._response = response
        self._place = place
        self._idle = idle
        self._pieces: AsyncIterator[bytes] = response.aiter_raw()

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self._response.status_code

    def header(self, name: str) -> str:
        """The value of a header, "" when absent."""
        return self._response.headers.get(name, "")

    async def read(self) -> bytes:
        """The next piece of the body; b"" at its end. Raises StreamCutError or NetworkError."""
        try:
            async for piece in self._pieces:
                if piece:
                    return piece
        except httpx2.TimeoutException as error:
            raise _silence(self._place, self._idle) from error
        except httpx2.TransportError as error:
            raise StreamCutError(
                f"the connection to {self._place} ended in the middle of the answer.",
                remedy="Run again.",
            ) from error
        return b""

    async def aclose(self) -> None:
        """Gives the connection back, or closes it when the body has not ended."""
        await self._response.aclose()


def _silence(place: str, idle: float) -> NetworkError:
    return NetworkError(
        f"{place} sent nothing for {idle:g} s.", remedy="Check the network and run again."
    )


def _shown(proxy: str) -> str:
    """The proxy's address without user and password."""
    return proxy.rpartition("@")[2].rpartition("://")[2].partition("/")[0]
