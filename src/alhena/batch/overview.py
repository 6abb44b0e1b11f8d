"""The tasks of a run as a whole: counted, taken back from dead workers, cancelled, run again."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from alhena.batch.errors import TaskFileError
from alhena.batch.queue import Queue
from alhena.batch.tasks import QueuedTask

TOKENS = (
    "input_tokens",
    "cached_tokens",
    "cache_write_tokens",
    "output_tokens",
    "thought_tokens",
)


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of tasks of a run, and what they took. `cost` is None if a price is unknown."""

    waiting: int = 0
    running: int = 0
    done: int = 0
    failed: int = 0
    cancelled: int = 0
    pending: int = 0
    tokens: int = 0
    cost: float | None = 0.0

    @property
    def ended(self) -> int:
        """Tasks with a result."""
        return self.done + self.failed + self.cancelled + self.pending

    @property
    def total(self) -> int:
        """All tasks."""
        return self.waiting + self.running + self.ended


def usage_of_task(queue: Queue, token: int) -> dict[str, Any]:
    """Attempts, time, tokens and cost of a task so far."""
    plain = ("attempts", "requests", *TOKENS, "cost")
    names = f"elapsed + ? - began, {', '.join(plain)}"
    found = queue.rows(f"SELECT {names} FROM tasks WHERE token = ?", time.monotonic(), token)  # noqa: S608
    return dict(zip(("duration", *plain), found[0], strict=True)) if found else {}


def release_dead(queue: Queue, holder: str) -> None:
    """Gives back the tasks of a worker that has died."""
    with queue.transaction() as db:
        db.execute(
            "UPDATE tasks SET crashes = crashes + 1, state = 'waiting', holder = NULL"
            " WHERE holder = ? AND state = 'running'",
            (holder,),
        )


def holders(queue: Queue) -> list[str]:
    """The workers that hold tasks."""
    found = queue.rows("SELECT DISTINCT holder FROM tasks WHERE state = 'running'")
    return [row[0] for row in found]


def cancel_tasks(
    queue: Queue, ids: Iterable[str] | None, made: Callable[[str, Mapping[str, Any]], bytes]
) -> list[int]:
    """Ends those tasks of these ids (None: all) that have no result as cancelled, each with what
    `made` makes of its id and usage; returns the tokens of those that were running."""
    names = ("attempts", "requests", *TOKENS, "cost", "duration")
    query = (
        f"SELECT n, id, state, token, {', '.join(names[:-1])},"  # noqa: S608
        " elapsed + CASE state WHEN 'running' THEN ? - began ELSE 0 END"
        " FROM tasks WHERE state != 'ended'"
    )
    now = time.monotonic()
    tokens: list[int] = []
    with queue.transaction(durable=True) as db:
        (place,) = db.execute("SELECT coalesce(max(place), 0) FROM tasks").fetchone()
        if ids is None:
            found = db.execute(f"{query} ORDER BY n", (now,)).fetchall()
        else:
            each = (
                db.execute(f"{query} AND id = ?", (now, name)).fetchone()
                for name in dict.fromkeys(ids)
            )
            found = [row for row in each if row is not None]
        for number, (n, task_id, state, token, *taken) in enumerate(found, place + 1):
            result = made(task_id, dict(zip(names, taken, strict=True)))
            db.execute(
                "UPDATE tasks SET state = 'ended', status = 'cancelled', kind = 'cancelled',"
                " holder = NULL, token = 0, place = ?, result = ? WHERE n = ?",
                (number, result, n),
            )
            if state == "running":
                tokens.append(token)
    return tokens


def retry_failed(queue: Queue) -> int:
    """Puts failed and cancelled tasks back into the queue; returns their number. The others
    keep their order of completion."""
    with queue.transaction(durable=True) as db:
        done = db.execute(
            "UPDATE tasks SET state = 'waiting', status = NULL, kind = NULL, result = NULL,"
            " place = NULL, crashes = 0 WHERE state = 'ended' AND status != 'done'"
        )
        kept = db.execute("SELECT n FROM tasks WHERE place NOT NULL ORDER BY place").fetchall()
        numbered = ((place, n) for place, (n,) in enumerate(kept, 1))
        db.executemany("UPDATE tasks SET place = ? WHERE n = ?", numbered)
    return done.rowcount


def counts(queue: Queue) -> Counts:
    """The numbers of the run."""
    found = queue.rows(
        "SELECT CASE state WHEN 'ended' THEN status ELSE state END, count(*),"
        " sum(input_tokens + output_tokens + thought_tokens), sum(cost),"
        " sum(cost IS NULL) FROM tasks GROUP BY 1"
    )
    numbers = {row[0]: row[1] for row in found}
    known = all(row[4] == 0 for row in found)
    return Counts(
        **numbers,
        tokens=sum(row[2] for row in found),
        cost=sum(row[3] or 0.0 for row in found) if known else None,
    )


def add_tasks(queue: Queue, tasks: Iterable[QueuedTask]) -> None:
    """Adds the tasks that are new. Raises TaskFileError for an id that was another task's."""
    with queue.transaction(durable=True) as db:
        for task in tasks:
            spec = msgspec.json.encode(task)
            found = db.execute("SELECT spec FROM tasks WHERE id = ?", (task.id,)).fetchone()
            if found is None:
                db.execute("INSERT INTO tasks (id, spec) VALUES (?, ?)", (task.id, spec))
            elif found[0] != spec:
                raise TaskFileError(
                    f"the task {task.id!r} was another one before in {queue.directory}.",
                    remedy="Give it a new id, or the run another directory.",
                )
