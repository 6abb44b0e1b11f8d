"""The files of a run directory that all nodes see: each is made once, as a whole, and never
changed."""

import os
import secrets
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from alhena.batch.errors import QueueError, RunDirectoryError
from alhena.errors import ConfigError
from alhena.system.files import unlock

LOCK = "lock"
"""The file in a run directory that the process which carries out the run has locked."""
Place = Path | str
"""A run directory: a folder, or the URL of a place in an object store."""
_RETRY_S = 0.02
_PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs"}
"""Object stores whose fsspec packages create an object only if there is none, by a condition that
the service checks. Others look first, which two nodes may do at once."""


def open_store(place: Place) -> "Store":
    """The store at a place. Raises ConfigError."""
    return ObjectStore(place) if isinstance(place, str) else FolderStore(place)


def place_of(text: str, cwd: Path) -> Place:
    """The place that a person names: a path, or a URL. Raises ConfigError."""
    protocol, separator, path = text.partition("://")
    if not separator:
        return cwd / text
    if protocol == "file":
        return Path("/", path)
    if protocol not in _PACKAGES:
        raise ConfigError(
            f"a run directory cannot be at {protocol}://: two nodes could create the same file.",
            remedy="Name a folder that all nodes see, or s3://, gs:// or az://.",
        )
    return text


def newest(store: "Store", folder: str) -> bytes | None:
    """The content of the file with the last name. Raises OSError."""
    names = store.names(folder)
    return store.read(f"{folder}/{names[-1]}") if names else None


@contextmanager
def held_lock(path: Path, *, patience_s: float = 0.0) -> Generator[None]:
    """Holds a lock file for a block, at most until the process ends. Raises RunDirectoryError
    when another process holds it for longer than `patience_s`, QueueError when it cannot be
    opened."""
    import fcntl

    with usable(path.parent):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    end = time.monotonic() + patience_s
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() < end:
                    time.sleep(_RETRY_S)
                    continue
                raise RunDirectoryError(
                    f"the run in {path.parent} is in use by another process.",
                    remedy="Wait for its end, or interrupt it.",
                ) from error
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield
    finally:
        unlock(descriptor)
        os.close(descriptor)


def lock_holder(directory: Path) -> int | None:
    """The id of the process that carries out the run in a folder; None if there is none."""
    import fcntl

    try:
        descriptor = os.open(directory / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        found = os.pread(descriptor, 20, 0)
        return int(found) if found.isdigit() else 0
    finally:
        os.close(descriptor)
    return None


class FolderStore:
    """Files below a folder. Methods raise OSError."""

    def __init__(self, directory: Path) -> None:
        self.place: Place = directory
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

    def remove(self, name: str) -> None:
        """Removes a file, if it is there."""
        (self.directory / name).unlink(missing_ok=True)


class ObjectStore:
    """Objects below a URL; as a `FolderStore`. Raises ConfigError where its package is missing."""

    def __init__(self, url: str) -> None:
        self.place: Place = url
        protocol = url.partition("://")[0]
        try:
            fsspec = import_module("fsspec")
            self._files, top = fsspec.url_to_fs(url, use_listings_cache=False)
        except ImportError as error:
            raise ConfigError(
                f"a run directory at {protocol}:// needs a package.",
                remedy=f"Install it on all nodes: pip install {_PACKAGES[protocol]}.",
            ) from error
        self._top = top.rstrip("/")

    def create(self, name: str, data: bytes, *, durable: bool = False) -> bool:
        """Makes an object; False if there is another one of this name."""
        del durable
        try:
            self._do(self._files.pipe_file, name, data, mode="create")
        except OSError:
            found = self.read(name)
            if found is None:
                raise
            return found == data  # a request that was sent twice
        return True

    def read(self, name: str) -> bytes | None:
        """The content of an object; None if there is none."""
        try:
            return self._do(self._files.cat_file, name)
        except FileNotFoundError:
            return None

    def names(self, folder: str) -> list[str]:
        """The names in a folder, in order."""
        try:
            found = self._do(self._files.ls, folder, detail=False)
        except FileNotFoundError:
            return []
        return sorted(each.rpartition("/")[2] for each in found)

    def remove(self, name: str) -> None:
        """Removes an object, if it is there."""
        with suppress(FileNotFoundError):
            self._do(self._files.rm_file, name)

    def _do(self, method: Callable[..., Any], name: str, *arguments: Any, **options: Any) -> Any:
        """The result of a method. Raises OSError, also for what the package raises."""
        try:
            return method(f"{self._top}/{name}", *arguments, **options)
        except OSError:
            raise
        except Exception as error:  # the packages have no common one
            raise OSError(f"{type(error).__name__}: {error}") from error


Store = FolderStore | ObjectStore
"""The files of a run directory."""


def require_creating(store: Store) -> None:
    """Raises RunDirectoryError for a store that replaces objects it should only create."""
    made = [store.create("probe", secrets.token_bytes(8)) for _ in range(2)]
    store.remove("probe")
    if all(made):
        raise RunDirectoryError(
            f"{store.place} cannot have a run: the store replaces objects instead of refusing to.",
            remedy="Use one that knows conditional writes (If-None-Match).",
        )


class Epoch:
    """The right to change a run, taken from whoever had it before. Raises OSError."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.number = 1 + sum(each.startswith("writer-") for each in store.names("epochs"))
        token = secrets.token_bytes(8)
        while not store.create(self._name(self.number), token):
            self.number += 1

    def is_latest(self) -> bool:
        """False once another has taken it."""
        return self._store.read(self._name(self.number + 1)) is None

    def _name(self, number: int) -> str:
        return f"epochs/writer-{number:06}"


@contextmanager
def usable(place: Place) -> Generator[None]:
    """Raises QueueError for an OSError of a block."""
    try:
        yield
    except OSError as error:
        raise QueueError(
            f"the run directory {place} cannot be used: {error}.",
            remedy=f"When that is mended: alhena batch resume {place}.",
        ) from error
