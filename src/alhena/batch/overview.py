"""The tasks of a run as a whole: counted, taken back from dead workers, cancelled, run again."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
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


_TAKEN = (
    "count(*), coalesce(sum(input_tokens + output_tokens + thought_tokens), 0),"
    " coalesce(sum(cost), 0.0), coalesce(sum(cost IS NULL), 0)"
)
_LATEST = (
    f"SELECT max(place), status, {_TAKEN} FROM tasks WHERE place > ? GROUP BY status"  # noqa: S608
    f" UNION ALL SELECT 0, '', {_TAKEN} FROM tasks WHERE requests > 0 AND state != 'ended'"
    " UNION ALL SELECT 0, '', count(*), 0, 0.0, 0 FROM tasks WHERE state = 'running'"
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


def release_dead(queue: Queue, holder: str, *, crashed: bool = True) -> None:
    """Gives back the tasks of a worker that has died; not `crashed`: it was ended."""
    with queue.transaction() as db:
        db.execute(
            "UPDATE tasks SET crashes = crashes + ?, state = 'waiting', holder = NULL"
            " WHERE holder = ? AND state = 'running'",
            (crashed, holder),
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
            " place = NULL, crashes = 0 WHERE state = 'ended'"
            " AND status NOT IN ('done', 'pending')"
        )
        kept = db.execute("SELECT n FROM tasks WHERE place NOT NULL ORDER BY place").fetchall()
        numbered = ((place, n) for place, (n,) in enumerate(kept, 1))
        db.executemany("UPDATE tasks SET place = ? WHERE n = ?", numbered)
    return done.rowcount


def counts(queue: Queue) -> Counts:
    """The numbers of the run."""
    return Tally(queue).count()


class Tally:
    """Counts the tasks of a run again and again, those that have ended once: there may be a
    million. Only for one process at a time while tasks get results, and no task is put back."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._total: int = queue.rows("SELECT count(*) FROM tasks")[0][0]
        self._place = 0
        self._ended: Counter[str] = Counter()
        self._taken = (0, 0.0, 0)

    def count(self) -> Counts:
        """The numbers of the run now. Raises QueueError."""
        found = self._queue.rows(_LATEST, self._place)  # one query: no task moves meanwhile
        running, begun = found.pop(), found.pop()
        for place, status, number, *taken in found:
            self._place = max(self._place, place)
            self._ended[status] += number
            self._taken = _add(self._taken, taken)
        tokens, cost, unpriced = _add(self._taken, begun[3:])
        return Counts(
            **self._ended,
            running=running[2],
            waiting=self._total - running[2] - self._ended.total(),
            tokens=tokens,
            cost=None if unpriced else cost,
        )


def _add(one: tuple[int, float, int], other: Sequence[Any]) -> tuple[int, float, int]:
    """Sums of tokens, cost and tasks of unknown cost."""
    return one[0] + other[0], one[1] + other[1], one[2] + other[2]


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
