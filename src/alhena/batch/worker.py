"""Runs tasks of the queue, each attempt in a session whose journal is in the run directory.

As a program (`python -m alhena.batch.worker DIRECTORY NAME WORKERS`) it is one of so many worker
processes: `s` on its standard input stops it when its tasks have ended, `c` at once, as does the
end of the input; at `r` it ends what holds its task no more.
"""

import asyncio
import errno
import os
import shutil
import sys
import time
import warnings
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from hashlib import sha256
from math import ceil
from pathlib import Path
from typing import Any

import msgspec

from alhena.agent.limits.budget import Spent
from alhena.agent.toolset.options import RecordOptions, SessionSpec
from alhena.batch.engine import Admission, LiveLimits, RunConfig, SharedLimits, TaskQueue
from alhena.batch.errors import LostLeaseError, QueueError, SharedLimitError, UnknownPriceError
from alhena.batch.limits import GatedGenerator, Limiter
from alhena.batch.overview import usage_of_task
from alhena.batch.queue import Claim, Queue
from alhena.batch.results import TaskResult, lost_task, with_usage
from alhena.batch.tasks import QueuedTask
from alhena.batch.worktree import TaskTree, find_earlier_tree, open_tree, remove_tree
from alhena.config.effective_settings import open_place
from alhena.config.environment import without_repository
from alhena.config.home import BATCH_TASK, PROJECT_TEMP
from alhena.errors import AlhenaError, InputError
from alhena.library.agent import Agent
from alhena.library.options import AgentOptions
from alhena.library.result import Result
from alhena.models.errors import CredentialsError
from alhena.models.generator import ContentGenerator
from alhena.models.prices import Prices
from alhena.session.journal import Disk
from alhena.session.records import JournalError, SessionError

POLL_S = 0.05
"""Seconds between two looks for tasks."""
FATAL = 3
"""Exit code of a worker process that noted why no task can run."""

MakeAgent = Callable[[QueuedTask, Path], Agent]
"""Makes the agent of a task, for its directory."""


RunAgent = Callable[[Agent, QueuedTask, Path], Awaitable[Result[Any]]]
"""Runs the agent of a task, which has this folder."""


async def _run_task(agent: Agent, task: QueuedTask, _folder: Path) -> Result[Any]:
    output: Any = str if task.output_schema is None else task.output_schema
    return await agent.run(task.prompt, output=output)


class AgentRuns(msgspec.Struct, frozen=True):
    """The agents of tasks, and how they run."""

    make: MakeAgent
    run: RunAgent = _run_task


class Lease:
    """The lease of a claim as its worker knows it. Past its end nothing is asked or written."""

    def __init__(self, claim: Claim, end: float) -> None:
        self.claim = claim
        self.agent: Agent | None = None
        self.tree: TaskTree | None = None
        self.finished = False
        self._end = end

    def renew(self, end: float) -> None:
        """The queue has renewed it up to `end`, on the monotonic clock. One that is over stays
        so: what was refused meanwhile may have ended the task."""
        if not self.is_over:
            self._end = end

    def end(self) -> None:
        """It is over; processes of the task are killed."""
        self._end = float("-inf")
        if self.agent is not None:
            self.agent.session.kill()

    @property
    def is_over(self) -> bool:
        """True when another worker may have the task."""
        if time.monotonic() >= self._end:
            self._end = float("-inf")
        return self._end == float("-inf")

    def require(self) -> None:
        """Raises LostLeaseError when it is over."""
        if self.is_over:
            raise LostLeaseError(f"the lease of the task {self.claim.task.id} is over.")

    def write(self, descriptor: int, data: bytes) -> int:
        """As `os.write`, while it lasts. Raises OSError."""
        if self.is_over:
            raise OSError(errno.ESTALE, "the lease of the task is over")
        return os.write(descriptor, data)


