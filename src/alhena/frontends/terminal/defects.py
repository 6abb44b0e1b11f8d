"""When a screen that goes on in spite of defects is to be given up."""

from collections import deque

MAX_DEFECTS = 3
"""Defects in a row after which the screen is given up."""
WITHIN = 5.0
"""Seconds in which they are in a row."""


class Defects:
    """Counts what goes wrong where nobody waits for it."""

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=MAX_DEFECTS + 1)

    def one_more(self, now: float) -> bool:
        """Whether one at `now` (in seconds) is one too many."""
        self._times.append(now)
        return len(self._times) > MAX_DEFECTS and now - self._times[0] < WITHIN
