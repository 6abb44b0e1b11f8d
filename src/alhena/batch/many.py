"""Many prompts of a program, some at a time."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from alhena.agent.limits import Usage
from alhena.batch.errors import TaskFailedError, TaskFileError
from alhena.errors import AlhenaError
from alhena.library.agent import Agent, Prompt
from alhena.library.result import Result
from alhena.system.workspace import current_directory
from alhena.values import Value

if TYPE_CHECKING:
    from alhena.batch.queue import EndedTask, Queue
    from alhena.batch.tasks import Task

_FIELDS = ("id", "prompt", "output_schema")
GivenTask = Prompt | Mapping[str, Any]
"""A prompt, or a mapping with `prompt`, and `id` and `output_schema` if wanted."""


class Outcome(Value, frozen=True, kw_only=True):
    """The end of one task of `run_many`: its result, or the error that ended it. `id` is its own,
    or made of its text."""

    id: str
    status: Literal["done", "failed"]
    task: Any
    result: Result[Any] | None = None
    error: AlhenaError | None = None


async def run_many(
    tasks: Iterable[GivenTask],
    *,
    agent: Callable[[], Agent[Any]],
    concurrency: int = 8,
    run_dir: str | PathLike[str] | None = None,
) -> AsyncGenerator[Outcome, None]:
    """Runs each task with an agent of its own and gives the outcomes as they come.

    Args:
        tasks: prompts, or mappings with `prompt`, `id` and `output_schema`. Without `run_dir` an
            iterator is read only as far as there is room for its tasks.
        agent: makes an agent; agents may share a model object.
        concurrency: how many run at a time.
        run_dir: keeps tasks, journals and results: called again after a crash, unfinished tasks
            continue and finished ones are given without asking again. Tasks have to be texts.

    Closing the iterator ends what still runs: leave a loop early within `contextlib.aclosing`. Only
    an AlhenaError is an outcome; any other error is raised.
    """
    if isinstance(tasks, str | bytes | Mapping):
        raise TypeError(f"tasks has to be a sequence of prompts, such as [{tasks!r:.60}]")
    if concurrency < 1:
        raise ValueError(f"concurrency has to be at least 1, not {concurrency}")
    if run_dir is not None:
        outcomes = _run_in_directory(tasks, agent, concurrency, current_directory() / run_dir)
    else:
        outcomes = _plain(tasks, agent, concurrency)
    try:
        async for outcome in outcomes:
            yield outcome
    finally:
        await outcomes.aclose()


async def _run_in_directory(
    tasks: Iterable[GivenTask], agent: Callable[[], Agent[Any]], concurrency: int, directory: Path
) -> AsyncGenerator[Outcome, None]:
    """The outcomes of a run with a directory."""
    from alhena.batch.engine import RunConfig, SharedLimits
    from alhena.batch.local import LocalEngine
    from alhena.batch.tasks import check_given_tasks

    cwd = current_directory()
    listed = list(tasks)
    given = check_given_tasks(map(_fields, listed), cwd)
    named = {each.id: task for each, task in zip(given, listed, strict=True)}
    config = RunConfig(
        out=str(directory / "results.jsonl"),
        cwd=str(cwd),
        shared=SharedLimits(concurrency=concurrency),
    )
    with _open_run(directory, given, config) as queue:
        engine = LocalEngine(queue, config, lambda _task, _cwd: agent())
        engine.resume()
        events = engine.events()
        try:
            async for found in events:
                for each in found:
                    if each.id in named:
                        yield _outcome(each, named[each.id])
        finally:
            await events.aclose()


def _open_run(directory: Path, tasks: "list[Task]", config: Any) -> "AbstractContextManager[Queue]":
    from alhena.batch.queue import FILE
    from alhena.batch.run import new_run, old_run

    if not (directory / FILE).exists():
        return new_run(directory, tasks, config)
    return old_run(directory, tasks)


def _fields(task: Any) -> Mapping[str, Any]:
    """The fields of a task. Raises TaskFileError for those that its agent decides."""
    if not isinstance(task, Mapping):
        return {"prompt": task}
    fields = cast("Mapping[str, Any]", task)
    for name in fields:
        if name not in _FIELDS:
            raise TaskFileError(
                f"run_many: a task has no {name!r}; the agent that agent= makes decides that.",
                remedy=f"Give {', '.join(_FIELDS)}.",
            )
    return fields


def _outcome(ended: "EndedTask", task: Any) -> Outcome:
    """The outcome that a queue knows."""
    from alhena.batch.results import result_of

    found = result_of(ended.result)
    if found.status != "done":
        error = TaskFailedError(found.error or found.status, found.kind or found.status)
        return Outcome(id=ended.id, status="failed", task=task, error=error)
    result = Result(
        output=found.answer if found.output is None else found.output,
        text=found.answer or "",
        usage=Usage(**found.usage, cost_usd=found.cost_usd),
        stop_reason="done",
        session_id=found.session_id or "",
    )
    return Outcome(id=ended.id, status="done", task=task, result=result)


async def _plain(
    tasks: Iterable[GivenTask], agent: Callable[[], Agent[Any]], concurrency: int
) -> AsyncGenerator[Outcome, None]:
    """The outcomes of a run that keeps nothing."""
    waiting = _number_tasks(tasks)
    ended: asyncio.Queue[Outcome | BaseException | None] = asyncio.Queue(concurrency)
    workers = [asyncio.create_task(_work(waiting, agent, ended)) for _ in range(concurrency)]
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


def _number_tasks(tasks: Iterable[GivenTask]) -> Iterator[tuple[str, Any, Any, Any]]:
    """The tasks as they are asked for: id, task, prompt, output."""
    from alhena.batch.tasks import content_id

    known: dict[str, str] = {}
    for task in tasks:
        given = _fields(task)
        prompt, schema = given.get("prompt"), given.get("output_schema")
        name = given.get("id") or content_id({"prompt": str(prompt)}, known)
        known[name] = ""
        yield name, task, prompt, str if schema is None else schema


async def _work(
    waiting: Iterator[tuple[str, Any, Any, Any]],
    agent: Callable[[], Agent[Any]],
    ended: "asyncio.Queue[Outcome | BaseException | None]",
) -> None:
    """Runs tasks, as long as there are any."""
    try:
        for name, task, prompt, output in waiting:
            try:
                result = await agent().run(prompt, output=output)
                outcome = Outcome(id=name, status="done", task=task, result=result)
            except AlhenaError as error:
                outcome = Outcome(id=name, status="failed", task=task, error=error)
            await ended.put(outcome)
        await ended.put(None)
    except Exception as error:  # noqa: BLE001  raised where the outcomes are awaited
        await ended.put(error)
