"""Pseudo-terminals of commands."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from alhena.system.errors import ProcessStartError
from alhena.system.screen_text import ScreenText

_TAKE = 'exec 0<>"$0" 1>&0 2>&0 && exec "$@"'
"""Opens the terminal of a new session: the first one that is opened becomes its own."""


class PseudoTerminal:
    """A terminal for the output of one command, whose text `screen` has.

    With `keys`, which is called when the command can take some, it is also its standard input and
    controlling terminal; otherwise standard input is empty, no program can ask there, and
    `coloured` has the text with its colours.
    `attributes` are those of `termios.tcgetattr`. `seen` receives the bytes as they are written.
    """

    def __init__(
        self,
        rows: int,
        columns: int,
        *,
        keys: Callable[[], object] | None = None,
        seen: Callable[[bytes], object] = len,
        attributes: list[Any] | None = None,
    ) -> None:
        self.screen = ScreenText(rows, columns)
        self.coloured = ScreenText(rows, columns, colours=True) if keys is None else None
        self.seen: Callable[[bytes], object] = seen
        self.interactive = keys is not None
        self._keys = keys
        self._attributes = attributes
        self._master: int | None = None
        self._path = ""

    def open(self) -> tuple[int, int]:
        """Opens both ends: this program's and the command's. Raises ProcessStartError."""
        import termios

        try:
            master, slave = os.openpty()
        except OSError as error:
            raise ProcessStartError(
                f"No terminal for the command: {error.strerror or error}."
            ) from error
        self._master, self._path = master, os.ttyname(slave)
        if self._attributes is not None:
            termios.tcsetattr(slave, termios.TCSANOW, self._attributes)
        termios.tcsetwinsize(slave, (self.screen.rows, self.screen.columns))
        return master, slave

    def argv(self, argv: Sequence[str | bytes]) -> Sequence[str | bytes]:
        """The command that runs `argv` with this as its controlling terminal, if it is to be."""
        return ("/bin/sh", "-c", _TAKE, self._path, *argv) if self.interactive else argv

    def seen_after(self, sink: Callable[[bytes], object]) -> Callable[[bytes], None]:
        """A sink for the output that gives it to `sink`, then to `seen`."""

        def take(data: bytes) -> None:
            sink(data)
            self.seen(data)

        return take

    def on_started(self) -> None:
        """Called when the command has started."""
        if self._keys is not None:
            self._keys()

    @property
    def lacks_keys(self) -> bool:
        """True when the command wants single keys, as pagers and editors do, and gets none."""
        import termios

        if self.interactive or self._master is None:
            return False
        with suppress(OSError, termios.error):  # the command has just ended
            return not termios.tcgetattr(self._master)[3] & termios.ICANON
        return False

    def resize(self, rows: int, columns: int) -> None:
        """Sets another size and informs the command."""
        import termios

        self.screen.resize(rows, columns)
        if self._master is not None:
            with suppress(OSError, termios.error):  # the command has just ended
                termios.tcsetwinsize(self._master, (rows, columns))

    def write(self, data: bytes) -> int:
        """Passes on keys without waiting; returns how many bytes were taken."""
        if self._master is None:
            return len(data)
        try:
            return os.write(self._master, data)
        except BlockingIOError:
            return 0
        except OSError:  # the command has closed it
            return len(data)

    def on_closed(self) -> None:
        """Called when this program's end is closed."""
        self._master = None
