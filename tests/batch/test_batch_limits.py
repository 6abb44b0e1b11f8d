"""Limits that all tasks share, whatever process they run in."""

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from alhena.batch.engine import Charge, SharedLimits
from alhena.batch.errors import SharedLimitError
from alhena.batch.limits import Limiter
from alhena.batch.overview import Tally, cancel_tasks, counts, usage_of_task
from alhena.batch.queue import Queue
from alhena.batch.tasks import QueuedTask
from alhena.models.prices import Prices
from alhena.wire.response import UsageMetadata
from tests.batch.answering import AnsweringServer, echo, results, write_tasks
from tests.support.command import alhena, keyed
from tests.support.server import json_reply

MODEL = "gemini-2.5-flash"


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    made = Queue.create(tmp_path, [QueuedTask(id="a", prompt="x")], b"{}")
    yield made
    made.close()


def limiters(queue: Queue, clock: Clock, **limits: Any) -> tuple[Limiter, Limiter]:
    """Those of two workers."""
    shared = SharedLimits(**limits)
    other = Queue(queue.directory)
    return (
        Limiter(queue, shared, Prices({}), clock, clock.sleep),
        Limiter(other, shared, Prices({}), clock, clock.sleep),
    )


def most_in_a_minute(starts: list[float]) -> int:
    return max(sum(1 for each in starts if at <= each < at + 60) for at in starts)


@pytest.mark.requirement("RUN-02")
async def test_in_no_minute_more_requests_start_than_may_over_all_workers(queue: Queue):
    clock = Clock()
    workers = limiters(queue, clock, rpm=5)
    starts: list[float] = []
    for number in range(23):
        await workers[number % 2].admit(MODEL, 10)
        starts.append(clock.now)
        clock.now += 1.5
    assert most_in_a_minute(starts) == 5
    assert starts[-1] - starts[0] < 5 * 60


@pytest.mark.requirement("RUN-02")
async def test_in_no_minute_more_tokens_are_taken_than_may(queue: Queue):
    clock = Clock()
    workers = limiters(queue, clock, tpm=1000)
    starts: list[tuple[float, int]] = []
    for number in range(12):
        limiter = workers[number % 2]
        one = await limiter.admit(MODEL, 300)
        starts.append((clock.now, 400))
        limiter.charge(Charge(one, 0, MODEL, UsageMetadata(prompt_token_count=400)))
    for at, _ in starts:
        assert sum(tokens for each, tokens in starts if at <= each < at + 60) <= 1000


@pytest.mark.requirement("RUN-02")
async def test_money_is_reserved_before_and_corrected_after_a_request(queue: Queue):
    clock = Clock()
    one, other = limiters(queue, clock, total_cost=0.01)
    refused = await one.admit(MODEL, 20_000)
    one.charge(Charge(refused, 0, MODEL, None))  # a refused request costs nothing
    taken = await other.admit(MODEL, 20_000)
    usage = UsageMetadata(prompt_token_count=1_000, candidates_token_count=5_000)
    other.charge(Charge(taken, 0, MODEL, usage))
    spent = queue.fact("spent")
    other.charge(Charge(taken, 0, MODEL, usage))  # said again, it costs nothing more
    assert queue.fact("spent") == spent
    with pytest.raises(SharedLimitError, match=r"limit of \$0.01 for all tasks"):
        await one.admit(MODEL, 10)
    queue.note("spent", 0.01)
    assert one.describe_reached_limit() is not None
    queue.note("spent", 0.0099)
    assert one.describe_reached_limit() is None


async def test_the_price_of_the_model_that_answered_counts(queue: Queue):
    (limiter, _) = limiters(queue, Clock(), total_cost=100)
    usage = UsageMetadata(prompt_token_count=1_000_000)
    spent: list[float] = []
    for answered in ("", "gemini-3.1-pro-preview", "a-model-without-price"):
        queue.note("spent", 0.0)
        limiter.charge(Charge(await limiter.admit(MODEL, 10), 0, MODEL, usage, answered))
        spent.append(float(queue.fact("spent") or 0.0))
    asked, other, unknown = spent
    assert other == pytest.approx(4.0)
    assert 0 < asked == unknown < other


@pytest.mark.requirement("RUN-02")
async def test_the_money_of_a_request_that_takes_minutes_counts(queue: Queue):
    clock = Clock()
    one, other = limiters(queue, clock, total_cost=0.01)
    long = await one.admit(MODEL, 1_000)
    clock.now += 200
    await other.admit(MODEL, 10)
    one.charge(
        Charge(
            long, 0, MODEL, UsageMetadata(prompt_token_count=1_000, candidates_token_count=9_000)
        )
    )
    with pytest.raises(SharedLimitError, match=r"limit of \$0.01 for all tasks"):
        await other.admit(MODEL, 10)


