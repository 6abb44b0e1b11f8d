"""Which processes come from a command, wherever they have gone since.

A process can leave its group and its session (setsid, a daemon that forks twice), change its name
and overwrite its environment, but its resource limits go with it and to all it starts. So a command
is marked by one that limits nothing: how much CPU time it may take as a real-time process, set to
thousands of years and to a number of its own. Whoever takes the mark off (`prlimit
--rttime=unlimited`) is let go. Where there is no such limit (not Linux), what makes a session of
its own is not found.
"""

import os
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress

MARK_DIGITS = 17
"""Decimal digits of a mark, in microseconds; those of one `Marks` begin with the same ten."""

_COMMANDS = 10_000_000
_DEAD = frozenset({"Z", "X", "x"})
_STAT_START = 19  # of the fields behind the name, the clock tick a process was started at
_LIMIT = b"Max realtime timeout"
_LOOKS = 2
_MARKING = threading.Lock()


class Marks:
    """Marks for the commands of one session, none given twice."""

    def __init__(self) -> None:
        self.prefix = str(1_000_000_000 + int.from_bytes(os.urandom(4), "big") % 1_000_000_000)
        self._given = 0

    @property
    def given(self) -> bool:
        """Whether any command has one."""
        return self._given > 0

    def next(self) -> int:
        """The mark of the next command."""
        self._given = (self._given + 1) % _COMMANDS
        return int(self.prefix) * _COMMANDS + self._given


@contextmanager
def marking(mark: int) -> Generator[bool]:
    """What is started inside has the mark (0: none), and what that starts; gives whether it has.

    The limit is this process's own meanwhile, so that the child is born with it: a short command
    would have left its session before it could be given one. What other threads start at the same
    time is put right.
    """
    if not mark or not sys.platform.startswith("linux"):
        yield False
        return
    import resource

    with _MARKING:
        before, most = resource.getrlimit(resource.RLIMIT_RTTIME)
        try:
            resource.setrlimit(resource.RLIMIT_RTTIME, (mark, most))
        except (OSError, ValueError):  # it may have less than that
            yield False
            return
        children = _children()
        try:
            yield True
        finally:
            resource.setrlimit(resource.RLIMIT_RTTIME, (before, most))
            _unmark(_children() - children, mark, (before, most))


def _children() -> set[int]:
    """The children of the threads other than this one; of a system that does not tell, none."""
    this = str(threading.get_native_id())
    found: set[int] = set()
    for thread in os.listdir("/proc/self/task"):
        if thread != this:
            # The thread may have ended, and a kernel may be built without the list.
            with suppress(OSError), open(f"/proc/self/task/{thread}/children", "rb") as file:
                found.update(map(int, file.read().split()))
    return found


def _unmark(pids: set[int], mark: int, limits: tuple[int, int]) -> None:
    import resource

    for pid in pids:
        with suppress(OSError):  # it has ended
            if _mark_of(str(pid)) == mark:
                resource.prlimit(pid, resource.RLIMIT_RTTIME, limits)


def started_at(pid: int) -> int:
    """The clock tick since the system's start at which a process was started; 0 if unknown."""
    fields = _status(str(pid)) if sys.platform.startswith("linux") else None
    return int(fields[_STAT_START]) if fields else 0


def session_members(session: int) -> tuple[int, ...]:
    """The ids of the living (not zombie) processes in a session, ascending."""
    return descendants(session)


def descendants(session: int | None, mark: int = 0, since: int = 0) -> tuple[int, ...]:
    """The living processes in a session (None: none), and those with a mark (0: none) wherever
    they are, ascending. No process with the mark was started before the tick `since`."""
    if not sys.platform.startswith("linux"):
        return () if session is None else _members_by_ps(session)
    found, missed = _look(session, mark, since)
    for _ in range(_LOOKS):
        if found or not missed:
            break
        found, missed = _look(session, mark, since)
    return tuple(sorted(found))


def marked(prefix: str) -> tuple[int, ...]:
    """The living processes with a mark that begins with that of a session, ascending."""
    if not sys.platform.startswith("linux"):
        return ()
    found: list[int] = []
    for name in os.listdir("/proc"):
        mark = str(_mark_of(name)) if name.isdigit() else ""
        if len(mark) == MARK_DIGITS and mark.startswith(prefix):
            found.append(int(name))
    return tuple(sorted(found))


def _look(session: int | None, mark: int, since: int) -> tuple[list[int], bool]:
    """One look over all processes; whether any ended under it, which may have begun another."""
    found: list[int] = []
    missed = False
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        fields = _status(name)
        if fields is None or fields[0].decode() in _DEAD:
            missed = missed or fields is None
            continue
        inside = session is not None and session in {int(fields[2]), int(fields[3])}
        marked = not inside and mark and int(fields[_STAT_START]) >= since
        if inside or (marked and _mark_of(name) == mark):
            found.append(int(name))
    return found, missed


def command_line(pid: int) -> str:
    """What a process was started as, or calls itself; "" if unknown."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(4096).rstrip(b"\0 ").split(b"\0")
    except OSError:  # it has ended, or there is no /proc
        return ""
    return b" ".join(words).decode("utf-8", "replace")


def _status(name: str) -> list[bytes] | None:
    """State, parent, group, session and so on; None for a process that has ended since."""
    try:
        descriptor = os.open(f"/proc/{name}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.read(descriptor, 4096)
    except ProcessLookupError:
        return None
    finally:
        os.close(descriptor)
    # "pid (name) state ppid pgrp session …"; the name may hold anything, ")" and spaces too.
    return status[status.rfind(b")") + 2 :].split(b" ", _STAT_START + 1)


def _mark_of(name: str) -> int:
    try:
        with open(f"/proc/{name}/limits", "rb") as file:
            limits = file.read()
    except OSError:  # it has ended since
        return 0
    line = limits[limits.find(_LIMIT) + len(_LIMIT) :].split(None, 1)
    return int(line[0]) if line and line[0].isdigit() else 0


def _members_by_ps(session: int) -> tuple[int, ...]:
    import subprocess

    from alhena.system.shielding import shield_memory

    shield_memory()
    listing = subprocess.run(
        ["ps", "-A", "-o", "pid=,pgid=,stat="], capture_output=True, check=False, encoding="ascii"
    ).stdout
    found: list[int] = []
    for line in listing.splitlines():
        pid, group, state = line.split(None, 2)
        if int(group) == session and state[:1] not in _DEAD:
            found.append(int(pid))
    return tuple(sorted(found))
