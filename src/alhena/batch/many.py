"""Many tasks of a program, some at a time."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast, overload

import msgspec

from alhena.agent.limits import Usage
from alhena.agent.waiting import WaitingRun, read_state
from alhena.batch.errors import SharedLimitError, TaskFailedError, TaskFileError
from alhena.batch.tasks import key_of
from alhena.errors import AlhenaError, ConfigError, InputError, ProgramError
from alhena.library.agent import Agent, Prompt
from alhena.library.outputs import read_output_type
from alhena.library.program import find_logger
from alhena.library.result import Result, Run
from alhena.models.combined import LimitedRequests, RequestLimits
from alhena.models.generator import ContentGenerator
from alhena.models.retry import wrap_attempts
from alhena.scheduler.question import Answer
from alhena.system.workspace import current_directory
from alhena.threads import is_cancelled
from alhena.tools.value_types import value_from_json, value_to_json
from alhena.values import Value
from alhena.wire.json_values import scrub

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from alhena.agent.toolset.options import SessionSpec
    from alhena.batch.queue import EndedTask, Queue
    from alhena.batch.results import TaskResult
    from alhena.batch.tasks import QueuedTask


T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
_FIELDS = ("id", "prompt", "output_schema")


class Task(Generic[T_co]):
    """A task of `run_many`.

        Task("How many legs has a spider?", id="spider", output=int, data={"expected": 8})

    `id` names it (by default made of its prompt); `output` and `check` are those of `Agent.run`,
    `deps` go before those of its agent. `data` is the program's own, for its agent factory and its
    scorers; `cwd` the directory of its agent, instead of the factory's.
    """

    if TYPE_CHECKING:

        @overload
        def __init__(
            self: "Task[str]",
            prompt: Prompt,
            *,
            id: str | None = None,
            deps: Any = None,
            data: Any = None,
            cwd: str | PathLike[str] | None = None,
        ) -> None: ...
        @overload
        def __init__(
            self,
            prompt: Prompt,
            *,
            output: TypeForm[T_co],
            check: Callable[[T_co], T_co] | None = None,
            id: str | None = None,
            deps: Any = None,
            data: Any = None,
            cwd: str | PathLike[str] | None = None,
        ) -> None: ...

    def __init__(  # noqa: PLR0913  a library's front door
        self,
        prompt: Any,
        *,
        id: str | None = None,
        output: Any = str,
        check: Any = None,
        deps: Any = None,
        data: Any = None,
        cwd: Any = None,
    ) -> None:
        if id is not None and (not isinstance(cast("object", id), str) or not id.strip()):
            raise TypeError(f"Task.id has to be text, not {id!r:.60}")
        if output is not str:
            read_output_type(output, check)
        elif check is not None:
            raise TypeError("Task.check needs output=, a type whose values it checks")
        self.prompt = prompt
        self.id = id
        self.output = output
        self.check = check
        self.deps = deps
        self.data = data
        self.cwd = cwd

    def __repr__(self) -> str:
        return f"Task({self.prompt!r:.60}, id={self.id!r})"


GivenTask = Task[Any] | Prompt | Mapping[str, Any]
"""A task, a prompt, or a mapping with `prompt`, and `id` and `output_schema` if wanted."""
Factory = Callable[[Task[Any]], Agent[Any]] | Callable[[], Agent[Any]]


class Outcome(Value, Generic[T], frozen=True, kw_only=True):
    """The end of one task of `run_many`: its `result`, or the `error` that ended it. A "pending"
    one waits for answers to `result.pending`. `id` is its own, or made of its text; `task` is as it
    was given."""

    id: str
    status: Literal["done", "failed", "pending"]
    task: Any
    result: Result[T] | None = None
    error: AlhenaError | None = None


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """A task as it is asked for: its id, as it was given, as a Task."""

    id: str
    given: Any
    task: Task[Any]


if TYPE_CHECKING:

    @overload
    def run_many(
        tasks: Iterable[Task[T]],
        *,
        agent: Factory,
        concurrency: int = 8,
        rpm: int | None = None,
        tpm: int | None = None,
        total_cost: float | None = None,
        run_dir: str | PathLike[str] | None = None,
        retry_failed: bool = False,
        answers: Mapping[str, Mapping[str, Answer]] | None = None,
    ) -> AsyncGenerator[Outcome[T], None]: ...
    @overload
    def run_many(
        tasks: Iterable[GivenTask],
        *,
        agent: Factory,
        concurrency: int = 8,
        rpm: int | None = None,
        tpm: int | None = None,
        total_cost: float | None = None,
        run_dir: str | PathLike[str] | None = None,
        retry_failed: bool = False,
        answers: Mapping[str, Mapping[str, Answer]] | None = None,
    ) -> AsyncGenerator[Outcome[Any], None]: ...


async def run_many(  # noqa: PLR0913  a library's front door
    tasks: Iterable[Any],
    *,
    agent: Any,
    concurrency: int = 8,
    rpm: int | None = None,
    tpm: int | None = None,
    total_cost: float | None = None,
    run_dir: str | PathLike[str] | None = None,
    retry_failed: bool = False,
    answers: "Mapping[str, Mapping[str, Answer]] | None" = None,
) -> AsyncGenerator[Outcome[Any], None]:
    """Runs each task with an agent of its own and gives the outcomes as they come.

    Args:
        tasks: `Task`s, prompts, or mappings with `prompt`, `id` and `output_schema`. Without
            `run_dir` an iterator is read only as far as there is room for its tasks.
        agent: makes the agent of a Task; agents may share a model object.
        concurrency: how many run at a time.
        rpm: requests a minute of all tasks together, `tpm` their tokens.
        total_cost: US dollars for all tasks; at the limit no further one starts.
        run_dir: keeps tasks, journals and results: called again after a crash, unfinished tasks
            continue and finished ones are given without asking again. Prompts have to be texts.
        retry_failed: failed and cancelled tasks of `run_dir` run again; else they stay so.
        answers: by task id and call id, for tasks of `run_dir` that were "pending": these continue.

    Closing the iterator ends what still runs: leave a loop early within `contextlib.aclosing`. An
    error of a task, also one that `agent` or a check raises, fails that task alone; one that is not
    alhena's is logged (`alhena.tasks`), and the `__cause__` of a ProgramError. Raises TypeError for
    a text in place of tasks and an `agent` that makes none, InputError for answers that do not fit.
    """
    if isinstance(tasks, str | bytes | Mapping) or not isinstance(cast("object", tasks), Iterable):
        raise TypeError(f"tasks has to be a sequence of prompts, such as [{tasks!r:.60}]")
    if not isinstance(cast("object", concurrency), int):
        raise TypeError(f"concurrency has to be a whole number, not {concurrency!r:.60}")
    if not isinstance(cast("object", total_cost), int | float | None) or str(total_cost) == "nan":
        raise TypeError(f"total_cost has to be a number, not {total_cost!r:.60}")
    if concurrency < 1:
        raise ValueError(f"concurrency has to be at least 1, not {concurrency}")
    make = factory_of(agent)
    if run_dir is not None:
        from alhena.batch.engine import SharedLimits

        shared = SharedLimits(concurrency=concurrency, rpm=rpm, tpm=tpm, total_cost=total_cost)
        directory = current_directory() / run_dir
        again = retry_failed, answers or {}
        outcomes = _run_in_directory(tasks, make, shared, directory, again)
    else:
        if answers is not None:
            raise ConfigError("answers needs run_dir, which keeps what waits for them.")
        if retry_failed:
            raise ConfigError("retry_failed needs run_dir, which keeps what failed.")
        limits = RequestLimits(rpm=rpm, tpm=tpm)
        limited = rpm is not None or tpm is not None
        purse = Purse(total_cost)
        outcomes = _plain(tasks, make, concurrency, limits if limited else None, purse)
    try:
        async for outcome in outcomes:
            yield outcome
    finally:
        await outcomes.aclose()


def factory_of(agent: Any) -> Callable[[Task[Any]], Agent[Any]]:
    """The factory, which may leave out the task. Raises TypeError."""
    if not callable(agent):
        raise TypeError(f"agent has to be a function that makes an Agent, not {agent!r:.60}")
    takes = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    try:
        parameters = inspect.signature(agent).parameters.values()
    except ValueError:
        return cast("Callable[[Task[Any]], Agent[Any]]", agent)
    if any(each.kind in takes or each.kind is each.VAR_POSITIONAL for each in parameters):
        return cast("Callable[[Task[Any]], Agent[Any]]", agent)
    return cast("Callable[[Task[Any]], Agent[Any]]", lambda _task: agent())  # pyright: ignore[reportUnknownLambdaType]


class Purse:
    """The US dollars that the tasks of a run may cost together."""

    def __init__(self, limit: float | None) -> None:
        self._limit = limit
        self._spent = 0.0

    def require(self) -> None:
        """Raises SharedLimitError when nothing is left."""
        if self._limit is not None and self._spent >= self._limit:
            raise SharedLimitError(
                f"reached the limit of ${self._limit:g} for all tasks (${self._spent:.4g}).",
                remedy="Raise total_cost.",
            )

    def pay(self, usage: Usage) -> None:
        """Takes what a task has cost. Raises SharedLimitError where that is not known."""
        if self._limit is None:
            return
        if usage.cost_usd is None:
            raise SharedLimitError(
                f"the limit of ${self._limit:g} for all tasks cannot be kept: the price of the"
                " model is not known.",
                remedy="Give it one under model.prices in settings.json, or leave out total_cost.",
            )
        self._spent += usage.cost_usd


async def _run_in_directory(
    tasks: Iterable[GivenTask],
    make: Callable[[Task[Any]], Agent[Any]],
    shared: Any,
    directory: Path,
    again: "tuple[bool, Mapping[str, Mapping[str, Answer]]]",
) -> AsyncGenerator[Outcome[Any], None]:
    """The outcomes of a run with a directory. `again`: whether failed tasks run again, and answers
    with which others continue."""
    from alhena.batch.control import OrderBox
    from alhena.batch.engine import RunConfig
    from alhena.batch.local import LocalEngine
    from alhena.batch.overview import retry_failed
    from alhena.batch.tasks import check_given_tasks
    from alhena.batch.worker import AgentRuns

    cwd = current_directory()
    listed = list(tasks)
    given = check_given_tasks(map(_fields, listed), cwd)
    named = {
        each.id: Work(id=each.id, given=task, task=_as_task(task))
        for each, task in zip(given, listed, strict=True)
    }
    out = str(directory / "results.jsonl")
    config = RunConfig(out=out, cwd=str(cwd), shared=shared, program=True)
    with _open_run(directory, given, config) as queue:
        queue.note("config", msgspec.json.encode(config))  # its limits may be others now
        failed, answers = again
        waiting = require_answers(queue, answers)
        if failed:
            retry_failed(queue)
        program = ProgramRuns(
            {name: (work.task, own_factory(make, work)) for name, work in named.items()}, waiting
        )
        engine = LocalEngine(queue, config, AgentRuns(program.make, program.run))
        orders = OrderBox(queue, engine)
        engine.resume()
        events = engine.events()
        try:
            async for found in events:
                orders.take()
                for each in found:
                    if each.id in named:
                        yield _outcome(queue, each, named[each.id])
        finally:
            await events.aclose()


def own_factory(make: Callable[[Task[Any]], Agent[Any]], work: Work) -> Callable[[], Agent[Any]]:
    """Makes the agent of a task, in the task's directory."""

    def make_own() -> Agent[Any]:
        with fail_task_alone(work.id):
            found = make(work.task)
        if not isinstance(cast("object", found), Agent):
            raise TypeError(f"agent made {type(found).__name__} instead of an Agent")
        if work.task.cwd is not None:
            found.session.adaptations.append(lambda options: _move_session(options, work.task.cwd))
        return found

    return make_own


