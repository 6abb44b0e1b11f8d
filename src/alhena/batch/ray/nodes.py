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
from pathlib import Path
from typing import Any

import msgspec

from alhena.batch.engine import RunConfig
from alhena.batch.errors import QueueError, SharedLimitError
from alhena.batch.limits import pause
from alhena.batch.queue import Claim
from alhena.batch.store import Place, Store, open_store, usable
from alhena.batch.stored_queue import RUN, make_node_folder
from alhena.batch.worker import Lease, Worker, task_folder
from alhena.batch.worktree import find_earlier_tree, remove_tree
from alhena.errors import AlhenaError, ConfigError
from alhena.session.journal import Disk
from alhena.version import __version__
from alhena.wire.response import UsageMetadata

_CALL_S, _AGAIN_S = 60.0, 0.5
"""Longest wait for an answer of an actor, which may be starting again on another node, and seconds
until it is asked again."""
_LOOK_S = 0.5
"""Seconds that the mailbox waits for calls."""


def load_ray() -> Any:
    """The package ray. Raises ConfigError."""
    try:
        return import_module("ray")
    except ImportError as error:
        from alhena.distribution import install_command

        raise ConfigError(
            "--engine ray needs a package.", remedy=f"Install it: {install_command('ray')}"
        ) from error


class RemoteCall(msgspec.Struct, frozen=True):
    """A method that the desk offers, with its arguments. `id` is the caller's."""

    id: int
    method: str
    arguments: msgspec.Raw


class RemoteAnswer(msgspec.Struct, frozen=True):
    """The value that a call returns."""

    id: int
    value: msgspec.Raw


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

    async def take(self) -> list[tuple[int, str, bytes]]:
        """Returns calls as soon as there are any, none after half a second."""
        try:
            found = [await asyncio.wait_for(self._calls.get(), _LOOK_S)]
        except TimeoutError:
            return []
        while not self._calls.empty():
            found.append(self._calls.get_nowait())
        return found

    async def answer(self, number: int, value: bytes) -> None:
        """Answers a call, if its caller waits here."""
        waiting = self._answers.pop(number, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(value)


class RemoteRun(msgspec.Struct, frozen=True):
    """The run as a node knows it: its directory and its mailbox."""

    place: Place
    mailbox: Any
    config: bytes
    version: str = __version__


class SingleTaskQueue:
    """The queue and the limiter of a worker that runs one task, which the head has claimed.
    `directory` is a folder of the node; journals of earlier attempts are put there. With `trees`
    the task has a worktree, which is on one node."""

    def __init__(self, remote: RemoteRun, claim: Claim, directory: Path, *, trees: bool) -> None:
        self.directory = directory
        self.finished = False
        self._ray = load_ray()
        self._mailbox = remote.mailbox
        self._store = open_store(remote.place)
        self._claim = claim
        self._task = claim.task
        self._attempt = claim.attempt
        self._trees = trees
        self._over = False
        self._taken: Mapping[str, Any] | None = None
        self._charges: list[Any] = []
        node = self._ray.get_runtime_context().get_node_id()
        self._holder = f"{node} {secrets.token_hex(8)}"
        self._renewal: tuple[Any, float] | None = None

    def is_over(self) -> bool:
        """True when the attempt has ended."""
        return self._over

    def claim(self, *_wanted: Any, **_how: Any) -> list[Claim]:
        """Begins the attempt, if it still holds the task. Raises QueueError."""
        if self._over or self._taken is not None:
            return []
        self._taken = self._call("begin", self._claim.token, self._holder)
        if self._taken is None:
            self._over = True
            return []
        with usable(self._store.place):
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
        """Writes the result; False if the attempt no longer holds the task. Raises QueueError."""
        self.finished = self._call("finish", token, status, kind, msgspec.Raw(result))
        self._over |= self.finished
        return self.finished

    def release(self, token: int, limit: str | None = None) -> None:
        """Gives the task back unfinished. Raises QueueError."""
        self._over = True
        self._call("release", token, limit)

    def usage(self, _token: int) -> Mapping[str, Any]:
        """Usage of the task so far. Raises QueueError."""
        for asked in self._charges:
            self._taken = msgspec.json.decode(self._answer(asked))
        self._charges.clear()
        return self._taken or {}

    async def admit(self, model: str, tokens: int) -> int:
        """Returns when a request of about so many tokens may start; its number. Raises
        SharedLimitError."""
        number = secrets.randbits(60)
        while True:
            asked = self._ask("admit", number, model, tokens)
            try:
                found = await asyncio.wrap_future(asked.future())
                wait, refusal = msgspec.json.decode(found)
            except self._ray.exceptions.ActorUnavailableError:
                wait, refusal = _AGAIN_S, None
            if refusal is not None:
                raise SharedLimitError(refusal[0], remedy=refusal[1])
            if wait <= 0:
                return number
            await asyncio.sleep(pause(wait))

    def charge(self, number: int, token: int, model: str, usage: UsageMetadata | None, /) -> None:
        """A request took this; None: it was refused."""
        self._charges.append(self._ask("charge", number, token, model, usage))

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
            f"the run in {self._store.place} does not answer: {reason}.",
            remedy=f"Then: alhena batch resume {self._store.place}.",
        )

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

    store: Store
    _opened = 0

    def _disk(self, lease: Lease, path: Path, /) -> Disk:
        self._opened += 1
        key, attempt = lease.claim.task.key, lease.claim.attempt
        place = f"journals/{key}/{attempt:04}-{self._opened:02}"
        segments = Segments(self.store, place, path, lease)
        return Disk(write=lease.write, synchronise=segments.synchronise)


def run_task(remote: RemoteRun, claim: bytes) -> tuple[int, str, str | None] | None:
    """Runs an attempt at a task on this node; returns an error for which none can run, as exit
    code, message and remedy."""
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
        )
    store = open_store(remote.place)
    with usable(remote.place):
        if store.read(RUN) is None:
            raise ConfigError(
                f"a node does not see {remote.place}.",
                remedy="Name a --run-dir that all nodes see.",
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
    task = claim.task
    trees = config.worktree or task.repo is not None
    queue = SingleTaskQueue(remote, claim, folder, trees=trees)
    worker = ClusterWorker(queue, config, "node", queue, queue.usage)
    worker.store = store
    await worker.work(lambda: config.shared)
    if queue.finished:
        shutil.rmtree(task_folder(folder, task), ignore_errors=True)
