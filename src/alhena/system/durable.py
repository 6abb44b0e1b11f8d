"""Steps of writing a file so that it is on the disk: all bytes of it, and its name."""

import errno
import os
import threading

from alhena.system.errors import WriteFailureError

CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
"""Opens a file that was not there."""

_CHUNK = 1 << 20
_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EROFS, errno.EACCES)


def stop_if(cancellation: threading.Event) -> None:
    """Raises WriteFailureError when the write is cancelled."""
    if cancellation.is_set():
        raise WriteFailureError("Cancelled before the file was written; the old content stands.")


def write_all(descriptor: int, data: bytes, cancellation: threading.Event) -> None:
    """Writes at the descriptor's position. Raises WriteFailureError when cancelled, and OSError."""
    rest = memoryview(data)
    while rest:
        stop_if(cancellation)
        rest = rest[os.write(descriptor, rest[:_CHUNK]) :]


def remove_name(directory: int, name: str) -> None:
    """Takes a file's name away, if it is still there. Raises OSError."""
    try:
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:  # it has taken its place already
        return


def synchronise(descriptor: int) -> None:
    """Brings a file to the disk, where that can be done. Raises OSError."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise


def synchronise_directory(directory: int) -> None:
    """Best effort: the file is in its place, and a directory one may not read cannot be synced."""
    try:
        readable = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
    except OSError:
        return
    try:
        os.fsync(readable)
    except OSError:
        return
    finally:
        os.close(readable)
