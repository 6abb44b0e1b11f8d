"""Reading a file that a program was told of, without waiting for it and without end."""

import os
import stat
from pathlib import Path

MAX_BYTES = 1024 * 1024


class NotReadableError(OSError):
    """Said of a file that is no regular file, or larger than it may be."""


class TooLargeError(NotReadableError):
    """Said of a file that is larger than it may be."""


def read_limited(path: str | Path, limit: int = MAX_BYTES) -> bytes:
    """The bytes of a regular file of at most `limit` bytes.

    Raises FileNotFoundError, NotReadableError for FIFOs, devices, directories and what is too
    large, or another OSError. Never waits for a writer.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise NotReadableError("it is no regular file")
        data = file.read(limit + 1)
        if len(data) > limit:
            raise TooLargeError(f"it is larger than {limit} bytes")
        return data