@contextmanager
def fail_task_alone(task_id: str) -> Generator[None]:
    """Raises a ProgramError, which is the outcome of a task, for what a function of the program
    raises."""
    try:
        yield
    except (Exception, asyncio.CancelledError) as error:
        cancelled = isinstance(error, asyncio.CancelledError) and is_cancelled()
        if cancelled or isinstance(error, AlhenaError):
            raise
        told = f"the task {task_id!r} raised {type(error).__name__}: {error}"
        find_logger("alhena.tasks").warning("%s", told, exc_info=error)
        raise ProgramError(told) from error


def _move_session(options: "SessionSpec", cwd: Any) -> "SessionSpec":
    from alhena.agent.toolset.options import workspace_directory

    place = msgspec.structs.replace(options.place, cwd=workspace_directory(cwd))
    return msgspec.structs.replace(options, place=place)


def _open_run(
    directory: Path, tasks: "list[QueuedTask]", config: Any
) -> "AbstractContextManager[Queue]":
    from alhena.batch.queue import FILE
    from alhena.batch.run import new_run, old_run

    if not (directory / FILE).exists():
        return new_run(directory, tasks, config)
    return old_run(directory, tasks)


def _as_task(given: Any) -> Task[Any]:
    """A task as a Task."""
    if isinstance(given, Task):
        return cast("Task[Any]", given)
    fields = _fields(given)
    schema = fields.get("output_schema")
    if schema is None:
        return Task(fields.get("prompt"), id=fields.get("id"))  # pyright: ignore[reportArgumentType]
    return Task(fields.get("prompt"), id=fields.get("id"), output=schema)  # pyright: ignore[reportArgumentType]


