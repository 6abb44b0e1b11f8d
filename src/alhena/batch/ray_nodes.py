"""The parts of a run that are on the nodes of a Ray cluster: the actors that write results and
admit requests, and the function that runs a task."""

import asyncio
import errno
import os
import secrets
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from alhena.batch.engine import RunConfig
from alhena.batch.errors import QueueError, SharedLimitError
from alhena.batch.limits import pause
from alhena.batch.mirror import RUN, Spending, Stored, made_folder, put
from alhena.batch.overview import TOKENS, usage_of_task
from alhena.batch.queue import Claim, Queue, boot_id
from alhena.batch.store import Epoch, Place, Store, newest, open_store, usable
from alhena.batch.worker import Lease, Worker, limiter_of, task_folder
from alhena.batch.worktree import noted_tree, remove_tree
from alhena.errors import AlhenaError, ConfigError
from alhena.session.journal import Disk
from alhena.version import __version__
from alhena.wire.response import UsageMetadata

TAKEN_OVER = "another process has taken over the run."
_CALL_S, _AGAIN_S = 60.0, 0.5
"""Longest wait for an answer of an actor, which may be starting again on another node, and seconds
until it is asked again."""


def load_ray() -> Any:
    """The package ray. Raises ConfigError."""
    try:
        return import_module("ray")
    except ImportError as error:
        from alhena.distribution import install_command

        raise ConfigError(
            "--engine ray needs a package.", remedy=f"Install it: {install_command('ray')}"
        ) from error


