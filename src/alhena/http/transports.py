"""The connections to one service in all event loops.

What opens them, and asyncio, is imported by the first request: a model is made before a connection
is opened early.
"""

from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import msgspec

from alhena.errors import ProgramError
from alhena.http import Timeouts
from alhena.http.addresses import Endpoint

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from alhena.http.client import Transport


class Transports:
    """The transports to one service, one for each event loop that sends: connections belong to the
    loop that opened them, and are closed when it ends."""

    def __init__(self, endpoint: Endpoint, environ: Mapping[str, str], timeouts: Timeouts) -> None:
        self._endpoint = endpoint
        self._environ = environ
        self._timeouts = timeouts
        self._closed = False
        self._open: WeakKeyDictionary[AbstractEventLoop, _Kept] = WeakKeyDictionary()

    async def here(self) -> "Transport":
        """The transport of the running loop, opened now if there is none. Raises ConfigError for
        an invalid proxy address."""
        if self._closed:
            raise ProgramError(
                f"the connections to {self._endpoint.place} are closed.",
                remedy="Use the model inside of its `async with`, or make another one.",
            )
        import asyncio

        loop = asyncio.get_running_loop()
        kept = self._open.get(loop)
        if kept is None:
            from alhena.http.client import open_transport

            transport = open_transport(self._endpoint, self._environ, self._timeouts)
            kept = self._open[loop] = _Kept(transport, _close_at_end(transport))
            await anext(kept.end)
        return kept.transport

    async def aclose(self) -> None:
        """Closes the idle connections of all loops; those of loops in other threads soon after.
        Nothing can be sent from now on."""
        import asyncio

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

    transport: "Transport"
    end: AsyncGenerator[None, None]


async def _close_at_end(transport: "Transport") -> AsyncGenerator[None, None]:
    """A generator that has begun: the loop closes it, and it the transport, before its own end
    (`shutdown_asyncgens`, which `asyncio.run` calls)."""
    try:
        yield
    finally:
        await transport.aclose()
