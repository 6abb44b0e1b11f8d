"""A child process: its pipe, its exit, its process tree, and termination.

A process can leave its group and its session (setsid, a daemon that forks twice), change its name
and overwrite its environment, but children inherit its resource limits. So a command is marked by a
limit without effect: the CPU time as a real-time process, set to a unique value of thousands of
years. A process that removes the mark (`prlimit --rttime=unlimited`) is not tracked. On systems
without this limit (not Linux), new sessions are not found.

The exit is noticed without reaping if the system allows it (pidfd, waitid), so that the id of the
group is not reused while it may still be signalled.
"""

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from subprocess import Popen
from typing import TYPE_CHECKING

from alhena.system.errors import ProcessStartError, printable

if TYPE_CHECKING:
    from alhena.system.pseudo_terminal import PseudoTerminal

MARK_DIGITS = 17
"""Decimal digits of a mark, in microseconds; those of one `Marks` share the first ten."""

_COMMANDS = 10_000_000
_DEAD = frozenset({"Z", "X", "x"})
_STAT_START = 19  # index, after the name, of the start time in clock ticks
_LIMIT = b"Max realtime timeout"
_LOOKS = 2
_MARKING = threading.Lock()


class Marks:
    """Unique marks for the commands of one session."""

    def __init__(self) -> None:
        self.prefix = str(1_000_000_000 + int.from_bytes(os.urandom(4), "big") % 1_000_000_000)
        self._given = 0

    @property
    def given(self) -> bool:
        """True when a command has a mark."""
        return self._given > 0

    def next(self) -> int:
        """The mark of the next command."""
        self._given = (self._given + 1) % _COMMANDS
        return int(self.prefix) * _COMMANDS + self._given


@contextmanager
def marking(mark: int) -> Generator[bool]:
    """Marks processes started inside the block, and their descendants; yields True if marking works
    (`mark` 0: none).

    The limit is set for this process meanwhile, so that the child starts with it: a short command
    could leave its session before it is marked. Children started by other threads meanwhile are
    corrected.
    """
    if not mark or not sys.platform.startswith("linux"):
        yield False
        return
    import resource

    with _MARKING:
        before, most = resource.getrlimit(resource.RLIMIT_RTTIME)
        children = _children()
        try:
            resource.setrlimit(resource.RLIMIT_RTTIME, (mark, most))
        except (OSError, ValueError):  # the hard limit may be lower
            yield False
            return
        try:
            yield True
        finally:
            resource.setrlimit(resource.RLIMIT_RTTIME, (before, most))
            _unmark(_children() - children, mark, (before, most))


def _children() -> set[int]:
    """The children of all other threads; empty on systems that do not report them."""
    this = str(threading.get_native_id())
    found: set[int] = set()
    for thread in os.listdir("/proc/self/task"):
        if thread != this:
            # The thread may have ended, and a kernel may lack this list.
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
    """The start time of a process in clock ticks since boot; 0 if unknown."""
    fields = _status(str(pid)) if sys.platform.startswith("linux") else None
    return int(fields[_STAT_START]) if fields else 0


def descendants(session: int | None, mark: int = 0, since: int = 0) -> tuple[int, ...]:
    """The living processes in a session (None: none), and all with a mark (0: none), ascending. No
    process with the mark started before the tick `since`."""
    if not sys.platform.startswith("linux"):
        return () if session is None else _members_by_ps(session)
    found, missed = _look(session, mark, since)
    for _ in range(_LOOKS):
        if found or not missed:
            break
        found, missed = _look(session, mark, since)
    return tuple(sorted(found))


def find_marked_processes(prefix: str) -> tuple[int, ...]:
    """The living processes whose mark has the prefix of a session, ascending."""
    if not sys.platform.startswith("linux"):
        return ()
    found: list[int] = []
    for name in os.listdir("/proc"):
        mark = str(_mark_of(name)) if name.isdigit() else ""
        if len(mark) == MARK_DIGITS and mark.startswith(prefix):
            found.append(int(name))
    return tuple(sorted(found))


