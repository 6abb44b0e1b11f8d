"""Results: one JSON line for each task, in a file derived from the queue."""

import errno
import os
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec

from alhena.batch.errors import QueueError
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


class ResultsFile:
    """The results file of a run; only the process that holds the run directory writes it."""

    def __init__(self, path: Path, form: Form) -> None:
        self.path = path
        self._form = form
        self._place = 0
        self._file: Any = None

    def open(self, queue: Queue) -> None:
        """Makes the file agree with the queue: cuts a torn last line, and writes the file again if
        it has others than the first results. Raises QueueError."""
        with self._writing():
            ids = [self._id(line) for line in self._whole_lines()]
            query = "SELECT id FROM tasks WHERE place NOT NULL ORDER BY place"
            known = [row[0] for row in queue.rows(query)]
            if ids != known[: len(ids)]:
                self._replace(())
                ids = []
            self._place = len(ids)
            self._file = self.path.open("ab")

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
        """Brings the file to the disk. Raises QueueError."""
        if self._file is not None:
            with self._writing(), self._file as file:
                os.fsync(file.fileno())

    def rewrite(self, queue: Queue) -> None:
        """Replaces the file by the results in the queue, all at once. Raises QueueError."""
        with self._writing():
            self._replace(queue.results_after(0, -1))

    def _replace(self, ended: Iterable[EndedTask]) -> None:
        made = path_within(self.path.parent, f"{self.path.name}.new")
        with made.open("wb") as file:
            file.writelines(self._line(each.result) for each in ended)
            file.flush()
            os.fsync(file.fileno())
        made.replace(self.path)

    def _whole_lines(self) -> list[bytes]:
        """The lines of the file, which ends with the last whole one then. Raises OSError."""
        if self.path.exists() and not self.path.is_file():
            raise OSError(errno.EINVAL, "not a regular file")
        try:
            with self.path.open("r+b") as file:
                lines = file.readlines()
                if lines and not lines[-1].endswith(b"\n"):
                    file.truncate(sum(map(len, lines[:-1])))
                    lines.pop()
                return lines
        except FileNotFoundError:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            return []

    def _line(self, result: bytes) -> bytes:
        if self._form == "full":
            return result + b"\n"
        found = result_of(result)
        line = {
            "instance_id": found.id,
            "model_name_or_path": found.model or "",
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