@pytest.mark.requirement("RUN-02")
async def test_nobody_asks_a_model_before_the_service_wants_it_asked(queue: Queue):
    clock = Clock()
    one, other = limiters(queue, clock)
    one.delay(MODEL, 12)
    await other.admit("gemini-2.5-pro", 10)
    assert not clock.waits
    await other.admit(MODEL, 10)
    assert sum(clock.waits) == pytest.approx(12)


@pytest.mark.requirement("RUN-02")
async def test_a_model_without_a_price_is_refused_where_money_is_limited(queue: Queue):
    with pytest.raises(SharedLimitError, match="the price of mystery is not known"):
        await limiters(queue, Clock(), total_cost=1.0)[0].admit("mystery", 10)


@pytest.mark.requirement("RUN-02")
def test_no_more_tasks_run_than_may_over_all_workers(project: Path):
    lock = threading.Lock()
    running = most = 0

    def answer(contents: list[dict[str, Any]]) -> Any:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        threading.Event().wait(0.02)
        with lock:
            running -= 1
        return echo(contents)

    write_tasks(project / "tasks.jsonl", 12)
    with AnsweringServer(answer) as server:
        options = ("--workers", "2", "--concurrency", "3")
        ran = alhena("batch", "tasks.jsonl", "--out", "r.jsonl", *options, **keyed(server))
    assert ran.code == 0, ran.err
    assert most <= 3


def test_a_task_s_own_limit_is_its_failure_alone(project: Path):
    (project / "tasks.jsonl").write_text(
        json.dumps({"id": "a", "prompt": "task a", "limits": {"tokens": 1}})
        + "\n"
        + json.dumps({"id": "b", "prompt": "task b", "model": "gone"})
        + "\n"
        + json.dumps({"id": "c", "prompt": "task c"})
    )

    def answer(contents: list[dict[str, Any]]) -> Any:
        if "models/gone" in server.requests[-1].path:
            return json_reply({"error": {"code": 404, "message": "no", "status": "X"}}, 404)
        return (
            [{"functionCall": {"name": "glob", "args": {"pattern": "*"}}}]
            if ("functionResponse" not in json.dumps(contents[-1]))
            else echo(contents)
        )

    with AnsweringServer(answer) as server:
        options = ("--concurrency", "1")
        ran = alhena("batch", "tasks.jsonl", "--out", "r.jsonl", *options, **keyed(server))
    assert ran.code == 1
    found = {each["id"]: each for each in results(project / "r.jsonl")}
    assert (found["a"]["status"], found["a"]["kind"]) == ("failed", "token_limit")
    assert found["b"]["status"] == "failed"
    assert found["c"]["status"] == "done"


def test_no_step_of_a_task_reads_the_whole_queue(tmp_path: Path):
    """There may be a million tasks, and any step is taken as often."""
    tasks = [QueuedTask(id=f"t{n}", prompt="x") for n in range(4)]
    queue = Queue.create(tmp_path, tasks, b"{}")
    limiter = Limiter(queue, SharedLimits(rpm=9, tpm=10_000), Prices({}), Clock())
    tally = Tally(queue)
    statements: list[str] = []
    with queue.transaction() as db:
        db.set_trace_callback(statements.append)
    first, second = queue.claim("one", 2, 2, 60.0)
    number, _ = limiter.start(MODEL, 100)
    assert number is not None
    usage = UsageMetadata(prompt_token_count=10, candidates_token_count=1)
    limiter.charge(Charge(number, first.token, MODEL, usage))
    assert limiter.start(MODEL, 9_995)[1] == 60.0
    assert usage_of_task(queue, first.token)["requests"] == 1
    assert queue.renew([first.token], 60.0)[0] == {first.token}
    found = tally.count()
    assert (found.running, found.waiting, found.ended, found.tokens) == (2, 2, 0, 11)
    assert queue.finish(first.token, "done", None, b"{}")
    queue.release(second.token)
    found = tally.count()
    assert (found.running, found.waiting, found.done, found.tokens) == (0, 3, 1, 11)
    assert tally.count() == found == counts(queue)
    assert [each.id for each in queue.results_after(0)] == ["t0"]
    assert cancel_tasks(queue, ["t1"], lambda _id, _taken: b"{}") == []
    with queue.transaction() as db:
        db.set_trace_callback(None)
    scans = {
        statement
        for statement in statements
        if not statement.startswith(("BEGIN", "COMMIT", "PRAGMA", "SELECT count(*) FROM tasks"))
        for *_, step in queue.rows(f"EXPLAIN QUERY PLAN {statement}")
        if step.startswith("SCAN tasks") and "tasks_by_use" not in step
    }
    assert scans == set()
    queue.close()
