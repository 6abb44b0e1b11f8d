"""The queue of a run on a cluster: an index in a temporary database over files that all nodes see.
Each change is a file before anyone hears of it.

Files: `run.json`; `tasks.jsonl`; `config/N`; `claims/KEY.ATTEMPT`, and the same name with `.free`,
`.dead` or `.lost` after it when the attempt ended without a result; `results/KEY`;
`journals/KEY/`; `epochs/writer-N`; `limits/EPOCH-N`.
"""

import os
import secrets
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from sqlite3 import Connection
from typing import Any, Literal

import msgspec

from alhena.batch.errors import QueueError, other_format
from alhena.batch.overview import TOKENS, usage_of_task
from alhena.batch.queue import Claim, Queue, boot_id
from alhena.batch.results import result_of
from alhena.batch.store import (
    Epoch,
    Place,
    Store,
    newest,
    open_store,
    require_creating,
    usable,
)
from alhena.batch.tasks import QueuedTask, key_of
from alhena.version import __version__

RUN = "run.json"
VERSION = 1
EndKind = Literal["free", "dead", "lost"]
TAKEN_OVER = "another process has taken over the run."
_USED = ("requests", *TOKENS)
_TAKEN = (*_USED, "cost", "elapsed")
_SAVED = "requests > 0 AND state != 'ended'"
_NEXT_PLACE = "SELECT coalesce(max(place), 0) + 1 FROM tasks"


class RunId(msgspec.Struct, frozen=True):
    """`run.json`, the last file of a new run to be made. `id` names what belongs to the run on the
    nodes, `made_by` the version of alhena."""

    id: str
    version: int
    made_by: str | None = None


class StoredResult(msgspec.Struct, frozen=True):
    """A result as a file has it. `place` is its number in order of completion."""

    place: int
    attempt: int
    result: msgspec.Raw


class RunSpending(msgspec.Struct, kw_only=True):
    """Money and seconds of the run; requests under way or of the last minute as (number, tokens,
    cost, under way); seconds until models may be asked again; and by key what tasks without a
    result have taken."""

    spent: float = 0.0
    elapsed: float = 0.0
    requests: list[tuple[int, int, float, int]] = []
    delays: dict[str, float] = {}
    tasks: dict[str, dict[str, Any]] = {}


