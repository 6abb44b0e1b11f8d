"""Small files readable only by their owner, such as credentials: never half written, never
accessible to others."""

import os
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from alhena.config.documents import NotReadableError, TooLargeError, read_limited
from alhena.system.errors import (
    FileTooLargeError,
    LockHeldError,
    NotRegularFileError,
    from_os_error,
    printable,
)
from alhena.system.files import (
    CREATE,
    remove_name,
    synchronise,
    synchronise_directory,
    write_all,
)
from alhena.system.locking import exclusive

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
            self._replace(Path(os.path.realpath(path)), data)
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

    def set_aside(self, name: str) -> Path:
        """Renames a file within the directory; returns its new path. Raises FileError."""
        path = self.path(name)
        number = 1
        while os.path.lexists(aside := path.with_name(f"{name}.damaged-{number}")):
            number += 1
        try:
            path.rename(aside)
        except OSError as error:
            raise from_os_error(error, path, writing=True) from error
        return aside

    @contextmanager
    def hold(self, name: str, patience_s: float = 0) -> Generator[bool]:
        """Locks a file for a block, across processes. Yields False when another program held the
        lock for the whole wait, which blocks the thread; the block then runs unlocked. Raises
        FileError when locking fails."""
        try:
            self._make_directory()
        except OSError as error:
            raise from_os_error(error, self._directory, writing=True) from error
        with ExitStack() as stack:
            held = True
            try:
                stack.enter_context(exclusive(self.path(f"{name}.lock"), patience_s=patience_s))
            except LockHeldError:
                held = False
            yield held

    def _make_directory(self) -> None:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _replace(self, path: Path, data: bytes) -> None:
        from alhena.system.replacement import hold, remove_leftovers, temporary_name

        directory = os.open(path.parent, _DIRECTORY)
        try:
            remove_leftovers(directory)
            temporary = temporary_name()
            descriptor = os.open(temporary, CREATE, 0o600, dir_fd=directory)
            try:
                try:
                    hold(descriptor)
                    os.fchmod(descriptor, 0o600)
                    write_all(descriptor, data, threading.Event())
                    synchronise(descriptor)
                finally:
                    os.close(descriptor)
                os.replace(temporary, path.name, src_dir_fd=directory, dst_dir_fd=directory)
            except BaseException:
                remove_name(directory, temporary)
                raise
            synchronise_directory(directory)
        finally:
            os.close(directory)
