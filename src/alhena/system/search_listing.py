"""One run of a search program that names files, read in a thread.

A search needs little of what a shell command needs: no live output, no groups that are kept. What
it needs is to start fast, to be stopped at once, and to leave nothing behind.
"""

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import TracebackType
from typing import Self

from alhena.system.environment import child_environment
from alhena.system.errors import ProcessStartError
from alhena.system.idleness import Idle
from alhena.system.search_lines import Deadline
from alhena.system.shielding import shield_memory

_MATCHES, _NO_MATCH = 0, 1
_CHUNK = 1 << 16
_STEP = 0.05
"""Seconds after which a waiting search looks whether it was stopped."""


class Listing:
    """A program that is running; leaving the context ends it with all it started.

    `environment` is all it sees. A program that cannot be started has no output. `mark`, when it is
    given, is looked for in what the program says on stderr; `marked` says whether it was there.
    """

    def __init__(
        self,
        argv: tuple[str | bytes, ...],
        directory: str,
        environment: dict[str, str],
        *,
        mark: bytes | None = None,
    ) -> None:
        self._mark = mark
        self.marked = False
        self._process: subprocess.Popen[bytes] | None = None
        with contextlib.suppress(OSError, ValueError, ProcessStartError):
            shield_memory()
            self._process = subprocess.Popen(
                argv,
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL if mark is None else subprocess.PIPE,
                start_new_session=True,
                bufsize=0,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        process = self._process
        if process is None:
            return
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()

    def output(
        self, deadline: Deadline, sink: Callable[[bytes], None] = lambda _data: None
    ) -> bytes | None:
        """All it writes to stdout; None when it could not be started, or failed, or waits for what
        may never come.

        `sink` is given it as it comes, whatever becomes of the program afterwards. Raises
        SearchTimeoutError, and SearchError when the search was stopped.
        """
        process = self._process
        if process is None or process.stdout is None:
            return None
        written = bytearray()
        said = b""
        idle = Idle(process.pid)
        with selectors.DefaultSelector() as waiting:
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    waiting.register(pipe, selectors.EVENT_READ)
            while waiting.get_map():
                ready = waiting.select(min(_STEP, deadline.left()))
                if ready:
                    idle.restart()
                elif idle.seen(time.monotonic()):
                    return None  # a FIFO in the place of a file of rules, which it has opened
                for key, _ in ready:
                    data = os.read(key.fd, _CHUNK)
                    if not data:
                        waiting.unregister(key.fileobj)
                    elif key.fileobj is process.stdout:
                        written += data
                        sink(data)
                    else:
                        said = self._look(said + data)
        while process.poll() is None:
            # Its pipes are closed, so it is about to end.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(min(_STEP, deadline.left()))
        return bytes(written) if process.returncode in {_MATCHES, _NO_MATCH} else None

    def _look(self, said: bytes) -> bytes:
        """Notes the mark; returns what may be the beginning of one."""
        if self._mark is None:
            return b""
        self.marked = self.marked or self._mark in said
        return said[-len(self._mark) :]


def listing_environment(environ: Mapping[str, str] | None) -> dict[str, str]:
    """What a search program sees of `environ`, this process's when None: no secrets.

    What tells git of another repository is left out, what tells it of settings is not.
    """
    return dict(_cleaned(frozenset((os.environ if environ is None else environ).items())))


@lru_cache(maxsize=4)  # every search asks, and no session changes its environment often
def _cleaned(parent: frozenset[tuple[str, str]]) -> dict[str, str]:
    visible = {
        name: value
        for name, value in parent
        if not name.startswith("GIT_") or name.startswith("GIT_CONFIG_")
    }
    fixed = {"GIT_OPTIONAL_LOCKS": "0", "GIT_ALLOW_PROTOCOL": "none", "LC_ALL": "C"}
    if place := visible.get("XDG_CONFIG_HOME"):  # it says where ignore rules are
        fixed["XDG_CONFIG_HOME"] = place
    return child_environment(visible, extra=fixed).variables
