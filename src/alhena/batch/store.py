"""The files of a run directory that all nodes see: each is made once, as a whole, and never
changed."""

import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from alhena.batch.errors import QueueError


class Store:
    """The files below `directory`. Methods raise OSError."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def create(self, name: str, data: bytes, *, durable: bool = False) -> bool:
        """Makes a file; False if there is one of this name. A `durable` one is on the disk."""
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{secrets.token_hex(8)}")
        try:
            with part.open("xb") as file:
                file.write(data)
                file.flush()
                if durable:
                    os.fsync(file.fileno())
            os.link(part, path)
        except FileExistsError:
            return False
        finally:
            part.unlink(missing_ok=True)
        if durable:
            folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        return True

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if there is none."""
        try:
            return (self.directory / name).read_bytes()
        except FileNotFoundError:
            return None

    def names(self, folder: str) -> list[str]:
        """The names in a folder, in order."""
        try:
            return sorted(each for each in os.listdir(self.directory / folder) if each[0] != ".")
        except FileNotFoundError:
            return []

    def newest(self, folder: str) -> bytes | None:
        """The content of the file with the last name."""
        names = self.names(folder)
        return self.read(f"{folder}/{names[-1]}") if names else None

    def remove(self, name: str) -> None:
        """Removes a file, if it is there."""
        (self.directory / name).unlink(missing_ok=True)


class Epoch:
    """The right to write as `role`, taken from whoever had it before. Raises OSError."""

    def __init__(self, store: Store, role: str) -> None:
        self._store = store
        self._role = role
        self.number = 1 + sum(each.startswith(f"{role}-") for each in store.names("epochs"))
        while not store.create(self._name(self.number), b""):
            self.number += 1

    def is_latest(self) -> bool:
        """False once another has taken it."""
        return not (self._store.directory / self._name(self.number + 1)).exists()

    def _name(self, number: int) -> str:
        return f"epochs/{self._role}-{number:06}"


@contextmanager
def usable(directory: Path) -> Generator[None]:
    """Raises QueueError for an OSError of a block."""
    try:
        yield
    except OSError as error:
        raise QueueError(
            f"the run directory {directory} cannot be used: {error}.",
            remedy=f"When that is mended: alhena batch resume {directory}.",
        ) from error
