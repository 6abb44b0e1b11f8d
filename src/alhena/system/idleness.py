"""Whether a process waits for what may never come, as far as the system tells it."""

import os
from collections.abc import Iterator
from typing import NamedTuple

IDLE_S = 0.3
"""A process that has slept for so long, and not worked in between, waits."""

_ASLEEP = (b"S", b"Z")
_OPENS_A_FIFO = b"wait_for_partner"
_READS_A_PIPE = b"pipe_read"
"""Where the kernel keeps a thread until somebody writes; before some names stands a word more."""


class _Thread(NamedTuple):
    process: str
    thread: str
    state: bytes
    worked: tuple[bytes, ...]
    """How long for itself, and in the system, in the clock's ticks."""
    place: bytes
    """The kernel's function it sleeps in; empty when it does not, or the system does not tell."""

    def at_a_pipe(self) -> bool:
        return self.place == _OPENS_A_FIFO or self.place.endswith(_READS_A_PIPE)


class Idle:
    """Looks at a process now and then. One that waits for a disk, or for its turn, is not idle;
    where the system tells nothing of processes, none is."""

    def __init__(self, pid: int) -> None:
        self._pid = str(pid)
        self.restart()

    def restart(self) -> None:
        """Forgets what was seen: there was a sign of life."""
        self._asleep: dict[tuple[_Thread, ...], float] = {}

    def seen(self, now: float) -> bool:
        """Looks, at the time `now` in seconds of any clock; true when it has slept, with all that
        it has started, since it was first seen so, `IDLE_S` ago or longer.

        So it is when one of its threads waits at a pipe though it has started nothing that could
        write to it: the others may look again and again whether that one has left them work.
        """
        try:
            threads = tuple(_threads(self._pid))
        except OSError:  # it is gone, or a part of it, or the system does not tell
            self.restart()
            return False
        waiting: list[tuple[_Thread, ...]] = []
        if all(thread.state in _ASLEEP for thread in threads):
            waiting.append(threads)
        if all(thread.process == self._pid for thread in threads):
            waiting += [(thread,) for thread in threads if thread.at_a_pipe()]
        self._asleep = {key: self._asleep.get(key, now) for key in waiting}
        return any(now - since > IDLE_S for since in self._asleep.values())


def _threads(pid: str) -> Iterator[_Thread]:
    """The threads of a process and of those below it."""
    tasks = f"/proc/{pid}/task"
    for name in os.listdir(tasks):
        with open(f"{tasks}/{name}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        yield _Thread(pid, name, fields[0], tuple(fields[11:13]), _place(f"{tasks}/{name}/wchan"))
        with open(f"{tasks}/{name}/children", "rb") as file:
            children = file.read().split()
        for child in children:
            yield from _threads(child.decode("ascii"))


def _place(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read().strip(b"\0\n")
    except OSError:  # not every kernel tells it, nor of every process
        return b""
