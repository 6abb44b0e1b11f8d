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

from alhena.system.descent import descendants, marking, started_at
from alhena.system.errors import ProcessStartError, printable

_CHUNK = 1 << 18
_PIPE_BYTES = 1 << 20


class Child:
    """A process in its own session, with one pipe for its output. `stdin` is all it can read from
    its standard input: a file of its own, so that nobody has to wait until it is read. Its stderr
    goes the same way, nowhere, or, where `start` is given a sink for it, by a pipe of its own."""

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
        """Starts it; `sink` receives its output, and `errors`, if given, its stderr. With a `mark`
        (see `descent`) what leaves its session is a member all the same. Raises ProcessStartError.

        Nothing is awaited, so no cancellation can come between the process and its owner.
        """
        reading: list[int] = []
        writing: list[int] = []
        try:
            for _ in (sink,) if errors is None else (sink, errors):
                ends = _pipe()
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

    def now(self) -> float:
        """The clock of `exit_time` and `last_output`, in seconds."""
        return self._loop.time()

    def read_available(self) -> None:
        """Takes what the pipes hold now, up to their capacity."""
        for pipe in tuple(self._pipes):
            for _ in range(16):
                if not self._read(pipe):
                    break

    def drop_output(self) -> None:
        """What it writes from now on is read, and that is all."""
        self._pipes = dict.fromkeys(self._pipes, _drop)

    def members(self) -> tuple[int, ...]:
        """The living processes of its session, itself included, and those that have left it but
        have its mark, in ascending order."""
        if not self.pid:
            return ()
        found = descendants(self.pid, self._mark, self._since)
        if self._reaped() and self.pid in found:
            # After it was reaped its number may have gone to a stranger.
            return descendants(None, self._mark, self._since) if self._mark else ()
        return found

    def has_left(self, member: int) -> bool:
        """Whether a member is in a group other than this child's, so that `kill -- -PID` leaves it
        alone; one that has ended is not."""
        try:
            return os.getpgid(member) != self.pid
        except ProcessLookupError:
            return False

    def signal(self, number: int) -> None:
        """Sends a signal to its group and to members in groups of their own."""
        if not self.pid:
            return
        grouped = not self._reaped()
        for pid in self.members():
            # Gone meanwhile, or set-user-ID and out of reach: `members` goes on telling.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if os.getpgid(pid) == self.pid:
                    grouped = True
                else:
                    os.kill(pid, number)
        if grouped:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

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
        """Takes what the pipes still hold and closes them; the process is reaped now or when it
        ends. On a loop that is closed nobody is told anything any more."""
        self._released = True
        try:
            if not self._loop.is_closed():
                self.read_available()
        finally:
            for pipe in tuple(self._pipes):
                self._close_pipe(pipe)
            self.reap()

    def _popen(self, outputs: list[int]) -> Popen[bytes]:
        import subprocess

        from alhena.system.shielding import shield_memory

        shield_memory()
        separate = outputs[1] if len(outputs) > 1 else subprocess.DEVNULL
        stdin = self._standard_input()
        try:
            return subprocess.Popen(
                self._argv,
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
        """What it reads from, None for nothing; the descriptor is closed here when it has it."""
        return _input(self._stdin) if self._stdin else None

    def _read(self, pipe: int) -> bool:
        if pipe not in self._pipes:
            return False
        try:
            data = os.read(pipe, _CHUNK)
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
        os.close(pipe)

    def _on_exit(self) -> None:
        self.exit_time = self._loop.time()
        if not self.exited.done():
            self.exited.set_result(None)
        if self._released:
            self.reap()

    def _reaped(self) -> bool:
        return self._process is not None and self._process.returncode is not None


def _drop(_data: bytes) -> None:
    """The sink of what nobody reads any more."""


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


def _input(data: bytes) -> int:
    try:
        return _file_of(data)
    except OSError as error:
        raise ProcessStartError(f"No file for the command's input: {error.strerror}.") from error


def _file_of(data: bytes) -> int:
    """A file without a name that holds `data`, at its beginning; its descriptor."""
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
