"""Replaces the content of a file completely or not at all, for all its names.

A writer locks its temporary file until it is renamed. The lock ends with the process, so an
unlocked one belongs to a dead writer; without lock support this is unknown.
"""

import errno
import os
import stat
import threading
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from alhena.system.errors import (
    PERMISSION,
    ChangedFileError,
    DirectoryTargetError,
    FilePermissionError,
    WriteFailureError,
    from_os_error,
    printable,
)
from alhena.system.files import (
    CREATE,
    STEP,
    alone_in,
    alone_on,
    changed_since_read,
    digest_of,
    is_temporary,
    open_directory,
    read_bytes,
    remove_name,
    require_regular,
    require_unchanged,
    stop_if,
    synchronise,
    synchronise_directory,
    temporary_name,
    unlock,
    write_all,
)

_OPEN = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def overwrite(
    directory: int,
    path: Path,
    data: bytes,
    expected: bytes,
    limit: int,
    cancellation: threading.Event,
) -> int:
    """Overwrites the file at `path`, in the open `directory`, under all its names.

    The old content, which must be `expected`, is saved to disk beside the file before any change,
    and deleted when everything is written or restored; if both fail, the error names the saved
    copy. Returns the number of further names. Raises FileError and OSError.
    """
    descriptor = os.open(path.name, _OPEN, dir_fd=directory)
    try:
        status = os.fstat(descriptor)
        require_regular(status, path)
        # Others may use a name in another directory; only this directory is locked.
        with alone_on(descriptor, path, cancellation=cancellation):
            old = read_bytes(descriptor, limit + 1)
            if digest_of(old) != expected:
                raise changed_since_read(path)
            aside = _put_aside(directory, path, old, cancellation)
            try:
                require_unchanged(path, expected, limit)
                now = os.stat(path.name, dir_fd=directory, follow_symlinks=False)
                if not os.path.samestat(now, status):
                    raise changed_since_read(path)
                stop_if(cancellation)
            except BaseException:
                aside.unlink(missing_ok=True)
                raise
            try:
                _fill(descriptor, data)
            except BaseException as error:
                _put_back(descriptor, old, path, aside, error)
                aside.unlink(missing_ok=True)
                raise
            _keep_mode(descriptor, status)
            aside.unlink(missing_ok=True)
    finally:
        os.close(descriptor)
    return status.st_nlink - 1


def _put_aside(directory: int, path: Path, content: bytes, cancellation: threading.Event) -> Path:
    """Saves the old content of a file beside it, or in the directory for temporary files where
    nothing can be put beside it."""
    name = f".alhena-{os.urandom(8).hex()}.old"
    try:
        _save_copy(directory, name, content, cancellation)
    except OSError as error:
        if error.errno not in PERMISSION:
            raise
    else:
        return path.with_name(name)
    import tempfile

    place = Path(os.path.realpath(tempfile.gettempdir()))
    elsewhere = os.open(place, STEP)
    try:
        _save_copy(elsewhere, name, content, cancellation)
    finally:
        os.close(elsewhere)
    return place / name


def _save_copy(directory: int, name: str, content: bytes, cancellation: threading.Event) -> None:
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
    """Truncates last, so that until then the file keeps its disk space."""
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
            f"back either ({error.strerror}); it is now {printable(aside)}.",
            remedy="Copy it back from there when there is room.",
        ) from cause


def _keep_mode(descriptor: int, old: os.stat_result) -> None:
    """The system clears set-user-ID when a user other than root writes; the owner may restore
    it."""
    mode = stat.S_IMODE(old.st_mode)
    if stat.S_IMODE(os.fstat(descriptor).st_mode) != mode and old.st_uid == os.geteuid():
        os.fchmod(descriptor, mode)


_AGE_S = 60.0
"""Minimum age: a new file exists briefly before its lock is held."""

_OPEN_LEFTOVERS = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


@contextmanager
def hold(descriptor: int) -> Generator[None]:
    """Locks an open file for a block, to show that its writer lives, if locks are supported."""
    import fcntl

    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    try:
        yield
    finally:
        unlock(descriptor)


