"""A tunnel through a SOCKS proxy, version 5 (RFC 1928, RFC 1929). The proxy resolves names."""

import ipaddress

from alhena.models.channel import Channel

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


class RefusedError(Exception):
    """The proxy opened no tunnel. `by_name`: because of who asked."""

    def __init__(self, reason: str, *, by_name: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.by_name = by_name


async def open_tunnel(
    channel: Channel, host: str, port: int, who: tuple[str, str], idle: float
) -> None:
    """Has the proxy at the end of `channel` connect it to `host`. `who` is user and password, both
    "" for none. Raises RefusedError, TimeoutError, or OSError when the connection breaks."""
    replies = _Replies(channel, idle)
    named = any(who)
    methods = bytes([_OPEN, _BY_NAME] if named else [_OPEN])
    await channel.write(bytes([_VERSION, len(methods)]) + methods, idle)
    version, method = await replies.read(2)
    if version != _VERSION:
        raise RefusedError("it does not speak SOCKS 5")
    if method == _BY_NAME and named:
        await channel.write(_credentials(*who), idle)
        _version, status = await replies.read(2)
        if status:
            raise RefusedError("it does not accept the user and password", by_name=True)
    elif method == _NO_METHOD:
        raise RefusedError("it wants to be told who asks, in another way", by_name=True)
    elif method != _OPEN:
        raise RefusedError("it answered with a method that was not offered")
    request = bytes([_VERSION, _CONNECT, 0]) + _address(host) + port.to_bytes(2, "big")
    await channel.write(request, idle)
    version, status, _reserved, kind = await replies.read(4)
    if version != _VERSION or status:
        raise RefusedError(_REASONS.get(status, f"it answered with {status}"))
    size = {_IPV4: 4, _IPV6: 16}.get(kind)
    if size is None:
        (size,) = await replies.read(1)
    await replies.read(size + 2)
    if replies.rest:
        raise RefusedError("it sent something behind its answer")


class _Replies:
    """What the proxy sends, by numbers of bytes."""

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
