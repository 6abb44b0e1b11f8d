"""A queue made from the files of a run on a cluster, for the process that holds the run and for
the commands that look at one.

Files: `run.json`; `tasks.jsonl`; `config/N`; `claims/KEY.ATTEMPT`, with `.free`, `.dead` or `.lost`
behind it when it ended without a result; `results/KEY`; `journals/KEY/`; `limits/EPOCH-N`.
"""

import os
import secrets
import tempfile
from collections.abc import Iterable
from pathlib import Path
from sqlite3 import Connection
from typing import Any

import msgspec

from alhena.batch.errors import RunDirectoryError
from alhena.batch.overview import TOKENS
from alhena.batch.queue import Queue
from alhena.batch.results import TaskResult, result_of
from alhena.batch.store import (
    Place,
    Store,
    newest,
    open_store,
    require_creating,
    usable,
)
from alhena.batch.tasks import Task, key_of

RUN = "run.json"
VERSION = 1
_USED = ("requests", *TOKENS)


class RunId(msgspec.Struct, frozen=True):
    """`run.json`, the last file of a new run to be made. `id` names what belongs to the run on the
    nodes."""

    id: str
    version: int


class Stored(msgspec.Struct, frozen=True):
    """A result as a file has it. `place` is its number in order of completion."""

    place: int
    attempt: int
    result: msgspec.Raw


class Spending(msgspec.Struct, kw_only=True):
    """The state of the limiter: money and seconds of the run; requests under way or of the last
    minute as (number, tokens, cost, under way); seconds that models want to be left alone; and by
    key what tasks without a result have taken."""

    spent: float = 0.0
    elapsed: float = 0.0
    requests: list[tuple[int, int, float, int]] = []
    delays: dict[str, float] = {}
    tasks: dict[str, dict[str, Any]] = {}


class Mirror(Queue):
    """A queue of one process, in a temporary directory."""

    def __init__(self, scratch: "tempfile.TemporaryDirectory[str]", store: Store) -> None:
        super().__init__(Path(scratch.name))
        self.place = store.place
        self.store = store
        self._scratch = scratch

    def close(self) -> None:
        """Closes and removes it."""
        super().close()
        self._scratch.cleanup()


def create_files(place: Place, tasks: Iterable[Task], config: bytes) -> None:
    """Makes the files of a new run. Raises QueueError, RunDirectoryError."""
    store = open_store(place)
    encode = msgspec.json.Encoder().encode
    with usable(place):
        require_creating(store)
        for name in ("tasks.jsonl", "config/000001"):  # of a command that died before this
            store.remove(name)
        store.create("tasks.jsonl", b"".join(encode(task) + b"\n" for task in tasks))
        store.create("config/000001", config)
        run = RunId(secrets.token_hex(8), VERSION)
        store.create(RUN, msgspec.json.encode(run), durable=True)


def run_id(store: Store) -> str:
    """The id of a run. Raises RunDirectoryError, OSError."""
    found = msgspec.json.decode(store.read(RUN) or b"", type=RunId)
    if found.version != VERSION:
        raise RunDirectoryError(
            f"the run in {store.place} has another format ({found.version}).",
            remedy="Use the version of alhena that made it.",
        )
    return found.id


def node_folder(store: Store) -> Path:
    """The folder of a run on a node. Raises RunDirectoryError, OSError."""
    return Path(tempfile.gettempdir(), f"alhena-{os.getuid()}-{run_id(store)}")


def made_folder(store: Store) -> Path:
    """The folder of a run on this node, made if need be. Raises RunDirectoryError, OSError."""
    folder = node_folder(store)
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def open_mirror(place: Place) -> Mirror:
    """The queue of a run, as its files are now. Raises RunDirectoryError, QueueError."""
    store = open_store(place)
    with usable(place):
        run_id(store)
        lines = (store.read("tasks.jsonl") or b"").splitlines()
        tasks = msgspec.json.Decoder(Task).decode
        scratch = tempfile.TemporaryDirectory(prefix="alhena-batch-")
        made = Path(scratch.name)
        Queue.create(made, map(tasks, lines), newest(store, "config") or b"{}").close()
        queue = Mirror(scratch, store)
        _load(queue, store)
    return queue


def _load(queue: Queue, store: Store) -> None:
    """Puts into a new queue what happened so far. Raises OSError, QueueError."""
    ids = {key_of(name): name for (name,) in queue.rows("SELECT id FROM tasks")}
    attempts: dict[str, int] = {}
    crashes: dict[str, int] = {}
    for name in store.names("claims"):
        key, attempt, *how = name.split(".")
        attempts[key] = max(attempts.get(key, 0), int(attempt))
        crashes[key] = crashes.get(key, 0) + (how in (["dead"], ["lost"]))
    stored = [
        msgspec.json.decode(store.read(f"results/{key}") or b"", type=Stored)
        for key in store.names("results")
    ]
    spending = msgspec.json.decode(newest(store, "limits") or b"{}", type=Spending)
    with queue.transaction() as db:
        for key, number in attempts.items():
            db.execute(
                "UPDATE tasks SET attempts = ?, crashes = ? WHERE id = ?",
                (number, crashes[key], ids[key]),
            )
        for place, each in enumerate(sorted(stored, key=lambda each: each.place), 1):
            result = result_of(each.result)
            db.execute(
                "UPDATE tasks SET state = 'ended', status = ?, kind = ?, result = ?, place = ?"
                " WHERE id = ?",
                (result.status, result.kind, bytes(each.result), place, result.id),
            )
            count_usage(db, result)
        facts = {"spent": spending.spent, "elapsed": spending.elapsed}
        db.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts.items())


def count_usage(db: Connection, result: TaskResult) -> None:
    """Notes what a task has taken, as its result has it."""
    names = ", ".join(f"{name} = ?" for name in (*_USED, "cost", "elapsed"))
    used = [result.usage.get(name, 0) for name in _USED]
    values = (*used, result.cost_usd, result.duration_s, result.id)
    db.execute(f"UPDATE tasks SET {names} WHERE id = ?", values)  # noqa: S608


def publish(queue: Queue) -> None:
    """Makes the files of a run agree with a changed queue: other flags, results of tasks that did
    not run, none of tasks that shall run again. Nothing for a queue that is no mirror. Raises
    QueueError."""
    if not isinstance(queue, Mirror):
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
                put(store, key, Stored(place, attempt, msgspec.Raw(result)))
            elif state != "ended" and key in known:
                store.remove(f"results/{key}")
                store.create(f"claims/{key}.{attempt:04}.free", b"")
                again.add(key)
        for name in store.names("claims") if again else ():
            if name.partition(".")[0] in again and name.endswith((".dead", ".lost")):
                store.remove(f"claims/{name}")


def put(store: Store, key: str, stored: Stored) -> bool:
    """Writes a result; False if the task has one. Raises OSError."""
    return store.create(f"results/{key}", msgspec.json.encode(stored), durable=True)
