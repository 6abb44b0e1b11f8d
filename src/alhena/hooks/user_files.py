"""Changes a user's file atomically, despite concurrent writers."""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from alhena.config.documents import MAX_BYTES
from alhena.config.errors import ConfigError, DamagedError

_ATTEMPTS = 5


def change_file(path: Path, changed: Callable[[bytes], bytes], failure: str) -> None:
    """Replaces a file's content by `changed(content)`; the content of a new file is b"".

    A new file is readable by the user only, a symbolic link stays one. `failure` begins the message
    of the ConfigError raised when the file cannot be written; it is then unchanged. Raises the
    errors of `changed`.
    """
    from alhena.system.errors import ChangedFileError, FileError

    try:
        with _held(path) as place:
            for attempt in range(_ATTEMPTS):
                try:
                    _change(place, changed)
                    return
                except ChangedFileError:
                    # An editor ignores locks: its version is kept.
                    if attempt == _ATTEMPTS - 1:
                        raise
    except FileError as error:
        raise _unchanged(failure, error) from error


def set_aside_damaged(path: Path, read: Callable[[Path], object], failure: str) -> Path | None:
    """Renames a file within its directory if `read` raises DamagedError for it; returns the new
    path, None if it stays. The target of a symbolic link is moved, not the link. `failure` begins
    the message of the ConfigError raised when it cannot be moved. Raises other errors of `read`."""
    from alhena.system.errors import FileError, from_os_error

    if not _is_damaged(path, read):
        return None
    try:
        with _held(path) as place:
            if not _is_damaged(path, read):  # repaired meanwhile by another process
                return None
            number = 1
            while os.path.lexists(aside := place.with_name(f"{place.name}.damaged-{number}")):
                number += 1
            try:
                place.rename(aside)
            except OSError as error:
                raise from_os_error(error, place, writing=True) from error
            return aside
    except FileError as error:
        raise _unchanged(failure, error) from error


def _is_damaged(path: Path, read: Callable[[Path], object]) -> bool:
    try:
        read(path)
    except DamagedError:
        return True
    return False


@contextmanager
def _held(path: Path) -> Generator[Path]:
    """Locks the target of a path against changes by this module. Raises FileError."""
    from alhena.system.errors import from_os_error
    from alhena.system.locking import exclusive

    place = Path(os.path.realpath(path))
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise from_os_error(error, place.parent, writing=True) from error
    with exclusive(place.parent / f".{place.name}.lock"):
        yield place


def _unchanged(failure: str, error: Exception) -> ConfigError:
    return ConfigError(f"{failure}: {str(error).rstrip('.')}.", remedy="Make the file writable.")


def _change(place: Path, changed: Callable[[bytes], bytes]) -> None:
    from alhena.system.errors import MissingFileError
    from alhena.system.files import read_whole
    from alhena.system.replacement import replace_file

    try:
        data, found = read_whole(place, MAX_BYTES)
    except MissingFileError:
        new = changed(b"")
        _make_file(place)
        data, found = read_whole(place, MAX_BYTES)
        if data:  # created meanwhile by another process
            new = changed(data)
    else:
        new = changed(data)
    replace_file(place, new, expected=found, limit=MAX_BYTES)


def _make_file(place: Path) -> None:
    """Creates an empty private file to be replaced."""
    from alhena.system.errors import from_os_error

    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        os.close(os.open(place, flags, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise from_os_error(error, place, writing=True) from error