class Worker:
    """Runs tasks of `queue` under the name `holder`. `make` makes their agents; `usage` tells what
    the task of a token has taken."""

    def __init__(
        self,
        queue: TaskQueue,
        config: RunConfig,
        holder: str,
        limiter: Admission,
        usage: Callable[[int], Mapping[str, Any]],
        make: "MakeAgent | AgentRuns | None" = None,
    ) -> None:
        runs = make if isinstance(make, AgentRuns) else AgentRuns(make or partial(agent_of, config))
        self._run_agent = runs.run
        self._queue = queue
        self._usage = usage
        self._config = config
        self._holder = holder
        self._make = runs.make
        self._limiter = limiter
        self._running: dict[asyncio.Task[None], Lease] = {}
        self._stopping = False
        self._unpriced: UnknownPriceError | None = None
        self._renewed = time.monotonic()

    async def work(self, shared: Callable[[], SharedLimits], workers: int = 1) -> None:
        """Runs its part of the tasks, as one of so many `workers`, until all have a result or
        `stop` was called. Raises CredentialsError, QueueError, UnknownPriceError when the others
        have ended, and what a program's agent raises."""
        try:
            while True:
                self._claim(shared(), workers)
                if not self._running and (self._stopping or self._queue.is_over()):
                    if self._unpriced is not None:
                        raise self._unpriced
                    return
                if not self._running:
                    await asyncio.sleep(POLL_S)
                    continue
                await asyncio.wait(
                    self._running, timeout=POLL_S, return_when=asyncio.FIRST_COMPLETED
                )
                for task in [each for each in self._running if each.done()]:
                    del self._running[task]
                    if not task.cancelled():
                        task.result()
                self._renew()
        finally:
            self.stop(running=True)
            await asyncio.gather(*self._running, return_exceptions=True)
            self._running.clear()

    def stop(self, *, running: bool) -> None:
        """Starts no further task; with `running` gives back those that run."""
        self._stopping = True
        if running:
            for task, lease in self._running.items():
                self._lose(task, lease)

    def kill(self) -> None:
        """Kills the processes of all tasks, for an immediate exit."""
        for lease in self._running.values():
            lease.end()

    def look_again(self) -> None:
        """Renews all leases soon, and ends what holds its task no more."""
        self._renewed = float("-inf")

    def _claim(self, shared: SharedLimits, workers: int) -> None:
        room = 0 if shared.paused else ceil(shared.concurrency / workers) - len(self._running)
        alone = any(lease.claim.alone for lease in self._running.values())
        if self._stopping or room < 1 or alone:
            return
        config, idle = self._config, not self._running
        before = time.monotonic()
        claims = self._queue.claim(self._holder, room, shared.concurrency, config.lease, idle=idle)
        for claim in claims:
            lease = self._lease(claim, before)
            self._running[asyncio.ensure_future(self._carry(lease))] = lease

    def _lease(self, claim: Claim, before: float) -> Lease:
        """The lease of a claim that was asked for at a time `before`."""
        return Lease(claim, before + self._config.lease)

    def _renew(self) -> None:
        seconds = self._config.lease
        if time.monotonic() - self._renewed < seconds / 3:
            return
        tokens = [each.claim.token for each in self._running.values()]
        renewed = self._queue.renew(tokens, seconds)
        if renewed is not None:
            self._renewed = renewed[1]
        for task, lease in self._running.items():
            kept = renewed is None or lease.claim.token in renewed[0]
            if renewed is not None and kept:
                lease.renew(self._renewed + seconds)
            if not kept or lease.is_over:
                self._lose(task, lease)

    def _lose(self, task: "asyncio.Task[None]", lease: Lease) -> None:
        """Ends a task without a result, as a crash would; not one that has its result."""
        if lease.finished:
            return
        warnings.filterwarnings("ignore", "the session cannot be recorded", RuntimeWarning)
        lease.end()
        task.cancel()

    async def _carry(self, lease: Lease) -> None:
        """Runs a claimed task and writes its result. Raises CredentialsError, QueueError."""
        queue, token = self._queue, lease.claim.token
        limit: str | None = None
        try:
            result, calls = await self._attempt(lease)
            result = await self._add_patch(lease, result)
        except SharedLimitError as error:
            limit, self._stopping = error.message, True
            if isinstance(error, UnknownPriceError):
                self._unpriced = error
        except (CredentialsError, QueueError):
            queue.release(token)
            raise
        except (asyncio.CancelledError, LostLeaseError):
            pass
        else:
            taken = self._usage(token)
            attempts = taken.get("attempts", 0) - lease.claim.lost
            whole = with_usage(result, {**taken, "attempts": attempts}, calls)
            data = msgspec.json.encode(whole)
            if not lease.is_over and queue.finish(token, whole.status, whole.kind, data):
                lease.finished = True
                if lease.tree is not None:
                    folder = task_folder(queue.directory, lease.claim.task)
                    with suppress(InputError):  # tried again at the end of the run
                        await asyncio.to_thread(remove_tree, folder, os.environ)
                return
        queue.release(token, limit)

    async def _attempt(self, lease: Lease) -> tuple[TaskResult, int]:
        """The result of one attempt, and its number of tool calls. Raises what ends it without
        one."""
        task = lease.claim.task
        if lease.claim.lost:
            lease.tree = find_earlier_tree(task_folder(self._queue.directory, task))
            return lost_task(task), 0
        try:
            cwd = Path(task.cwd or self._config.cwd)
            result, agent = await self._run(lease, cwd)
        except (SharedLimitError, CredentialsError, LostLeaseError, QueueError):
            raise
        except AlhenaError as error:
            if lease.is_over:
                raise asyncio.CancelledError from error
            if isinstance(error, JournalError):
                directory = self._queue.directory
                raise QueueError(
                    f"no task can run: {error.message}",
                    remedy=f"When that is mended: alhena batch resume {directory}.",
                ) from error
            agent = lease.agent
            return TaskResult(
                id=task.id,
                status="failed",
                kind=error.kind,
                error=str(error),
                session_id=agent.session_id if agent else None,
                model=agent.model if agent else None,
            ), 0
        ended = result.stop_reason == "done"
        status = "done" if ended else "failed"
        return TaskResult(
            id=task.id,
            status="pending" if result.stop_reason == "pending" else status,
            answer=result.text,
            output=None if task.output_schema is None else result.output,
            kind=None if ended else result.stop_reason,
            error=None if ended else "; ".join(result.warnings) or result.stop_reason,
            session_id=result.session_id,
            model=agent.model,
        ), result.usage.tool_calls

    async def _run(self, lease: Lease, cwd: Path) -> tuple[Result[Any], Agent]:
        task = lease.claim.task
        folder = task_folder(self._queue.directory, task)
        folder.mkdir(parents=True, exist_ok=True)
        session_id = f"{task.key}-{lease.claim.attempt}"
        if self._config.worktree or task.repo is not None:
            opened = await asyncio.to_thread(open_tree, folder, task, cwd, os.environ)
            lease.tree, fresh = opened
            cwd = Path(lease.tree.cwd)
            if fresh and (folder / "sessions").exists():
                _set_aside(folder)
        resumes = _copy_journal(folder, task.key, lease.claim.attempt)
        while True:
            lease.agent = agent = self._make(task, cwd)
            adapted = partial(self._attempt_options, lease, folder, session_id, resumes)
            agent.session.adaptations.append(adapted)
            try:
                async with agent:
                    return await self._run_agent(agent, task, folder), agent
            except SessionError:
                if not resumes:
                    raise
                _set_aside(folder)
                resumes = False

    def _attempt_options(
        self,
        lease: Lease,
        folder: Path,
        session_id: str,
        resumes: bool,
        options: SessionSpec,
    ) -> SessionSpec:
        """The options of the session of an attempt."""
        task = lease.claim.task
        token = lease.claim.token

        def wrap(inner: ContentGenerator) -> ContentGenerator:
            key = sha256(os.fsencode(self._queue.directory)).hexdigest()[:32]
            return GatedGenerator(inner, self._limiter, token, lease.require, key)

        own = options.place.environ
        environ = {
            **(own if lease.tree is None else without_repository(own)),
            **(task.env or {}),
            PROJECT_TEMP: str(folder),
            BATCH_TASK: task.id,
        }
        return msgspec.structs.replace(
            options,
            place=msgspec.structs.replace(options.place, environ=environ),
            model=msgspec.structs.replace(
                options.model,
                wrap=wrap,
                fake_responses=options.model.fake_responses or self._config.fake_responses,
            ),
            record=RecordOptions(
                resume=session_id if resumes else None,
                session_id=None if resumes else session_id,
                proceeds=resumes,
                disk=self._disk(lease, folder / "sessions" / f"{session_id}.jsonl"),
                spent=_spent(self._usage(token)),
            ),
        )

    def _disk(self, lease: Lease, _path: Path, /) -> Disk:
        """The calls that write a journal."""
        return Disk(write=lease.write)

    async def _add_patch(self, lease: Lease, result: TaskResult) -> TaskResult:
        """The result with the changes in the worktree, if there is one."""
        if lease.tree is None:
            return result
        try:
            folder = task_folder(self._queue.directory, lease.claim.task)
            patch = await asyncio.to_thread(lease.tree.patch, folder, os.environ)
        except InputError as error:
            if result.status != "done":
                return result
            return msgspec.structs.replace(
                result, status="failed", kind="patch", error=str(error), patch=None
            )
        return msgspec.structs.replace(result, patch=patch)


