"""An event loop whose clock stands still while the machine does."""

import asyncio
import selectors
import time
from collections.abc import Callable
from typing import Any

_STEP_S = 0.005
"""Length of one wait."""
_MOST_S = 0.01
"""Most that one wait, or the work between two, counts: anything longer is other processes' time."""


class _Stretches(selectors.DefaultSelector):
    """Waits in short stretches, and says when each begins and ends."""

    def __init__(self, tick: Callable[[], None]) -> None:
        super().__init__()
        self._tick = tick

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, Any]]:
        self._tick()
        found = super().select(_STEP_S if timeout is None else min(timeout, _STEP_S))
        self._tick()
        return found


class SteadyLoop(asyncio.SelectorEventLoop):
    """Time limits run out in it after so much time that it was there to see: a process that is not
    scheduled for a second, because a machine stalls or others have it, has lost a hundredth of that.
    Time passes while it waits, so that what never comes is given up as ever."""

    def __init__(self) -> None:
        self._counted = self._looked = time.monotonic()
        super().__init__(_Stretches(self._tick))

    def time(self) -> float:
        """Seconds, of no real clock."""
        return self._counted + min(time.monotonic() - self._looked, _MOST_S)

    def skip(self, seconds: float) -> None:
        """Lets so much time pass at once."""
        self._tick()
        self._counted += seconds

    def _tick(self) -> None:
        now = time.monotonic()
        self._counted += min(now - self._looked, _MOST_S)
        self._looked = now


def skip(seconds: float) -> None:
    """Lets time pass in the running loop: what waits for so long has waited for it."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SteadyLoop)
    loop.skip(seconds)


async def skip_when(seconds: float, true: Callable[[], bool]) -> None:
    """Lets time pass in the running loop as soon as `true` says so."""
    while not true():
        await asyncio.sleep(_STEP_S)
    skip(seconds)
