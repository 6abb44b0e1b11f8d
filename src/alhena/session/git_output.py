"""What a git command writes, while it is at work: waited for, but not for ever."""

import os
import selectors
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Self

from alhena.session.errors import CheckpointError, TooMuchError
from alhena.system.idleness import Idle

STALL_S = 3.0
"""A command that is silent for so long may be waiting for something."""

GRACE_S = 2.0
"""What was begun may go on for so long without a sign of life, although it is not wanted any
more."""

_STEP_S = 0.1
_PIECE = 1 << 20


class GitOutput:
    """The output of a process whose command is called `name`. `stalled` is asked once when nothing
    comes, and may raise what explains it. Each method raises CheckpointError when the command takes
    longer than `patience_s` or is not wanted any more; then it may still go on for `grace_s`
    without a sign of life."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        name: str,
        patience_s: float,
        cancellation: threading.Event,
        stalled: Callable[[], None],
    ) -> None:
        self.grace_s = 0.0
        self._idle = Idle(process.pid)
        self._process = process
        self._name = name
        self._patience_s = patience_s
        self._cancellation = cancellation
        self._stalled = stalled
        self._deadline = time.monotonic() + patience_s
        self._selector = selectors.DefaultSelector()
        if process.stdout is not None:
            self._selector.register(process.stdout, selectors.EVENT_READ)
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._selector.close()

    def piece(self) -> bytes:
        """What comes next, b"" at the end."""
        stream = self._process.stdout
        if stream is None:
            return b""
        self._wait(lambda: bool(self._selector.select(_STEP_S)))
        return os.read(stream.fileno(), _PIECE)

    def line(self) -> bytes:
        """The next line, with its end; less when there is no more. As `exactly`, it is waited for
        anew."""
        while b"\n" not in self._rest:
            if not self._more():
                break
        line, end, self._rest = self._rest.partition(b"\n")
        return line + end

    def exactly(self, size: int) -> bytes:
        """So many bytes, fewer when there are no more."""
        pieces = [self._rest]
        missing = size - len(self._rest)
        self._rest = b""
        while missing > 0:
            if not self._more():
                break
            pieces.append(self._rest)
            missing -= len(self._rest)
            self._rest = b""
        data = b"".join(pieces)
        self._rest = data[size:]
        return data[:size]

    def code(self) -> int:
        """The exit code, when the process has ended: one may close its output long before."""
        self._wait(self._ended)
        return self._process.wait()

    def _more(self) -> bool:
        self._deadline = time.monotonic() + self._patience_s
        piece = self.piece()
        self._rest += piece
        return bool(piece)

    def _ended(self) -> bool:
        try:
            self._process.wait(_STEP_S)
        except subprocess.TimeoutExpired:
            return False
        return True

    def _wait(self, done: Callable[[], bool]) -> None:
        start = time.monotonic()
        self._idle.restart()
        asked = False
        while True:
            now = time.monotonic()
            if self._cancellation.is_set() and now - start >= self.grace_s:
                raise CheckpointError("it was interrupted.")
            if now > self._deadline:
                raise TooMuchError(f"{self._name} takes longer than {self._patience_s:.0f} s.")
            silent = now - start
            if not asked and silent > _STEP_S and (silent > STALL_S or self._idle.seen(now)):
                asked = True
                self._stalled()
            if done():
                return
