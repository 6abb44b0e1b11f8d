"""The parts of a run that are on the nodes of a Ray cluster: the function that runs a task, and
its calls to the queue, which the head has.

An attempt asks the `Mailbox`, an actor; the driver fetches calls from there, and the head's
`AttemptCalls` answers them. A call may come twice: the mailbox may be lost with its node, and
starts again on another one.
"""

import asyncio
import errno
import os
import secrets
import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from alhena.batch.engine import Charge, RunConfig
from alhena.batch.errors import QueueError, SharedLimitError
from alhena.batch.limits import pause
from alhena.batch.queue import Claim
from alhena.batch.store import Place, Store, open_store, usable
from alhena.batch.stored_queue import RUN, make_node_folder
from alhena.batch.tasks import QueuedTask
from alhena.batch.worker import Lease, Worker, task_folder
from alhena.batch.worktree import find_earlier_tree, remove_tree
from alhena.errors import AlhenaError, ConfigError
from alhena.session.journal import Disk
from alhena.version import __version__

_CALL_S, _AGAIN_S = 60.0, 0.5
"""Longest wait for an answer of an actor, which may be starting again on another node, and seconds
until it is asked again."""
_LOOK_S = 0.5
"""Seconds that the mailbox waits for calls."""
_CHARGE_S = 0.2
"""Seconds in which a further call may take charges along."""


def require_ray() -> None:
    """Raises ConfigError where Ray is not installed. It is not imported: that takes long."""
    if find_spec("ray") is None:
        from alhena.distribution import install_command

        raise ConfigError(
            "--engine ray needs a package.",
            remedy=f"Install it: {install_command('ray')}",
            page="batch",
        )


def load_ray() -> Any:
    """The package ray. Raises ConfigError."""
    require_ray()
    return import_module("ray")


class RemoteCall(msgspec.Struct, frozen=True):
    """A method that the desk offers, with its arguments. `id` is the caller's."""

    id: int
    method: str
    arguments: msgspec.Raw


class RemoteAnswer(msgspec.Struct, frozen=True):
    """The value that a call returns."""

    id: int
    value: msgspec.Raw


class Successor(msgspec.Struct, frozen=True):
    """The task that a process gets after one that has ended. The attempt has begun; `taken` is what
    the task has taken so far."""

    claim: Claim
    taken: dict[str, Any]


class Finished(msgspec.Struct, frozen=True):
    """The answer to a result: whether it counts, and the next task of the process."""

    kept: bool
    successor: Successor | None = None


