"""The queue of a run: a SQLite database of tasks, leases and results.

A worker claims a task under a token that no other claim has, and keeps it by renewing its lease.
A result is written only under the token of the latest claim, in one transaction. Leases are times
of the monotonic clock, which all processes of a machine share until it starts again (`boot_id`).
"""

import sqlite3
import sys
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from alhena.batch.errors import QueueError, RunDirectoryError, other_format
from alhena.batch.store import Place
from alhena.batch.tasks import QueuedTask
from alhena.version import __version__

FILE = "queue.sqlite"
VERSION = 1
PATIENCE_S = 60.0
SUSPECT = 2
"""A task that has lost so many workers runs alone, and takes no others with it."""
MAX_CRASHES = 5
"""A task that has lost so many workers fails."""
_SCHEMA = """
CREATE TABLE tasks (
  n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, spec BLOB NOT NULL,
  state TEXT NOT NULL DEFAULT 'waiting', attempts INTEGER NOT NULL DEFAULT 0,
  crashes INTEGER NOT NULL DEFAULT 0, token INTEGER NOT NULL DEFAULT 0, holder TEXT,
  lease REAL, boot TEXT, began REAL, elapsed REAL NOT NULL DEFAULT 0,
  requests INTEGER NOT NULL DEFAULT 0, input_tokens INTEGER NOT NULL DEFAULT 0,
  cached_tokens INTEGER NOT NULL DEFAULT 0, output_tokens INTEGER NOT NULL DEFAULT 0,
  thought_tokens INTEGER NOT NULL DEFAULT 0, cost REAL DEFAULT 0,
  cache_write_tokens INTEGER NOT NULL DEFAULT 0,
  place INTEGER, status TEXT, kind TEXT, result BLOB);
CREATE TABLE facts (name TEXT PRIMARY KEY, value);
CREATE TABLE requests (
  n INTEGER PRIMARY KEY, at REAL NOT NULL, boot TEXT NOT NULL, tokens INTEGER NOT NULL,
  cost REAL NOT NULL, open INTEGER NOT NULL DEFAULT 1);
CREATE INDEX requests_by_time ON requests (at);
CREATE TABLE delays (model TEXT PRIMARY KEY, until REAL NOT NULL, boot TEXT NOT NULL);
"""
_INDICES = {
    "tasks_by_state": "tasks (state, n)",
    "tasks_by_place": "tasks (place)",
    "tasks_by_token": "tasks (token)",
    "tasks_by_use": "tasks (n) WHERE requests > 0 AND state != 'ended'",
}
_CHANGES = 1
"""Number of additions to the format that earlier versions may ignore."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A task that a worker holds. `attempt` counts from 1; with `alone` the worker runs no other
    beside it; a `lost` one has lost too many workers, and only gets its result."""

    task: QueuedTask
    token: int
    attempt: int
    alone: bool = False
    lost: bool = False


class EndedTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task with its result; `place` is its number in order of completion, from 1."""

    id: str
    place: int
    status: str
    kind: str | None
    result: bytes


_task = msgspec.json.Decoder(QueuedTask)


class Queue:
    """The queue in a run directory, open in one thread. `directory` has the database, `place` is
    the run directory, as it is named. Methods raise QueueError."""

    durable = True
    """False where the database is only an index."""

    def __init__(self, directory: Path) -> None:
        path = directory / FILE
        if not path.is_file():
            raise RunDirectoryError(
                f"there is no run in {directory}.", remedy="Name the directory of --run-dir."
            )
        self.directory = directory
        self.place: Place = directory
        self._db = _connect(path)
        version = self.fact("version")
        if version != VERSION:
            raise other_format(directory, version, self.fact("made_by"))
        self._add_missing()

    def _add_missing(self) -> None:
        """Adds what runs that began earlier lack."""
        if self.rows("PRAGMA user_version")[0][0] >= _CHANGES:
            return
        with self.transaction() as db:
            columns = {row[1] for row in db.execute("PRAGMA table_info(tasks)")}
            if "cache_write_tokens" not in columns:
                column = "cache_write_tokens INTEGER NOT NULL DEFAULT 0"
                db.execute(f"ALTER TABLE tasks ADD COLUMN {column}")
            _add_indices(db)

    @classmethod
    def create(cls, directory: Path, tasks: Iterable[QueuedTask], config: bytes) -> "Queue":
        """A new queue of these tasks; it exists with all of them or not at all."""
        made = directory / f"{FILE}.new"
        for name in (made, directory / f"{FILE}.new-wal", directory / f"{FILE}.new-shm"):
            name.unlink(missing_ok=True)
        encode = msgspec.json.Encoder().encode
        remedy = "Nothing was started. When that is mended, give the same command again."
        with _translate_errors(directory, remedy):
            db = sqlite3.connect(made, isolation_level=None)
            try:
                db.executescript(_SCHEMA)
                db.execute("BEGIN")
                rows = ((task.id, encode(task)) for task in tasks)
                db.executemany("INSERT INTO tasks (id, spec) VALUES (?, ?)", rows)
                facts: dict[str, int | bytes | float | str] = {
                    "version": VERSION,
                    "made_by": __version__,
                    "config": config,
                    "token": 0,
                    "spent": 0.0,
                }
                db.executemany("INSERT INTO facts VALUES (?, ?)", facts.items())
                _add_indices(db)
                db.execute("COMMIT")
                # Before others see the file: while one opens it, SQLite refuses this at once.
                db.execute("PRAGMA journal_mode = WAL")
            finally:
                db.close()
            made.rename(directory / FILE)
        return cls(directory)

    def close(self) -> None:
        """Closes the database."""
        self._db.close()

    @contextmanager
    def transaction(self, *, durable: bool = False) -> Generator[sqlite3.Connection]:
        """A transaction of the only writer; a `durable` one is on the disk at its end."""
        durable = durable and self.durable
        with _translate_errors(self.place):
            if durable:
                self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
            finally:
                if durable:
                    self._db.execute("PRAGMA synchronous = NORMAL")

    def rows(self, query: str, *values: Any) -> list[Any]:
        """The rows of a query."""
        with _translate_errors(self.place):
            return self._db.execute(query, values).fetchall()

    def fact(self, name: str) -> Any:
        """A value that belongs to the run; None if there is none."""
        found = self.rows("SELECT value FROM facts WHERE name = ?", name)
        return found[0][0] if found else None

    def note(self, name: str, value: Any) -> None:
        """Sets a value that belongs to the run."""
        with self.transaction() as db:
            db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    def claim(
        self, holder: str, most: int, concurrency: int, lease_s: float, *, idle: bool = True
    ) -> list[Claim]:
        """Claims up to `most` waiting tasks, and those whose lease is over, while fewer than
        `concurrency` run. Only an `idle` worker gets a task that has to run alone."""
        if most < 1 or self.is_over():
            return []
        now, boot = time.monotonic(), boot_id()
        with self.transaction() as db:
            _expire(db, now, boot)
            count = "SELECT count(*) FROM tasks WHERE state = 'running'"
            room = min(most, concurrency - db.execute(count).fetchone()[0])
            if room < 1:
                return []
            waiting = (
                "SELECT n, spec, attempts, crashes FROM tasks WHERE state = 'waiting'"
                " AND crashes < ? ORDER BY n LIMIT ?"
            )
            found = db.execute(waiting, (SUSPECT, room)).fetchall()
            if not found and idle:
                found = db.execute(waiting, (sys.maxsize, 1)).fetchall()
            (token,) = db.execute("SELECT value FROM facts WHERE name = 'token'").fetchone()
            claims: list[Claim] = []
            for n, spec, attempts, crashes in found:
                token += 1
                db.execute(
                    "UPDATE tasks SET state = 'running', attempts = attempts + 1, token = ?,"
                    " holder = ?, lease = ?, boot = ?, began = ? WHERE n = ?",
                    (token, holder, now + lease_s, boot, now, n),
                )
                task = _task.decode(spec)
                alone, lost = crashes >= SUSPECT, crashes >= MAX_CRASHES
                claims.append(
                    Claim(task=task, token=token, attempt=attempts + 1, alone=alone, lost=lost)
                )
            db.execute("UPDATE facts SET value = ? WHERE name = 'token'", (token,))
        return claims

    def renew(self, tokens: Sequence[int], lease_s: float) -> tuple[set[int], float]:
        """Renews leases that are not over; returns the tokens that still hold their tasks, and the
        time from which their leases count."""
        now = time.monotonic()
        kept: set[int] = set()
        with self.transaction() as db:
            for token in tokens:
                done = db.execute(
                    "UPDATE tasks SET lease = ?, elapsed = elapsed + ? - began, began = ?"
                    " WHERE token = ? AND state = 'running' AND lease >= ?",
                    (now + lease_s, now, now, token, now),
                )
                if done.rowcount:
                    kept.add(token)
        return kept, now

    def finish(self, token: int, status: str, kind: str | None, result: bytes) -> bool:
        """Writes a result; False if the token no longer holds the task."""
        now = time.monotonic()
        with self.transaction(durable=True) as db:
            done = db.execute(
                "UPDATE tasks SET state = 'ended', status = ?, kind = ?, result = ?,"
                " elapsed = elapsed + ? - began, holder = NULL, place ="
                " (SELECT coalesce(max(place), 0) + 1 FROM tasks)"
                " WHERE token = ? AND state = 'running' AND lease >= ?",
                (status, kind, result, now, token, now),
            )
        return done.rowcount == 1

    def release(self, token: int, limit: str | None = None) -> None:
        """Gives a task back unfinished, at a shared limit if that is given as a sentence."""
        if limit is not None:
            self.note("limit", limit)
        with self.transaction() as db:
            db.execute(
                "UPDATE tasks SET state = 'waiting', holder = NULL, elapsed = elapsed + ? - began"
                " WHERE token = ? AND state = 'running'",
                (time.monotonic(), token),
            )

    def results_after(self, place: int, most: int = 1000) -> list[EndedTask]:
        """Results in order of completion, behind the one of this number."""
        found = self.rows(
            "SELECT id, place, status, kind, result FROM tasks WHERE place > ?"
            " ORDER BY place LIMIT ?",
            *(place, most),
        )
        names = ("id", "place", "status", "kind", "result")
        return [EndedTask(**dict(zip(names, row, strict=True))) for row in found]

    def is_over(self) -> bool:
        """True when every task has a result."""
        return not self.rows("SELECT 1 FROM tasks WHERE state IN ('waiting', 'running') LIMIT 1")


def _expire(db: sqlite3.Connection, now: float, boot: str) -> None:
    """Puts tasks back whose leases are over."""
    db.execute(
        "UPDATE tasks SET state = 'waiting', holder = NULL"
        " WHERE state = 'running' AND (lease < ? OR boot != ?)",
        (now, boot),
    )


def _add_indices(db: sqlite3.Connection) -> None:
    """Makes the indices that are missing; faster after many tasks than before."""
    for name, what in _INDICES.items():
        db.execute(f"CREATE INDEX IF NOT EXISTS {name} ON {what}")
    db.execute(f"PRAGMA user_version = {_CHANGES}")


@contextmanager
def _translate_errors(place: Place, remedy: str | None = None) -> Generator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise QueueError(
            f"the queue in {place} cannot be used: {error}.",
            remedy=remedy or f"When that is mended: alhena batch resume {place}.",
        ) from error


def _connect(path: Path) -> sqlite3.Connection:
    with _translate_errors(path.parent):
        db = sqlite3.connect(path, isolation_level=None, timeout=PATIENCE_S)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        return db


@cache
def boot_id() -> str:
    """Identifies the time since the machine started; "" where that is unknown."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
