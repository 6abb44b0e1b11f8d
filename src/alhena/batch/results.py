"""Results: one JSON line for each task, in a file derived from the queue."""

import errno
import os
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec

from alhena.batch.errors import QueueError, RunDirectoryError
from alhena.batch.overview import TOKENS
from alhena.batch.queue import EndedTask, Queue
from alhena.batch.tasks import QueuedTask
from alhena.config.home import path_within

Form = Literal["full", "swebench"]


class TaskResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a task. `status` is done, failed, cancelled or pending (it waits for answers);
    `output` is the value that `output_schema` asked for, `kind` and `error` say why a task failed.
    `patch` is what changed in its worktree."""

    id: str
    status: Literal["done", "failed", "cancelled", "pending"]
    answer: str | None = None
    output: Any = None
    kind: str | None = None
    error: str | None = None
    usage: dict[str, int] = {}
    cost_usd: float | None = None
    duration_s: float = 0.0
    attempts: int = 0
    session_id: str | None = None
    patch: str | None = None
    model: str | None = None


def lost_task(task: QueuedTask) -> TaskResult:
    """The result of a task whose workers died."""
    error = "the worker of the task died in every attempt."
    return TaskResult(id=task.id, status="failed", kind="worker_lost", error=error)


def cancelled_result(task_id: str, taken: Mapping[str, Any]) -> bytes:
    """The line of a cancelled task that took this."""
    return msgspec.json.encode(with_usage(TaskResult(id=task_id, status="cancelled"), taken, 0))


def result_of(data: bytes | msgspec.Raw) -> TaskResult:
    """The result in a line."""
    return msgspec.json.decode(data, type=TaskResult)


def with_usage(result: TaskResult, taken: Mapping[str, Any], tool_calls: int) -> TaskResult:
    """The result with what the queue says its task took."""
    names = ("requests", *TOKENS)
    cost = taken.get("cost")
    return msgspec.structs.replace(
        result,
        usage={**{name: taken.get(name, 0) for name in names}, "tool_calls": tool_calls},
        cost_usd=None if cost is None else round(cost, 9),
        duration_s=round(taken.get("duration", 0.0), 3),
        attempts=taken.get("attempts", 0),
    )


def set_usage(data: bytes | msgspec.Raw, taken: Mapping[str, Any]) -> bytes:
    """The line of a result with what the queue says its task took by now."""
    found = result_of(data)
    calls = found.usage.get("tool_calls", 0)
    return msgspec.json.encode(with_usage(found, {**taken, "attempts": found.attempts}, calls))


def all_results(queue: Queue) -> Iterator[EndedTask]:
    """All results in order of completion, some at a time in memory. Raises QueueError."""
    place = 0
    while ended := queue.results_after(place):
        yield from ended
        place = ended[-1].place


def require_new_file(path: Path) -> None:
    """Raises RunDirectoryError for a results file that would take the place of something else."""
    if path.exists() and not path.is_file():
        raise RunDirectoryError(
            f"--out {path} is not a regular file.", remedy="Name another, such as results.jsonl."
        )
    if path.exists() and path.stat().st_size:
        raise RunDirectoryError(
            f"--out {path} exists, and its lines are no results of this run.",
            remedy="Name another file, or remove it.",
        )


class ResultsFile:
    """The results file of a run; only the process that holds the run directory writes it."""

    def __init__(self, path: Path, form: Form) -> None:
        self.path = path
        self._form = form
        self._place = 0
        self._file: Any = None
        self._queue: Queue | None = None

    def open(self, queue: Queue) -> None:
        """Makes the file agree with the queue: cuts a torn last line, and writes the file again if
        it has others than the first results. Raises QueueError."""
        self._queue = queue
        with self._writing():
            self._place = self._agree(queue)
            self._file = self.path.open("ab")

    def require_own(self, queue: Queue) -> None:
        """Raises RunDirectoryError where the file has other lines than the first results of the
        queue."""
        if not self.path.is_file():
            return require_new_file(self.path)
        known = (self._line(ended.result) for ended in all_results(queue))
        with self._writing(), self.path.open("rb") as file:
            for line in file:
                own = next(known, b"")
                if line != own and (line.endswith(b"\n") or not own.startswith(line)):
                    require_new_file(self.path)
        return None

    @property
    def place(self) -> int:
        """The number of results in it."""
        return self._place

    def append(self, found: tuple[EndedTask, ...]) -> None:
        """Appends results. Raises QueueError."""
        if found:
            with self._writing():
                self._file.write(b"".join(self._line(each.result) for each in found))
                self._file.flush()
            self._place = found[-1].place

    def close(self) -> None:
        """Brings the file to the disk; writes it again where it was removed or replaced meanwhile.
        Raises QueueError."""
        if self._file is not None:
            with self._writing(), self._file as file:
                os.fsync(file.fileno())
                if not self._is_there(file.fileno()) and self._queue is not None:
                    self._replace(all_results(self._queue))

    def _is_there(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(descriptor))
        except FileNotFoundError:
            return False

    def rewrite(self, queue: Queue) -> None:
        """Replaces the file by the results in the queue, all at once. Raises QueueError."""
        with self._writing():
            self._replace(all_results(queue))

    def _replace(self, ended: Iterable[EndedTask]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        made = path_within(self.path.parent, f"{self.path.name}.new")
        with made.open("wb") as file:
            file.writelines(self._line(each.result) for each in ended)
            file.flush()
            os.fsync(file.fileno())
        made.replace(self.path)

    def _agree(self, queue: Queue) -> int:
        """Cuts a torn last line, and empties a file that has others than the first results of the
        queue; returns the number of lines then. Raises OSError, QueueError."""
        if self.path.exists() and not self.path.is_file():
            raise OSError(errno.EINVAL, "not a regular file")
        try:
            file = self.path.open("r+b")
        except FileNotFoundError:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            return 0
        number = size = 0
        with file:
            known = (ended.id for ended in all_results(queue))
            for line in file:
                if not line.endswith(b"\n"):
                    break
                name = self._id(line)
                if name is None or name != next(known, None):
                    number = size = 0
                    break
                number, size = number + 1, size + len(line)
            file.truncate(size)
        return number

    def _line(self, result: bytes) -> bytes:
        if self._form == "full":
            return result + b"\n"
        found = result_of(result)
        line = {
            "instance_id": found.id,
            "model_name_or_path": found.model or "unknown",  # a folder of the evaluation
            "model_patch": found.patch or "",
        }
        return msgspec.json.encode(line) + b"\n"

    def _id(self, line: bytes) -> str | None:
        try:
            found = msgspec.json.decode(line)
        except msgspec.DecodeError:
            return None
        name = "id" if self._form == "full" else "instance_id"
        return found.get(name) if isinstance(found, dict) else None  # pyright: ignore[reportUnknownMemberType,reportUnknownVariableType]

    @contextmanager
    def _writing(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise QueueError(
                f"the results cannot be written to {self.path}: {error.strerror or error}.",
                remedy="The run directory has them all; resume when that is mended.",
            ) from error
