"""Writing a file in place that has several names or is mounted; its old content is put aside."""

import os
import stat
import threading
from pathlib import Path

from alhena.system.durable import (
    CREATE,
    remove_name,
    stop_if,
    synchronise,
    synchronise_directory,
    write_all,
)
from alhena.system.errors import WriteFailureError, printable
from alhena.system.files import (
    Snapshot,
    changed_since_read,
    read_bytes,
    require_regular,
    require_unchanged,
    snapshot_of,
)
from alhena.system.locking import alone_on

_OPEN = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def overwrite(
    directory: int,
    path: Path,
    data: bytes,
    expected: Snapshot,
    limit: int,
    cancellation: threading.Event,
) -> int:
    """Makes `data` the content of the file at `path`, in the open `directory`, under all its names.

    The old content, which has to be the `expected`, is on the disk beside the file before a byte of
    it changes, and goes when all is written or all is as it was; if neither can be had, the error
    names where it stands. Returns the number of further names. Raises FileError and OSError.
    """
    descriptor = os.open(path.name, _OPEN, dir_fd=directory)
    try:
        status = os.fstat(descriptor)
        require_regular(status, path)
        # Others may come by a name in another directory, while only this directory is held.
        with alone_on(descriptor, path, cancellation=cancellation):
            old = read_bytes(descriptor, limit + 1)
            if snapshot_of(status, old).digest != expected.digest:
                raise changed_since_read(path)
            aside = f".alhena-{os.urandom(8).hex()}.old"
            _put_aside(directory, aside, old, cancellation)
            try:
                require_unchanged(path, expected, limit)
                now = os.stat(path.name, dir_fd=directory, follow_symlinks=False)
                if not os.path.samestat(now, status):
                    raise changed_since_read(path)
                stop_if(cancellation)
            except BaseException:
                remove_name(directory, aside)
                raise
            try:
                _fill(descriptor, data)
            except BaseException as error:
                _put_back(descriptor, old, path, path.with_name(aside), error)
                remove_name(directory, aside)
                raise
            _keep_mode(descriptor, status)
            remove_name(directory, aside)
    finally:
        os.close(descriptor)
    return status.st_nlink - 1


def _put_aside(directory: int, name: str, content: bytes, cancellation: threading.Event) -> None:
    copy = os.open(name, CREATE, 0o600, dir_fd=directory)
    try:
        try:
            write_all(copy, content, cancellation)
            synchronise(copy)
        finally:
            os.close(copy)
    except BaseException:
        remove_name(directory, name)
        raise
    synchronise_directory(directory)


def _fill(descriptor: int, content: bytes) -> None:
    """Cut to its length last, so that until then the file keeps the room that it has."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    write_all(descriptor, content, threading.Event())
    os.ftruncate(descriptor, len(content))
    synchronise(descriptor)


def _put_back(descriptor: int, old: bytes, path: Path, aside: Path, cause: BaseException) -> None:
    try:
        _fill(descriptor, old)
    except OSError as error:
        raise WriteFailureError(
            f"Error writing to file '{printable(path)}': {cause}. Its old content could not be put "
            f"back either ({error.strerror}); it stands in {printable(aside)}.",
            remedy="Copy it back from there when there is room.",
        ) from cause


def _keep_mode(descriptor: int, old: os.stat_result) -> None:
    """The system takes set-user-ID away when another than root writes; the owner may keep it."""
    mode = stat.S_IMODE(old.st_mode)
    if stat.S_IMODE(os.fstat(descriptor).st_mode) != mode and old.st_uid == os.geteuid():
        os.fchmod(descriptor, mode)