def _fields(task: Any) -> Mapping[str, Any]:
    """The fields of a task. Raises TaskFileError for those that its agent decides."""
    if isinstance(task, Task):
        own = cast("Task[Any]", task)
        schema = None if own.output is str else read_output_type(own.output, None)[0]
        given = {"id": own.id, "prompt": own.prompt, "output_schema": schema}
        return {name: value for name, value in given.items() if value is not None}
    if not isinstance(task, Mapping):
        return {"prompt": task}
    fields = cast("Mapping[str, Any]", task)
    for name in fields:
        if name not in _FIELDS:
            raise TaskFileError(
                f"run_many: a task has no {name!r}; the agent that agent= makes decides that.",
                remedy=f"Give {', '.join(_FIELDS)}, or a Task.",
            )
    return fields


def _outcome(queue: "Queue", ended: "EndedTask", work: Work) -> Outcome[Any]:
    """The outcome that a queue knows."""
    from alhena.batch.results import result_of

    found = result_of(ended.result)
    usage = Usage(**found.usage, cost_usd=found.cost_usd)
    if found.status == "pending":
        waits = pending_result(queue.directory, ended.id, found, usage)
        return Outcome(id=ended.id, status="pending", task=work.given, result=waits)
    if found.status != "done":
        error = TaskFailedError(found.error or found.status, found.kind or found.status)
        return Outcome(id=ended.id, status="failed", task=work.given, error=error)
    output: Any = found.answer
    if work.task.output is not str:
        output = found.output
        if not isinstance(work.task.output, Mapping):
            output = value_from_json(work.task.output, output)
    result = Result[Any](
        output=output,
        text=found.answer or "",
        usage=usage,
        stop_reason="done",
        session_id=found.session_id or "",
    )
    return Outcome(id=ended.id, status="done", task=work.given, result=result)