def _look(session: int | None, mark: int, since: int) -> tuple[list[int], bool]:
    """One pass over all processes; the flag is True if some ended meanwhile, perhaps after starting
    others."""
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
    """The command line of a process, as it reports it; "" if unknown."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(4096).rstrip(b"\0 ").split(b"\0")
    except OSError:  # it has ended, or there is no /proc
        return ""
    return b" ".join(words).decode("utf-8", "replace")


def _status(name: str) -> list[bytes] | None:
    """State, parent, group, session and so on; None for a process that has ended."""
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
    # "pid (name) state ppid pgrp session …"; the name may contain ")" and spaces.
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

    from alhena.system.environment import shield_memory

    shield_memory()
    listing = subprocess.run(
        ("/bin/ps", "-A", "-o", "pid=,pgid=,stat="),
        capture_output=True,
        check=False,
        encoding="ascii",
    ).stdout
    found: list[int] = []
    for line in listing.splitlines():
        pid, group, state = line.split(None, 2)
        if int(group) == session and state[:1] not in _DEAD:
            found.append(int(pid))
    return tuple(sorted(found))


_CHUNK = 1 << 18
_PIPE_BYTES = 1 << 20
_TERMINAL_READS = 64


class Child:
    """A process in its own session, with one pipe for its output, or a `terminal`. `stdin` is the
    content of its standard input: a file, so that no writer has to wait. Its stderr goes
    to the same pipe, is discarded, or has its own pipe if `start` gets a sink for it."""

    terminal: "PseudoTerminal | None" = None

    def __init__(
        self,
        argv: tuple[str | bytes, ...],
        cwd: str,
        env: dict[str, str],
        *,
        merge_stderr: bool = True,
        stdin: bytes = b"",
    ) -> None:
        loop = asyncio.get_running_loop()
        self._stdin = stdin
        self._argv = argv
        self._cwd = cwd
        self._env = env
        self._merge_stderr = merge_stderr
        self._loop = loop
        self._process: Popen[bytes] | None = None
        self._pipes: dict[int, Callable[[bytes], None]] = {}
        self._released = False
        self._hung_up: int | None = None  # the terminal's end here, once the other one is closed
        self._mark = 0
        self._since = 0
        self.pid = 0
        self.exited: asyncio.Future[None] = loop.create_future()
        self.eof: asyncio.Future[None] = loop.create_future()
        self.over_limit: asyncio.Future[None] = loop.create_future()
        self.exit_time = 0.0
        self.last_output = loop.time()
        self.received = 0
        self.output_limit = 0

    def start(
        self,
        sink: Callable[[bytes], None],
        errors: Callable[[bytes], None] | None = None,
        *,
        mark: int = 0,
    ) -> None:
        """Starts the process; `sink` receives its output, and `errors`, if given, its stderr. With
        a `mark`, processes that leave its session still count as members. Raises ProcessStartError.

        Awaits nothing, so no cancellation can separate the process from its owner.
        """
        reading: list[int] = []
        writing: list[int] = []
        try:
            for _ in (sink,) if errors is None else (sink, errors):
                ends = _pipe() if self.terminal is None else self.terminal.open()
                reading.append(ends[0])
                writing.append(ends[1])
            with marking(mark) as marked:
                self._process = self._popen(writing)
            self._mark = mark if marked else 0
        except BaseException:
            for pipe in reading:
                os.close(pipe)
            raise
        finally:
            for pipe in writing:
                os.close(pipe)
        self.pid = self._process.pid
        if self._mark:
            self._since = started_at(self.pid)
        for pipe, taker in zip(reading, (sink, errors or sink), strict=False):
            self._pipes[pipe] = taker
            os.set_blocking(pipe, False)
            self._loop.add_reader(pipe, self._read, pipe)
        watch_exit(self._loop, self._process, self._on_exit)
        if self.terminal is not None:
            self.terminal.on_started()

    def now(self) -> float:
        """The clock of `exit_time` and `last_output`, in seconds."""
        return self._loop.time()

    def read_available(self) -> None:
        """Reads the current content of the pipes, up to their capacity."""
        for pipe in tuple(self._pipes):
            for _ in range(16):
                if not self._read(pipe):
                    break

    def drop_output(self) -> None:
        """Reads and discards all further output."""
        self._pipes = dict.fromkeys(self._pipes, _drop)

    def members(self) -> tuple[int, ...]:
        """The living processes of its session, itself included, and marked ones outside it, in
        ascending order."""
        if not self.pid:
            return ()
        found = descendants(self.pid, self._mark, self._since)
        if self._is_reaped() and self.pid in found:
            # After reaping, its id may belong to another process.
            return descendants(None, self._mark, self._since) if self._mark else ()
        return found

    def has_left(self, member: int) -> bool:
        """True when a living member has left this child's group, so that `kill -- -PID` does not
        reach it."""
        try:
            return os.getpgid(member) != self.pid
        except ProcessLookupError:
            return False

    def signal(self, number: int) -> None:
        """Sends a signal to its group and to members in groups of their own."""
        if not self.pid:
            return
        grouped = not self._is_reaped()
        for pid in self.members():
            # It has ended, or is set-user-ID and unreachable: `members` still reports it.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if os.getpgid(pid) == self.pid:
                    grouped = True
                else:
                    os.kill(pid, number)
        if grouped:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    def end_unseen(self) -> None:
        """Kills members missed by `members` because they were being forked; for a child that has
        ended. One pass over all processes is the main cost of a short command."""
        if self.pid and not self._is_reaped():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def reap(self) -> int | None:
        """Its return code (negative: the signal); None while it runs."""
        return self._process.poll() if self._process and self.exited.done() else None

    def release(self) -> None:
        """Reads the rest of the pipes and closes them; the process is reaped now or at its end.
        Does not notify a closed loop."""
        self._released = True
        try:
            if not self._loop.is_closed():
                self.read_available()
        finally:
            for pipe in tuple(self._pipes):
                self._close_pipe(pipe)
            if self._hung_up is not None:
                os.close(self._hung_up)
                self._hung_up = None
            self.reap()

    def _popen(self, outputs: list[int]) -> Popen[bytes]:
        import subprocess

        from alhena.system.environment import shield_memory

        shield_memory()
        separate = outputs[1] if len(outputs) > 1 else subprocess.DEVNULL
        argv, stdin = self._argv, self._standard_input()
        if self.terminal is not None:
            argv = self.terminal.argv(argv)
        try:
            return subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL if stdin is None else stdin,
                stdout=outputs[0],
                stderr=subprocess.STDOUT if self._merge_stderr else separate,
                cwd=self._cwd,
                env=self._env,
                start_new_session=True,
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise _start_error(error, self._argv[0], self._cwd) from error
        finally:
            if stdin is not None:
                os.close(stdin)

    def _standard_input(self) -> int | None:
        """The descriptor of its standard input, None for an empty one; closed here after the
        start."""
        return _input(self._stdin) if self._stdin else None

    def _read(self, pipe: int) -> bool:
        if pipe not in self._pipes:
            return False
        try:
            data = os.read(pipe, _CHUNK) if self.terminal is None else _read_terminal(pipe)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            data = b""
        if not data:
            self._close_pipe(pipe)
            return False
        self.last_output = self._loop.time()
        self.received += len(data)
        if self.output_limit and self.received > self.output_limit and not self.over_limit.done():
            self.over_limit.set_result(None)
        self._pipes[pipe](data)
        return True

    def _close_pipe(self, pipe: int) -> None:
        del self._pipes[pipe]
        if not self._loop.is_closed():
            self._loop.remove_reader(pipe)
            if not self._pipes and not self.eof.done():
                self.eof.set_result(None)
        if self.terminal is None:
            os.close(pipe)
            return
        self.terminal.on_closed()
        if self._released:
            os.close(pipe)
        else:  # a program that has closed its end already would be hung up before it exits
            self._hung_up = pipe

    def _on_exit(self) -> None:
        self.exit_time = self._loop.time()
        if not self.exited.done():
            self.exited.set_result(None)
        if self._released:
            self.reap()

    def _is_reaped(self) -> bool:
        return self._process is not None and self._process.returncode is not None


def _read_terminal(descriptor: int) -> bytes:
    """Reads what there is; a terminal gives at most 4 KiB at a time."""
    data = os.read(descriptor, _CHUNK)
    parts = [data]
    with suppress(OSError):  # nothing more for now, or the end, which the next reading meets
        while data and len(parts) < _TERMINAL_READS:
            data = os.read(descriptor, _CHUNK)
            parts.append(data)
    return b"".join(parts)


def _drop(_data: bytes) -> None:
    """Discards data."""


def _pipe() -> tuple[int, int]:
    try:
        reading, writing = os.pipe()
    except OSError as error:
        raise ProcessStartError(f"No pipe for the command's output: {error.strerror}.") from error
    if sys.platform.startswith("linux"):
        import fcntl

        # A user may be out of pipe memory; the default size works too, only slower.
        with contextlib.suppress(OSError):
            fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return reading, writing


def _input(data: bytes) -> int:
    try:
        return _file_of(data)
    except OSError as error:
        raise ProcessStartError(f"No file for the command's input: {error.strerror}.") from error


def _file_of(data: bytes) -> int:
    """Creates an anonymous file with `data`, positioned at its start; returns the descriptor."""
    if sys.platform.startswith("linux"):
        descriptor = os.memfd_create("stdin")
    else:
        import tempfile

        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
        os.lseek(descriptor, 0, os.SEEK_SET)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _start_error(error: Exception, program: str | bytes, cwd: str) -> ProcessStartError:
    shown = printable(os.fsdecode(program))
    if isinstance(error, OSError):
        if not os.path.isdir(cwd):
            return ProcessStartError(f"Working directory is not there: {printable(cwd)}.")
        if not os.access(cwd, os.X_OK):
            return ProcessStartError(f"Permission denied entering {printable(cwd)}.")
        return ProcessStartError(f"Could not start {shown}: {error.strerror}.")
    return ProcessStartError(f"Could not start {shown}: {error}.")


def watch_exit(
    loop: asyncio.AbstractEventLoop, process: Popen[bytes], ended: Callable[[], None]
) -> None:
    """Calls `ended` on the loop when the process ends, without reaping it if possible."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except (AttributeError, OSError):  # not Linux, or an old or restricted kernel
        watch_exit_in_thread(loop, process, ended)
        return

    def ready() -> None:
        loop.remove_reader(descriptor)
        os.close(descriptor)
        ended()

    loop.add_reader(descriptor, ready)