@contextmanager
def temporary_in(directory: int, mode: int) -> Generator[tuple[int, str]]:
    """A new temporary file in an open directory, as descriptor and name, for a block that renames
    it; deleted when the block fails."""
    name = temporary_name()
    descriptor = os.open(name, CREATE, mode, dir_fd=directory)
    try:
        try:
            with hold(descriptor):
                yield descriptor, name
        finally:
            os.close(descriptor)
    except BaseException:
        remove_name(directory, name)
        raise


def remove_leftovers(directory: int) -> None:
    """Deletes this user's temporary files of dead writers in an open directory. Inaccessible ones
    stay."""
    with suppress(OSError):
        # By "." and not by the descriptor, which may be opened for traversal only.
        listed = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
        try:
            names = [name for name in os.listdir(listed) if is_temporary(name)]
        finally:
            os.close(listed)
        for name in names:
            with suppress(OSError):
                _remove_if_left(directory, name)


def _remove_if_left(directory: int, name: str) -> None:
    import fcntl

    descriptor = os.open(name, _OPEN_LEFTOVERS, dir_fd=directory)
    try:
        status = os.fstat(descriptor)
        mine = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
        if mine and time.time() - status.st_mtime > _AGE_S:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(name, dir_fd=directory)
    finally:
        os.close(descriptor)


NOT_REPLACED = (errno.EBUSY, *PERMISSION)
"""Errors of a file that can at most be written in place; EBUSY is that of a mount point."""
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS)


def replace_file(
    path: Path,
    data: bytes,
    *,
    expected: bytes | None,
    limit: int,
    cancellation: threading.Event | None = None,
) -> int:
    """Replaces the content of the file at a real path atomically, even across a crash.

    `expected` is the digest of the content read before (None: no file). If the file has changed
    meanwhile it is left unchanged (ChangedFileError), as after a failed write or a `cancellation`
    before the last step. Mode, owner and extended attributes are kept if the system permits;
    missing parent directories are created, and removed again on failure. Raises FileError.

    A file with further hard links is written in place, so that all its names show the new content;
    so is a file that cannot be replaced: a mount point, one in a directory that this user cannot
    write, and one whose owner or group would change. That is not atomic, so the old content is
    first saved beside the file (`.alhena-*.old`), or where temporary files are. It is restored when
    writing fails; a crash in between leaves the saved copy. Temporary files (`.alhena-*.tmp`) of
    killed processes are removed by the next write in the directory. Returns the number of further
    names.

    Of two processes that start from the same content, by whatever names, one writes and the other
    finds the file changed, if the file system has locks. Changes by other programs are noticed up
    to the last check before the step.
    """
    made: list[Path] = []
    try:
        directory = open_made(path.parent, made)
        try:
            stop = cancellation or threading.Event()
            return _replace_in(directory, path, data, expected, limit, stop)
        finally:
            os.close(directory)
    except BaseException as error:
        for parent in reversed(made):
            remove_directory(parent)
        if isinstance(error, OSError):
            raise _write_error(error, path) from error
        raise


def _write_error(error: OSError, path: Path) -> Exception:
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
        code = errno.errorcode[error.errno]
        return WriteFailureError(
            f"Error writing to file '{printable(path)}': a part of its path is not a directory "
            f"({code}).",
            remedy="Check the path with list_directory.",
        )
    return from_os_error(error, path, writing=True)


