"""Requests through a proxy.

Plain requests are sent to an HTTP proxy with their full URL; encrypted ones, and all through SOCKS
5 (RFC 1928, RFC 1929), use a tunnel opened by the proxy.
"""

import asyncio
import ipaddress
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from alhena.errors import NetworkError
from alhena.http import ResponseHead
from alhena.http.addresses import PROXY_REMEDY, VARIABLES, Endpoint, parse_proxy
from alhena.http.adoption import take_early
from alhena.http.connect import Channel, open_channel
from alhena.http.early import Peer
from alhena.http.exchange import Headers, HttpConnection, unreachable

if TYPE_CHECKING:
    from ssl import SSLContext

_REFUSES = 407


class ProxyRoute(msgspec.Struct, frozen=True):
    """A service behind a proxy, for messages."""

    place: str
    source: str = VARIABLES


class ProxyConnector:
    """Connects to the service at `endpoint` through one proxy: http, https or socks5. Raises
    ConfigError for an invalid address."""

    def __init__(self, endpoint: Endpoint, proxy: str) -> None:
        self._endpoint = endpoint
        self._proxy = parse_proxy(proxy)
        self.named = ProxyRoute(f"{endpoint.place} through the proxy {self._proxy.place}")
        self._tunnels = endpoint.secure or self._proxy.socks

    def adapt_request(self, path: str, headers: Headers) -> tuple[str, Headers]:
        """The request as the proxy expects it: without a tunnel with its full URL and the proxy's
        credentials."""
        if self._tunnels:
            return path, headers
        return f"{self._endpoint.place}{path}", [*headers, *self._proxy.headers]

    def refuses(self, head: ResponseHead) -> bool:
        """True when a response is the proxy's own, which wants other credentials."""
        return not self._tunnels and head.status == _REFUSES

    def refusal_error(self, head: ResponseHead) -> NetworkError:
        """The error of such a response."""
        return self._refusal_error("407 Proxy Authentication Required", head.status)

    async def connect(self, tls_context: "Callable[[], SSLContext]", limit: float) -> Channel:
        """A connection to the service within `limit` seconds. Raises NetworkError."""
        tls = tls_context() if self._endpoint.secure else None
        to_proxy = tls_context() if self._proxy.scheme == "https" else None
        try:
            async with asyncio.timeout(limit):
                channel = await self._to_proxy(to_proxy, limit)
                if self._tunnels:
                    await self._tunnel(channel, limit)
                if tls is not None:
                    await self._secure(channel, tls, limit)
        except TimeoutError as error:
            raise self._not_connected(f"none within {limit:g} s.") from error
        return channel

    async def _to_proxy(self, tls: "SSLContext | None", limit: float) -> Channel:
        proxy = self._proxy
        try:
            early = (
                None if tls else await take_early(Peer(proxy.host, proxy.port, secure=False), limit)
            )
            return early or await open_channel(proxy.host, proxy.port, tls, limit)
        except OSError as error:
            scheme = "https" if tls is not None else "http"
            reached = Endpoint(scheme, proxy.host, proxy.port, source=VARIABLES)
            raise self._not_connected(unreachable(error, reached, limit).message) from error

    async def _tunnel(self, channel: Channel, limit: float) -> None:
        """Makes the proxy connect `channel` to the service."""
        opened = False
        try:
            if self._proxy.socks:
                await self._by_socks(channel, limit)
            else:
                await self._by_connect(channel, limit)
            opened = True
        finally:
            if not opened:
                channel.abort()

    async def _by_connect(self, channel: Channel, limit: float) -> None:
        host = self._endpoint.host
        target = f"[{host}]" if ":" in host else host
        target = f"{target}:{self._endpoint.port}"
        asked = HttpConnection(channel, ProxyRoute(f"the proxy {self._proxy.place}"), limit)
        head = await asked.exchange(
            "CONNECT", target, [("host", target), *self._proxy.headers], b""
        )
        if head is None:
            raise self._refusal_error("it closed the connection", None)
        if not 200 <= head.status < 300:
            reason = head.reason.decode("latin-1")
            raise self._refusal_error(f"{head.status} {reason}", head.status)
        if asked.surplus:
            raise self._refusal_error("it sent something after its answer", None)

    async def _by_socks(self, channel: Channel, limit: float) -> None:
        proxy, endpoint = self._proxy, self._endpoint
        try:
            who = (proxy.user, proxy.password)
            await open_tunnel(channel, endpoint.host, endpoint.port, who, limit)
        except RefusedTunnelError as error:
            status = _REFUSES if error.by_name else None
            raise self._refusal_error(error.reason, status) from error
        except ConnectionError as error:
            raise self._not_connected("the proxy broke the connection.") from error

    async def _secure(self, channel: Channel, tls: "SSLContext", limit: float) -> None:
        try:
            await channel.secure(tls, self._endpoint.host)
        except TimeoutError:
            raise
        except OSError as error:
            raise unreachable(error, self._endpoint, limit) from error

    def _not_connected(self, reason: str) -> NetworkError:
        return NetworkError(
            f"no connection to {self._endpoint.place} through the proxy {self._proxy.place}: "
            f"{reason}",
            remedy=PROXY_REMEDY,
        )

    def _refusal_error(self, reason: str, status: int | None) -> NetworkError:
        reason = " ".join(reason.split())[:160]
        return NetworkError(
            f"the proxy {self._proxy.place} refused to connect to {self._endpoint.place}: "
            f"{reason}.",
            remedy=PROXY_REMEDY,
            status=status,
        )


