"""`SQLiteStore` and `FileStore`: conversations in a database, or in files."""

import asyncio
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from os import PathLike
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, unquote

import msgspec

from alhena.errors import AlhenaError, ConfigError
from alhena.session.stored import MARK, held_error
from alhena.system.errors import FileError, WriteFailureError, from_os_error
from alhena.system.files import alone_on, synchronise, synchronise_directory
from alhena.threads import run_to_end

T = TypeVar("T")
_SUFFIX = ".jsonl"
_LOCK = ".lock"
_NAME_BYTES = 200
_BUSY_S, _STEP_S = 30.0, 0.01
_TABLES = """
CREATE TABLE IF NOT EXISTS conversations (id TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS entries (
    id TEXT NOT NULL REFERENCES conversations (id), n INTEGER NOT NULL, entry BLOB NOT NULL,
    PRIMARY KEY (id, n)
) WITHOUT ROWID;
"""


class SQLiteStore:
    """Conversations in a SQLite file, which is made when it is first used; ":memory:" keeps them in
    this process. Many processes and threads may use one file.

        Agent(model, store=SQLiteStore("chats.db"), conversation="ada")
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = _path_of("SQLiteStore", path)
        self._lock = threading.Lock()
        self._opened: tuple[int, sqlite3.Connection] | None = None

    def __repr__(self) -> str:
        return f"SQLiteStore({self.path!r})"

    async def create(self, id: str, /) -> bool:
        """Makes an empty conversation. False: it was there."""
        insert = "INSERT OR IGNORE INTO conversations VALUES (?)"
        return await self._use(lambda db: db.execute(insert, (id,)).rowcount == 1)

    async def load(self, id: str, /) -> tuple[bytes, ...]:
        """The entries of a conversation in order."""
        select = "SELECT entry FROM entries WHERE id = ? ORDER BY n"
        return await self._use(
            lambda db: tuple(bytes(entry) for (entry,) in db.execute(select, (id,)))
        )

    async def append(self, id: str, entries: Sequence[bytes], /) -> None:
        """Adds entries in one transaction."""

        def add(db: sqlite3.Connection) -> None:
            db.execute("INSERT OR IGNORE INTO conversations VALUES (?)", (id,))
            last = "SELECT coalesce(max(n), 0) FROM entries WHERE id = ?"
            ((count,),) = db.execute(last, (id,))
            numbered = enumerate(entries, count + 1)
            rows = [(id, number, bytes(entry)) for number, entry in numbered]
            db.executemany("INSERT INTO entries VALUES (?, ?, ?)", rows)

        await self._use(add)

    async def list(self) -> tuple[str, ...]:
        """The ids of the conversations, sorted."""
        select = "SELECT id FROM conversations ORDER BY id"
        found = await self._use(lambda db: [name for (name,) in db.execute(select)])
        return tuple(name for name in found if not name.startswith(MARK))

    async def delete(self, id: str, /) -> None:
        """Removes a conversation, if it is there."""

        def remove(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM entries WHERE id = ?", (id,))
            db.execute("DELETE FROM conversations WHERE id = ?", (id,))

        await self._use(remove)

    @contextmanager
    def hold(self, id: str, /) -> Generator[None]:
        """Excludes other processes from a conversation; a process that ends lets it go."""
        if self.path == ":memory:":
            yield
            return
        directory = Path(f"{self.path}.locks")
        with _hold_file(directory / f"{_file_name(id)}{_LOCK}", id):
            yield

    def close(self) -> None:
        """Closes the database; the next use opens it again."""
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None and opened[0] == os.getpid():
            opened[1].close()

    async def _use(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await _in_thread(lambda: self._transact(work))

    def _transact(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._lock:
            try:
                db = self._connect()
                with db:
                    db.execute("BEGIN IMMEDIATE")
                    return work(db)
            except sqlite3.Error as error:
                raise StoreError(f"the store {self.path} cannot be used: {error}.") from error

    def _connect(self) -> sqlite3.Connection:
        pid = os.getpid()
        if self._opened is not None and self._opened[0] == pid:
            return self._opened[1]
        # A connection of the process before a fork is left alone: closing it would drop its locks.
        db = sqlite3.connect(
            self.path, timeout=_BUSY_S, check_same_thread=False, isolation_level=None
        )
        try:
            _use_write_ahead_log(db)
            db.execute("PRAGMA synchronous = FULL")
            db.executescript(_TABLES)
        except BaseException:
            db.close()
            raise
        self._opened = pid, db
        return db


def _use_write_ahead_log(db: sqlite3.Connection) -> None:
    """Changes a new file to a write-ahead log. While another process does the same SQLite refuses
    at once, whatever `timeout` it has. Raises sqlite3.Error."""
    end = time.monotonic() + _BUSY_S
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > end:
                raise
        time.sleep(_STEP_S)


class StoreError(AlhenaError):
    """A store cannot be read or written."""

    kind = "store"


class FileStore:
    """Conversations in a directory, which is made when it is first used: a file of JSON lines each.

    Agent(model, store=FileStore("chats"), conversation="ada")
    """

    def __init__(self, directory: str | PathLike[str]) -> None:
        self.directory = Path(_path_of("FileStore", directory))

    def __repr__(self) -> str:
        return f"FileStore({str(self.directory)!r})"

    async def create(self, id: str, /) -> bool:
        """Makes an empty conversation. False: it was there."""

        def make() -> bool:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                os.close(os.open(self._path(id), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            except FileExistsError:
                return False
            directory = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                synchronise_directory(directory)
            finally:
                os.close(directory)
            return True

        return await self._use(make)

    async def load(self, id: str, /) -> tuple[bytes, ...]:
        """The entries of a conversation in order, without the torn end that a crash may leave."""

        def read() -> tuple[bytes, ...]:
            try:
                data = self._path(id).read_bytes()
            except FileNotFoundError:
                return ()
            return tuple(data[: _sound_length(data)].splitlines())

        return await self._use(read)

    async def append(self, id: str, entries: Sequence[bytes], /) -> None:
        """Adds entries, which are on the disk when it returns."""
        lines = b"".join(b"%b\n" % bytes(entry).replace(b"\n", b" ") for entry in entries)

        def add() -> None:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(self._path(id), "ab+", buffering=0, opener=_open_private) as file:
                file.seek(0)
                before = file.read()
                length = _sound_length(before)
                if length < len(before):
                    os.ftruncate(file.fileno(), length)
                try:
                    rest = memoryview(lines)
                    while rest:
                        rest = rest[file.write(rest) or 0 :]
                    synchronise(file.fileno())
                except OSError:
                    os.ftruncate(file.fileno(), length)
                    raise

        await self._use(add)

    async def list(self) -> tuple[str, ...]:
        """The ids of the conversations, sorted."""

        def read() -> tuple[str, ...]:
            try:
                names = os.listdir(self.directory)
            except FileNotFoundError:
                return ()
            ids = (unquote(name.removesuffix(_SUFFIX)) for name in names if name.endswith(_SUFFIX))
            return tuple(sorted(each for each in ids if not each.startswith(MARK)))

        return await self._use(read)

    async def delete(self, id: str, /) -> None:
        """Removes a conversation, if it is there."""
        await self._use(lambda: self._path(id).unlink(missing_ok=True))

    @contextmanager
    def hold(self, id: str, /) -> Generator[None]:
        """Excludes other processes from a conversation; a process that ends lets it go."""
        with _hold_file(self.directory / f"{_file_name(id)}{_LOCK}", id):
            yield

    def _path(self, id: str) -> Path:
        return self.directory / f"{_file_name(id)}{_SUFFIX}"

    async def _use(self, work: Callable[[], T]) -> T:
        try:
            return await _in_thread(work)
        except OSError as error:
            raise StoreError(str(from_os_error(error, self.directory))) from error


async def _in_thread(work: Callable[[], T]) -> T:
    """Does `work` in a thread. Cancellation waits for its end: a caller that was told of it
    too early would do it twice, or let another agent in meanwhile."""
    return await run_to_end(asyncio.get_running_loop().run_in_executor(None, work))


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _sound_length(data: bytes) -> int:
    """The bytes of whole lines of JSON. What a crash leaves behind them is one line."""
    end = data.rfind(b"\n") + 1
    last = data.rfind(b"\n", 0, max(end - 1, 0)) + 1
    if last < end:
        try:
            msgspec.json.decode(data[last:end])
        except (msgspec.DecodeError, UnicodeDecodeError):
            return last
    return end


def _path_of(name: str, path: object) -> str:
    if not isinstance(path, str | PathLike):
        raise TypeError(f"{name} takes a path, not {path!r:.60}")
    return os.fspath(path)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _file_name(conversation: str) -> str:
    """A conversation's id as a file name. Raises ConfigError for one that is too long."""
    name = quote(conversation, safe="@ +,=")
    if not name or len(name) > _NAME_BYTES:
        raise ConfigError(
            f"the conversation {conversation[:40]!r} cannot have a file.",
            remedy=f"Ids have 1 to {_NAME_BYTES} bytes; special characters count three.",
        )
    return f"%2E{name[1:]}" if name.startswith(".") else name


@contextmanager
def _hold_file(path: Path, conversation: str) -> Generator[None]:
    """Holds a conversation by a lock on a file, which is removed at the end."""
    with ExitStack() as held:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            while True:
                descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
                held.callback(os.close, descriptor)
                held.enter_context(alone_on(descriptor, path, patience_s=0))
                if _is_at(path, descriptor):
                    break  # else its holder has removed it meanwhile
                held.pop_all().close()
        except WriteFailureError as error:
            raise held_error(conversation) from error
        except (OSError, FileError) as error:
            raise StoreError(
                f"the conversation {conversation!r} cannot be held: {error}"
            ) from error
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