def open_made(parent: Path, made: list[Path]) -> int:
    """Like `open_directory`; creates missing directories, never through a symlink, and adds them to
    `made`. Raises OSError."""
    missing: list[Path] = []
    current = parent
    while not os.path.lexists(current):
        missing.append(current)
        current = current.parent
    descriptor = open_directory(current)
    try:
        for below in reversed(missing):
            try:
                os.mkdir(below.name, dir_fd=descriptor)
                made.append(below)
            except FileExistsError:  # another writer was first; what is no directory fails below
                pass
            inner = os.open(below.name, STEP, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def remove_directory(path: Path) -> None:
    """Removes an unused empty directory."""
    try:
        path.rmdir()
    except OSError:  # another process uses it
        return


def _replace_in(
    directory: int,
    path: Path,
    data: bytes,
    expected: bytes | None,
    limit: int,
    cancellation: threading.Event,
) -> int:
    old = _status(directory, path)
    if (old is None) != (expected is None):
        require_unchanged(path, expected, limit)
    if old is not None and not os.access(
        path.name, os.W_OK, dir_fd=directory, effective_ids=os.access in os.supports_effective_ids
    ):
        raise _refusal(directory, path)
    if old is not None and expected is not None and old.st_nlink > 1:
        return _write_in_place(directory, path, data, expected, limit, cancellation)
    remove_leftovers(directory)
    try:
        # A new file gets mode 0666 reduced by the umask or the directory's default ACL.
        with temporary_in(directory, 0o600 if old else 0o666) as (descriptor, temporary):
            write_all(descriptor, data, cancellation)
            if old is not None:
                _keep_attributes(descriptor, directory, path, old)
                kept = os.fstat(descriptor)
                if (kept.st_uid, kept.st_gid) != (old.st_uid, old.st_gid):
                    raise PermissionError(errno.EPERM, "its owner would change")
            synchronise(descriptor)
            with alone_in(directory, path, cancellation=cancellation):
                require_unchanged(path, expected, limit)
                stop_if(cancellation)
                _put(directory, temporary, path, new=old is None)
    except OSError as error:
        if expected is None or error.errno not in NOT_REPLACED:
            raise
        return _write_in_place(directory, path, data, expected, limit, cancellation)
    synchronise_directory(directory)
    return 0


def _write_in_place(
    directory: int,
    path: Path,
    data: bytes,
    expected: bytes,
    limit: int,
    cancellation: threading.Event,
) -> int:
    with ExitStack() as locks:
        with suppress(PermissionError):  # the directory cannot be read: the file's own lock is left
            locks.enter_context(alone_in(directory, path, cancellation=cancellation))
        return overwrite(directory, path, data, expected, limit, cancellation)


def _refusal(directory: int, path: Path) -> FilePermissionError:
    """The error for a file that cannot be written, with the reason that the system gives."""
    code = "EACCES"
    try:
        os.close(os.open(path.name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory))
    except OSError as error:
        code = errno.errorcode.get(error.errno or 0, code)
    remedy = (
        "Its file system is mounted read-only; write to another place."
        if code == "EROFS"
        else "It is read-only; its owner has to change the permissions."
    )
    return FilePermissionError(
        f"Permission denied writing to file: {printable(path)} ({code}).", remedy=remedy
    )


def _status(directory: int, path: Path) -> os.stat_result | None:
    try:
        found = os.stat(path.name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found.st_mode):
        raise DirectoryTargetError(f"Path is a directory, not a file: {printable(path)}.")
    require_regular(found, path)
    return found


def _keep_attributes(descriptor: int, directory: int, path: Path, old: os.stat_result) -> None:
    """Owner first, since changing it clears mode bits. Only root can keep everything."""
    mine = os.fstat(descriptor)
    if (mine.st_uid, mine.st_gid) != (old.st_uid, old.st_gid):
        for uid, gid in ((old.st_uid, old.st_gid), (-1, old.st_gid)):
            try:
                os.fchown(descriptor, uid, gid)
                break
            except PermissionError:
                continue
    _keep_extended_attributes(descriptor, directory, path)
    kept = os.fstat(descriptor)
    mode = stat.S_IMODE(old.st_mode)
    if (kept.st_uid, kept.st_gid) != (old.st_uid, old.st_gid):
        mode &= ~(stat.S_ISUID | stat.S_ISGID)  # never grant privileges of another owner
    os.fchmod(descriptor, mode)


def _keep_extended_attributes(descriptor: int, directory: int, path: Path) -> None:
    if not hasattr(os, "listxattr"):
        return
    try:
        source = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    except OSError:  # unreadable, and so are its attributes
        return
    try:
        for name in os.listxattr(source):
            try:
                os.setxattr(descriptor, name, os.getxattr(source, name))
            except OSError:  # a namespace this user may not write: best effort
                continue
    except OSError:  # no extended attributes on this file system
        return
    finally:
        os.close(source)


def _put(directory: int, temporary: str, path: Path, *, new: bool) -> None:
    if new:
        try:
            # A link, unlike a rename, never replaces a file created meanwhile.
            os.link(temporary, path.name, src_dir_fd=directory, dst_dir_fd=directory)
        except FileExistsError as error:
            raise ChangedFileError(
                f"Another process created {printable(path)} meanwhile; it was left alone.",
                remedy="Read it and decide again.",
            ) from error
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
        else:
            os.unlink(temporary, dir_fd=directory)
            return
    os.rename(temporary, path.name, src_dir_fd=directory, dst_dir_fd=directory)