class Writer:
    """Actor: hands out tasks and writes results. Leases are on its own clock; a restarted
    one waits for the leases that its predecessor may have granted."""

    def __init__(
        self, place: Place, lease_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._store = store = open_store(place)
        self._epoch = Epoch(store, "writer")
        self._lease_s = lease_s
        self._place = len(store.names("results"))
        self._held: dict[str, tuple[int, float]] = {}
        for name in store.names("claims"):  # in order: what ended an attempt follows it
            key, attempt, *how = name.split(".")
            if how in (["free"], ["dead"]):
                self._held.pop(key, None)
            elif not how:
                self._held[key] = (int(attempt), clock() + lease_s)

    def claim(self, key: str, attempt: int, holder: str) -> "float | bytes | None":
        """0 when the attempt has the task, the seconds to wait for the end of another one, the
        result if there is one, None if the task is no longer this run's to give."""
        if not self._epoch.is_latest():
            return None
        found = self._store.read(f"results/{key}")
        if found is not None:
            return bytes(msgspec.json.decode(found, type=Stored).result)
        now = self._clock()
        held, end = self._held.get(key, (attempt, now))
        if held != attempt and now <= end:
            return end - now + 0.01
        name, made = f"claims/{key}.{attempt:04}", holder.encode()
        if not self._store.create(name, made) and self._store.read(name) != made:
            return None
        self._held[key] = (attempt, now + self._lease_s)
        return 0.0

    def renew(self, key: str, attempt: int) -> bool:
        """Renews the lease of an attempt; False if it no longer holds the task."""
        now = self._clock()
        held, end = self._held.get(key, (0, now))
        if held != attempt or now > end or not self._epoch.is_latest():
            return False
        self._held[key] = (attempt, now + self._lease_s)
        return True

    def finish(self, key: str, attempt: int, result: bytes) -> bool:
        """Writes the result of an attempt; False if it no longer holds the task."""
        stored = Stored(self._place + 1, attempt, msgspec.Raw(result))
        if self.renew(key, attempt) and put(self._store, key, stored):
            self._place += 1
            del self._held[key]
            return True
        found = self._store.read(f"results/{key}")  # this call may come twice
        return found is not None and msgspec.json.decode(found, type=Stored).attempt == attempt

    def release(self, key: str, attempt: int, how: str) -> None:
        """An attempt has ended without a result: it gave the task back (free), its process is dead,
        or it is lost with its node, which may be at work yet."""
        if self._store.read(f"claims/{key}.{attempt:04}") is not None:
            self._store.create(f"claims/{key}.{attempt:04}.{how}", b"")
        if how != "lost" and self._held.get(key, (0, 0.0))[0] == attempt:
            del self._held[key]


class SharedLimiter:
    """Actor: the limits of a run, with a limiter on a queue of its own. Each change is a file
    before its caller hears of it. A restarted one takes all requests of the last minute
    for new ones, and delays as long as they were."""

    def __init__(self, place: Place, config: bytes) -> None:
        self._store = open_store(place)
        self._epoch = Epoch(self._store, "limiter")
        scratch = tempfile.mkdtemp(prefix="limits-", dir=made_folder(self._store))
        weakref.finalize(self, _remove_scratch, Path(scratch))
        self._queue = Queue.create(Path(scratch), (), b"")
        self._limiter = limiter_of(self._queue, msgspec.json.decode(config, type=RunConfig))
        self._saved = 0
        self._restore()

    def admit(
        self, number: int, key: str, model: str, tokens: int
    ) -> tuple[float, tuple[str, str | None] | None]:
        """Seconds to wait until the request may be tried again, 0 when it may start; or why it may
        not."""
        if not self._epoch.is_latest():
            return 0.0, (TAKEN_OVER, None)
        try:
            started, wait = self._limiter.start(model, tokens, number)
        except SharedLimitError as error:
            return 0.0, (error.message, error.remedy)
        if started is not None:
            self._token(key)
            self._save()
            return 0.0, None
        return wait, None

    def charge(
        self, number: int, key: str, model: str, usage: UsageMetadata | None, seconds: float
    ) -> None:
        """A request of a task took this, and the task so long since the last."""
        token = self._token(key)
        self._limiter.charge(number, token, model, usage)
        with self._queue.transaction() as db:
            db.execute("UPDATE tasks SET elapsed = elapsed + ? WHERE id = ?", (seconds, key))
        self._save()

    def delay(self, model: str, seconds: float) -> None:
        """The service wants no request to the model for so long."""
        self._limiter.delay(model, seconds)
        self._save()

    def usage(self, key: str) -> dict[str, Any]:
        """Usage of a task in all its attempts."""
        found = usage_of_task(self._queue, self._token(key))
        (elapsed,) = self._queue.rows("SELECT elapsed FROM tasks WHERE id = ?", key)[0]
        return {**found, "duration": elapsed}

    def forget(self, key: str) -> None:
        """A task has its result."""
        with self._queue.transaction() as db:
            db.execute("DELETE FROM tasks WHERE id = ?", (key,))

    def look(self, elapsed: float) -> float:
        """Takes the seconds of the run; returns its money."""
        self._queue.note("elapsed", elapsed)
        return float(self._queue.fact("spent"))

    def _token(self, key: str) -> int:
        """The number by which the queue knows a task."""
        with self._queue.transaction() as db:
            db.execute("INSERT OR IGNORE INTO tasks (id, spec, began) VALUES (?, '', 0)", (key,))
            db.execute("UPDATE tasks SET token = n WHERE id = ?", (key,))
        return self._queue.rows("SELECT n FROM tasks WHERE id = ?", key)[0][0]

    def _save(self) -> None:
        now = time.monotonic()
        columns = ("requests", *TOKENS, "cost", "elapsed")
        found = self._queue.rows(f"SELECT id, {', '.join(columns)} FROM tasks")  # noqa: S608
        delays = self._queue.rows("SELECT model, until FROM delays")
        state = Spending(
            spent=self._queue.fact("spent"),
            elapsed=self._queue.fact("elapsed") or 0.0,
            requests=self._queue.rows("SELECT n, tokens, cost, open FROM requests"),
            delays={model: until - now for model, until in delays if until > now},
            tasks={key: dict(zip(columns, row, strict=True)) for key, *row in found},
        )
        self._store.create(self._name(self._saved + 1), msgspec.json.encode(state))
        self._store.remove(self._name(self._saved))
        self._saved += 1

    def _restore(self) -> None:
        data = newest(self._store, "limits")
        state = msgspec.json.decode(data or b"{}", type=Spending)
        now = time.monotonic()
        for name in ("spent", "elapsed"):
            self._queue.note(name, getattr(state, name))
        with self._queue.transaction() as db:
            db.executemany(
                "INSERT INTO requests (n, tokens, cost, open, at, boot) VALUES (?, ?, ?, ?, ?, ?)",
                [(*row, now, boot_id()) for row in state.requests],
            )
            db.executemany(
                "INSERT INTO delays VALUES (?, ?, ?)",
                [(model, now + left, boot_id()) for model, left in state.delays.items()],
            )
            for key, taken in state.tasks.items():
                names = ("id", "spec", "began", *taken)
                marks = ", ".join("?" * len(names))
                query = f"INSERT INTO tasks ({', '.join(names)}) VALUES ({marks})"  # noqa: S608
                db.execute(query, (key, b"", 0, *taken.values()))
        for name in self._store.names("limits")[:-1]:
            self._store.remove(f"limits/{name}")

    def _name(self, number: int) -> str:
        return f"limits/{self._epoch.number:06}-{number:09}"


def _remove_scratch(scratch: Path) -> None:
    shutil.rmtree(scratch, ignore_errors=True)
    with suppress(OSError):  # the folder of the node is in use
        scratch.parent.rmdir()


class Remote(msgspec.Struct, frozen=True):
    """The run as a node knows it: its directory and its actors."""

    place: Place
    writer: Any
    limiter: Any
    config: bytes
    version: str = __version__


class Attempt(msgspec.Struct, frozen=True):
    """The end of an attempt: the task's `result`, an error for which none can run, as its exit
    code, message and remedy, or neither, when it gave the task back, at a shared `limit` or not."""

    result: bytes | None = None
    limit: str | None = None
    fatal: tuple[int, str, str | None] | None = None


class ClusterLimiter:
    """The limiter of a run for the task `key`."""

    def __init__(self, actor: Any, key: str) -> None:
        self._actor = actor
        self._key = key
        self._unavailable = load_ray().exceptions.ActorUnavailableError
        self._charged = time.monotonic()

    async def admit(self, model: str, tokens: int) -> int:
        """Returns when a request of about so many tokens may start; its number. Raises
        SharedLimitError."""
        number = secrets.randbits(60)
        while True:
            asked = self._actor.admit.remote(number, self._key, model, tokens)
            try:
                wait, refusal = await asyncio.wrap_future(asked.future())
            except self._unavailable:
                wait, refusal = _AGAIN_S, None
            if refusal is not None:
                raise SharedLimitError(refusal[0], remedy=refusal[1])
            if wait <= 0:
                return number
            await asyncio.sleep(pause(wait))

    def charge(self, number: int, _: int, model: str, usage: UsageMetadata | None, /) -> None:
        """A request took this; None: it was refused."""
        since, self._charged = self._charged, time.monotonic()
        self._actor.charge.remote(number, self._key, model, usage, self._charged - since)

    def delay(self, model: str, seconds: float) -> None:
        """The service wants no request to the model for so long."""
        self._actor.delay.remote(model, seconds)


class OneTask:
    """The queue of a worker that runs one task, claimed by the driver. Its token is the number of
    its attempt, `directory` is a folder of the node; journals of earlier attempts are put there.
    With `trees` the task has a worktree, which is on one node."""

    def __init__(self, remote: Remote, claim: Claim, directory: Path, *, trees: bool) -> None:
        self.directory = directory
        self.result: bytes | None = None
        self.refused = False
        self.limit: str | None = None
        self._ray = load_ray()
        self._remote = remote
        self._store = open_store(remote.place)
        self._task = claim.task
        self._attempt = claim.attempt
        self._claim = msgspec.structs.replace(claim, token=claim.attempt)
        self._trees = trees
        self._over = False
        self._began = False
        self._next = 0.0
        node = self._ray.get_runtime_context().get_node_id()
        self._holder = f"{node} {secrets.token_hex(8)}"
        self._asked: tuple[Any, float] | None = None

    def is_over(self) -> bool:
        """True when the attempt has ended."""
        return self._over

    def claim(self, *_wanted: Any, **_how: Any) -> list[Claim]:
        """Claims the task as soon as no other attempt may have it. Raises QueueError."""
        if self._began or self._over or time.monotonic() < self._next:
            return []
        key = self._task.key
        found = self._call(self._remote.writer.claim, key, self._attempt, self._holder)
        if isinstance(found, float):
            self._next = time.monotonic() + min(found, 1.0)
            self._began = found <= 0
        else:
            self._over, self.result, self.refused = True, found, found is None
        if not self._began:
            return []
        with usable(self._store.place):
            self._fetch_journal()
        return [self._claim]

    def renew(self, *_wanted: Any) -> tuple[set[int], float] | None:
        """Renews the lease; None while the answer is on its way."""
        if self._asked is None:
            asked = self._remote.writer.renew.remote(self._task.key, self._attempt)
            self._asked = (asked, time.monotonic())
        asked, since = self._asked
        if not self._ray.wait([asked], timeout=0)[0]:
            return None
        self._asked = None
        try:
            return {self._attempt} if self._ray.get(asked) else set(), since
        except self._ray.exceptions.ActorUnavailableError:
            return None

    def finish(self, token: int, _status: str, _kind: str | None, result: bytes, /) -> bool:
        """Writes the result; False if the attempt no longer holds the task. Raises QueueError."""
        key = self._task.key
        if self._call(self._remote.writer.finish, key, token, result):
            self._over, self.result = True, result
            self._remote.limiter.forget.remote(key)
        return self.result is not None

    def release(self, token: int, limit: str | None = None) -> None:
        """Gives the task back unfinished. Raises QueueError."""
        self._over, self.limit = True, limit
        self._call(self._remote.writer.release, self._task.key, token, "free")

    def usage(self, token: int) -> Mapping[str, Any]:
        """Usage of the task so far. Raises QueueError."""
        found = self._call(self._remote.limiter.usage, self._task.key)
        return {**found, "attempts": token}

    def _call(self, method: Any, *arguments: Any) -> Any:
        """The answer of an actor. Raises QueueError."""
        exceptions = self._ray.exceptions
        end = time.monotonic() + _CALL_S
        try:
            while True:
                try:
                    return self._ray.get(method.remote(*arguments), timeout=_CALL_S)
                except exceptions.ActorUnavailableError:
                    if time.monotonic() > end:
                        raise
                    time.sleep(_AGAIN_S)
        except (exceptions.RayError, OSError) as error:  # GetTimeoutError is an OSError
            raise QueueError(
                f"the run in {self._store.place} does not answer: {error}.",
                remedy=f"Then: alhena batch resume {self._store.place}.",
            ) from error

    def _fetch_journal(self) -> None:
        """Puts the journal of the last attempt that has one where the attempt looks for it."""
        key = self._task.key
        folder = task_folder(self.directory, self._task)
        first = self._first_attempt(folder)
        names = self._store.names(f"journals/{key}")
        earlier = [name for name in names if first <= int(name[:4]) < self._attempt]
        if not earlier:
            return
        attempt, generation, _ = earlier[-1].split("-")
        last = [name for name in earlier if name.startswith(f"{attempt}-{generation}-")]
        sessions = folder / "sessions"
        sessions.mkdir(parents=True, exist_ok=True)
        path = sessions / f"{key}-{int(attempt)}.jsonl"
        path.unlink(missing_ok=True)
        with open(path, "xb", opener=partial(os.open, mode=0o600)) as file:
            file.writelines(self._store.read(f"journals/{key}/{name}") or b"" for name in last)

    def _first_attempt(self, folder: Path) -> int:
        """The first attempt whose journal agrees with the files of the task on this node. Its
        worktree is removed if another node has gone on with one of its own."""
        names = self._store.names(f"journals/{self._task.key}")
        last = max((int(name[:4]) for name in names), default=0)
        note = folder / "attempts.json"
        first, latest = 0, 0
        if self._trees:
            folder.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError, msgspec.DecodeError):
                first, latest = msgspec.json.decode(note.read_bytes(), type=tuple[int, int])
            if last > latest or noted_tree(folder) is None:
                remove_tree(folder, os.environ)
                first = self._attempt
            note.write_bytes(msgspec.json.encode((first, self._attempt)))
        return first