class Mailbox:
    """Actor: keeps calls until they are answered."""

    def __init__(self) -> None:
        self._calls: asyncio.Queue[tuple[int, str, bytes]] = asyncio.Queue()
        self._answers: dict[int, asyncio.Future[bytes]] = {}

    async def ask(self, number: int, method: str, arguments: bytes) -> bytes:
        """Returns the answer to a call."""
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        self._calls.put_nowait((number, method, arguments))
        return await answer

    async def exchange(self, answers: list[tuple[int, bytes]]) -> list[tuple[int, str, bytes]]:
        """Answers those calls whose callers wait here. Returns further ones as soon as there are
        any, none after half a second."""
        for number, value in answers:
            waiting = self._answers.pop(number, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(value)
        try:
            found = [await asyncio.wait_for(self._calls.get(), _LOOK_S)]
        except TimeoutError:
            return []
        while not self._calls.empty():
            found.append(self._calls.get_nowait())
        return found


class RemoteRun(msgspec.Struct, frozen=True):
    """The run as a node knows it: its directory and its mailbox."""

    place: Place
    mailbox: Any
    config: bytes
    version: str = __version__


class TaskProcess(msgspec.Struct, frozen=True):
    """A process of a node that runs tasks of a run, one after the other. `folder` is that of the
    run on the node; `holder` names the process, after its node."""

    remote: RemoteRun
    store: Store
    folder: Path
    config: RunConfig
    holder: str


class SingleTaskQueue:
    """The queue and the limiter of a worker that runs one task, which the head has claimed.
    Journals of earlier attempts are put into the folder of the node. `begun` has what the task has
    taken if its attempt has begun already, at a time `since` on the monotonic clock."""

    def __init__(
        self,
        process: TaskProcess,
        claim: Claim,
        begun: Mapping[str, Any] | None = None,
        since: float = 0.0,
    ) -> None:
        self.directory = process.folder
        self.finished = False
        self.since = since
        self.successor: Successor | None = None
        self._process = process
        self._ray = load_ray()
        self._mailbox = process.remote.mailbox
        self.store = process.store
        self._claim = claim
        self._task = claim.task
        self._attempt = claim.attempt
        self._begun = begun
        self._over = False
        self._taken: Mapping[str, Any] | None = None
        self._charges: list[Charge] = []
        self._timer: asyncio.TimerHandle | None = None
        self._renewal: tuple[Any, float] | None = None

    def is_over(self) -> bool:
        """True when the attempt has ended."""
        return self._over

    def claim(self, *_wanted: Any, **_how: Any) -> list[Claim]:
        """Begins the attempt, if it still holds the task. Raises QueueError."""
        if self._over or self._taken is not None:
            return []
        self._taken = self._begun
        if self._taken is None:
            self.since = time.monotonic()
            self._taken = self._call("begin", self._claim.token, self._process.holder)
        if self._taken is None:
            self._over = True
            return []
        with usable(self.store.place):
            self._fetch_journal()
        return [self._claim]

    def renew(self, tokens: Sequence[int], _lease_s: float, /) -> tuple[set[int], float] | None:
        """Renews the lease; None while the answer is on its way."""
        if self._renewal is None:
            asked = self._ask("renew", tokens)
            self._renewal = (asked, time.monotonic())
        asked, since = self._renewal
        if not self._ray.wait([asked], timeout=0)[0]:
            return None
        self._renewal = None
        try:
            kept, _ = msgspec.json.decode(self._ray.get(asked))
            return set(kept), since
        except self._ray.exceptions.ActorUnavailableError:
            return None

    def finish(self, token: int, status: str, kind: str | None, result: bytes, /) -> bool:
        """Writes the result, of which the head knows the usage; False if the attempt no longer
        holds the task. Raises QueueError."""
        self.since = time.monotonic()
        line, holder = msgspec.Raw(result), self._process.holder
        answer = self._call("finish", token, status, kind, line, self._take_charges(), holder)
        found = msgspec.convert(answer, Finished)
        self.finished, self.successor = found.kept, found.successor
        self._over |= self.finished
        return self.finished

    def release(self, token: int, limit: str | None = None) -> None:
        """Gives the task back unfinished. Raises QueueError."""
        self._over = True
        self._call("release", token, limit, self._take_charges())

    def usage(self, _token: int) -> Mapping[str, Any]:
        """Usage of the task before the attempt."""
        return self._taken or {}

    async def admit(self, model: str, tokens: int) -> int:
        """Returns when a request of about so many tokens may start; its number. Raises
        SharedLimitError."""
        number = secrets.randbits(60)
        while True:
            charges = self._take_charges()
            asked = self._ask("admit", number, model, tokens, charges)
            try:
                found = await asyncio.wrap_future(asked.future())
                wait, refusal = msgspec.json.decode(found)
                del self._charges[: len(charges)]
            except self._ray.exceptions.ActorUnavailableError:
                wait, refusal = _AGAIN_S, None
            if refusal is not None:
                raise SharedLimitError(refusal[0], remedy=refusal[1])
            if wait <= 0:
                return number
            await asyncio.sleep(pause(wait))

    def charge(self, charge: Charge, /) -> None:
        """As `Admission.charge`. The next call says so, or one that is made soon."""
        self._charges.append(charge)
        if self._timer is None:
            later = asyncio.get_running_loop().call_later
            self._timer = later(_CHARGE_S, lambda: self._ask("charge", self._take_charges()))

    def _take_charges(self) -> list[Charge]:
        """The charges for a call. They are made again until one is known to have been answered."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return list(self._charges)

    def delay(self, model: str, seconds: float) -> None:
        """The service wants no request to the model for so long."""
        self._ask("delay", model, seconds)

    def _ask(self, method: str, *arguments: Any) -> Any:
        """A call that is under way."""
        data = msgspec.json.encode(arguments)
        return self._mailbox.ask.remote(secrets.randbits(60), method, data)

    def _call(self, method: str, *arguments: Any) -> Any:
        """The answer to a call. Raises QueueError."""
        end = time.monotonic() + _CALL_S
        while True:
            try:
                return msgspec.json.decode(self._answer(self._ask(method, *arguments)))
            except self._ray.exceptions.ActorUnavailableError:
                if time.monotonic() > end:
                    raise self._silence() from None
                time.sleep(_AGAIN_S)

    def _answer(self, asked: Any) -> bytes:
        """The answer to a call that is under way. Raises QueueError, ActorUnavailableError."""
        exceptions = self._ray.exceptions
        try:
            return self._ray.get(asked, timeout=_CALL_S)
        except exceptions.ActorUnavailableError:
            raise
        except (exceptions.RayError, OSError) as error:  # GetTimeoutError is an OSError
            raise self._silence(error) from error

    def _silence(self, reason: object = "its mailbox is not available") -> QueueError:
        return QueueError(
            f"the run in {self.store.place} does not answer: {reason}.",
            remedy=f"Then: alhena batch resume {self.store.place}.",
        )

    def _fetch_journal(self) -> None:
        """Puts the journal of the last attempt that has one where the attempt looks for it."""
        key = self._task.key
        folder = task_folder(self.directory, self._task)
        first = self._first_attempt(folder)
        names = self.store.names(f"journals/{key}")
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
            file.writelines(self.store.read(f"journals/{key}/{name}") or b"" for name in last)

    def _first_attempt(self, folder: Path) -> int:
        """The first attempt whose journal agrees with the files of the task on this node. Its
        worktree is removed if another node has gone on with one of its own."""
        names = self.store.names(f"journals/{self._task.key}")
        last = max((int(name[:4]) for name in names), default=0)
        note = folder / "attempts.json"
        first, latest = 0, 0
        if self._process.config.worktree or self._task.repo is not None:
            folder.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError, msgspec.DecodeError):
                first, latest = msgspec.json.decode(note.read_bytes(), type=tuple[int, int])
            if last > latest or find_earlier_tree(folder) is None:
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

    queue: SingleTaskQueue
    _opened = 0

    def _lease(self, claim: Claim, before: float) -> Lease:
        """The lease of a claim; it counts from the call that began the attempt."""
        del before
        return super()._lease(claim, self.queue.since)

    def _disk(self, lease: Lease, path: Path, /) -> Disk:
        self._opened += 1
        key, attempt = lease.claim.task.key, lease.claim.attempt
        place = f"journals/{key}/{attempt:04}-{self._opened:02}"
        segments = Segments(self.queue.store, place, path, lease)
        return Disk(write=lease.write, synchronise=segments.synchronise)


def run_task(remote: RemoteRun, claim: bytes) -> tuple[int, str, str | None] | None:
    """Runs an attempt at a task on this node, and those that the head has next; returns an error
    for which none can run, as exit code, message and remedy."""
    try:
        asyncio.run(_run(remote, msgspec.json.decode(claim, type=Claim)))
    except AlhenaError as error:
        return error.exit_code, error.message, error.remedy
    return None


def _prepare_node(remote: RemoteRun) -> tuple[Store, Path]:
    """The run directory, and the run's folder on this node. Raises ConfigError, QueueError."""
    if remote.version != __version__:
        raise ConfigError(
            f"a node has alhena {__version__}, not {remote.version}.",
            remedy="Install the same version on all nodes.",
            page="batch",
        )
    store = open_store(remote.place)
    with usable(remote.place):
        if store.read(RUN) is None:
            raise ConfigError(
                f"a node does not see {remote.place}.",
                remedy="Name a --run-dir that all nodes see.",
                page="batch",
            )
        return store, make_node_folder(store)


def clear_node(remote: RemoteRun) -> None:
    """Removes what a run that is over has left on this node. Raises AlhenaError."""
    _, folder = _prepare_node(remote)
    for note in folder.glob("tasks/*/tree.json"):
        remove_tree(note.parent, os.environ)
    shutil.rmtree(folder, ignore_errors=True)


async def _run(remote: RemoteRun, claim: Claim) -> None:
    store, folder = _prepare_node(remote)
    config = msgspec.json.decode(remote.config, type=RunConfig)
    _require_directory(config, claim.task)
    node = load_ray().get_runtime_context().get_node_id()
    process = TaskProcess(remote, store, folder, config, f"{node} {secrets.token_hex(8)}")
    queue = SingleTaskQueue(process, claim)
    while True:
        worker = ClusterWorker(queue, config, "node", queue, queue.usage)
        worker.queue = queue
        await worker.work(lambda: config.shared)
        if queue.finished:
            shutil.rmtree(task_folder(folder, claim.task), ignore_errors=True)
        if queue.successor is None:
            return
        claim = queue.successor.claim
        _require_directory(config, claim.task)
        queue = SingleTaskQueue(process, claim, queue.successor.taken, queue.since)


def _require_directory(config: RunConfig, task: QueuedTask) -> None:
    """Raises ConfigError for a task whose directory is not on this node."""
    directory = config.directory_of(task)
    if not directory.is_dir():
        raise ConfigError(
            f"a node does not see {directory}, the directory of the task {task.id!r}.",
            remedy="Name a `cwd` or `repo` that is on all nodes, or cancel the task.",
            page="batch",
        )
