"""Runs children in their own sessions: starts, watches, limits and kills them.

Output goes to a `sink` of bytes as it arrives; the sink limits memory. The wait ends with the
child, not with its pipe: background processes that keep the pipe open are not waited for. Members
of a child are found by its session and, for a tracked command, by its mark (see `child`), which new
sessions (`setsid`, daemons) inherit.
"""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

import msgspec

from alhena.system.child import (
    GRACE,
    Child,
    Marks,
    command_line,
    find_marked_processes,
    stop,
    stop_member,
)
from alhena.system.output import OutputCapture, TextSpool
from alhena.system.watchdog import Watchdog

if TYPE_CHECKING:
    from alhena.system.pseudo_terminal import PseudoTerminal


class BackgroundOutput(Protocol):
    """The output of a background command."""

    @property
    def capture(self) -> OutputCapture:
        """Receives the bytes and keeps the latest of them."""
        ...

    @property
    def spool(self) -> TextSpool | None:
        """Stores the whole output, if available."""
        ...

    @property
    def line_breaks(self) -> int:
        """The number of complete lines so far."""
        ...


class LeftProcess(msgspec.Struct, frozen=True):
    """A living process outside its command's group: its program, its command, and the process id of
    that command if it runs in the background."""

    pid: int
    program: str
    command: str
    owner: int | None


class BackgroundCommand:
    """A running or ended child of this session, with its output. `command` is the command line."""

    def __init__(self, child: Child, command: str, output: BackgroundOutput) -> None:
        self.child = child
        self.command = command
        self.output = output
        self._finished = False

    @property
    def pid(self) -> int:
        """Its process id, also the id of its group and session."""
        return self.child.pid

    @property
    def running(self) -> bool:
        """True while any process of its session lives."""
        if self._finished:
            return False
        return not self.child.exited.done() or bool(self.child.members())

    @property
    def exit_code(self) -> int | None:
        """Its exit code; None while its first process runs, or after a signal."""
        code = self.child.reap()
        return code if code is not None and code >= 0 else None

    @property
    def signal(self) -> int | None:
        """The signal that ended its first process."""
        code = self.child.reap()
        return -code if code is not None and code < 0 else None

    @property
    def over_limit(self) -> bool:
        """True when it was killed for too much output."""
        return self.child.over_limit.done()

    def finish(self) -> None:
        """Flushes the output and closes the file."""
        if self._finished:
            return
        self._finished = True
        captured = self.output.capture.finish_capture()
        if self.output.spool is not None:
            self.output.spool.finish(tail=captured.tail)


QUIET = 0.05
"""Seconds without output after which the pipe of an ended child counts as drained."""

DRAIN = 0.5
"""Seconds after which reading ends even if background processes keep writing."""

MAX_ENDED = 50
"""Maximum number of ended background commands still reported."""

_FIRST_STEP = 0.002


class ProcessCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command to run. Without `merge_stderr` stderr is discarded, or goes to its own sink.
    `stdin` is the content of its standard input. With `leaves_nothing`, processes it leaves running
    are killed. A `label`, its name for people, makes it tracked: processes that start their own
    session still belong to it. With a `terminal` the output goes there."""

    argv: tuple[str | bytes, ...]
    cwd: str
    env: dict[str, str]
    merge_stderr: bool = True
    stdin: bytes = b""
    leaves_nothing: bool = False
    label: str = ""
    terminal: "PseudoTerminal | None" = None


class CommandLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a child: seconds without output, seconds in total, bytes of output; 0 means no
    limit. `keys`: seconds without output after which it is stopped because it waits for keys, as a
    pager does, and its terminal has none."""

    inactivity: float = 300.0
    total: float = 0.0
    output: int = 0
    keys: float = 3.0


class ReachedLimit(StrEnum):
    """The limit that stopped a child."""

    INACTIVITY = "inactivity"
    TOTAL = "total"
    OUTPUT = "output"
    KEYS = "keys"