async def _plain(
    tasks: Iterable[GivenTask],
    make: Callable[[Task[Any]], Agent[Any]],
    concurrency: int,
    limits: RequestLimits | None,
    purse: Purse,
) -> AsyncGenerator[Outcome[Any], None]:
    """The outcomes of a run that keeps nothing."""
    waiting = number_tasks(tasks)
    ended: asyncio.Queue[Outcome[Any] | BaseException | None] = asyncio.Queue(concurrency)

    async def work() -> None:
        try:
            for each in waiting:
                await ended.put(await _run_one(each, make, limits, purse))
            await ended.put(None)
        except Exception as error:  # noqa: BLE001  raised where the outcomes are awaited
            await ended.put(error)

    workers = [asyncio.create_task(work()) for _ in range(concurrency)]
    left = concurrency
    try:
        while left:
            outcome = await ended.get()
            if isinstance(outcome, BaseException):
                raise outcome
            if outcome is None:
                left -= 1
            else:
                yield outcome
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.wait(workers)


async def _run_one(
    work: Work,
    make: Callable[[Task[Any]], Agent[Any]],
    limits: RequestLimits | None,
    purse: Purse,
) -> Outcome[Any]:
    """The outcome of a task."""
    task = work.task
    result: Result[Any] | None = None
    try:
        purse.require()
        agent = own_factory(make, work)()
        if limits is not None:
            agent.session.adaptations.append(lambda options: _limit_session(options, limits))
        more: dict[str, Any] = {} if task.deps is None else {"deps": task.deps}
        if task.output is not str:
            more |= {"output": task.output, "check": task.check}
        with fail_task_alone(work.id):
            result = await agent.run(task.prompt, **more)
        purse.pay(result.usage)
    except AlhenaError as error:
        return Outcome(id=work.id, status="failed", task=work.given, result=result, error=error)
    status = "pending" if result.stop_reason == "pending" else "done"
    return Outcome(id=work.id, status=status, task=work.given, result=result)