def agent_of(config: RunConfig, task: QueuedTask, cwd: Path) -> Agent:
    """The agent of a task by the flags of a run. Raises ConfigError, InputError, TypeError."""
    return Agent(
        task.model or config.model,
        approval_mode=task.approval_mode or config.approval_mode,
        policy=config.policy,
        limits=config.limits if task.limits is None else task.limits.fill(config.limits),
        cwd=cwd,
        options=AgentOptions(
            allowed_tools=config.allowed_tools,
            include_directories=config.include_directories,
            skip_trust=config.skip_trust,
            sandbox=config.sandbox,
            service_tier=task.service_tier or config.service_tier,
        ),
    )


def limiter_of(queue: Queue, config: RunConfig) -> Limiter:
    """The limiter of a run, with the prices of its directory. Raises ConfigError."""
    prices = Prices(open_place(Path(config.cwd), os.environ).settings.model.prices)
    return Limiter(queue, config.shared, prices)


def worker_of(
    queue: Queue,
    config: RunConfig,
    holder: str,
    make: MakeAgent | AgentRuns | None = None,
) -> Worker:
    """A worker on a queue of this machine. Raises ConfigError."""
    usage = partial(usage_of_task, queue)
    return Worker(queue, config, holder, limiter_of(queue, config), usage, make)