class Segments:
    """Keeps a journal of a node in the run directory, piece by piece."""

    def __init__(self, store: Store, place: str, path: Path, lease: Lease) -> None:
        self._store = store
        self._place = place
        self._path = path
        self._lease = lease
        self._sent = 0
        self._count = 0
        self._sending = threading.Lock()

    def synchronise(self, _descriptor: int) -> None:
        """Everything that was written is in the run directory when it returns. Raises OSError."""
        with self._sending, self._path.open("rb") as file:
            file.seek(self._sent)
            data = file.read()
            if not data:
                return
            if self._lease.is_over:
                raise OSError(errno.ESTALE, "the lease of the task is over")
            name = f"{self._place}-{self._count:06}"
            if not self._store.create(name, data, durable=True):
                raise OSError(errno.EEXIST, "another attempt writes this journal")
            self._sent += len(data)
            self._count += 1


class ClusterWorker(Worker):
    """A worker whose journals are also in the run directory."""

    store: Store
    _opened = 0

    def _disk(self, lease: Lease, path: Path, /) -> Disk:
        self._opened += 1
        key, attempt = lease.claim.task.key, lease.claim.attempt
        place = f"journals/{key}/{attempt:04}-{self._opened:02}"
        segments = Segments(self.store, place, path, lease)
        return Disk(write=lease.write, synchronise=segments.synchronise)


