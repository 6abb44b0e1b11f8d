"""The tasks of a program in a run directory: their agents, and those that wait for answers."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from alhena.agent.limits import Usage
from alhena.agent.waiting import WaitingRun, read_state
from alhena.batch.results import TaskResult
from alhena.batch.tasks import key_of
from alhena.errors import InputError
from alhena.library.result import Result, Run
from alhena.tools.value_types import value_to_json

if TYPE_CHECKING:
    from alhena.batch.many import Task
    from alhena.batch.queue import Queue
    from alhena.batch.tasks import Task as QueuedTask
    from alhena.library.agent import Agent
    from alhena.scheduler.question import Answer

_STATE, _USED = "state.json", "state.used.json"


class Program:
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
    """Lets the tasks go on that were answered; returns their states and answers. Raises InputError
    before any does."""
    found: dict[str, tuple[bytes, Mapping[str, Answer]]] = {}
    for task_id, given in answers.items():
        rows = queue.rows("SELECT status FROM tasks WHERE id = ?", task_id)
        if not rows or rows[0][0] != "pending":
            raise InputError(
                f"the task {task_id!r} does not wait for answers.",
                remedy='Answer those whose outcome is "pending".',
            )
        state = (queue.directory / "tasks" / key_of(task_id) / _STATE).read_bytes()
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


def pending_result(directory: Path, task_id: str, found: TaskResult, usage: Usage) -> Result[Any]:
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
