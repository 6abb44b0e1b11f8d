"""A run: its directory, held by one process, and the way from tasks to the results file."""

import os
import signal
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from alhena.batch.control import OrderBox
from alhena.batch.engine import Engine, LiveLimits, RunConfig
from alhena.batch.errors import RunDirectoryError, SharedLimitError
from alhena.batch.overview import Counts, Tally, add_tasks
from alhena.batch.queue import FILE, EndedTask, Queue
from alhena.batch.results import ResultsFile
from alhena.batch.store import LOCK, Epoch, Place, held_lock, open_store, usable
from alhena.batch.tasks import QueuedTask
from alhena.errors import InputError, InterruptedRunError

if TYPE_CHECKING:
    from alhena.batch.limits import Limiter

_ELAPSED_S = 1.0
"""Seconds between two notes of the time a run has taken."""
_PROBE_S = 0.2
"""Seconds in which those who only look whether a lock is held have let go of it."""


def end_orphans(directory: Path) -> None:
    """Kills the workers that a dead command has left: one may be stopped, and lock the queue. Only
    for who holds the run."""
    for path in (directory / "workers").glob("*.lock"):
        try:
            with held_lock(path):
                continue
        except RunDirectoryError:
            with suppress(OSError, ValueError):
                os.kill(int(path.read_text(encoding="ascii")), signal.SIGKILL)


@contextmanager
def new_run(directory: Place, tasks: Iterable[QueuedTask], config: RunConfig) -> Generator[Queue]:
    """A new run, held for a block. Raises RunDirectoryError, QueueError, ConfigError."""
    try:
        if isinstance(directory, Path):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise RunDirectoryError(
            f"cannot make the run directory {directory}: {error.strerror}.",
            remedy="Name another by --run-dir.",
        ) from error
    with _hold_directory(directory):
        require_new(directory)
        if config.engine == "ray" or isinstance(directory, str):
            from alhena.batch.stored_queue import create_files, open_stored_queue

            create_files(directory, tasks, msgspec.json.encode(config))
            queue = open_stored_queue(directory)
        else:
            queue = Queue.create(directory, tasks, msgspec.json.encode(config))
        try:
            yield queue
        finally:
            queue.close()


def require_new(directory: Place) -> None:
    """Raises RunDirectoryError when a run was begun in the directory."""
    if has_run(directory):
        raise RunDirectoryError(
            f"{directory} has a run already.",
            remedy=f"alhena batch resume {directory}, or name another by --run-dir.",
        )


@contextmanager
def _hold_directory(place: Place) -> Generator[None]:
    """Holds a run directory for a block: a folder by its lock. An object store has none, so who
    comes last takes the run from the others, whose workers are refused then."""
    if isinstance(place, Path):
        with held_lock(place / LOCK, patience_s=_PROBE_S):
            yield
        return
    store = open_store(place)
    with usable(place):
        Epoch(store)
    yield


@contextmanager
def old_run(directory: Place, tasks: Iterable[QueuedTask] = ()) -> Generator[Queue]:
    """A run that was begun, held for a block; `tasks` that are new are added. Raises
    RunDirectoryError, QueueError, TaskFileError for an id that was another task's."""
    if not has_run(directory):
        raise RunDirectoryError(
            f"there is no run in {directory}.", remedy="Name the directory of --run-dir."
        )
    with _hold_directory(directory):
        if isinstance(directory, Path):
            end_orphans(directory)
        queue = open_queue(directory)
        try:
            add_tasks(queue, tasks)
            yield queue
        finally:
            queue.close()


def has_run(directory: Place) -> bool:
    """True when a run was begun in the directory. Raises QueueError, ConfigError."""
    if isinstance(directory, Path) and (directory / FILE).exists():
        return True
    with usable(directory):
        return open_store(directory).read("run.json") is not None


def open_queue(directory: Place) -> Queue:
    """The queue of a run, to look at. Raises RunDirectoryError, QueueError, ConfigError."""
    if isinstance(directory, Path) and not (directory / "run.json").exists():
        return Queue(directory)
    if not has_run(directory):
        raise RunDirectoryError(
            f"there is no run in {directory}.", remedy="Name the directory of --run-dir."
        )
    from alhena.batch.stored_queue import open_stored_queue

    return open_stored_queue(directory)


def config_of(queue: Queue) -> RunConfig:
    """The flags that a run was started with."""
    return msgspec.json.decode(queue.fact("config"), type=RunConfig)


def require_command(queue: Queue) -> None:
    """Raises RunDirectoryError for a run whose tasks are those of a program."""
    if config_of(queue).program:
        raise RunDirectoryError(
            f"the tasks in {queue.place} need the agents of the program that began them.",
            remedy="Call its run_many again (retry_failed=True: also for those that failed).",
        )


