"""The end of the gateway, as the requests under way hear of it."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from alhena.errors import AlhenaError
from alhena.gateway.faults import FaultKind, RefusedError, refused


class Closing:
    """Ends what requests wait for, when the gateway stops and has no more time for it. Each learns
    of it where it waits, and still has its say: an answer that was begun ends with the reason."""

    def __init__(self) -> None:
        self._waits: set[asyncio.Timeout] = set()
        self._begun = False

    @asynccontextmanager
    async def within(
        self, seconds: float, late: Callable[[], AlhenaError]
    ) -> AsyncGenerator[None, None]:
        """What is done inside has so many seconds. Raises the error that `late` makes when it takes
        longer, RefusedError when the gateway closes."""
        if self._begun:
            raise _stopping()
        try:
            async with asyncio.timeout(seconds) as wait:
                self._waits.add(wait)
                try:
                    yield
                finally:
                    self._waits.discard(wait)
        except TimeoutError as error:
            raise (_stopping() if self._begun else late()) from error

    def close(self) -> None:
        """Ends all waits, and those that would begin."""
        self._begun = True
        now = asyncio.get_running_loop().time()
        for wait in self._waits:
            if not wait.expired():
                wait.reschedule(now)


def _stopping() -> RefusedError:
    message = "the gateway stops, and had no more time for this request."
    return refused(FaultKind.STOPPING, message, retry_after_s=1)
