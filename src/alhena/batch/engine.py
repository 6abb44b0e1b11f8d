"""The configuration of a run, and the protocol of engines that run its tasks."""

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Annotated, Literal, Protocol

import msgspec

from alhena.batch.queue import Claim, EndedTask, Queue
from alhena.batch.store import Place
from alhena.batch.tasks import QueuedTask
from alhena.values import Limits, Value
from alhena.wire.response import UsageMetadata


class SharedLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits shared by all tasks of a run: tasks at a time, requests and tokens a minute, US
    dollars, seconds. While it is `paused` no further task starts."""

    concurrency: Annotated[int, msgspec.Meta(ge=1)] = 8
    rpm: Annotated[int, msgspec.Meta(ge=1)] | None = None
    tpm: Annotated[int, msgspec.Meta(ge=1)] | None = None
    total_cost: Annotated[float, msgspec.Meta(gt=0)] | None = None
    total_seconds: Annotated[float, msgspec.Meta(gt=0)] | None = None
    paused: bool = False


class RunConfig(Value, frozen=True, kw_only=True, omit_defaults=True):
    """The flags of a run, kept with it. `cwd` is the directory of tasks that name none; `lease` is
    in seconds; `address` is that of a Ray cluster; with `program` its agents are made by a program,
    not by these flags. The rest is as `alhena` takes it for one run."""

    out: str
    cwd: str
    form: Literal["full", "swebench"] = "full"
    engine: Literal["local", "ray"] = "local"
    address: str | None = None
    workers: int = 0
    lease: float = 30.0
    worktree: bool = False
    shared: SharedLimits = SharedLimits()
    model: str | None = None
    service_tier: Literal["flex", "standard", "priority"] | None = None
    approval_mode: str = "default"
    limits: Limits = Limits()
    policy: tuple[str, ...] = ()
    allowed_tools: tuple[str, ...] = ()
    include_directories: tuple[str, ...] = ()
    skip_trust: bool = False
    sandbox: bool | None = None
    fake_responses: str | None = None
    program: bool = False

    def directory_of(self, task: QueuedTask) -> Path:
        """The directory, or repository, that a task works on and whose settings it has."""
        return Path((task.repo or "").partition("#")[0] or task.cwd or self.cwd)


class LiveLimits:
    """The shared limits of a run: `first`, until its queue gets others while it runs."""

    def __init__(self, queue: Queue, first: SharedLimits) -> None:
        self._queue = queue
        self._current = first
        self._data: bytes | None = queue.fact("config")

    def __call__(self) -> SharedLimits:
        """The limits as they are now. Raises QueueError."""
        data = self._queue.fact("config")
        if data != self._data:
            self._data = data
            self._current = msgspec.json.decode(data, type=RunConfig).shared
        return self._current


class TaskQueue(Protocol):
    """The tasks that a worker takes, and gives back with a result or without one."""

    directory: Path

    def is_over(self) -> bool:
        """True when there is none left to wait for."""
        ...

    def claim(
        self, holder: str, most: int, concurrency: int, lease_s: float, *, idle: bool = True
    ) -> list[Claim]:
        """Claims up to `most`."""
        ...

    def finish(self, token: int, status: str, kind: str | None, result: bytes, /) -> bool:
        """Writes a result; False if the token no longer holds the task."""
        ...

    def release(self, token: int, limit: str | None = None) -> None:
        """Gives a task back unfinished, at a shared limit if that is given as a sentence."""
        ...

    def renew(self, tokens: Sequence[int], lease_s: float, /) -> tuple[set[int], float] | None:
        """Renews leases; returns the tokens that still hold their tasks and the time from which
        their leases count, None while that is not known."""
        ...


class Charge(msgspec.Struct, frozen=True, array_like=True):
    """A request, known by its number, of the task claimed by `token` took this; None: it was
    refused. `answered`: the model that the answer names."""

    number: int
    token: int
    model: str
    usage: UsageMetadata | None
    answered: str = ""


class Admission(Protocol):
    """Admits requests of tasks within the limits they share."""

    async def admit(self, model: str, tokens: int) -> int:
        """Returns when a request of about so many tokens may start; its number."""
        ...

    def charge(self, charge: Charge, /) -> None:
        """Counts what a request took. The same one may come twice."""
        ...

    def delay(self, model: str, seconds: float) -> None:
        """The service wants no request to the model for so long."""
        ...


class Engine(Protocol):
    """Runs the tasks of one run directory. Methods raise AlhenaError."""

    place: Place
    """The run directory."""

    def resume(self) -> None:
        """Starts the tasks that have no result, and takes back what died with its workers."""
        ...

    def events(self, after: int = 0) -> AsyncGenerator[tuple[EndedTask, ...]]:
        """Results behind the one of this number as they come, an empty tuple now and then;
        ends when nothing runs any more."""
        ...

    def cancel(self, *, running: bool) -> None:
        """Starts no further task; with `running` also ends those that run, without a result."""
        ...

    def end_attempts(self, tokens: Sequence[int]) -> None:
        """Ends what runs under tokens that hold no task any more, at once."""
        ...
