"""Opens and reads regular files only, syncs writes to disk, and locks files across processes."""

import errno
import os
import re
import stat
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from alhena.system.errors import (
    PERMISSION,
    ChangedFileError,
    DirectoryTargetError,
    FileError,
    FileTooLargeError,
    LockHeldError,
    MissingFileError,
    NotRegularFileError,
    WriteFailureError,
    from_os_error,
    printable,
)

_CHUNK = 1 << 20
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
STEP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_KINDS = {
    stat.S_IFIFO: "FIFO",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
    stat.S_IFLNK: "broken link",
}


def kind_of(mode: int) -> str:
    """The kind of a file that is neither a regular one nor a directory."""
    return _KINDS.get(stat.S_IFMT(mode), "special file")


def require_regular(status: os.stat_result, path: Path) -> None:
    """Raises DirectoryTargetError or NotRegularFileError unless `status` is that of a regular
    file."""
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFREG:
        return
    shown = printable(path)
    if kind == stat.S_IFDIR:
        raise DirectoryTargetError(
            f"Path is a directory, not a file: {shown}.", remedy="Use list_directory for it."
        )
    raise NotRegularFileError(
        f"Not a regular file: {shown} is a {kind_of(kind)}.",
        remedy="Only regular files can be read or written.",
    )


def open_directory(path: Path) -> int:
    """Opens the directory at a real path, for use as `dir_fd`.

    Opens each component in turn without following symlinks, so that the checked path is the opened
    one. Raises OSError (ELOOP or ENOTDIR when a component has become a symlink).
    """
    current = os.open(path.anchor, STEP)
    try:
        for name in path.parts[1:]:
            below = os.open(name, STEP, dir_fd=current)
            os.close(current)
            current = below
    except BaseException:
        os.close(current)
        raise
    return current


def open_regular(path: Path) -> int:
    """Opens the regular file at `path` for reading; follows symlinks.

    The type is checked before opening, so that FIFOs do not block and devices are not triggered,
    and again on the descriptor. Raises FileError.
    """
    try:
        require_regular(path.stat(), path)
        return _check_descriptor(os.open(path, _READ), path)
    except OSError as error:
        raise from_os_error(error, path) from error
    except ValueError as error:
        raise _nameless(path) from error


def open_real(path: Path) -> int:
    """Like `open_regular` for a real path, without symlinks in any component. Raises FileError."""
    try:
        directory = open_directory(path.parent)
        try:
            status = os.stat(path.name, dir_fd=directory, follow_symlinks=False)
            require_regular(status, path)
            opened = os.open(path.name, _READ | os.O_NOFOLLOW, dir_fd=directory)
        finally:
            os.close(directory)
        return _check_descriptor(opened, path)
    except OSError as error:
        raise from_os_error(error, path) from error
    except ValueError as error:
        raise _nameless(path) from error


def _nameless(path: Path) -> MissingFileError:
    """The error for an impossible path: with a NUL, or an invalid character."""
    return MissingFileError(f"File not found: no file can be called {printable(path)}.")


