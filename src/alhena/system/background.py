"""A background command: its process, state and output."""

from typing import Protocol

import msgspec

from alhena.system.child import Child
from alhena.system.spool import TextSpool
from alhena.system.terminal_text import OutputCapture


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
        captured = self.output.capture.captured()
        if self.output.spool is not None:
            self.output.spool.finish(tail=captured.tail)
