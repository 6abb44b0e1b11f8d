"""A policy and a person who both have something to say of a call that waits, and questions that
cannot be put."""

import asyncio
from typing import Any

import pytest

from alhena.events import WarningEvent
from alhena.policy.model import Decision, PolicyCall
from alhena.scheduler.bus import UpdatePolicy
from alhena.scheduler.question import ConfirmationRequest
from alhena.scheduler.states import CallStatus, ConfirmationError
from alhena.tools.contract import AskUserConfirmation, McpConfirmation, Question, ToolErrorType
from tests.scheduler.kit import SmallTool, Stage, deciding, request, response_of
from tests.scheduler.rules import ASK, Outcome, Rules, await_questions, stage_rules


class SlowCheck:
    """A safety checker that takes until `go` from its second question on."""

    def __init__(self) -> None:
        self.count = 0
        self.begun = asyncio.Event()
        self.go = asyncio.Event()

    async def __call__(self, call: PolicyCall, decision: Decision) -> Decision:
        self.count += 1
        if self.count > 1:
            self.begun.set()
            await self.go.wait()
        return decision


@pytest.mark.requirement("SCHED-04")
async def test_a_no_that_was_taken_counts_even_when_a_rule_comes_to_allow_the_call():
    rules, check = Rules(), SlowCheck()
    stage = stage_rules(rules, SmallTool("look"), check=check)
    running = asyncio.create_task(stage.run("look"))
    await await_questions(stage)
    rules.allow("look")
    await check.begun.wait()
    stage.scheduler.confirm("c0", Outcome.CANCEL)
    check.go.set()
    (done,) = await running
    assert done.status is CallStatus.CANCELLED
    assert "executing" not in stage.statuses("c0")


@pytest.mark.requirement("SCHED-03", "SCHED-04")
@pytest.mark.parametrize("first", ["rule", "answer"])
async def test_a_yes_counts_for_nothing_when_a_rule_comes_to_deny_the_call(first):
    rules = Rules()
    stage = stage_rules(rules, SmallTool("look"))
    running = asyncio.create_task(stage.run("look"))
    await await_questions(stage)
    if first == "answer":
        stage.scheduler.confirm("c0", Outcome.PROCEED_ONCE)
    rules.denied.add("look")
    rules.changed()
    if first == "rule":
        stage.scheduler.confirm("c0", Outcome.PROCEED_ONCE)
    (done,) = await running
    assert done.response.error_type is ToolErrorType.POLICY_VIOLATION
    assert "executing" not in stage.statuses("c0")


@pytest.mark.requirement("SCHED-03")
async def test_a_policy_that_changes_while_checkers_think_is_asked_until_it_stays():
    rules = Rules()
    rules.allowed.add("look")
    changes = [lambda: None, lambda: rules.denied.add("look")]

    async def check(call: PolicyCall, decision: Decision) -> Decision:
        if changes:
            changes.pop(0)()
            rules.changed()
        return decision

    stage = stage_rules(rules, SmallTool("look"), check=check)
    (done,) = await stage.run("look")
    assert done.response.error_type is ToolErrorType.POLICY_VIOLATION
    assert "executing" not in stage.statuses("c0")
    assert changes == []


@pytest.mark.requirement("SCHED-04")
async def test_an_answer_and_the_rule_it_makes_are_one_approval_for_its_own_call():
    """The rule that an answer adds is no reason to ask about the call that was answered for."""
    rules = Rules()
    stage = stage_rules(rules, SmallTool("look"))
    running = asyncio.create_task(stage.run("look"))
    await await_questions(stage)
    stage.scheduler.confirm("c0", Outcome.PROCEED_ALWAYS)
    (done,) = await running
    assert (done.status, done.outcome) == (CallStatus.SUCCESS, "proceed_always")
    assert len(stage.questions()) == 1


async def test_an_approval_that_cannot_be_saved_holds_for_the_call_itself():
    async def broken(update: UpdatePolicy) -> None:
        raise OSError("read-only")

    stage = stage_rules(Rules(), SmallTool("look"), save=broken)
    running = asyncio.create_task(stage.run("look"))
    await await_questions(stage)
    stage.scheduler.confirm("c0", Outcome.PROCEED_ALWAYS)
    assert (await running)[0].status is CallStatus.SUCCESS
    (warning,) = (event for event in stage.events if isinstance(event, WarningEvent))
    assert warning.message == "the approval holds for this call only: OSError: read-only"


SERVER = McpConfirmation(
    title="t",
    server_name="s",
    tool_name="n",
    tool_display_name="n",
    tool_args={"x": object()},
)


