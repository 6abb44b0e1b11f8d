"""How often a host may be asked: at most so many times in a sliding stretch of time."""

from collections import deque
from collections.abc import Callable

_MANY = 1000


class HostRate:
    """Counts requests by host. `clock` gives seconds that never go back."""

    def __init__(self, limit: int, period: float, clock: Callable[[], float]) -> None:
        self._limit = limit
        self._period = period
        self._clock = clock
        self._asked: dict[str, deque[float]] = {}

    def wait(self, host: str) -> float:
        """0 when the host may be asked now, which is counted; else the seconds until it may."""
        now = self._clock()
        if len(self._asked) > _MANY:
            self._asked = {
                name: times for name, times in self._asked.items() if now - times[-1] < self._period
            }
        times = self._asked.setdefault(host, deque())
        while times and now - times[0] >= self._period:
            times.popleft()
        if len(times) >= self._limit:
            return self._period - (now - times[0])
        times.append(now)
        return 0.0