def _limit_session(options: "SessionSpec", limits: RequestLimits) -> "SessionSpec":
    """The options of a session whose requests keep to limits that others share."""
    before = options.model.wrap

    def wrap(generator: ContentGenerator) -> ContentGenerator:
        generator = generator if before is None else before(generator)
        return wrap_attempts(generator, lambda inner: LimitedRequests(inner, limits))

    return msgspec.structs.replace(options, model=msgspec.structs.replace(options.model, wrap=wrap))


def number_tasks(tasks: Iterable[GivenTask]) -> Iterator[Work]:
    """The tasks as they are asked for, with ids."""
    from alhena.batch.tasks import content_id

    known: set[str] = set()
    for given in tasks:
        task = _as_task(given)
        name = task.id or content_id({"prompt": scrub(str(task.prompt))}, known)
        if task.id is not None and name in known:
            raise TaskFileError(f"two tasks have the id {name!r}.", remedy="Rename one.")
        known.add(name)
        yield Work(id=name, given=given, task=task)


_STATE, _USED = "state.json", "state.used.json"


class ProgramRuns:
    """Makes the agents of a program's tasks and runs them: by id, each task and what makes its
    agent; `waiting` are the states and answers of those that waited."""

    def __init__(
        self,
        tasks: "Mapping[str, tuple[Task[Any], Callable[[], Agent[Any]]]]",
        waiting: "Mapping[str, tuple[bytes, Mapping[str, Answer]]]",
    ) -> None:
        self._tasks = tasks
        self._waiting = dict(waiting)

    def make(self, queued: "QueuedTask", _cwd: Path) -> "Agent[Any]":
        """The agent of a task."""
        if queued.id not in self._tasks:
            raise InputError(
                f"the run has a task {queued.id!r} that was not given.",
                remedy="Give all tasks of the run directory.",
            )
        return self._tasks[queued.id][1]()

    async def run(self, agent: "Agent[Any]", queued: "QueuedTask", folder: Path) -> Result[Any]:
        """The result of a task, its output as JSON. One that waits is kept in the folder."""
        task = self._tasks[queued.id][0]
        more: dict[str, Any] = {} if task.deps is None else {"deps": task.deps}
        if task.output is not str:
            more |= {"output": task.output, "check": task.check}
        waited = self._waiting.pop(queued.id, None)
        with fail_task_alone(queued.id):
            run: Run[Any]
            if waited is None:
                run = agent.run(task.prompt, **more)
            else:
                run = agent.resume(*waited, **more)
                (folder / _STATE).replace(folder / _USED)
            result = await run
        if result.stop_reason == "pending":
            part = folder / f"{_STATE}.part"
            part.write_bytes(result.state())
            part.replace(folder / _STATE)
        elif task.output is not str and not isinstance(task.output, Mapping):
            return msgspec.structs.replace(result, output=value_to_json(result.output))
        return result


def require_answers(
    queue: "Queue", answers: "Mapping[str, Mapping[str, Answer]]"
) -> "dict[str, tuple[bytes, Mapping[str, Answer]]]":
    """Lets the answered tasks continue; returns their states and answers. Raises InputError
    before any does."""
    found: dict[str, tuple[bytes, Mapping[str, Answer]]] = {}
    for task_id, given in answers.items():
        rows = queue.rows("SELECT status FROM tasks WHERE id = ?", task_id)
        state_file = queue.directory / "tasks" / key_of(task_id) / _STATE
        # a task may have failed before it was resumed, as when its agent could not be made
        if not rows or rows[0][0] not in ("pending", "failed") or not state_file.exists():
            raise InputError(
                f"the task {task_id!r} does not wait for answers.",
                remedy='Answer those whose outcome is "pending".',
            )
        state = state_file.read_bytes()
        try:
            WaitingRun(read_state(state), given)
        except InputError as error:
            raise InputError(f"task {task_id!r}: {error.message}", remedy=error.remedy) from None
        found[task_id] = state, given
    with queue.transaction(durable=True) as db:
        for task_id in found:
            db.execute(
                "UPDATE tasks SET state = 'waiting', status = NULL, result = NULL, place = NULL"
                " WHERE id = ?",
                (task_id,),
            )
    return found


def pending_result(directory: Path, task_id: str, found: "TaskResult", usage: Usage) -> Result[Any]:
    """The result of a task that waits."""
    state = (directory / "tasks" / key_of(task_id) / _STATE).read_bytes()
    return Result(
        output=found.answer,
        text=found.answer or "",
        usage=usage,
        stop_reason="pending",
        session_id=found.session_id or "",
        pending=read_state(state).requests,
        state_json=state,
    )