def clear_trees(queue: Queue) -> None:
    """Removes the worktrees on this machine whose tasks have ended. Raises QueueError."""
    from alhena.agent.subagents.worktree import forget_worktrees
    from alhena.batch.stored_queue import StoredQueue, node_folder
    from alhena.batch.worktree import remove_tree

    config = config_of(queue)
    spec = "json_extract(CAST(spec AS TEXT), ?)"
    places = f"SELECT DISTINCT {spec}, {spec} FROM tasks"  # noqa: S608
    found = queue.rows(places, "$.repo", "$.cwd")
    if not config.worktree and all(repository is None for repository, _ in found):
        return
    with usable(queue.place):
        stored = isinstance(queue, StoredQueue)
        folder = node_folder(queue.store) if stored else queue.directory
    half_made = {path.parent for path in folder.glob("tasks/*/tree")}
    noted = {path.parent for path in folder.glob("tasks/*/tree.json")}
    for task in half_made | noted:
        remove_tree(task, os.environ)
    name = folder.name if stored else f"{os.path.realpath(folder)}/tasks/"
    # There is no note of what a killed worker was making, nor of those on other machines.
    for repository, cwd in found if stored or half_made - noted else ():
        place = (repository or "").partition("#")[0] or cwd or config.cwd
        with suppress(InputError):  # it is no repository
            forget_worktrees(Path(place), os.environ, lambda path: name in path)


class RunDriver:
    """Carries out a run: starts the engine, writes results, keeps the shared limit of time.
    `tell` is given each look at the run: its counts and new results."""

    def __init__(
        self,
        queue: Queue,
        config: RunConfig,
        engine: "Engine",
        tell: Callable[[Counts, tuple[EndedTask, ...]], None],
    ) -> None:
        self._queue = queue
        self._config = config
        self._engine = engine
        self._tell = tell
        self._signals = 0
        self._noted = time.monotonic()
        self._limit: str | None = None
        self._late = False
        self._shared = LiveLimits(queue, config.shared)
        self._orders = OrderBox(queue, engine)
        self._tally = Tally(queue)

    def interrupt(self, *, at_once: bool = False) -> None:
        """The first call stops starting tasks, the second (or `at_once`) gives back what runs."""
        self._signals += 1
        self._engine.cancel(running=at_once or self._signals > 1)

    async def carry_out(self) -> Counts:
        """Runs what has no result. Raises InterruptedRunError, SharedLimitError, QueueError and
        what kept tasks from running."""
        from alhena.batch.limits import Limiter
        from alhena.models.prices import Prices

        results = ResultsFile(Path(self._config.out), self._config.form)
        results.open(self._queue)
        self._queue.note("limit", None)
        limiter = Limiter(self._queue, self._config.shared, Prices({}))
        try:
            self._engine.resume()
            async with aclosing(self._engine.events(results.place)) as events:
                async for found in events:
                    results.append(found)
                    self._orders.take()
                    self._note_time()
                    self._keep_limits(limiter)
                    self._tell(self._tally.count(), found)
        finally:
            results.close()
        return self._end(limiter.describe_reached_limit())

    def _end(self, reached: str | None) -> Counts:
        found = self._tally.count()
        resume = f"Resume with: alhena batch resume {self._engine.place}"
        left = found.waiting + found.running
        if left and self._signals:
            raise InterruptedRunError(f"interrupted; {left} tasks have no result.", remedy=resume)
        if left:
            why = self._limit or self._queue.fact("limit") or reached or "tasks were given back."
            raise SharedLimitError(f"{why} {left} tasks have no result.", remedy=resume)
        clear_trees(self._queue)
        return found

    def _keep_limits(self, limiter: "Limiter") -> None:
        """Starts no further task when a limit is reached. An answer on its way is paid for, and its
        task has it; only the limit of time ends what runs."""
        reached, late = limiter.describe_reached_limit(), limiter.late() is not None
        if reached is not None and (self._limit is None or late > self._late):
            self._engine.cancel(running=late)
            self._limit, self._late = reached, late

    def _note_time(self) -> None:
        """Adds to the time that the run has taken; while it is paused and nothing runs, none."""
        now = time.monotonic()
        shared = self._shared()
        if now - self._noted >= _ELAPSED_S or shared.total_seconds is not None:
            if not shared.paused or self._tally.count().running:
                elapsed = float(self._queue.fact("elapsed") or 0.0) + now - self._noted
                self._queue.note("elapsed", elapsed)
            self._noted = now