_VERSION = 5
_OPEN, _BY_NAME, _NO_METHOD = 0, 2, 0xFF
_NAME_VERSION = 1
_CONNECT = 1
_IPV4, _DOMAIN, _IPV6 = 1, 3, 4
_LONGEST = 255
_REASONS = {
    1: "it failed",
    2: "its rules do not allow that",
    3: "the network cannot be reached",
    4: "the host cannot be reached",
    5: "the connection was refused",
    6: "the host did not answer in time",
    7: "it opens no connections",
    8: "it does not take this kind of address",
}


class RefusedTunnelError(Exception):
    """The proxy opened no tunnel. `by_name`: because of the credentials."""

    def __init__(self, reason: str, *, by_name: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.by_name = by_name


async def open_tunnel(
    channel: Channel, host: str, port: int, who: tuple[str, str], idle: float
) -> None:
    """Makes the proxy at the end of `channel` connect it to `host`. `who` is user and password,
    both "" for none. Raises RefusedError, TimeoutError, or OSError when the connection fails."""
    replies = _Replies(channel, idle)
    named = any(who)
    methods = bytes([_OPEN, _BY_NAME] if named else [_OPEN])
    await channel.write(bytes([_VERSION, len(methods)]) + methods, idle)
    version, method = await replies.read(2)
    if version != _VERSION:
        raise RefusedTunnelError("it does not speak SOCKS 5")
    if method == _BY_NAME and named:
        await channel.write(_credentials(*who), idle)
        _version, status = await replies.read(2)
        if status:
            raise RefusedTunnelError("it does not accept the user and password", by_name=True)
    elif method == _NO_METHOD:
        raise RefusedTunnelError("it wants to be told who asks, in another way", by_name=True)
    elif method != _OPEN:
        raise RefusedTunnelError("it answered with a method that was not offered")
    request = bytes([_VERSION, _CONNECT, 0]) + _address(host) + port.to_bytes(2, "big")
    await channel.write(request, idle)
    version, status, _reserved, kind = await replies.read(4)
    if version != _VERSION or status:
        raise RefusedTunnelError(_REASONS.get(status, f"it answered with {status}"))
    size = {_IPV4: 4, _IPV6: 16}.get(kind)
    if size is None:
        (size,) = await replies.read(1)
    await replies.read(size + 2)
    if replies.rest:
        raise RefusedTunnelError("it sent something after its answer")


class _Replies:
    """The bytes from the proxy, read by count."""

    def __init__(self, channel: Channel, idle: float) -> None:
        self.rest = b""
        self._channel = channel
        self._idle = idle

    async def read(self, size: int) -> bytes:
        while len(self.rest) < size:
            data = await self._channel.read(self._idle)
            if not data:
                raise ConnectionResetError
            self.rest += data
        taken, self.rest = self.rest[:size], self.rest[size:]
        return taken


def _credentials(user: str, password: str) -> bytes:
    name, word = (text.encode(errors="replace")[:_LONGEST] for text in (user, password))
    return bytes([_NAME_VERSION, len(name)]) + name + bytes([len(word)]) + word


def _address(host: str) -> bytes:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        name = host.encode("idna")[:_LONGEST]
        return bytes([_DOMAIN, len(name)]) + name
    return bytes([_IPV4 if address.version == 4 else _IPV6]) + address.packed
