"""Small files that only their owner may read, such as credentials: never half written, never open
to others, not even for a moment."""

import os
import secrets
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from alhena.config.files import NotReadableError, read_limited
from alhena.system.durable import (
    CREATE,
    remove_name,
    synchronise,
    synchronise_directory,
    write_all,
)
from alhena.system.errors import LockHeldError, ReadFailureError, from_os_error, printable
from alhena.system.locking import exclusive

_LIMIT = 1024 * 1024
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class PrivateFiles:
    """The files of one directory, by name. Files have mode 0600, the directory 0700 where it is
    made here. A name that is a symlink stays one: what it leads to is written."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def path(self, name: str) -> Path:
        """Where a file is, or would be."""
        return self._directory / name

    def read(self, name: str) -> bytes | None:
        """The bytes of a file of at most 1 MB, None when it is not there. Raises FileError."""
        path = self.path(name)
        try:
            return read_limited(path, _LIMIT)
        except FileNotFoundError:
            return None
        except NotReadableError as error:
            raise ReadFailureError(f"Cannot use {printable(path)}: {error}.") from error
        except OSError as error:
            raise from_os_error(error, path) from error

    def write(self, name: str, data: bytes) -> None:
        """Puts a file in its place in one step: it holds the old bytes or the new ones, whatever
        happens. Raises FileError."""
        path = self.path(name)
        try:
            self._make_directory()
            self._replace(Path(os.path.realpath(path)), data)
        except OSError as error:
            raise from_os_error(error, path, writing=True) from error

    def remove(self, name: str) -> bool:
        """Takes a file away; whether there was one. Raises FileError."""
        path = self.path(name)
        try:
            path.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise from_os_error(error, path, writing=True) from error
        return True

    @contextmanager
    def hold(self, name: str) -> Generator[bool]:
        """Holds the lock of a file for the length of a block, across processes. Does not wait:
        false when another program holds it, and the block runs without. Raises FileError when
        there can be no lock."""
        try:
            self._make_directory()
        except OSError as error:
            raise from_os_error(error, self._directory, writing=True) from error
        with ExitStack() as stack:
            held = True
            try:
                stack.enter_context(exclusive(self.path(f"{name}.lock"), patience_s=0))
            except LockHeldError:
                held = False
            yield held

    def _make_directory(self) -> None:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _replace(self, path: Path, data: bytes) -> None:
        directory = os.open(path.parent, _DIRECTORY)
        try:
            temporary = f".{path.name}.{secrets.token_hex(8)}.new"
            descriptor = os.open(temporary, CREATE, 0o600, dir_fd=directory)
            try:
                try:
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