@pytest.mark.parametrize(
    ("shows", "reason"),
    [
        ("just words", "the tool returned str instead of what to confirm"),
        (42, "the tool returned int instead of what to confirm"),
        (SERVER, "Encoding objects of type object is unsupported"),
    ],
)
async def test_a_tool_that_shows_what_cannot_be_shown_is_not_run_and_others_are(shows, reason):
    strange = SmallTool("strange", asks=shows)
    stage = Stage(strange, SmallTool("echo"), decide=deciding(strange=ASK), approver=lambda _: True)
    first, second = await stage.run("strange", "echo")
    assert first.response.error_type is ToolErrorType.UNHANDLED_EXCEPTION
    assert reason in response_of(first)["error"]
    assert stage.questions() == []
    assert "executing" not in stage.statuses("c0")
    assert second.status is CallStatus.SUCCESS


async def test_a_question_that_cannot_be_put_together_ends_its_call_alone():
    def offers(call: PolicyCall) -> Any:
        raise LookupError("no such rule")

    stage = Stage(
        SmallTool("look"),
        SmallTool("echo"),
        decide=deciding(look=ASK),
        offers=offers,
        approver=lambda _: True,
    )
    look, echo = await stage.run("look", "echo")
    assert "LookupError: no such rule" in response_of(look)["error"]
    assert "executing" not in stage.statuses("c0")
    assert echo.status is CallStatus.SUCCESS


async def test_a_policy_that_fails_on_a_hidden_tool_leaves_the_call_unknown():
    def decide(call: PolicyCall) -> Decision:
        raise ZeroDivisionError("in a rule")

    stage = Stage(SmallTool("hidden"), decide=decide)
    stage.registry.hide(["hidden"])
    (done,) = await stage.run("hidden")
    assert 'Tool "hidden" not found' in response_of(done)["error"]
    assert "ZeroDivisionError: in a rule" in str(done.response.result_display)


@pytest.mark.parametrize("index", ["2", "-1", "01", "9" * 5000, "\u0662", "first", ""])
async def test_an_answer_to_no_question_is_refused_and_the_call_waits_on(index):
    questions = tuple(Question(question=f"{n}?", header="h", type="text") for n in range(2))
    details = AskUserConfirmation(title="Ask", questions=questions)
    stage = Stage(SmallTool("ask", asks=details), decide=deciding(ask=ASK))
    running = asyncio.create_task(stage.run("ask"))
    await await_questions(stage)
    with pytest.raises(ConfirmationError, match="is no index of a question"):
        stage.scheduler.confirm("c0", Outcome.PROCEED_ONCE, {"answers": {index: "x"}})
    assert stage.statuses("c0")[-1] == "awaiting_approval"
    stage.scheduler.confirm("c0", Outcome.PROCEED_ONCE, {"answers": {}})
    assert (await running)[0].status is CallStatus.SUCCESS


async def test_what_is_asked_encodes_to_json_whatever_names_files_have():
    """A name that is no UTF-8 comes as lone surrogates, in parameters, details and reasons."""
    seen: list[ConfirmationRequest] = []
    name = "caf\udce9"
    details = McpConfirmation(
        title=name, server_name="s", tool_name="n", tool_display_name="n", tool_args={"x": name}
    )
    decision = Decision(outcome=ASK, reason=f"outside {name}", parts=(name,))
    stage = Stage(
        SmallTool("look", asks=details),
        decide=deciding(look=decision),
        approver=lambda each: seen.append(each) or True,
    )
    (done,) = await stage.run(request("c0", "look", text=name))
    assert done.status is CallStatus.SUCCESS
    (sent,) = seen
    shown = "caf\ufffd"
    assert (sent.args, sent.parts) == ({"text": shown}, (shown,))
    assert sent.details.tool_args == {"x": shown}
    assert sent.decision.reason == f"outside {shown}"


@pytest.mark.requirement("SCHED-05")
async def test_a_call_that_is_cancelled_while_its_approval_is_saved_does_not_run():
    saving = asyncio.Event()

    async def save(update: UpdatePolicy) -> None:
        saving.set()
        await asyncio.Event().wait()

    stage = stage_rules(Rules(), SmallTool("look"), save=save)
    running = asyncio.create_task(stage.run("look"))
    await await_questions(stage)
    stage.scheduler.confirm("c0", Outcome.PROCEED_ALWAYS)
    await saving.wait()
    stage.scheduler.cancel_all("enough")
    (done,) = await running
    assert response_of(done) == {"error": "[Operation Cancelled] Reason: enough"}
    assert "executing" not in stage.statuses("c0")
    await stage.bus.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.requirement("SCHED-05")
async def test_a_call_that_is_cancelled_while_it_is_put_into_words_ends_before_anybody_is_asked():
    thinking = asyncio.Event()

    class Slow(SmallTool):
        def build(self, params: dict[str, Any]) -> Any:
            call = super().build(params)

            async def confirmation(context: Any) -> None:
                thinking.set()
                await asyncio.Event().wait()

            call.confirmation = confirmation
            return call

    stage = Stage(Slow("slow"), decide=deciding(slow=ASK))
    running = asyncio.create_task(stage.run("slow"))
    await thinking.wait()
    stage.scheduler.cancel("c0", "enough")
    (done,) = await running
    assert (done.status, stage.questions()) == (CallStatus.CANCELLED, [])
    assert asyncio.all_tasks() == {asyncio.current_task()}
