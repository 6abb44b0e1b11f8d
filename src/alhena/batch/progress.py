"""Progress of a run on standard error: one line at a terminal, now and then a line elsewhere."""

import time
from collections import deque
from collections.abc import Callable

from alhena.batch.overview import Counts
from alhena.batch.queue import EndedTask, Queue
from alhena.display_text import money, one_line

_RECENT_S = 60.0
_LINE_S = 10.0
_DRAW_S = 0.2
_WIDTH = 100


class RunProgress:
    """Tells of a run as it goes. `write` takes text for standard error."""

    def __init__(
        self,
        queue: Queue,
        write: Callable[[str], None],
        *,
        at_terminal: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._queue = queue
        self._write = write
        self._at_terminal = at_terminal
        self._recent: deque[float] = deque()
        self._began = self._clock()
        self._told = 0.0 if at_terminal else self._began
        self._last = Counts()

    def feed(self, counts: Counts, ended: tuple[EndedTask, ...]) -> None:
        """Takes a look at the run."""
        now = self._clock()
        self._last = counts
        self._recent.extend(now for _ in ended)
        while self._recent and self._recent[0] < now - _RECENT_S:
            self._recent.popleft()
        for each in ended:
            if each.status == "failed":
                self._clear()
                self._write(f"alhena: {one_line(each.id, 60)} failed: {each.kind}\n")
        if now - self._told >= (_DRAW_S if self._at_terminal else _LINE_S):
            self._told = now
            line = self._line(counts, now)
            if self._at_terminal:
                self._write(f"\r\x1b[K{line[:_WIDTH]}")
            else:
                self._write(f"alhena: {line}\n")

    def finish(self) -> None:
        """The run has ended: its numbers as a line."""
        self._clear()
        counts = self._last
        cancelled = f", {counts.cancelled} cancelled" if counts.cancelled else ""
        said = f"{counts.done} done, {counts.failed} failed{cancelled} of {counts.total};"
        self._write(f"alhena: {said} {_money(counts)}\n" if counts.total else "")

    def _clear(self) -> None:
        if self._at_terminal:
            self._write("\r\x1b[K")

    def _line(self, counts: Counts, now: float) -> str:
        span = min(_RECENT_S, max(now - self._began, 1.0))
        rate = len(self._recent) / span
        left = counts.waiting + counts.running
        parts = [
            f"{counts.ended}/{counts.total}",
            f"{counts.running} running",
            f"{counts.failed} failed",
            f"{rate * 60:.3g}/min",
            _money(counts),
        ]
        if rate and left:
            parts.append(f"{duration(left / rate)} left")
        slowest = self._queue.rows(
            "SELECT id, elapsed + ? - began FROM tasks WHERE state = 'running'"
            " ORDER BY 2 DESC LIMIT 1",
            now,
        )
        if slowest:
            parts.append(f"slowest {one_line(slowest[0][0], 30)} {duration(slowest[0][1])}")
        return " · ".join(parts)


def _money(counts: Counts) -> str:
    cost = "cost unknown" if counts.cost is None else money(counts.cost)
    return f"{counts.tokens:,} tokens · {cost}"


def duration(seconds: float) -> str:
    """Seconds as people read them."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"
