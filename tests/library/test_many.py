"""Many prompts at a time."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from alhena import Agent, LimitError, Task, run_many
from alhena.batch.queue import Queue
from alhena.errors import AlhenaError, ProgramError
from alhena.testing import Call, TestModel
from tests.support.command import alhena


async def collect(outcomes: Any) -> list[Any]:
    return [each async for each in outcomes]


def echo(request: dict[str, Any]) -> str:
    return request["contents"][-1]["parts"][-1]["text"]


@pytest.mark.parametrize("concurrency", [1, 3, 50])
async def test_each_prompt_has_its_outcome(project: Path, concurrency: int):
    model = TestModel(*[echo] * 20)
    tasks = [f"prompt {number}" for number in range(20)]
    outcomes = [
        outcome
        async for outcome in run_many(
            tasks, agent=lambda: Agent(model, isolated=True, cwd=project), concurrency=concurrency
        )
    ]
    assert sorted(str(each.task) for each in outcomes) == sorted(tasks)
    assert all(each.result and each.result.output == each.task for each in outcomes)


async def test_no_more_run_than_may_and_prompts_are_read_as_there_is_room(project: Path):
    running = most = read = 0

    async def work() -> str:
        """Works."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return ""

    def tasks() -> Iterator[str]:
        nonlocal read
        for number in range(30):
            read += 1
            yield str(number)

    def agent() -> Agent:
        return Agent(TestModel(Call("work"), "x"), tools=[work], isolated=True, cwd=project)

    seen = 0
    async for _ in run_many(tasks(), agent=agent, concurrency=4):
        seen += 1
        assert read <= seen + 4 + 4 + 1
    assert seen == 30
    assert most == 4


async def test_an_error_is_the_outcome_of_its_prompt_alone(project: Path):
    def fail(request: dict[str, Any]) -> Any:
        return ProgramError("no") if echo(request) == "bad" else "good"

    model = TestModel(*[fail] * 3)
    outcomes = {
        str(each.task): each
        async for each in run_many(
            ["a", "bad", "b"], agent=lambda: Agent(model, isolated=True, cwd=project)
        )
    }
    assert str(outcomes["bad"].error) == "no"
    assert outcomes["a"].result
    assert outcomes["b"].result


@pytest.mark.parametrize("stored", [False, True])
async def test_a_prompt_with_half_of_a_surrogate_pair_is_sent_without_it(
    project: Path, stored: bool
):
    prompts = ["good", b"caf\xe9".decode(errors="surrogateescape")]
    run_dir = project / "run" if stored else None
    for _ in range(2):
        outcomes = [
            each
            async for each in run_many(
                prompts,
                agent=lambda: Agent(TestModel(echo), isolated=True, cwd=project),
                run_dir=run_dir,
            )
        ]
        assert [each.status for each in outcomes] == ["done", "done"]
        assert {each.result.text for each in outcomes if each.result} == {"good", "caf\ufffd"}


async def test_a_total_cost_that_cannot_be_kept_is_raised_by_a_run_with_a_directory(project: Path):
    def agent() -> Agent:
        return Agent(TestModel(*[echo] * 2), isolated=True, cwd=project)

    with pytest.raises(LimitError, match="the price of test is not known"):
        await collect(run_many(["a", "b"], agent=agent, run_dir=project / "run", total_cost=1))
    outcomes = [each async for each in run_many(["a", "b"], agent=agent, run_dir=project / "run")]
    assert [each.status for each in outcomes] == ["done", "done"]


async def test_a_price_that_is_not_known_is_raised_also_when_another_task_reaches_the_limit_then(
    project: Path,
):
    unpriced_has_ended = asyncio.Event()

    class PricedModel(TestModel):
        name = "gemini-2.5-flash"

    async def wait() -> str:
        """Waits."""
        await unpriced_has_ended.wait()
        await asyncio.sleep(0.2)
        return ""

    def agent(task: Task[Any]) -> Agent:
        if task.prompt == "priced":
            return Agent(PricedModel(Call("wait"), "x"), tools=[wait], isolated=True, cwd=project)
        end = {"SessionEnd": lambda _event: unpriced_has_ended.set()}
        return Agent(TestModel("x"), hooks=end, isolated=True, cwd=project)

    tasks, limit = ["priced", "unpriced"], 0.000_001
    with pytest.raises(LimitError, match="the price of test is not known"):
        await collect(run_many(tasks, agent=agent, run_dir=project / "run", total_cost=limit))


