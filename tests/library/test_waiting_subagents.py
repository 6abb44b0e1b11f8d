"""Subagents whose calls wait for answers, and continue in another agent."""

import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from alhena import (
    Agent,
    Answer,
    ConfirmationRequest,
    Deferred,
    Limits,
    Outcome,
    Rule,
    SQLiteStore,
    Subagent,
    Task,
    run_many,
)
from alhena.agent.limits import TurnLimitError
from alhena.errors import InputError
from alhena.testing import Call, TestModel
from alhena.tools.contract import InfoConfirmation
from tests.agent import delegating
from tests.library.test_waiting import Shop, ids, responses
from tests.scheduler.kit import SmallTool
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call

CLERK = Subagent(
    name="clerk",
    description="Pays.",
    instructions="Pay.",
    tools=["pay", "refund", "stock", "audit"],
    output=str,
)


def ask_clerk(objective: str, agent: str = "clerk") -> Call:
    return Call("delegate_to_agent", agent_name=agent, objective=objective)


def staffed(shop: Shop, *answers: Any, agents: Any = (CLERK,), **more: Any) -> Agent:
    """An agent of the shop with a clerk, who may be asked without approval."""
    more = {
        "builtin_tools": ["delegate_to_agent"],
        "policy": [Rule.allow("delegate_to_agent")],
    } | more
    return shop.agent(*answers, agents=agents, **more)


def another_agent(shop: Shop, model: TestModel, clerk: Subagent) -> Agent:
    """One to resume a run with, whose policy has no rule on the clerk."""
    return Agent(
        model,
        tools=shop.tools(),
        agents=[clerk],
        approve="defer",
        isolated=True,
        builtin_tools=["delegate_to_agent"],
    )


@pytest.mark.requirement("LIB-10")
def test_a_subagent_waits_and_another_agent_resumes_it_where_it_was():
    shop = Shop()
    waits = staffed(
        shop,
        [ask_clerk("Pay Ada."), Call("stock", item="ink")],
        [Call("stock", item="tea")],
        [Call("pay", amount=5), Call("stock", item="jam")],
    ).run_sync("Have it paid.")
    assert (waits.stop_reason, shop.done) == ("pending", ["stock ink", "stock tea", "stock jam"])
    (request,) = waits.pending
    assert (request.tool_name, request.args) == ("pay", {"amount": 5})
    assert "/" in request.call_id
    assert request.agent == "clerk"
    assert request.reason.startswith("asked by the subagent clerk: approval required by")
    assert waits.usage.requests == 3

    model = TestModel(Call("complete_task", result="Ada has it."), "Paid.")
    elsewhere = another_agent(shop, model, CLERK)
    done = elsewhere.resume_sync(waits.state(), {request.call_id: Answer.yes(args={"amount": 4})})
    assert (done.stop_reason, done.output) == ("done", "Paid.")
    assert shop.done == ["stock ink", "stock tea", "stock jam", "pay 4"]
    inside = model.requests[0]["contents"]
    assert [part["functionResponse"]["name"] for part in inside[-1]["parts"]] == ["pay", "stock"]
    assert "Pay Ada." in str(inside)
    outside = responses(model)
    assert [each["name"] for each in outside] == ["delegate_to_agent", "stock"]
    assert "Ada has it." in str(outside[0])
    assert (done.usage.requests, done.usage.tool_calls) == (5, 6)


@pytest.mark.requirement("LIB-10")
def test_several_subagents_and_the_agent_itself_wait_and_wait_again():
    shop = Shop()
    other = Subagent(
        name="other", description="Refunds.", instructions="Do.", tools=["refund"], output=str
    )
    waits = staffed(
        shop,
        [ask_clerk("one"), ask_clerk("two", "other"), Call("audit", year=2025)],
        [Call("pay", amount=1)],
        [Call("refund", amount=2)],
        agents=[CLERK, other],
    ).run_sync("All.")
    call = ids(waits)
    assert set(call) == {"pay", "refund", "audit"}
    again = staffed(
        shop,
        [Call("audit", year=2024)],
        [Call("complete_task", result="refunded")],
        agents=[CLERK, other],
    ).resume_sync(
        waits.state(),
        {
            call["pay"]: Answer.no("Ask for an audit first."),
            call["refund"]: Answer.yes(),
            call["audit"]: Answer.result("fine"),
        },
    )
    assert again.stop_reason == "pending"
    assert shop.done == ["refund 2"]
    (audit,) = again.pending
    assert (audit.args, audit.reason) == (
        {"year": 2024},
        "asked by the subagent clerk: sent to accounting: 2024",
    )

    last = staffed(
        shop, [Call("complete_task", result="audited")], "All done.", agents=[CLERK, other]
    )
    done = last.resume_sync(again.state(), {audit.call_id: Answer.result({"ok": True})})
    assert (done.output, shop.done) == ("All done.", ["refund 2"])
    (told,) = [each for each in last.history if each.role == "user"][-1:]
    assert [part.function_response.name for part in told.parts if part.function_response] == [
        "delegate_to_agent",
        "delegate_to_agent",
        "audit",
    ]
    assert done.usage.requests == 7


@pytest.mark.requirement("LIB-10")
@pytest.mark.parametrize("words", ["", "Too much."])
def test_a_refusal_inside_is_as_one_outside(words: str):
    shop = Shop()
    waits = staffed(shop, [ask_clerk("Pay.")], [Call("pay", amount=5)]).run_sync("Pay.")
    (request,) = waits.pending
    resumed = staffed(shop, [Call("complete_task", result="no")], "It is not paid.")
    done = resumed.resume_sync(waits.state(), {request.call_id: Answer.no(words)})
    assert done.stop_reason == ("done" if words else "cancelled")
    assert shop.done == []
    assert [each.name for each in done.denied] == ["pay"]


