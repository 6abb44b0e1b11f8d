"""The pieces of a streamed answer on their shortest way to the socket.

Each message of an ASGI application passes every layer of it and of the server, and becomes an
event of the HTTP library. For the pieces of a stream, which are one chunk each, nothing of that
matters; what begins and what ends an answer goes the usual way.
"""

import asyncio
from collections.abc import Callable, MutableMapping
from typing import Any, cast

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

_LINE = "alhena.line"


class Line:
    """Writes chunks of the body of one answer, once its head is sent. `tell` hears how many bytes
    of the body each has."""

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self.tell: Callable[[int], None] = _unheard
        self._cycle = cycle
        self._flow = cycle.flow
        self._transport = cycle.transport

    async def write(self, data: bytes) -> None:
        """Sends some bytes, not none, when the client has taken enough of those before them."""
        cycle = self._cycle
        if self._flow.write_paused and not cycle.disconnected:
            await self._flow.drain()
        if self._transport.is_closing():
            # The connection broke, which the cycle hears of when the loop comes to it.
            await asyncio.sleep(0)
        elif not cycle.disconnected:
            self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))
            self.tell(len(data))


class LiningProtocol(H11Protocol):
    """Gives each request whose answer can be in chunks, as those of HTTP/1.0 cannot, its line."""

    def handle_events(self) -> None:
        """Takes what h11 has read; a request that begins with it has not been looked at yet."""
        super().handle_events()
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is not None and self.conn.their_http_version == b"1.1":
            scope = cast("MutableMapping[str, Any]", cycle.scope)
            if _LINE not in scope:
                scope[_LINE] = Line(cycle)


def line_of(scope: Any) -> Line | None:
    """The line of a request; None where there is none, or another server stands before the
    application."""
    line: Line | None = scope.get(_LINE)
    return line


def _unheard(count: int) -> None:
    del count
