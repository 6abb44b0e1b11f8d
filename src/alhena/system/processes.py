"""Children in sessions of their own: started, watched, bounded, ended.

What a child writes goes to a `sink` of bytes as it comes; memory is the sink's business. The end
of the child, not of its pipe, ends the wait: a background process that holds the pipe open is not
waited for. Who belongs to a child is decided by its session and, for a command that is followed, by
its mark (see `descent`), which stays on what makes a session of its own (`setsid`, a daemon).
"""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import StrEnum
from typing import NamedTuple

import msgspec

from alhena.system.background import BackgroundCommand, BackgroundOutput, LeftProcess
from alhena.system.child import GRACE, Child, Marks, command_line, marked, stop, stop_member
from alhena.system.watchdog import Watchdog

QUIET = 0.05
"""Seconds without output after which the pipe of an ended child counts as drained."""

DRAIN = 0.5
"""Seconds after which reading ends even when background processes keep on writing."""

MAX_ENDED = 50
"""How many background commands that have ended are still told of."""

_FIRST_STEP = 0.002


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """What to start. Without `merge_stderr` the child's stderr is discarded, or goes to a sink of
    its own. `stdin` is what it can read from its standard input. Of one that `leaves_nothing`, what
    it leaves running is ended. One with a `label`, which is what people know it by, is followed:
    what makes a session of its own still belongs to it."""

    argv: tuple[str | bytes, ...]
    cwd: str
    env: dict[str, str]
    merge_stderr: bool = True
    stdin: bytes = b""
    leaves_nothing: bool = False
    label: str = ""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """When to stop a child: seconds without output, seconds in all, bytes of output; 0 is never."""

    inactivity: float = 300.0
    total: float = 0.0
    output: int = 0


