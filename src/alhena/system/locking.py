"""Mutual exclusion across processes, by a lock file that exists only while it is held."""

import errno
import os
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from alhena.system.errors import LockHeldError, WriteFailureError, from_os_error, printable
from alhena.system.files import require_regular

_OPEN = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
_STEP_S = 0.01


@contextmanager
def exclusive(
    path: Path, *, cancellation: threading.Event | None = None, patience_s: float = 10.0
) -> Generator[None]:
    """Holds the lock file at `path`, in an existing directory, for a block.

    The system releases the lock of a process that dies. On a file system without locks the block
    runs unlocked. Blocks its thread. Raises FileError: LockHeldError when the lock is not available
    within `patience_s` seconds, WriteFailureError when `cancellation` is set before that.
    """
    try:
        held = _acquired(path, cancellation or threading.Event(), patience_s)
    except OSError as error:
        raise from_os_error(error, path, writing=True) from error
    try:
        yield
    finally:
        if held is not None:
            # Before the lock ends: a waiting process finds its file gone and creates a new one.
            with suppress(OSError):
                path.unlink()
            os.close(held)


@contextmanager
def alone_in(
    directory: int,
    path: Path,
    *,
    cancellation: threading.Event | None = None,
    patience_s: float = 10.0,
) -> Generator[None]:
    """Locks an open directory for the last step of a write to `path` in it, so that only one of two
    processes that read the same content writes. Raises WriteFailureError when the lock is not
    available within `patience_s` seconds, or `cancellation` is set."""
    # Own descriptor: copies of one descriptor share their locks.
    own = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
    try:
        _wait(own, f"the directory of {printable(path)}", cancellation, patience_s)
        yield
    finally:
        os.close(own)


@contextmanager
def alone_on(
    descriptor: int,
    path: Path,
    *,
    cancellation: threading.Event | None = None,
    patience_s: float = 10.0,
) -> Generator[None]:
    """Like `alone_in`, for an open file written in place: it excludes writers that use names in
    different directories. The descriptor must come from its own open call."""
    import fcntl

    _wait(descriptor, printable(path), cancellation, patience_s)
    try:
        yield
    finally:
        with suppress(OSError):  # without locks, or closing the file releases it
            fcntl.flock(descriptor, fcntl.LOCK_UN)


def _wait(
    descriptor: int, held: str, cancellation: threading.Event | None, patience_s: float
) -> None:
    stop = cancellation or threading.Event()
    deadline = time.monotonic() + patience_s
    while _lock(descriptor) is False:
        if stop.is_set():
            raise WriteFailureError("Cancelled before the file was written; nothing was changed.")
        if time.monotonic() >= deadline:
            raise WriteFailureError(
                f"Another program holds {held}; nothing was changed.",
                remedy="Try again when it is done.",
            )
        stop.wait(_STEP_S)


def _acquired(path: Path, cancellation: threading.Event, patience_s: float) -> int | None:
    deadline = time.monotonic() + patience_s
    while True:
        descriptor = os.open(path, _OPEN, 0o600)
        try:
            require_regular(os.fstat(descriptor), path)
            locked = _lock(descriptor)
            if locked is None:
                os.close(descriptor)
                return None
            if locked and _is_still_there(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        if locked:
            continue
        if cancellation.is_set():
            raise WriteFailureError("Cancelled before the file was written; nothing was changed.")
        if time.monotonic() >= deadline:
            raise LockHeldError(
                f"Another program holds the lock {printable(path)}; nothing was changed.",
                remedy="Try again when it is done.",
            )
        cancellation.wait(_STEP_S)


def _lock(descriptor: int) -> bool | None:
    """Tries to lock; None when locks are unsupported."""
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return None
        raise
    return True


def _is_still_there(descriptor: int, path: Path) -> bool:
    """True when the locked file is still the one at `path`."""
    mine = os.fstat(descriptor)
    try:
        found = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return (found.st_dev, found.st_ino) == (mine.st_dev, mine.st_ino)