async def test_a_run_directory_is_free_at_the_end_although_a_process_that_was_forked_lives_on(
    project: Path,
):
    async def fork() -> str:
        """Forks."""
        children.append(os.fork())
        if children[-1] == 0:
            signal.pause()
            os._exit(1)
        return "forked"

    def agent() -> Agent:
        return Agent(TestModel(Call("fork"), "done"), tools=[fork], isolated=True, cwd=project)

    children: list[int] = []
    try:
        for _ in range(2):
            outcomes = await collect(run_many(["a"], agent=agent, run_dir=project / "run"))
            assert [each.status for each in outcomes] == ["done"]
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


async def test_a_run_with_a_directory_that_is_cancelled_twice_gives_back_what_runs(project: Path):
    began, ending, go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        """Waits."""
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            ending.set()
            await go_on.wait()
        return ""

    def agent() -> Agent:
        return Agent(TestModel(Call("wait")), tools=[wait], isolated=True, cwd=project)

    run = asyncio.create_task(collect(run_many(["a"], agent=agent, run_dir=project / "run")))
    await began.wait()
    run.cancel()
    await ending.wait()
    run.cancel()
    await asyncio.wait({run}, timeout=0.1)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await run
    queue = Queue(project / "run")
    assert queue.rows("SELECT state FROM tasks") == [("waiting",)]
    queue.close()


async def test_leaving_early_ends_what_runs(project: Path):
    ended: list[str] = []

    async def wait() -> str:
        """Waits."""
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("x")
        return ""

    def agent() -> Agent:
        first = TestModel("quick") if not made else TestModel(Call("wait"))
        made.append(1)
        return Agent(first, tools=[wait], isolated=True, cwd=project)

    made: list[int] = []
    outcomes = run_many(["a", "b"], agent=agent, concurrency=2)
    outcome = await anext(outcomes)
    assert outcome.task == "a"
    await outcomes.aclose()
    assert ended in ([], ["x"])  # it may not have begun to wait
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


@pytest.mark.parametrize("kept", [False, True])
async def test_an_error_of_the_program_fails_its_task_alone_and_is_logged(
    project: Path, caplog: pytest.LogCaptureFixture, *, kept: bool
):
    def agent(task: Task[Any]) -> Agent:
        if task.id == "factory":
            raise KeyError("mine")
        return Agent(TestModel("1"), isolated=True, builtin_tools=(), cwd=project)

    def check(_value: int) -> int:
        raise ZeroDivisionError("of the check")

    tasks: list[Task[Any]] = [
        Task("x", id="factory"),
        Task("x", id="check", output=int, check=check),
        Task("x", id="fine", output=int),
    ]
    run = run_many(tasks, agent=agent, concurrency=1, run_dir=project / "run" if kept else None)
    outcomes = {each.id: each async for each in run}
    assert {name: each.status for name, each in outcomes.items()} == {
        "factory": "failed",
        "check": "failed",
        "fine": "done",
    }
    for name, said in (("factory", "KeyError: 'mine'"), ("check", "ZeroDivisionError: of the")):
        error = outcomes[name].error
        assert error is not None
        assert getattr(error, "task_kind", error.kind) == "program"
        assert said in str(error)
        assert kept or isinstance(error.__cause__, KeyError | ZeroDivisionError)
    logged = [each for each in caplog.records if each.name == "alhena.tasks"]
    assert [each.exc_info and each.exc_info[0] for each in logged] == [KeyError, ZeroDivisionError]


async def test_none_at_a_time_is_refused():
    with pytest.raises(ValueError, match="concurrency has to be at least 1, not 0"):
        await anext(run_many([], agent=lambda: Agent("demo"), concurrency=0))


async def test_a_total_cost_that_no_sum_reaches_is_refused():
    with pytest.raises(TypeError, match="total_cost has to be a number, not nan"):
        await anext(run_many([], agent=lambda: Agent("demo"), total_cost=float("nan")))


async def test_tasks_may_be_mappings_and_outcomes_have_ids(project: Path):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    tasks = [{"id": "one", "prompt": "count", "output_schema": schema}, "plain", "plain"]

    def agent() -> Agent:
        return Agent(TestModel('{"n": 1}'), builtin_tools=(), isolated=True, cwd=project)

    outcomes = [each async for each in run_many(tasks, agent=agent, concurrency=1)]
    assert [each.status for each in outcomes] == ["done"] * 3
    assert outcomes[0].id == "one"
    assert outcomes[0].result
    assert outcomes[0].result.output == {"n": 1}
    assert outcomes[2].id == f"{outcomes[1].id}-2"


