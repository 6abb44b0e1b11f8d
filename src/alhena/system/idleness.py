"""Whether a process waits for what may never come, as far as the system tells it."""

import os
from collections.abc import Iterator

IDLE_S = 0.3
"""A process that has slept for so long, and not worked in between, waits."""

_ASLEEP = (b"S", b"Z")


class Idle:
    """Looks at a process now and then. One that waits for a disk, or for its turn, is not idle;
    where the system tells nothing of processes, none is."""

    def __init__(self, pid: int) -> None:
        self._pid = str(pid)
        self.restart()

    def restart(self) -> None:
        """Forgets what was seen: there was a sign of life."""
        self._known: list[tuple[bytes, ...]] = []
        self._since = 0.0

    def seen(self, now: float) -> bool:
        """Looks, at the time `now` in seconds of any clock; true when it has slept, with all that
        it has started, since it was first seen so, `IDLE_S` ago or longer."""
        try:
            threads = list(_threads(self._pid))
        except OSError:  # it is gone, or a part of it, or the system does not tell
            self.restart()
            return False
        asleep = all(state in _ASLEEP for state, *_ in threads)
        if not asleep or threads != self._known:
            self._known, self._since = threads, now
        return asleep and now - self._since > IDLE_S


def _threads(pid: str) -> Iterator[tuple[bytes, ...]]:
    """The threads of a process and of those below it: of each its state, and how long it has
    worked, for itself and in the system."""
    tasks = f"/proc/{pid}/task"
    for name in os.listdir(tasks):
        with open(f"{tasks}/{name}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        yield (fields[0], *fields[11:13])
        with open(f"{tasks}/{name}/children", "rb") as file:
            children = file.read().split()
        for child in children:
            yield from _threads(child.decode("ascii"))