@pytest.mark.requirement("LIB-10")
def test_a_handoff_ends_the_run_after_its_answer():
    shop = Shop()
    taking = Subagent(
        name="clerk", description="d", instructions="i", tools=["pay"], output=int, handoff=True
    )
    waits = staffed(shop, [ask_clerk("Pay.")], [Call("pay", amount=5)], agents=[taking]).run_sync(
        "Pay."
    )
    resumed = staffed(shop, [Call("complete_task", result=5)], agents=[taking])
    done = resumed.resume_sync(waits.state(), {waits.pending[0].call_id: Answer.yes()})
    assert (done.stop_reason, done.handed_over, shop.done) == ("done", 5, ["pay 5"])


@pytest.mark.requirement("LIB-10")
def test_wrong_answers_to_a_subagent_are_errors_and_nothing_runs():
    shop = Shop()
    waits = staffed(shop, [ask_clerk("Pay.")], [Call("pay", amount=5)]).run_sync("Pay.")
    (request,) = waits.pending
    state, call = waits.state(), request.call_id
    wrong: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({}, {}, rf"{call}.*\(pay\) has no answer"),
        ({call.partition("/")[0]: Answer.yes()}, {}, "waits for an answer"),
        ({call: Answer.yes(args={"amount": "much"})}, {}, r"\(pay\) do not fit"),
        ({call: Answer.yes()}, {"agents": ()}, "the subagent 'clerk' waits"),
    ]
    for answers, more, told in wrong:
        agent = staffed(shop, "never", **more)
        with pytest.raises(InputError, match=told):
            agent.resume_sync(state, answers)
    assert shop.done == []


@pytest.mark.requirement("LIB-10")
def test_the_turns_of_a_subagent_before_it_waited_count():
    shop = Shop()
    waits = staffed(shop, [ask_clerk("Pay.")], [Call("pay", amount=5)]).run_sync("Pay.")
    limited = staffed(shop, [Call("complete_task", result="x")], "y", limits=Limits(turns=2))
    with pytest.raises(TurnLimitError):
        limited.resume_sync(waits.state(), {waits.pending[0].call_id: Answer.yes()})
    own = msgspec.structs.replace(CLERK, limits=Limits(turns=1))
    waits = staffed(shop, [ask_clerk("Pay.")], [Call("pay", amount=6)], agents=[own]).run_sync(
        "Pay."
    )
    model = TestModel([Call("complete_task", result="paid")], "Paid.")
    last = another_agent(shop, model, own)
    done = last.resume_sync(waits.state(), {waits.pending[0].call_id: Answer.yes()})
    assert (done.output, shop.done) == ("Paid.", ["pay 5", "pay 6"])
    assert "This is your last turn" in str(model.requests[0]["contents"][-1])


@pytest.mark.requirement("LIB-10")
async def test_a_stored_state_of_a_subagent_is_used_once(tmp_path: Path):
    shop = Shop()

    def agent(*answers: Any) -> Agent:
        store = SQLiteStore(tmp_path / "chats.db")
        return staffed(shop, *answers, store=store, conversation="c")

    async with agent([ask_clerk("Pay.")], [Call("pay", amount=5)]) as first:
        waits = await first.run("Pay.")
    answers = {waits.pending[0].call_id: Answer.yes()}
    async with agent([Call("complete_task", result="x")], "Paid.") as second:
        assert (await second.resume(waits.state(), answers)).output == "Paid."
    async with agent() as third:
        with pytest.raises(InputError):
            await third.resume(waits.state(), answers)
    assert shop.done == ["pay 5"]


@pytest.mark.requirement("LIB-10")
async def test_an_agent_in_a_worktree_cannot_wait_and_says_so(project: Path):
    who = ("-c", "user.name=A", "-c", "user.email=a@example.com")
    for words in (("init", "-q"), (*who, "commit", "-qm", "x", "--allow-empty")):
        subprocess.run(["git", "-C", str(project), *words], check=True)

    def approve(_request: ConfirmationRequest) -> Answer:
        raise Deferred

    pay = SmallTool("pay", asks=InfoConfirmation(title="Pay", prompt="pay"))
    generator = ScriptedGenerator(
        delegating.turn(call("pay", {}, id="p")), delegating.complete_task_call("I could not.")
    )
    office = delegating.Office(
        generator, agents=[delegating.worker(in_worktree=True)], approve=approve, tools=(pay,)
    )
    done = await office.delegate("Pay.")
    assert "I could not." in str(done.response.result_display)
    assert "in a worktree" in str(generator.seen(1))


async def test_a_task_of_many_waits_in_its_subagent_and_is_resumed(tmp_path: Path):
    shop = Shop()
    answers = [[ask_clerk("Pay.")], [Call("pay", amount=5)]]
    later = [[Call("complete_task", result="paid")], "Paid."]

    async def run(said: list[Any], **more: Any) -> Outcome[Any]:
        many = run_many(
            [Task("Pay.", id="t")],
            agent=lambda _task: staffed(shop, *said),
            run_dir=tmp_path / "run",
            **more,
        )
        (outcome,) = [each async for each in many]
        return outcome

    waits = await run(answers)
    assert waits.status == "pending"
    assert waits.result is not None
    given = {"t": {waits.result.pending[0].call_id: Answer.yes()}}
    done = await run(later, answers=given)
    assert (done.status, shop.done) == ("done", ["pay 5"])