class Stop(StrEnum):
    """Which limit stopped a child."""

    INACTIVITY = "inactivity"
    TOTAL = "total"
    OUTPUT = "output"


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a child ended: an exit code or a signal's number, and what is still alive of it.

    `pgid` is its process group and session, `background` the ids of living members, `stopped` the
    limit that ended it.
    """

    pgid: int
    exit_code: int | None
    signal: int | None
    stopped: Stop | None
    background: tuple[int, ...]


class ProcessGroups:
    """What commands left running: kept until it ends by itself or `close` ends it.

    The output of what a command left behind is read and dropped, so that a server neither blocks
    nor dies of a closed pipe; that of a background command goes to its capture. When this process
    is killed, a watchdog ends all of them, and the commands at work.
    """

    def __init__(self) -> None:
        self.marks = Marks()
        self._kept: dict[int, Child] = {}
        self._labels: dict[int, str] = {}
        self._background: dict[int, BackgroundCommand] = {}
        self.watchdog = Watchdog(self.marks.prefix)
        self._afterwards: list[Callable[[], None]] = []

    @property
    def pgids(self) -> tuple[int, ...]:
        """The process groups that still have members."""
        return tuple(pid for pid, child in tuple(self._kept.items()) if child.members())

    @property
    def members(self) -> tuple[int, ...]:
        """The living processes of all that is kept."""
        return tuple(pid for child in tuple(self._kept.values()) for pid in child.members())

    @property
    def background(self) -> tuple[BackgroundCommand, ...]:
        """The background commands of the session in the order they were started."""
        return tuple(self._background.values())

    @property
    def left(self) -> tuple[LeftProcess, ...]:
        """The living processes that are on their own: what ended commands have left running, and
        what has left the group of a background command."""
        found: list[LeftProcess] = []
        for child in tuple(self._kept.values()):
            owner = child.pid if child.pid in self._background else None
            label = self._labels.get(child.pid, "")
            found += [
                LeftProcess(pid, command_line(pid), label, owner)
                for pid in child.members()
                if child.exited.done() or child.has_left(pid)
            ]
        return tuple(found)

    async def end(self, pid: int) -> bool:
        """Ends a background command with all that came from it, or one of `left`: SIGTERM, then
        SIGKILL. False when there is no such process alive."""
        for child in tuple(self._kept.values()):
            if child.pid == pid and pid in self._background:
                await stop(child)
                self._when_ended(child)
                return True
            if pid in child.members():
                await stop_member(child, pid)
                self._when_ended(child)
                return True
        return False

    def watch(self, pgid: int) -> None:
        """A group has started. Raises ProcessStartError."""
        for child in tuple(self._kept.values()):
            self._when_ended(child)  # what has ended meanwhile is not watched any longer
        self.watchdog.add(pgid)

    def unwatch(self, pgid: int) -> None:
        """A group has ended. If it was kept, and nothing of it lives, it is kept no longer."""
        kept = self._kept.get(pgid)
        if kept is None:
            self.watchdog.remove(pgid)
        else:
            self._when_ended(kept)

    def keep(self, child: Child, label: str) -> None:
        """Takes over the ended child's group; `label` is the command that left it."""
        child.drop_output()
        self._kept[child.pid] = child
        self._labels[child.pid] = label

    def keep_background(self, background: BackgroundCommand) -> None:
        """Takes over a command that goes on, and remembers it when it has ended."""
        child = background.child
        self._kept[child.pid] = child
        self._labels[child.pid] = background.command
        self._background.pop(child.pid, None)
        self._background[child.pid] = background
        ended = [pid for pid, other in self._background.items() if not other.running]
        for pid in ended[: len(ended) - MAX_ENDED]:
            del self._background[pid]
        loop = asyncio.get_running_loop()
        child.exited.add_done_callback(lambda _exited: self._when_ended(child))
        child.eof.add_done_callback(lambda _eof: loop.call_later(QUIET, self._when_ended, child))

    async def close(self, grace: float = GRACE) -> None:
        """Ends every group: SIGTERM, then SIGKILL after `grace` seconds. Can be called again."""
        children = [self._kept[pgid] for pgid in self.pgids]
        try:
            async with asyncio.TaskGroup() as tasks:
                for child in children:
                    tasks.create_task(stop(child, grace))
        finally:
            self.kill()

    def kill(self) -> None:
        """Ends every group with SIGKILL, at once, and what commands and hooks at work have put into
        sessions of its own; for an exit where no event loop runs any more."""
        for child in tuple(self._kept.values()):
            child.signal(signal.SIGKILL)
            self._forget(child)
        for pid in marked(self.marks.prefix) if self.marks.given else ():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        self.watchdog.close()
        while self._afterwards:
            self._afterwards.pop()()

    def when_ended(self, action: Callable[[], None]) -> None:
        """`action` is called once, when everything has been ended by `close` or `kill`."""
        self._afterwards.append(action)

    def _when_ended(self, child: Child) -> None:
        if self._kept.get(child.pid) is not child:
            return
        # One whose end the loop has not heard of yet could not be said to have ended, nor how.
        if child.exited.done() and not child.members():
            self._forget(child)

    def _forget(self, child: Child) -> None:
        child.release()
        self._kept.pop(child.pid, None)
        self.unwatch(child.pid)
        self._labels.pop(child.pid, None)
        background = self._background.get(child.pid)
        if background is not None and background.child is child:
            background.finish()


async def run_process(
    command: Command,
    sink: Callable[[bytes], None],
    *,
    limits: Limits | None = None,
    groups: ProcessGroups | None = None,
    started: Callable[[int], None] = lambda _pid: None,
    errors: Callable[[bytes], None] | None = None,
) -> Ending:
    """Runs `command` to its end, with stdout and stderr joined in order, or stderr to `errors`.

    When it ends by itself, members of its session that live on are handed to `groups`, or are
    killed where there is none. On a limit and on cancellation everything is killed: SIGTERM, a
    grace of 0.2 s, SIGKILL; CancelledError is raised when that is done. Raises ProcessStartError.
    """
    child = _start(command, groups, sink, errors)
    settled = False
    try:
        if groups is not None:
            groups.watch(child.pid)
        started(child.pid)
        stopped = await _end_or_limit(child, limits or Limits())
        if stopped is None:
            await _drain(child)
            background = await _background(child)
        else:
            await stop(child)
            background = child.members()
        if stopped is None and not background:
            child.end_unseen()
            _release(child, groups)
            settled = True
        elif stopped is None and groups is not None and not command.leaves_nothing:
            groups.keep(child, command.label)
            settled = True
        return _ending(child, stopped, background)
    finally:
        if not settled:
            await _discard(child, groups)


