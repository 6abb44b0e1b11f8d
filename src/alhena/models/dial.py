"""From a host name to a connection: addresses are tried in turn, each with a head start.

`loop.create_connection` could race addresses too, but a cancellation at the wrong moment makes it
forget a socket that has just connected.
"""

import asyncio
import socket
from ssl import SSLContext

from alhena.models.channel import Channel

HEAD_START = 0.25
"""Seconds before the next address is tried beside the ones before it (RFC 8305)."""

Address = tuple[int, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]]


async def open_channel(host: str, port: int, tls: SSLContext | None, limit: float) -> Channel:
    """Connects within `limit` seconds, look-up and TLS handshake included.

    Raises TimeoutError or OSError (socket.gaierror and ssl.SSLError among them).
    """
    async with asyncio.timeout(limit):
        connected = await _race(await _addresses(host, port))
        _transport, channel = await asyncio.get_running_loop().create_connection(
            Channel,
            sock=connected,
            ssl=tls,
            server_hostname=host if tls is not None else None,
        )
    return channel


async def _addresses(host: str, port: int) -> list[Address]:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return [(family, (host, port))]
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(family, address) for family, _type, _protocol, _name, address in found]


async def _race(addresses: list[Address]) -> socket.socket:
    """The first socket to connect. When none does, the failure of the first address."""
    attempts: list[asyncio.Task[socket.socket]] = []
    winner: asyncio.Task[socket.socket] | None = None
    try:
        for position, address in enumerate(addresses, start=1):
            attempts.append(asyncio.create_task(_attempt(address)))
            winner = await _winner(attempts, HEAD_START if position < len(addresses) else None)
            if winner is not None:
                return winner.result()
        return attempts[0].result()
    finally:
        for attempt in attempts:
            if attempt is not winner:
                _give_up(attempt)


async def _winner(
    attempts: list[asyncio.Task[socket.socket]], patience: float | None
) -> asyncio.Task[socket.socket] | None:
    """The attempt that connects; None when all have failed or `patience` seconds are over."""
    while True:
        for attempt in attempts:
            if attempt.done() and attempt.exception() is None:
                return attempt
        running = [attempt for attempt in attempts if not attempt.done()]
        if not running:
            return None
        done, _ = await asyncio.wait(running, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            return None


async def _attempt(address: Address) -> socket.socket:
    family, where = address
    connecting = socket.socket(family, socket.SOCK_STREAM)
    try:
        connecting.setblocking(False)
        # asyncio sees to it only for sockets whose protocol is spelt out. Without it the last bytes
        # of a request wait until those before them are acknowledged, 40 ms at times.
        connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(connecting, where)
    except BaseException:
        connecting.close()
        raise
    return connecting


def _give_up(attempt: asyncio.Task[socket.socket]) -> None:
    if not attempt.done():
        attempt.cancel()
    elif not attempt.cancelled() and attempt.exception() is None:
        attempt.result().close()