def _check_descriptor(descriptor: int, path: Path) -> int:
    try:
        require_regular(os.fstat(descriptor), path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_bytes(descriptor: int, limit: int) -> bytes:
    """Reads at most `limit` bytes from the descriptor's position. Raises OSError."""
    pieces: list[bytes] = []
    while limit > 0 and (piece := os.read(descriptor, min(limit, _CHUNK))):
        pieces.append(piece)
        limit -= len(piece)
    return b"".join(pieces)


def read_within(
    path: Path, limit: int, open_: Callable[[Path], int] = open_real
) -> tuple[os.stat_result, bytes | None]:
    """The status and bytes of the file at a real path; None for more than `limit` bytes. Raises
    FileError."""
    descriptor = open_(path)
    try:
        status = os.fstat(descriptor)
        data = None if status.st_size > limit else read_bytes(descriptor, limit + 1)
    except OSError as error:
        raise from_os_error(error, path) from error
    finally:
        os.close(descriptor)
    return status, None if data is None or len(data) > limit else data


def read_whole(path: Path, limit: int) -> tuple[bytes, bytes]:
    """Reads the file at a real path, with its digest. Raises FileError."""
    _, data = read_within(path, limit)
    if data is None:
        raise too_large(path, limit)
    return data, digest_of(data)


def read_content(path: Path, limit: int, *, follows: bool) -> bytes:
    """Reads a file. Without `follows` links count as they are now: none may come into the path
    meanwhile. Raises FileError."""
    path = path if follows else Path(os.path.realpath(path))
    _, data = read_within(path, limit, open_regular if follows else open_real)
    if data is None:
        raise too_large(path, limit)
    return data


def too_large(path: Path, limit: int) -> FileTooLargeError:
    """The error for a file over `limit` bytes."""
    return FileTooLargeError(
        f"File size exceeds the {limit // 1_000_000}MB limit: {printable(path)}.",
        remedy="Work on a part of it with run_shell_command.",
    )


def digest_of(data: bytes) -> bytes:
    """The digest by which a file's content is recognised."""
    from hashlib import blake2b

    return blake2b(data, digest_size=32).digest()


def require_unchanged(path: Path, expected: bytes | None, limit: int) -> None:
    """Raises ChangedFileError unless `path` still has the `expected` digest; None: no file.

    Content decides: a file that was touched or rewritten with the same bytes is unchanged.
    """
    try:
        _, digest = read_whole(path, limit)
    except MissingFileError:
        digest = None
    except FileTooLargeError:
        digest = b""
    if digest != expected:
        raise changed_since_read(path)


def changed_since_read(path: Path) -> ChangedFileError:
    """The error for a file that has changed since it was read."""
    return ChangedFileError(
        f"File has changed since it was read: {printable(path)}; nothing was written.",
        remedy="Read it again and repeat the edit on what it holds now.",
    )


def read_small_text(path: Path, warnings: list[str], limit: int = _CHUNK) -> str:
    """The text of an optional small file (UTF-8, stray bytes kept as surrogates); "" when missing.

    Any other failure adds a line to `warnings` and returns "".
    """
    try:
        descriptor = open_regular(path)
    except MissingFileError:
        return ""
    except FileError as error:
        warnings.append(str(error))
        return ""
    try:
        data = read_bytes(descriptor, limit + 1)
    except OSError as error:
        warnings.append(str(from_os_error(error, path)))
        return ""
    finally:
        os.close(descriptor)
    if len(data) > limit:
        warnings.append(str(too_large(path, limit)))
        return ""
    return data.decode("utf-8-sig", "surrogateescape")


CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags that create a new file."""

_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EROFS, errno.EACCES)


def stop_if(cancellation: threading.Event) -> None:
    """Raises WriteFailureError when the write is cancelled."""
    if cancellation.is_set():
        raise WriteFailureError("Cancelled before the file was written; the old content was kept.")


def write_all(descriptor: int, data: bytes, cancellation: threading.Event) -> None:
    """Writes at the descriptor's position. Raises WriteFailureError when cancelled, and OSError."""
    rest = memoryview(data)
    while rest:
        stop_if(cancellation)
        rest = rest[os.write(descriptor, rest[:_CHUNK]) :]


def remove_name(directory: int, name: str) -> None:
    """Removes a file name if it exists. Raises OSError."""
    try:
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:  # it has already been renamed
        return


def synchronise(descriptor: int) -> None:
    """Syncs a file to disk, if supported. Raises OSError."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise


def synchronise_directory(directory: int) -> None:
    """Best effort: the file is in place, and an unreadable directory cannot be synced."""
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


TEMPORARY = r"\.alhena-[0-9a-f]{16}\.tmp"


def temporary_name() -> str:
    """A name for a temporary file that will be renamed."""
    return f".alhena-{os.urandom(8).hex()}.tmp"


def is_temporary(name: str) -> bool:
    """True for the name of a temporary file."""
    return name.startswith(".alhena-") and re.fullmatch(TEMPORARY, name) is not None


_OPEN = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
_STEP_S = 0.01


@contextmanager
def exclusive(
    path: Path,
    *,
    beside: Path | None = None,
    cancellation: threading.Event | None = None,
    patience_s: float = 10.0,
) -> Generator[int | None]:
    """Holds the lock file at `path`, in an existing directory, for a block, which gets the
    descriptor of the lock.

    The system releases the lock when this process and the children that got the descriptor have
    ended. On a file system without locks the block runs unlocked, and so it does where nothing can
    be put `beside` an existing file: it is then written in place, under a lock of its own. Blocks
    its thread. Raises FileError: LockHeldError when the lock is not available within `patience_s`
    seconds, WriteFailureError when `cancellation` is set before that.
    """
    try:
        held = _acquire_lock(path, cancellation or threading.Event(), patience_s)
    except OSError as error:
        if beside is None or error.errno not in PERMISSION or not beside.exists():
            raise from_os_error(error, path, writing=True) from error
        held = None
    try:
        yield held
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
        unlock(own)
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
    _wait(descriptor, printable(path), cancellation, patience_s)
    try:
        yield
    finally:
        unlock(descriptor)


def unlock(descriptor: int) -> None:
    """Releases the lock of an open file at once. Closing it is not enough: a process that is about
    to start has copies of all descriptors."""
    import fcntl

    with suppress(OSError):  # without locks
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


def _acquire_lock(path: Path, cancellation: threading.Event, patience_s: float) -> int | None:
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
