"""Places in which files of a moment are put: through no symlink, each only while it holds what was
kept of it, and nothing half made is left there."""

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from alhena.session.moments import NOTHING, SYMLINK, Change, content_name
from alhena.system.durable import CREATE
from alhena.system.errors import FileError
from alhena.system.files import Snapshot as FileState
from alhena.system.files import open_directory, open_real, read_whole
from alhena.system.replacement import open_made, remove_directory

LIMIT = 1 << 30


class ChangedError(FileError):
    """A file is not what was kept of it."""


@contextmanager
def opened(path: Path) -> Generator[int]:
    """A directory, reached through no symlink."""
    directory = open_directory(path)
    try:
        yield directory
    finally:
        os.close(directory)


@contextmanager
def made_directory(path: Path) -> Generator[int]:
    """A directory that is made if need be, through no symlink, and taken away again on failure."""
    made: list[Path] = []
    try:
        directory = open_made(path, made)
        try:
            yield directory
        finally:
            os.close(directory)
    except BaseException:
        for each in reversed(made):
            remove_directory(each)
        raise


@contextmanager
def without_link(path: Path, change: Change) -> Generator[None]:
    """Takes away the symlink in whose place a file comes; it is back when none does."""
    if change.old_mode != SYMLINK:
        yield
        return
    with opened(path.parent) as directory:
        require_same(path, change)
        target = os.readlink(os.fsencode(path))
        os.unlink(path.name, dir_fd=directory)
        try:
            yield
        except BaseException:
            with suppress(FileExistsError):
                os.symlink(target, os.fsencode(path.name), dir_fd=directory)
            raise


@contextmanager
def new_private(path: Path) -> Generator[FileState]:
    """Makes an empty file that only its owner may read, so that what takes its place in the block
    is, too."""
    with made_directory(path.parent) as directory:
        os.close(os.open(path.name, CREATE, 0o600, dir_fd=directory))
        try:
            yield read_whole(path, LIMIT)[1]
        except BaseException:
            with suppress(FileNotFoundError):
                if not os.stat(path.name, dir_fd=directory, follow_symlinks=False).st_size:
                    os.unlink(path.name, dir_fd=directory)
            raise


def remove_empty(path: Path) -> None:
    """Removes an empty directory. Raises FileError, OSError."""
    with opened(path.parent) as directory:
        os.rmdir(path.name, dir_fd=directory)


def require_same(path: Path, change: Change) -> None:
    """Raises FileError unless a path holds what was kept of it. Raises OSError."""
    if change.old_mode == NOTHING:
        if os.path.lexists(path):
            raise ChangedError("it has been made meanwhile")
        return
    if change.old_mode == SYMLINK:
        require_content(os.readlink(os.fsencode(path)), change)
        return
    if stat.S_ISLNK(path.lstat().st_mode):
        raise ChangedError("it has become a symlink meanwhile")
    data, _ = read_whole(path, LIMIT)
    require_content(data, change)


def require_content(data: bytes, change: Change) -> None:
    """Raises FileError unless this is what was kept."""
    if content_name(data) != change.old:
        raise ChangedError("it has changed meanwhile")


def set_executable(path: Path, *, executable: bool) -> None:
    """Makes a file executable for those who may read it, or for nobody. Raises FileError,
    OSError."""
    descriptor = open_real(path)
    try:
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        wanted = mode | (mode & 0o444) >> 2 if executable else mode & ~0o111
        if wanted != mode:
            os.fchmod(descriptor, wanted)
    finally:
        os.close(descriptor)
