"""Tasks of a program: typed outputs, limits together, those that wait, and evaluations."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from alhena import Agent, Answer, ConfigError, Outcome, Task, ToolContext, run_many, tool
from alhena.errors import InputError
from alhena.evals import evaluate
from alhena.models import Gemini
from alhena.testing import Call, TestModel
from tests.support.server import ScriptedServer, chunk, sse

pytestmark = pytest.mark.requirement("LIB-15")

ALONE: dict[str, Any] = {"isolated": True, "builtin_tools": ()}


@dataclass
class Sum:
    total: int


def even(value: Sum) -> Sum:
    if value.total % 2:
        raise ValueError("it is odd")
    return value


async def collect(tasks: Iterable[Any], agent: Any, **more: Any) -> dict[str, Outcome[Any]]:
    return {each.id: each async for each in run_many(tasks, agent=agent, **more)}


@pytest.mark.parametrize("kept", [False, True])
async def test_a_task_has_an_output_a_check_deps_data_and_a_directory(project: Path, *, kept: bool):
    (project / "sub").mkdir()
    seen: list[tuple[str, Any]] = []

    @tool
    def look(context: ToolContext[str]) -> str:
        """Looks."""
        seen.append((context.deps, context.cwd.name))
        return "ok"

    def agent(task: Task[Any]) -> Agent[Any]:
        assert isinstance(task, Task)
        if task.id == "text":
            return Agent(TestModel("words"), cwd=project, **ALONE)
        odd, right = Call("final_answer", total=3), Call("final_answer", total=task.data)
        return Agent(TestModel(Call("look"), odd, right), tools=[look], cwd=project, **ALONE)

    tasks: list[Any] = [
        Task("Add.", id="sum", output=Sum, check=even, deps="db", data=4, cwd=project / "sub"),
        {"prompt": "Say.", "id": "text"},
    ]
    more: dict[str, Any] = {"run_dir": project / "run"} if kept else {}
    outcomes = await collect(tasks, agent, **more)
    done = outcomes["sum"]
    assert done.status == "done"
    assert done.task is tasks[0]
    assert done.result is not None
    assert done.result.output == Sum(4)
    assert outcomes["text"].result is not None
    assert outcomes["text"].result.output == "words"
    assert seen == [("db", "sub")]
    if kept:  # finished ones are given again, typed, and nothing is asked
        again = await collect(tasks, lambda: Agent(TestModel(), **ALONE), **more)
        assert again["sum"].result is not None
        assert again["sum"].result.output == Sum(4)


async def test_a_pending_task_is_reported_and_goes_on_with_answers(project: Path):
    paid: list[int] = []

    @tool(confirm=True)
    def pay(amount: int) -> str:
        """Pays."""
        paid.append(amount)
        return "paid"

    def paying(*answers: Any) -> Callable[[Task[Any]], Agent[Any]]:
        def agent(task: Task[Any]) -> Agent[Any]:
            said = answers or (Call("pay", amount=int(task.prompt)),)
            return Agent(TestModel(*said), tools=[pay], approve="defer", **ALONE)

        return agent

    run: dict[str, Any] = {"run_dir": project / "run"}
    tasks = [Task("5", id="a", output=Sum), Task("6", id="b", output=Sum)]
    first = await collect(tasks, paying(), **run)
    assert {each.status for each in first.values()} == {"pending"}
    assert first["a"].result is not None
    (request,) = first["a"].result.pending
    assert (request.tool_name, request.args) == ("pay", {"amount": 5})
    for wrong, named in (
        ({"a": {}}, "'a'.*pay"),
        ({"zzz": {}}, "'zzz'"),
        ({"a": {"call-9": Answer.yes()}}, "call-9"),
    ):
        with pytest.raises(InputError, match=named):
            await collect(tasks, paying(), answers=wrong, **run)
    answers = {"a": {request.call_id: Answer.yes()}}

    def broken(task: Task[Any]) -> Agent[Any]:
        raise OSError("no database")

    assert (await collect(tasks, broken, answers=answers, **run))["a"].status == "failed"
    final = Call("final_answer", total=5)
    second = await collect(tasks, paying(final), answers=answers, **run)
    assert [second[name].status for name in ("a", "b")] == ["done", "pending"]
    assert second["a"].result is not None
    assert second["a"].result.output == Sum(5)
    assert second["a"].result.usage.requests == 2
    assert paid == [5]
    third = await collect(tasks, paying(), **run)
    assert [third[name].status for name in ("a", "b")] == ["done", "pending"]
    with pytest.raises(ConfigError, match="run_dir"):
        await collect(tasks, paying(), answers=answers)
    plain = await collect(tasks, paying())
    assert plain["b"].status == "pending"
    assert plain["b"].result is not None
    assert plain["b"].result.state()


@pytest.mark.parametrize("limit", [{"rpm": 2}, {"tpm": 1_500}])
@pytest.mark.parametrize("kept", [False, True])
async def test_requests_and_tokens_of_a_minute_are_those_of_all_tasks(
    project: Path, limit: dict[str, int], *, kept: bool
):
    """Two have room, each with a model of its own; the third waits for the next minute."""
    asked = 0

    def answer(_request: dict[str, Any]) -> str:
        nonlocal asked
        asked += 1
        return "x"

    more: dict[str, Any] = {"run_dir": project / "run"} if kept else {}
    tasks = ["word " * 500] * 3
    run = run_many(
        tasks, agent=lambda: Agent(TestModel(answer), **ALONE), concurrency=1, **limit, **more
    )
    async with aclosing(run):
        assert [(await anext(run)).status for _ in range(2)] == ["done"] * 2
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(run), 0.3)
    assert asked == 2


async def test_the_cost_of_all_tasks_together_is_limited(project: Path, server: ScriptedServer):
    usage = {"promptTokenCount": 1_000_000, "candidatesTokenCount": 0}
    server.reply(*[sse(chunk({"text": "x"}, finish="STOP", usage=usage))] * 3)
    async with Gemini("gemini-2.5-flash", api_key="k", base_url=server.url) as model:
        outcomes = await collect(
            ["a", "b", "c"], lambda: Agent(model, **ALONE), concurrency=1, total_cost=0.5
        )
    statuses = sorted(each.status for each in outcomes.values())
    assert statuses == ["done", "done", "failed"]
    assert "for all tasks" in "".join(str(each.error) for each in outcomes.values())
    assert len(server.requests) == 2
    unknown = await collect(["a"], lambda: Agent(TestModel("x"), **ALONE), total_cost=1)
    assert "price" in str(next(iter(unknown.values())).error)


async def test_wrong_tasks_are_refused(project: Path):
    with pytest.raises(TypeError, match="tasks has to be a sequence"):
        await collect("hey", lambda: Agent(TestModel(), **ALONE))
    with pytest.raises(TypeError, match="agent"):
        await collect(["a"], 5)
    with pytest.raises(TypeError, match="Agent"):
        await collect(["a"], lambda: 5)
    with pytest.raises(TypeError, match="output"):
        Task("x", output=object)
    with pytest.raises(TypeError, match="check"):
        Task("x", check=even)  # pyright: ignore[reportCallIssue]


def length(outcome: Outcome[Any]) -> int:
    assert outcome.result is not None
    return len(outcome.result.output)


async def right(outcome: Outcome[Any]) -> bool:
    assert outcome.result is not None
    return outcome.result.output == outcome.task.data


def answering(*, wrong: set[str]) -> Callable[[Task[Any]], Agent[Any]]:
    def agent(task: Task[Any]) -> Agent[Any]:
        answer = "no" if task.prompt in wrong else task.data
        return Agent(TestModel(answer), **ALONE)

    return agent


CASES = [Task(f"q{number}", id=f"q{number}", data=f"a{number}") for number in range(8)]


async def test_reports_have_tables_pages_and_comparisons(project: Path):
    first = await evaluate(CASES, answering(wrong={"q1", "q2", "q3"}), [right, length])
    second = await evaluate(CASES, answering(wrong={"q3"}), [right], repeats=2)
    assert first.mean("right") == pytest.approx(5 / 8)
    assert first.scorers == ("right", "length")
    lines = first.table().splitlines()
    assert lines[0].split() == ["case", "status", "right", "length"]
    assert lines[2].split() == ["q1", "done", "0", "2"]
    assert lines[-1].split() == ["mean", "0.625", "2.000"]
    first.html(project / "report.html")
    assert "<td>q1</td>" in (project / "report.html").read_text("utf-8")
    moved = second.compare(first)
    assert list(moved) == ["right"]
    found = moved["right"]
    assert found.difference == pytest.approx(2 / 8)
    assert 0 <= found.low <= found.difference <= found.high <= 0.75
    assert (found.cases, found.better, found.worse) == (8, ("q1", "q2"), ())
    assert str(found) in repr(moved)
    assert "(8 cases, too few to rely on)" in str(found)
    alone = await evaluate(CASES[:1], answering(wrong=set()), right)
    assert str(alone.compare(first)["right"]) == "+0.000 [-inf, +inf] (1 case, too few to rely on)"
    same = first.compare(first)["length"]
    assert (same.difference, same.low, same.high) == (0, 0, 0)
    assert len(second.rows) == 16
    assert second.usage.requests == 16


async def test_an_evaluation_goes_on_and_failures_have_no_points(project: Path):
    def failing(task: Task[Any]) -> Agent[Any]:
        return Agent(TestModel() if task.id == "q2" else TestModel(task.data), **ALONE)

    run = project / "evals"
    report = await evaluate(CASES[:3], failing, right, run_dir=run)
    assert [row.outcome.status for row in report.rows] == ["done", "done", "failed"]
    assert [row.scores["right"] for row in report.rows] == [1, 1, 0]
    again = await evaluate(CASES[:3], lambda: Agent(TestModel(), **ALONE), length, run_dir=run)
    assert [row.scores["length"] for row in again.rows] == [2, 2, 0]

    def odd(outcome: Outcome[Any]) -> Any:
        return "much"

    with pytest.raises(TypeError, match="odd returned 'much'"):
        await evaluate(CASES[:1], answering(wrong=set()), odd)
    for wrong, said in ((None, "scorers has to be"), ([5], "5 is no function with a name")):
        with pytest.raises(TypeError, match=said):
            await evaluate(CASES[:1], failing, wrong)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="no case in common"):
        report.compare(await evaluate([Task("z", id="z", data="")], failing, right))