def watch_exit_in_thread(
    loop: asyncio.AbstractEventLoop, process: Popen[bytes], ended: Callable[[], None]
) -> None:
    """`watch_exit` for systems without pidfd."""
    import threading

    def wait() -> None:
        if hasattr(os, "waitid"):
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        else:
            process.wait()
        with contextlib.suppress(RuntimeError):  # the loop may be closed
            loop.call_soon_threadsafe(ended)

    threading.Thread(target=wait, name=f"wait-{process.pid}", daemon=True).start()


GRACE = 0.2
"""Seconds between SIGTERM and SIGKILL."""

_STEP = 0.02  # poll: the system does not notify when the last member of a session ends


async def stop(child: Child, grace: float = GRACE) -> None:
    """Kills a child with its process tree. When cancelled, it still sends SIGKILL."""
    try:
        child.signal(signal.SIGTERM)
        begin = child.now()
        await asyncio.wait({child.exited, child.eof}, timeout=grace)
        await _wait_until_gone(child, begin + grace - child.now())
    finally:
        child.signal(signal.SIGKILL)
    # A process forked during the signal is found in the next round.
    for _ in range(20):
        if await _wait_until_gone(child, 0.1):
            return
        child.signal(signal.SIGKILL)


async def stop_member(child: Child, pid: int, grace: float = GRACE) -> None:
    """Kills one living member of a child only."""
    waited = 0.0
    _signal(pid, signal.SIGTERM)
    while pid in child.members():
        if waited >= grace:
            _signal(pid, signal.SIGKILL)
        if waited >= 2 * grace:
            return  # it cannot be killed: stuck in the kernel, or another user's
        await asyncio.sleep(_STEP)
        waited += _STEP


def _signal(pid: int, number: int) -> None:
    # It has ended, or is set-user-ID and unreachable: listings still report it.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


async def _wait_until_gone(child: Child, seconds: float) -> bool:
    """True when the whole process tree ends within this time."""
    for _ in range(int(seconds / _STEP) + 1):
        if child.exited.done() and not child.members():
            return True
        await asyncio.sleep(_STEP)
    return False
