"""The user's own files: private ones readable only by their owner, such as credentials, and files
that other programs change too, replaced atomically.
"""

import os
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from alhena.config.documents import MAX_BYTES, NotReadableError, TooLargeError, read_limited
from alhena.errors import ConfigError, DamagedError
from alhena.system.errors import (
    ChangedFileError,
    FileError,
    FileTooLargeError,
    LockHeldError,
    MissingFileError,
    NotRegularFileError,
    from_os_error,
    printable,
)
from alhena.system.files import (
    exclusive,
    read_whole,
    synchronise,
    synchronise_directory,
    write_all,
)
from alhena.system.replacement import (
    NOT_REPLACED,
    overwrite,
    remove_leftovers,
    replace_file,
    temporary_in,
)

LIMIT = 1024 * 1024
"""Default limit of bytes of a file."""
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class PrivateFiles:
    """The files of one directory, by name. Files have mode 0600, a directory created here 0700. A
    name that is a symlink stays one: its target is written."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def path(self, name: str) -> Path:
        """Path of a file, which need not exist."""
        return self._directory / name

    def read(self, name: str, limit: int = LIMIT) -> bytes | None:
        """The bytes of a file of at most `limit` bytes, None if missing. Raises FileError:
        FileTooLargeError for a larger one."""
        path = self.path(name)
        try:
            return read_limited(path, limit)
        except FileNotFoundError:
            return None
        except TooLargeError as error:
            raise FileTooLargeError(f"Cannot use {printable(path)}: {error}.") from error
        except NotReadableError as error:
            raise NotRegularFileError(f"Cannot use {printable(path)}: {error}.") from error
        except OSError as error:
            raise from_os_error(error, path) from error

    def write(self, name: str, data: bytes, limit: int = LIMIT) -> None:
        """Writes a file atomically: it has the old or the new bytes, whatever happens. Raises
        FileError: FileTooLargeError if `read` would reject it."""
        path = self.path(name)
        if len(data) > limit:
            raise FileTooLargeError(
                f"Cannot write {printable(path)}: it would be larger than {limit} bytes; "
                "the old content was kept."
            )
        try:
            self._make_directory()
            self._replace(Path(os.path.realpath(path)), data, limit)
        except OSError as error:
            raise from_os_error(error, path, writing=True) from error

    def remove(self, name: str) -> bool:
        """Deletes a file; False if it was missing. Raises FileError."""
        path = self.path(name)
        try:
            path.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise from_os_error(error, path, writing=True) from error
        return True

    @contextmanager
    def hold(self, name: str, patience_s: float = 0) -> Generator[bool]:
        """Locks a file for a block, across processes. Yields False when another program held the
        lock for the whole wait, which blocks the thread; the block then runs unlocked, and so it
        does where nothing can be put beside an existing file. Raises FileError when locking
        fails."""
        try:
            self._make_directory()
        except OSError as error:
            raise from_os_error(error, self._directory, writing=True) from error
        with ExitStack() as stack:
            held = True
            try:
                lock = self.path(f"{name}.lock")
                stack.enter_context(exclusive(lock, beside=self.path(name), patience_s=patience_s))
            except LockHeldError:
                held = False
            yield held

    def _make_directory(self) -> None:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _replace(self, path: Path, data: bytes, limit: int) -> None:
        directory = os.open(path.parent, _DIRECTORY)
        try:
            remove_leftovers(directory)
            try:
                with temporary_in(directory, 0o600) as (descriptor, temporary):
                    os.fchmod(descriptor, 0o600)
                    write_all(descriptor, data, threading.Event())
                    synchronise(descriptor)
                    os.replace(temporary, path.name, src_dir_fd=directory, dst_dir_fd=directory)
            except OSError as error:
                if error.errno not in NOT_REPLACED or not path.exists():
                    raise
                _, found = read_whole(path, limit)
                overwrite(directory, path, data, found, limit, threading.Event())
            synchronise_directory(directory)
        finally:
            os.close(directory)


_ATTEMPTS = 5


def change_file(path: Path, changed: Callable[[bytes], bytes], failure: str) -> None:
    """Replaces a file's content by `changed(content)`; the content of a new file is b"". A file
    whose line ends are CRLF keeps them: the content has LF.

    A new file is readable by the user only, a symbolic link stays one. `failure` begins the message
    of the ConfigError raised when the file cannot be written; it is then unchanged. Raises the
    errors of `changed`.
    """
    try:
        with _lock_target(path) as place:
            for attempt in range(_ATTEMPTS):
                try:
                    _change(place, changed)
                    return
                except ChangedFileError:
                    # An editor ignores locks: its version is kept.
                    if attempt == _ATTEMPTS - 1:
                        raise
    except FileError as error:
        raise _write_error(failure, error) from error


def set_aside_damaged(path: Path, read: Callable[[Path], object], failure: str) -> Path | None:
    """Renames a file within its directory if `read` raises DamagedError for it; returns the new
    path, None if it stays. The target of a symbolic link is moved, not the link. `failure` begins
    the message of the ConfigError raised when it cannot be moved. Raises other errors of `read`."""
    if not _is_damaged(path, read):
        return None
    try:
        with _lock_target(path) as place:
            if not _is_damaged(path, read):  # repaired meanwhile by another process
                return None
            return _set_aside(place)
    except FileError as error:
        raise _write_error(failure, error) from error


def _set_aside(path: Path) -> Path:
    number = 1
    while os.path.lexists(aside := path.with_name(f"{path.name}.damaged-{number}")):
        number += 1
    try:
        path.rename(aside)
    except OSError as error:
        raise from_os_error(error, path, writing=True) from error
    return aside


def _is_damaged(path: Path, read: Callable[[Path], object]) -> bool:
    try:
        read(path)
    except DamagedError:
        return True
    return False


@contextmanager
def _lock_target(path: Path) -> Generator[Path]:
    """Locks the target of a path against changes by this module. Raises FileError."""
    place = Path(os.path.realpath(path))
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise from_os_error(error, place.parent, writing=True) from error
    with exclusive(place.parent / f".{place.name}.lock", beside=place):
        yield place


def _write_error(failure: str, error: Exception) -> ConfigError:
    return ConfigError(f"{failure}: {str(error).rstrip('.')}.", remedy="Make the file writable.")


def _change(place: Path, changed: Callable[[bytes], bytes]) -> None:
    try:
        data, found = read_whole(place, MAX_BYTES)
    except MissingFileError:
        new = changed(b"")
        _make_file(place)
        data, found = read_whole(place, MAX_BYTES)
        if data:  # created meanwhile by another process
            new = keep_line_ends(data, changed)
    else:
        new = keep_line_ends(data, changed)
    replace_file(place, new, expected=found, limit=MAX_BYTES)


def keep_line_ends(data: bytes, changed: Callable[[bytes], bytes]) -> bytes:
    """`changed(data)`, where a text whose line ends are all CRLF is changed with LF ones."""
    feeds = data.count(b"\n")
    if not feeds or data.count(b"\r\n") != feeds:
        return changed(data)
    return changed(data.replace(b"\r\n", b"\n")).replace(b"\n", b"\r\n")


def _make_file(place: Path) -> None:
    """Creates an empty private file to be replaced."""
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        os.close(os.open(place, flags, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise from_os_error(error, place, writing=True) from error