class StoredQueue(Queue):
    """A queue whose changes are files of `store`. Only the process that called `take_over` last may
    change it. Methods raise QueueError."""

    durable = False
    """The files are what survives."""

    def __init__(self, scratch: "tempfile.TemporaryDirectory[str]", store: Store) -> None:
        super().__init__(Path(scratch.name))
        self.place = store.place
        self.store = store
        self._scratch = scratch
        self._epoch: Epoch | None = None
        self._saved = 0

    def close(self) -> None:
        """Closes and removes it."""
        super().close()
        self._scratch.cleanup()

    def take_over(self, lease_s: float) -> None:
        """Takes the run from whoever changed it before. Attempts that may be at work yet keep their
        tasks until the longest lease they may have is over."""
        now = time.monotonic()
        with usable(self.place):
            self._epoch = Epoch(self.store)
            earlier = self.store.names("limits")
        with self.transaction() as db:
            db.execute(
                "UPDATE tasks SET state = 'running', token = -n, lease = ?, boot = ?, began = ?"
                " WHERE state = 'waiting' AND holder IS NOT NULL",
                (now + lease_s, boot_id(), now),
            )
        self.save()
        with usable(self.place):
            for name in earlier:
                self.store.remove(f"limits/{name}")

    def require_latest(self) -> None:
        """Raises QueueError when another process has taken over the run."""
        with usable(self.place):
            if self._epoch is None or not self._epoch.is_latest():
                raise QueueError(TAKEN_OVER)

    def begin(self, token: int, holder: str, lease_s: float) -> dict[str, Any] | None:
        """An attempt starts: its lease begins. Returns what its task has taken so far; None if
        the attempt does not hold the task, or is already at work elsewhere."""
        found = self._running(token)
        if found is None:
            return None
        task_id, attempt = found
        name, data = f"claims/{key_of(task_id)}.{attempt:04}", holder.encode()
        if self._adopt(task_id):
            return None
        with usable(self.place):
            if not self.store.create(name, data) and self.store.read(name) != data:
                return None
        now = time.monotonic()
        with self.transaction() as db:
            db.execute(
                "UPDATE tasks SET holder = ?, lease = ?, began = ? WHERE token = ?",
                (holder, now + lease_s, now, token),
            )
        return usage_of_task(self, token)

    def finish(self, token: int, status: str, kind: str | None, result: bytes) -> bool:
        """Writes a result; False if the token no longer holds the task. The same call may come
        twice."""
        found = self._running(token)
        if found is None:
            query = "SELECT 1 FROM tasks WHERE token = ? AND state = 'ended'"
            return bool(self.rows(query, token))
        task_id, attempt = found
        place = self.rows(_NEXT_PLACE)[0][0]
        stored = StoredResult(place, attempt, msgspec.Raw(result))
        with usable(self.place):
            written = write_result(self.store, key_of(task_id), stored)
        if not written:
            self._adopt(task_id)
            return False
        # The lease may have ended meanwhile; the file counts.
        return super().finish(token, status, kind, bytes(result)) or self._adopt(task_id)

    def release(self, token: int, limit: str | None = None) -> None:
        """Gives a task back unfinished, at a shared limit if that is given as a sentence."""
        if limit is not None:
            self.note("limit", limit)
        query = "SELECT id, attempts FROM tasks WHERE token = ? AND state = 'running'"
        for task_id, attempt in self.rows(query, token):
            self._end_attempt(task_id, attempt, token, "free")

    def end_attempt(self, claim: Claim, how: EndKind) -> None:
        """The attempt of a claim has ended without a result: it gave the task back (free), its
        process is dead, or it is lost with its node, where it may be at work until its lease is
        over."""
        self._end_attempt(claim.task.id, claim.attempt, claim.token, how)

    def _end_attempt(self, task_id: str, attempt: int, token: int, how: EndKind) -> None:
        query = "SELECT state, token, holder FROM tasks WHERE id = ? AND state != 'ended'"
        for state, latest, holder in self.rows(query, task_id):
            held = (state, latest) == ("running", token)
            waited = held and holder == ""  # for a node
            if how == "free" and not held:
                continue  # it was given back before
            if not waited:
                with usable(self.place):
                    self.store.create(f"claims/{key_of(task_id)}.{attempt:04}.{how}", b"")
            with self.transaction() as db:
                if how != "free":
                    db.execute("UPDATE tasks SET crashes = crashes + 1 WHERE id = ?", (task_id,))
                if waited:
                    query = "UPDATE tasks SET began = ? WHERE id = ?"
                    db.execute(query, (time.monotonic(), task_id))
            if how != "lost" or waited:
                super().release(token)

    def save(self) -> None:
        """Writes what the run and its tasks without a result have taken."""
        now = time.monotonic()
        query = (
            f"SELECT id, {', '.join(_USED)}, cost,"  # noqa: S608
            " elapsed + CASE WHEN holder != '' THEN ? - began ELSE 0 END FROM tasks"
            f" WHERE {_SAVED}"
        )
        found = self.rows(query, now)
        delays = self.rows("SELECT model, until FROM delays")
        state = RunSpending(
            spent=self.fact("spent"),
            elapsed=self.fact("elapsed") or 0.0,
            requests=self.rows("SELECT n, tokens, cost, open FROM requests"),
            delays={model: until - now for model, until in delays if until > now},
            tasks={key_of(each): dict(zip(_TAKEN, row, strict=True)) for each, *row in found},
        )
        epoch = 0 if self._epoch is None else self._epoch.number
        name, data, last = f"limits/{epoch:06}-", msgspec.json.encode(state), self._saved
        with usable(self.place):
            self._saved += 1
            while not self.store.create(f"{name}{self._saved:09}", data):
                self._saved += 1
            self.store.remove(f"{name}{last:09}")

    def _running(self, token: int) -> tuple[str, int] | None:
        """Id and attempt of the task that a token holds."""
        query = "SELECT id, attempts FROM tasks WHERE token = ? AND state = 'running'"
        found = self.rows(f"{query} AND lease >= ?", token, time.monotonic())
        return found[0] if found else None

    def _adopt(self, task_id: str) -> bool:
        """Takes a result that the run's last process wrote after this one had read the files; False
        if there is none."""
        with usable(self.place):
            data = self.store.read(f"results/{key_of(task_id)}")
        if data is None:
            return False
        with self.transaction() as db:
            (place,) = db.execute(_NEXT_PLACE).fetchone()
            _set_result(db, msgspec.json.decode(data, type=StoredResult).result, place)
        return True


def create_files(place: Place, tasks: Iterable[QueuedTask], config: bytes) -> None:
    """Makes the files of a new run. Raises QueueError, RunDirectoryError."""
    store = open_store(place)
    encode = msgspec.json.Encoder().encode
    with usable(place):
        require_creating(store)
        for name in ("tasks.jsonl", "config/000001"):  # of a command that died before this
            store.remove(name)
        store.create("tasks.jsonl", b"".join(encode(task) + b"\n" for task in tasks))
        store.create("config/000001", config)
        run = RunId(secrets.token_hex(8), VERSION, __version__)
        store.create(RUN, msgspec.json.encode(run), durable=True)


def read_run_id(store: Store) -> str:
    """The id of a run. Raises RunDirectoryError, OSError."""
    found = msgspec.json.decode(store.read(RUN) or b"", type=RunId)
    if found.version != VERSION:
        raise other_format(store.place, found.version, found.made_by)
    return found.id


def node_folder(store: Store) -> Path:
    """The folder of a run on a node. Raises RunDirectoryError, OSError."""
    return Path(tempfile.gettempdir(), f"alhena-{os.getuid()}-{read_run_id(store)}")