def _spent(taken: Mapping[str, Any]) -> Spent:
    """Tokens, time and money of the earlier attempts of a task."""
    names = ("input_tokens", "output_tokens", "thought_tokens")
    return Spent(
        tokens=sum(taken.get(name, 0) for name in names),
        seconds=taken.get("duration", 0.0),
        cost=taken.get("cost") or 0.0,
    )


def task_folder(directory: Path, task: QueuedTask) -> Path:
    """The folder of a task in a run directory: its journals, its worktree."""
    return directory / "tasks" / task.key


def _copy_journal(folder: Path, key: str, attempt: int) -> bool:
    """Begins the journal of an attempt as a copy of the last one; False when there is none."""
    sessions = folder / "sessions"
    for earlier in range(attempt - 1, 0, -1):
        source = sessions / f"{key}-{earlier}.jsonl"
        if source.is_file() and source.stat().st_size:
            made = sessions / "copy.part"
            shutil.copyfile(source, made)
            made.chmod(0o600)
            made.replace(sessions / f"{key}-{attempt}.jsonl")
            return True
    return False


def _set_aside(folder: Path) -> None:
    """Moves the journals of a task that cannot be continued away."""
    number = 1
    while (aside := folder / f"sessions.aside-{number}").exists():
        number += 1
    (folder / "sessions").rename(aside)


def main(directory: str, holder: str, workers: str) -> int:
    """A worker process; returns its exit code."""
    from alhena.batch.run import config_of
    from alhena.batch.store import held_lock

    path = Path(directory)
    with held_lock(path / "workers" / f"{holder}.lock"):
        queue = Queue(path)
        config = config_of(queue)
        try:
            live = LiveLimits(queue, config.shared)
            asyncio.run(_work(worker_of(queue, config, holder), live, int(workers)))
        except AlhenaError as error:
            queue.note("fatal", msgspec.json.encode((error.exit_code, error.message, error.remedy)))
            return FATAL
        finally:
            queue.close()
    return 0


async def _work(worker: Worker, shared: LiveLimits, workers: int) -> None:
    def hear() -> None:
        said = os.read(0, 1)
        if said == b"":  # the command has died
            worker.kill()
            os._exit(1)
        if said == b"r":
            worker.look_again()
        else:
            worker.stop(running=said == b"c")

    asyncio.get_running_loop().add_reader(0, hear)
    await worker.work(shared, workers)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