class ProcessEnding(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a child: an exit code or a signal number, and its living members.

    `pgid` is its process group and session, `background` the ids of living members, `stopped` the
    limit that ended it.
    """

    pgid: int
    exit_code: int | None
    signal: int | None
    stopped: ReachedLimit | None
    background: tuple[int, ...]


class ProcessGroups:
    """Processes left running by commands, until they end or `close` kills them.

    Output of left processes is read and dropped, so that a server neither blocks nor dies of a
    closed pipe; that of a background command goes to its capture. If this process is killed, a
    watchdog kills all of them, and running commands.
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
        """The living processes of all kept groups."""
        return tuple(pid for child in tuple(self._kept.values()) for pid in child.members())

    @property
    def background(self) -> tuple[BackgroundCommand, ...]:
        """The background commands of the session in start order."""
        return tuple(self._background.values())

    @property
    def left(self) -> tuple[LeftProcess, ...]:
        """The living processes outside groups of running commands: left by ended commands, or
        detached from a background command."""
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
        """Kills the process tree of a background command, or one of `left`: SIGTERM, then SIGKILL.
        False when there is no such living process."""
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
        """Registers a started group with the watchdog. Raises ProcessStartError."""
        for child in tuple(self._kept.values()):
            self._when_ended(child)  # stop watching groups that have ended
        self.watchdog.add(pgid)

    def unwatch(self, pgid: int) -> None:
        """Unregisters an ended group. If it was kept and has no living members, it is dropped."""
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
        """Takes over a background command, and still reports it after its end."""
        child = background.child
        self._kept[child.pid] = child
        self._labels[child.pid] = background.command
        self._background.pop(child.pid, None)
        self._background[child.pid] = background
        ended = [pid for pid, other in self._background.items() if not other.running]
        for pid in ended[: max(len(ended) - MAX_ENDED, 0)]:
            del self._background[pid]
        loop = asyncio.get_running_loop()
        child.exited.add_done_callback(lambda _exited: self._when_ended(child))
        child.eof.add_done_callback(lambda _eof: loop.call_later(QUIET, self._when_ended, child))

    async def close(self, grace: float = GRACE) -> None:
        """Kills every group: SIGTERM, then SIGKILL after `grace` seconds. Can be called again."""
        children = [self._kept[pgid] for pgid in self.pgids]
        try:
            async with asyncio.TaskGroup() as tasks:
                for child in children:
                    tasks.create_task(stop(child, grace))
        finally:
            self.kill()

    def kill(self) -> None:
        """Kills every group with SIGKILL at once, and detached processes of running commands and
        hooks; for an exit without an event loop."""
        for child in tuple(self._kept.values()):
            child.signal(signal.SIGKILL)
            self._forget(child)
        for pid in find_marked_processes(self.marks.prefix) if self.marks.given else ():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        self.watchdog.close()
        while self._afterwards:
            self._afterwards.pop()()

    def when_ended(self, action: Callable[[], None]) -> None:
        """Registers `action`, called once after `close` or `kill` has ended everything."""
        self._afterwards.append(action)

    def _when_ended(self, child: Child) -> None:
        if self._kept.get(child.pid) is not child:
            return
        # If the loop has not yet noticed the end, the exit status is unknown.
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
    command: ProcessCommand,
    sink: Callable[[bytes], None],
    *,
    limits: CommandLimits | None = None,
    groups: ProcessGroups | None = None,
    started: Callable[[int], None] = lambda _pid: None,
    errors: Callable[[bytes], None] | None = None,
) -> ProcessEnding:
    """Runs `command` to its end, with stdout and stderr merged in order, or stderr to `errors`.

    When it ends by itself, living members of its session are handed to `groups`, or killed without
    `groups`. A limit or cancellation kills everything: SIGTERM, a grace of 0.2 s, SIGKILL;
    CancelledError is raised after that. Raises ProcessStartError.
    """
    child = _start(command, groups, sink, errors)
    settled = False
    try:
        if groups is not None:
            groups.watch(child.pid)
        started(child.pid)
        stopped = await _end_or_limit(child, limits or CommandLimits())
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
    command: ProcessCommand,
    output: BackgroundOutput,
    *,
    groups: ProcessGroups,
    delay: float,
    output_limit: int = 0,
) -> BackgroundCommand:
    """Starts `command`, watches it for `delay` seconds, and hands it to `groups`.

    Output goes to `output`; more than `output_limit` bytes kill it. It may have ended when this
    returns. Cancellation during the wait kills it. Raises ProcessStartError.
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
    command: ProcessCommand,
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
    child.terminal = command.terminal
    if groups is None:
        child.start(sink, errors, mark=Marks().next() if command.label else 0)
        return child
    groups.watchdog.expect()  # this process may be killed before it registers the child
    try:
        child.start(sink, errors, mark=groups.marks.next() if command.label else 0)
    except BaseException:
        groups.watchdog.forget()
        raise
    return child


async def _end_or_limit(child: Child, limits: CommandLimits) -> ReachedLimit | None:
    begin = child.now()
    child.output_limit = limits.output
    while not child.exited.done():
        silent = child.last_output + limits.inactivity if limits.inactivity else None
        last = begin + limits.total if limits.total else None
        look = None if child.terminal is None else _next_look(child, limits.keys)
        due = min((moment for moment in (silent, last, look) if moment is not None), default=None)
        wait = None if due is None else max(0.0, due - child.now())
        await asyncio.wait(
            {child.exited, child.over_limit}, timeout=wait, return_when=asyncio.FIRST_COMPLETED
        )
        if child.exited.done():
            break
        quiet = child.now() - child.last_output
        if child.over_limit.done():
            return ReachedLimit.OUTPUT
        if last is not None and child.now() >= last:
            return ReachedLimit.TOTAL
        if limits.inactivity and quiet >= limits.inactivity:
            return ReachedLimit.INACTIVITY
        if quiet >= limits.keys and child.terminal is not None and child.terminal.lacks_keys:
            return ReachedLimit.KEYS
    return None


def _next_look(child: Child, seconds: float) -> float:
    """When to see whether a command waits for keys."""
    due = child.last_output + seconds
    return due if due > child.now() else child.now() + seconds


async def _drain(child: Child) -> None:
    """Reads the remaining output of an ended child until it pauses, at most `DRAIN` seconds."""
    child.read_available()
    end = child.now() + DRAIN
    while not child.eof.done():
        due = min(end, max(child.last_output, child.exit_time) + QUIET)
        if due <= child.now():
            return
        await asyncio.wait({child.eof}, timeout=due - child.now())


async def _background(child: Child) -> tuple[int, ...]:
    """The remaining members, without those about to end because of the closed pipe."""
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


def _ending(
    child: Child, stopped: ReachedLimit | None, background: tuple[int, ...]
) -> ProcessEnding:
    code = child.reap()
    return ProcessEnding(
        pgid=child.pid,
        exit_code=code if code is not None and code >= 0 else None,
        signal=-code if code is not None and code < 0 else None,
        stopped=stopped,
        background=background,
    )


def shell_path(env: dict[str, str]) -> str | None:
    """Path of bash on the PATH of `env`, without relative entries."""
    from alhena.system.own_programs import find_program

    return find_program("bash", env)