def make_node_folder(store: Store) -> Path:
    """The folder of a run on this node, made if need be. Raises RunDirectoryError, OSError."""
    folder = node_folder(store)
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def open_stored_queue(place: Place) -> StoredQueue:
    """The queue of a run, as its files are now. Raises RunDirectoryError, QueueError."""
    store = open_store(place)
    with usable(place):
        read_run_id(store)
        lines = (store.read("tasks.jsonl") or b"").splitlines()
        tasks = msgspec.json.Decoder(QueuedTask).decode
        scratch = tempfile.TemporaryDirectory(prefix="alhena-batch-")
        made = Path(scratch.name)
        Queue.create(made, map(tasks, lines), newest(store, "config") or b"{}").close()
        queue = StoredQueue(scratch, store)
        _load(queue, store)
    return queue


def _load(queue: Queue, store: Store) -> None:
    """Puts into a new queue what happened so far. A task without a result has a holder if its last
    attempt may be at work yet. Raises OSError, QueueError."""
    ids = {key_of(name): name for (name,) in queue.rows("SELECT id FROM tasks")}
    attempts: dict[str, int] = {}
    crashes: dict[str, int] = {}
    at_work: dict[str, str] = {}
    for name in store.names("claims"):  # in order: what ended an attempt follows it
        key, attempt, *how = name.split(".")
        attempts[key] = max(attempts.get(key, 0), int(attempt))
        crashes[key] = crashes.get(key, 0) + (how in (["dead"], ["lost"]))
        if not how:
            at_work[key] = name
        elif how != ["lost"]:
            at_work.pop(key, None)
    ended = set(store.names("results"))
    stored = [
        msgspec.json.decode(store.read(f"results/{key}") or b"", type=StoredResult) for key in ended
    ]
    holders = {key: store.read(f"claims/{at_work[key]}") for key in at_work.keys() - ended}
    spending = msgspec.json.decode(newest(store, "limits") or b"{}", type=RunSpending)
    with queue.transaction() as db:
        db.executemany(
            "UPDATE tasks SET attempts = ?, crashes = ?, holder = ? WHERE id = ?",
            [
                (number, crashes[key], (holders.get(key) or b"").decode() or None, ids[key])
                for key, number in attempts.items()
            ],
        )
        for key, taken in spending.tasks.items():
            _set_usage(db, ids[key], taken)
        for place, each in enumerate(sorted(stored, key=lambda each: each.place), 1):
            _set_result(db, each.result, place)
        facts = {"spent": spending.spent, "elapsed": spending.elapsed}
        db.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts.items())
        now, boot = time.monotonic(), boot_id()
        db.executemany(
            "INSERT INTO requests (n, tokens, cost, open, at, boot) VALUES (?, ?, ?, ?, ?, ?)",
            [(*row, now, boot) for row in spending.requests],
        )
        delays = [(model, now + left, boot) for model, left in spending.delays.items()]
        db.executemany("INSERT INTO delays VALUES (?, ?, ?)", delays)


def _set_result(db: Connection, data: msgspec.Raw, place: int) -> None:
    """Puts a result into the queue, with what its task has taken."""
    result = result_of(data)
    db.execute(
        "UPDATE tasks SET state = 'ended', status = ?, kind = ?, result = ?, place = ?,"
        " holder = NULL WHERE id = ?",
        (result.status, result.kind, bytes(data), place, result.id),
    )
    used = {name: result.usage.get(name, 0) for name in _USED}
    _set_usage(db, result.id, {**used, "cost": result.cost_usd, "elapsed": result.duration_s})


def _set_usage(db: Connection, task_id: str, taken: Mapping[str, Any]) -> None:
    """Notes what a task has taken."""
    names = ", ".join(f"{name} = ?" for name in _TAKEN)
    values = (*(taken.get(name, 0) for name in _TAKEN), task_id)
    db.execute(f"UPDATE tasks SET {names} WHERE id = ?", values)  # noqa: S608


def write_changes(queue: Queue) -> None:
    """Makes the files of a run agree with a changed queue: other flags, results of tasks that did
    not run, none of tasks that shall run again. Nothing for a queue without files. Raises
    QueueError."""
    if not isinstance(queue, StoredQueue):
        return
    store = queue.store
    with usable(queue.place):
        config = queue.fact("config")
        if newest(store, "config") != config:
            store.create(f"config/{len(store.names('config')) + 1:06}", config)
        known = set(store.names("results"))
        again: set[str] = set()
        for task_id, *row in queue.rows("SELECT id, state, place, attempts, result FROM tasks"):
            state, place, attempt, result = row
            key = key_of(task_id)
            if state == "ended" and key not in known:
                write_result(store, key, StoredResult(place, attempt, msgspec.Raw(result)))
            elif state != "ended" and key in known:
                store.remove(f"results/{key}")
                store.create(f"claims/{key}.{attempt:04}.free", b"")
                again.add(key)
        for name in store.names("claims") if again else ():
            if name.partition(".")[0] in again and name.endswith((".dead", ".lost")):
                store.remove(f"claims/{name}")


def write_result(store: Store, key: str, stored: StoredResult) -> bool:
    """Writes a result; False if the task has one. Raises OSError."""
    return store.create(f"results/{key}", msgspec.json.encode(stored), durable=True)