@pytest.mark.requirement("RUN-01")
async def test_a_run_directory_gives_finished_tasks_without_asking_again(project: Path):
    def fail(request: dict[str, Any]) -> Any:
        return ProgramError("no") if echo(request) == "bad" else echo(request)

    model = TestModel(*[fail] * 5)
    run_dir = project / "run"

    def agent() -> Agent:
        return Agent(model, isolated=True, cwd=project)

    first = run_many(["a", "b", "bad"], agent=agent, concurrency=1, run_dir=run_dir)
    async with aclosing(first):
        assert (await anext(first)).task == "a"  # the rest is left to the next call
    tasks = ["a", "b", "bad", {"id": "new", "prompt": "c"}]
    outcomes = {
        each.id if each.id == "new" else each.task: each
        async for each in run_many(tasks, agent=agent, run_dir=run_dir)
    }
    assert {name: each.status for name, each in outcomes.items()} == {
        "a": "done",
        "b": "done",
        "bad": "failed",
        "new": "done",
    }
    assert str(outcomes["bad"].error) == "no"
    assert outcomes["b"].result
    assert outcomes["b"].result.output == "b"
    prompts = [echo(request) for request in model.requests]
    assert prompts.count("a") == 1
    before = len(model.requests)
    again = [each async for each in run_many(tasks, agent=agent, run_dir=run_dir)]
    assert len(again) == 4
    assert len(model.requests) == before
    refused = alhena("batch", "retry-failed", "run")
    assert refused.code == 42
    assert "need the agents of the program that began them. Call its run_many again" in refused.err
    model = TestModel("better")
    tried = [
        each async for each in run_many(tasks, agent=agent, run_dir=run_dir, retry_failed=True)
    ]
    assert [each.status for each in tried] == ["done"] * 4
    assert [echo(request) for request in model.requests] == ["bad"]


async def test_another_process_cancels_a_task_and_changes_the_limits_of_a_program_s_run(
    project: Path,
):
    began = asyncio.Event()

    async def wait() -> str:
        """Waits."""
        began.set()
        await asyncio.Event().wait()
        return ""

    async def order() -> None:
        await began.wait()
        refused = await asyncio.to_thread(alhena, "batch", "limits", "run", "--total-seconds", "9")
        assert "a run of a program has no limit of time" in refused.err
        for words in (("limits", "run", "--rpm", "600"), ("cancel", "run", "slow")):
            ran = await asyncio.to_thread(alhena, "batch", *words)
            assert ran.code == 0, ran.err

    def agent(task: Task[Any]) -> Agent:
        model = TestModel(Call("wait")) if task.id == "slow" else TestModel("x")
        return Agent(model, tools=[wait], isolated=True, cwd=project)

    tasks = [Task("slow", id="slow"), Task("b", id="b")]
    outcomes, _ = await asyncio.gather(
        collect(run_many(tasks, agent=agent, concurrency=1, run_dir=project / "run")), order()
    )
    ended = {each.id: each for each in outcomes}
    assert {name: each.status for name, each in ended.items()} == {"slow": "failed", "b": "done"}
    assert ended["slow"].error.task_kind == "cancelled"


async def test_what_the_agent_decides_is_no_field_of_a_task(project: Path):
    tasks = [{"prompt": "x", "model": "m"}]
    with pytest.raises(AlhenaError, match="a task has no 'model'"):
        await anext(run_many(tasks, agent=lambda: Agent("demo"), run_dir=project / "run"))


@pytest.mark.parametrize("kept", [True, False])
async def test_a_task_that_is_interrupted_fails_once(project: Path, *, kept: bool):
    made: list[Agent] = []

    async def stop() -> str:
        """Ends the run."""
        made[-1].interrupt()
        await asyncio.Event().wait()
        return "never"

    def agent() -> Agent:
        model = TestModel(Call("stop"), "done")
        made.append(Agent(model, tools=[stop], isolated=True, builtin_tools=(), cwd=project))
        return made[-1]

    run_dir = project / "run" if kept else None
    (outcome,) = await collect(run_many(["a"], agent=agent, run_dir=run_dir))
    assert outcome.status == "failed"
    assert "the run was interrupted" in str(outcome.error)
    assert len(made) == 1


async def test_a_factory_that_raises_a_cancellation_of_its_own_fails_its_task_alone(project: Path):
    def agent(task: Task[Any]) -> Agent:
        if task.prompt == "a":
            raise asyncio.CancelledError
        return Agent(TestModel("done"), isolated=True, cwd=project)

    outcomes = await collect(run_many(["a", "b"], agent=agent, concurrency=1))
    assert [each.status for each in outcomes] == ["failed", "done"]
    assert isinstance(outcomes[0].error, ProgramError)
