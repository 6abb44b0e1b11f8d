"""What signals do to a session with a person."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Protocol

INTERRUPTED = 130
SIMPLE = ("", "dumb", "unknown")
"""Values of TERM for terminals that do nothing but lines."""
RESTORED = "\x1b[?2004l\x1b[?25h\x1b[?7h\x1b[0m\r\n"
"""No bracketed paste, a cursor, wrapped lines, no colours."""


class Ender(Protocol):
    """What can be ended."""

    def leave(self) -> None:
        """Ends the session in good order."""
        ...

    def interrupted(self) -> None:
        """SIGINT."""
        ...

    def kill(self) -> None:
        """Ends the processes that the session has started, at once."""
        ...


@contextmanager
def signals(target: Ender) -> Generator[list[int]]:
    """Within this SIGTERM and SIGHUP end the session in good order, and a second one at once; the
    terminal is left as it was found in either case. SIGINT is the target's. Signals that are
    ignored stay so. Those that have come to end the session are in the list."""
    caught: list[int] = []
    loop = asyncio.get_running_loop()
    restore = _restoration()

    def end(number: int) -> None:
        if caught:
            target.kill()
            restore()
            os._exit(INTERRUPTED)
        caught.append(number)
        target.leave()

    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    used = [each for each in numbers if signal.getsignal(each) is not signal.SIG_IGN]
    for number in used:
        if number == signal.SIGINT:
            loop.add_signal_handler(number, target.interrupted)
        else:
            loop.add_signal_handler(number, end, number)
    try:
        yield caught
    finally:
        for number in used:
            loop.remove_signal_handler(number)


def _restoration() -> Callable[[], None]:
    """Puts the terminal back to how it is now, where nothing else gets the chance to."""
    import termios

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    simple = os.environ.get("TERM", "") in SIMPLE

    def restore() -> None:
        try:
            termios.tcsetattr(descriptor, termios.TCSANOW, before)
            os.write(sys.stdout.fileno(), b"" if simple else RESTORED.encode("ascii"))
        except (OSError, termios.error):
            return  # the terminal has gone away

    return restore
