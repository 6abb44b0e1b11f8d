"""The configuration of a run, and the protocol of engines that run its tasks."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from alhena.batch.queue import Ended
from alhena.batch.tasks import TaskLimits
from alhena.values import Value


class Shared(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits shared by all tasks of a run: tasks at a time, requests and tokens a minute, US
    dollars, seconds."""

    concurrency: int = 8
    rpm: int | None = None
    tpm: int | None = None
    total_cost: float | None = None
    total_seconds: float | None = None


class RunConfig(Value, frozen=True, kw_only=True, omit_defaults=True):
    """The flags of a run, kept with it. `cwd` is the directory of tasks that name none; `lease` is
    in seconds. The rest is as `alhena` takes it for one run."""

    out: str
    cwd: str
    form: Literal["full", "swebench"] = "full"
    workers: int = 0
    lease: float = 30.0
    worktree: bool = False
    shared: Shared = Shared()
    model: str | None = None
    approval_mode: str = "default"
    limits: TaskLimits = TaskLimits()
    policy: tuple[str, ...] = ()
    allowed_tools: tuple[str, ...] = ()
    include_directories: tuple[str, ...] = ()
    skip_trust: bool = False
    sandbox: bool | None = None
    fake_responses: str | None = None


class Engine(Protocol):
    """Runs the tasks of one run directory. Methods raise AlhenaError."""

    directory: Path

    def submit(self) -> None:
        """Starts the tasks that have no result."""
        ...

    def resume(self) -> None:
        """As `submit`, for a run that was started before: takes back what died with its workers."""
        ...

    def events(self, after: int = 0) -> AsyncIterator[tuple[Ended, ...]]:
        """Results behind the one of this number as they come, an empty tuple now and then;
        ends when nothing runs any more."""
        ...

    def cancel(self, *, running: bool) -> None:
        """Starts no further task; with `running` also ends those that run, without a result."""
        ...
