"""One child process: its pipe, its exit, the members of its session.

The exit is noticed without reaping where the system allows it (pidfd, waitid), so that the number
of the group cannot be given to somebody else while it is still to be signalled.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable
from subprocess import Popen

from alhena.system.errors import ProcessStartError, printable

_CHUNK = 1 << 18
_PIPE_BYTES = 1 << 20
_DEAD = frozenset({"Z", "X", "x"})


class Child:
    """A process in its own session, with /dev/null as stdin and one pipe for its output."""

    def __init__(
        self,
        argv: tuple[str | bytes, ...],
        cwd: str,
        env: dict[str, str],
        *,
        merge_stderr: bool = True,
    ) -> None:
        loop = asyncio.get_running_loop()
        self._argv = argv
        self._cwd = cwd
        self._env = env
        self._merge_stderr = merge_stderr
        self._loop = loop
        self._process: Popen[bytes] | None = None
        self._pipe: int | None = None
        self._released = False
        self.pid = 0
        self.sink: Callable[[bytes], None] = lambda _data: None
        self.exited: asyncio.Future[None] = loop.create_future()
        self.eof: asyncio.Future[None] = loop.create_future()
        self.over_limit: asyncio.Future[None] = loop.create_future()
        self.exit_time = 0.0
        self.last_output = loop.time()
        self.received = 0
        self.output_limit = 0

    def start(self, sink: Callable[[bytes], None]) -> None:
        """Starts it; `sink` receives its output. Raises ProcessStartError.

        Nothing is awaited, so no cancellation can come between the process and its owner.
        """
        self.sink = sink
        reading, writing = _pipe()
        try:
            self._process = self._popen(writing)
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        self.pid = self._process.pid
        self._pipe = reading
        os.set_blocking(reading, False)
        self._loop.add_reader(reading, self._read)
        watch_exit(self._loop, self._process, self._on_exit)

    def now(self) -> float:
        """The clock of `exit_time` and `last_output`, in seconds."""
        return self._loop.time()

    def read_available(self) -> None:
        """Takes what the pipe holds now, up to its capacity."""
        for _ in range(16):
            if self._pipe is None or not self._read():
                return

    def members(self) -> tuple[int, ...]:
        """The living processes of its session, itself included, in ascending order."""
        if not self.pid:
            return ()
        found = session_members(self.pid)
        # After it was reaped its number may have gone to a stranger.
        return () if self._reaped() and self.pid in found else found

    def signal(self, number: int) -> None:
        """Sends a signal to its group and to members of its session in groups of their own."""
        if not self.pid:
            return
        members = self.members()
        if not members and self._reaped():
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)
        for pid in members:
            # Gone meanwhile, or set-user-ID and out of reach: `members` goes on telling.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if os.getpgid(pid) != self.pid:
                    os.kill(pid, number)

    def end_unseen(self) -> None:
        """Kills what `members` did not find for being forked at that moment; for a child that has
        ended. One look over all processes is what a short command costs most."""
        if self.pid and not self._reaped():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def reap(self) -> int | None:
        """Its return code (negative: the signal) once it has ended; None before."""
        return self._process.poll() if self._process and self.exited.done() else None

    def release(self) -> None:
        """Closes the pipe; the process is reaped now or when it ends."""
        self._released = True
        self._close_pipe()
        self.reap()

    def _popen(self, output: int) -> Popen[bytes]:
        import subprocess

        try:
            return subprocess.Popen(
                self._argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output if self._merge_stderr else subprocess.DEVNULL,
                cwd=self._cwd,
                env=self._env,
                start_new_session=True,
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise _start_error(error, self._argv[0], self._cwd) from error

    def _read(self) -> bool:
        if self._pipe is None:
            return False
        try:
            data = os.read(self._pipe, _CHUNK)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            data = b""
        if not data:
            self._close_pipe()
            return False
        self.last_output = self._loop.time()
        self.received += len(data)
        if self.output_limit and self.received > self.output_limit and not self.over_limit.done():
            self.over_limit.set_result(None)
        self.sink(data)
        return True

    def _close_pipe(self) -> None:
        if self._pipe is None:
            return
        if not self._loop.is_closed():
            self._loop.remove_reader(self._pipe)
            if not self.eof.done():
                self.eof.set_result(None)
        os.close(self._pipe)
        self._pipe = None

    def _on_exit(self) -> None:
        self.exit_time = self._loop.time()
        if not self.exited.done():
            self.exited.set_result(None)
        if self._released:
            self.reap()

    def _reaped(self) -> bool:
        return self._process is not None and self._process.returncode is not None


def _pipe() -> tuple[int, int]:
    try:
        reading, writing = os.pipe()
    except OSError as error:
        raise ProcessStartError(f"No pipe for the command's output: {error.strerror}.") from error
    if sys.platform.startswith("linux"):
        import fcntl

        # A user may be out of pipe memory; the usual size does as well, only slower.
        with contextlib.suppress(OSError):
            fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return reading, writing


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
    """Calls `ended` on the loop when the process has ended, without reaping it where possible."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except (AttributeError, OSError):  # not Linux, or an old or a restricted one
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
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(ended)

    threading.Thread(target=wait, name=f"wait-{process.pid}", daemon=True).start()


def session_members(session: int) -> tuple[int, ...]:
    """The ids of the living (not zombie) processes in a session, ascending."""
    if not sys.platform.startswith("linux"):
        return _members_by_ps(session)
    found: list[int] = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            descriptor = os.open(f"/proc/{name}/stat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # it has ended since
            continue
        try:
            status = os.read(descriptor, 4096)
        except ProcessLookupError:
            continue
        finally:
            os.close(descriptor)
        # "pid (name) state ppid pgrp session …"; the name may hold anything, ")" and spaces too.
        state, _parent, group, leader = status[status.rfind(b")") + 2 :].split(b" ", 4)[:4]
        if session in {int(leader), int(group)} and state.decode() not in _DEAD:
            found.append(int(name))
    return tuple(sorted(found))


def _members_by_ps(session: int) -> tuple[int, ...]:
    import subprocess

    listing = subprocess.run(
        ["ps", "-A", "-o", "pid=,pgid=,stat="], capture_output=True, check=False, encoding="ascii"
    ).stdout
    found: list[int] = []
    for line in listing.splitlines():
        pid, group, state = line.split(None, 2)
        if int(group) == session and state[:1] not in _DEAD:
            found.append(int(pid))
    return tuple(sorted(found))