def run_task(remote: Remote, claim: bytes) -> Attempt:
    """Runs an attempt of a task on this node."""
    try:
        return asyncio.run(_run(remote, msgspec.json.decode(claim, type=Claim)))
    except AlhenaError as error:
        return Attempt(fatal=(error.exit_code, error.message, error.remedy))


def _prepared(remote: Remote) -> tuple[Store, Path]:
    """The run directory, and the run's folder on this node. Raises ConfigError, QueueError."""
    if remote.version != __version__:
        raise ConfigError(
            f"a node has alhena {__version__}, not {remote.version}.",
            remedy="Install the same version on all nodes.",
        )
    store = open_store(remote.place)
    with usable(remote.place):
        if store.read(RUN) is None:
            raise ConfigError(
                f"a node does not see {remote.place}.",
                remedy="Name a --run-dir that all nodes see.",
            )
        return store, made_folder(store)


def clear_node(remote: Remote) -> None:
    """Removes what a run that is over has left on this node. Raises AlhenaError."""
    _, folder = _prepared(remote)
    for note in folder.glob("tasks/*/tree.json"):
        remove_tree(note.parent, os.environ)
    shutil.rmtree(folder, ignore_errors=True)


async def _run(remote: Remote, claim: Claim) -> Attempt:
    store, folder = _prepared(remote)
    config = msgspec.json.decode(remote.config, type=RunConfig)
    task = claim.task
    trees = config.worktree or task.repo is not None
    queue = OneTask(remote, claim, folder, trees=trees)
    limiter = ClusterLimiter(remote.limiter, task.key)
    worker = ClusterWorker(queue, config, "node", limiter, queue.usage)
    worker.store = store
    await worker.work(1)
    if queue.refused:
        raise QueueError(TAKEN_OVER)
    if queue.result is not None:
        shutil.rmtree(task_folder(folder, task), ignore_errors=True)
    return Attempt(result=queue.result, limit=queue.limit)
