"""A lock for what programs use from one event loop after another."""

import asyncio


class LoopLock:
    """Gives each event loop a lock of its own, for one of another loop cannot be waited for."""

    def __init__(self) -> None:
        self._last: tuple[asyncio.AbstractEventLoop, asyncio.Lock] | None = None

    def here(self) -> asyncio.Lock:
        """The lock of the running event loop."""
        loop = asyncio.get_running_loop()
        if self._last is None or self._last[0] is not loop:
            self._last = (loop, asyncio.Lock())
        return self._last[1]
