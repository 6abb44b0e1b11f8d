"""A command that goes on while the conversation does: what it is, how it fares, what it wrote."""

from typing import Protocol

import msgspec

from alhena.system.child import Child
from alhena.system.spool import TextSpool
from alhena.system.terminal_text import OutputCapture


class BackgroundOutput(Protocol):
    """Where the output of a background command goes."""

    @property
    def capture(self) -> OutputCapture:
        """What takes its bytes, and keeps the latest of them."""
        ...

    @property
    def spool(self) -> TextSpool | None:
        """What keeps all of it, if anything does."""
        ...

    @property
    def line_breaks(self) -> int:
        """The number of lines it has ended so far."""
        ...


class LeftProcess(msgspec.Struct, frozen=True):
    """A living process on its own: what it runs, the command it came from, and the process id of
    that where it is a background command."""

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
        """The number of its process, and of its group and session."""
        return self.child.pid

    @property
    def running(self) -> bool:
        """True when any process of its session lives."""
        if self._finished:
            return False
        return not self.child.exited.done() or bool(self.child.members())

    @property
    def exit_code(self) -> int | None:
        """Its exit code; None while its first process runs, or when a signal ended that."""
        code = self.child.reap()
        return code if code is not None and code >= 0 else None

    @property
    def signal(self) -> int | None:
        """The signal that ended its first process."""
        code = self.child.reap()
        return -code if code is not None and code < 0 else None

    @property
    def over_limit(self) -> bool:
        """True when it was ended for writing too much."""
        return self.child.over_limit.done()

    def finish(self) -> None:
        """Nothing more will come: takes what was held back and closes the file."""
        if self._finished:
            return
        self._finished = True
        captured = self.output.capture.captured()
        if self.output.spool is not None:
            self.output.spool.finish(tail=captured.tail)
