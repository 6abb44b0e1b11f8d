"""Files named on the command line whose content is the input of a command."""

import os
import stat
import sys
from typing import BinaryIO

from alhena.errors import InputError

MAX_BYTES = 64 * 1024 * 1024


def open_input(name: str) -> BinaryIO:
    """A file for reading; "-" is standard input.

    Raises InputError when it cannot be opened, and for devices and named pipes, which could keep a
    command waiting or reading for ever. A pipe that a shell passes (`<(...)`) is taken.
    """
    if name == "-":
        if sys.stdin is None:
            raise InputError("standard input is closed.", remedy="Name a file.")
        return sys.stdin.buffer
    passed = name.startswith(("/dev/fd/", "/proc/self/fd/")) or name == "/dev/stdin"
    try:
        waiting = 0 if passed else os.O_NONBLOCK
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | waiting)
    except OSError as error:
        raise _unreadable(name, error.strerror or str(error)) from error
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode) and not (passed and stat.S_ISFIFO(mode)):
        os.close(descriptor)
        raise _unreadable(name, "it is no regular file")
    return os.fdopen(descriptor, "rb")


def read_input(name: str, limit: int = MAX_BYTES) -> bytes:
    """All bytes of an input, at most `limit`. Raises InputError."""
    file = open_input(name)
    try:
        data = file.read(limit + 1)
    except OSError as error:
        raise _unreadable(name, error.strerror or str(error)) from error
    finally:
        if name != "-":
            file.close()
    if len(data) > limit:
        raise _unreadable(name, f"it is larger than {limit} bytes")
    return data


def _unreadable(name: str, reason: str) -> InputError:
    return InputError(f"cannot read {name}: {reason}.", remedy="Name another file, or - for stdin.")