async def run_in_background(
    command: Command,
    output: BackgroundOutput,
    *,
    groups: ProcessGroups,
    delay: float,
    output_limit: int = 0,
) -> BackgroundCommand:
    """Starts `command`, watches it for `delay` seconds, and hands it to `groups`.

    Output goes to `output`; more than `output_limit` bytes end it. It may have ended by the time
    this returns. Cancelled while it waits, it ends what it has started. Raises ProcessStartError.
    """
    child = _start(command, groups, output.capture.feed)
    child.output_limit = output_limit
    kept = False
    try:
        groups.watch(child.pid)
        background = BackgroundCommand(child, command.label, output)
        child.over_limit.add_done_callback(lambda _over: child.signal(signal.SIGKILL))
        await asyncio.wait({child.exited}, timeout=delay)
        if child.exited.done():
            await _drain(child)
            await _background(child)
        groups.keep_background(background)
        kept = True
        return background
    finally:
        if not kept:
            await _discard(child, groups)


def _start(
    command: Command,
    groups: ProcessGroups | None,
    sink: Callable[[bytes], None],
    errors: Callable[[bytes], None] | None = None,
) -> Child:
    child = Child(
        command.argv,
        command.cwd,
        command.env,
        merge_stderr=command.merge_stderr,
        stdin=command.stdin,
    )
    if groups is None:
        child.start(sink, errors, mark=Marks().next() if command.label else 0)
        return child
    groups.watchdog.expect()  # this process may be killed before it can tell of the child
    try:
        child.start(sink, errors, mark=groups.marks.next() if command.label else 0)
    except BaseException:
        groups.watchdog.forget()
        raise
    return child


async def _end_or_limit(child: Child, limits: Limits) -> Stop | None:
    begin = child.now()
    child.output_limit = limits.output
    while not child.exited.done():
        silent = child.last_output + limits.inactivity if limits.inactivity else None
        last = begin + limits.total if limits.total else None
        due = min((moment for moment in (silent, last) if moment is not None), default=None)
        wait = None if due is None else max(0.0, due - child.now())
        await asyncio.wait(
            {child.exited, child.over_limit}, timeout=wait, return_when=asyncio.FIRST_COMPLETED
        )
        if child.exited.done():
            break
        if child.over_limit.done():
            return Stop.OUTPUT
        if last is not None and child.now() >= last:
            return Stop.TOTAL
        if limits.inactivity and child.now() >= child.last_output + limits.inactivity:
            return Stop.INACTIVITY
    return None


async def _drain(child: Child) -> None:
    """Reads what an ended child has written, for a quiet moment and no longer than `DRAIN`."""
    child.read_available()
    end = child.now() + DRAIN
    while not child.eof.done():
        due = min(end, max(child.last_output, child.exit_time) + QUIET)
        if due <= child.now():
            return
        await asyncio.wait({child.eof}, timeout=due - child.now())


async def _background(child: Child) -> tuple[int, ...]:
    """Who lives on, not counting those that are about to end with the pipe they just closed."""
    members = child.members()
    wait, waited = _FIRST_STEP, 0.0
    while members and waited < QUIET:
        await asyncio.sleep(wait)
        waited, wait = waited + wait, 2 * wait
        members = child.members()
    return members


async def _discard(child: Child, groups: ProcessGroups | None) -> None:
    try:
        if not child.exited.done() or child.members():
            await stop(child)
    finally:
        child.signal(signal.SIGKILL)
        _release(child, groups)


def _release(child: Child, groups: ProcessGroups | None) -> None:
    child.release()
    if groups is not None:
        groups.unwatch(child.pid)


def _ending(child: Child, stopped: Stop | None, background: tuple[int, ...]) -> Ending:
    code = child.reap()
    return Ending(
        pgid=child.pid,
        exit_code=code if code is not None and code >= 0 else None,
        signal=-code if code is not None and code < 0 else None,
        stopped=stopped,
        background=background,
    )


def shell_path(env: dict[str, str]) -> str | None:
    """Where bash is on the PATH of `env`."""
    import shutil

    return shutil.which("bash", path=env.get("PATH", os.defpath))


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
