"""Every answer that a confirmation takes, and what it does to its call and to others."""

import asyncio
from typing import Any

import pytest

from alhena.events import ConfirmationRequestEvent, ToolCallsUpdateEvent
from alhena.scheduler.bus import (
    ToolCallsUpdate,
    ToolPolicyRejection,
    UpdatePolicy,
)
from alhena.scheduler.question import Answer, ConfirmationRequest, Payload
from alhena.scheduler.states import CallStatus, ConfirmationError, SchedulerError
from alhena.tools.contract import (
    AskUserConfirmation,
    ExecConfirmation,
    Kind,
    Question,
    ToolErrorType,
)
from tests.scheduler.kit import SmallTool, Stage, deciding, forever, request, response_of
from tests.scheduler.rules import ASK, RULE, Outcome, Rules, await_questions, stage_rules


@pytest.mark.requirement("SCHED-04")
async def test_all_calls_of_a_wave_are_asked_about_at_once():
    rules = Rules()
    stage = stage_rules(rules, SmallTool("look"), SmallTool("fetch"))
    running = asyncio.create_task(stage.run("look", "fetch", "look"))
    await await_questions(stage, 3)
    assert [call.status for call in stage.scheduler.calls] == [CallStatus.AWAITING_APPROVAL] * 3
    for call_id in ("c2", "c0", "c1"):
        stage.scheduler.confirm(call_id, Outcome.PROCEED_ONCE)
    assert [call.status for call in await running] == [CallStatus.SUCCESS] * 3
    assert rules.watchers == []


@pytest.mark.requirement("SCHED-04", "SCHED-10")
async def test_one_lasting_answer_settles_the_waiting_calls_that_it_covers_and_no_others():
    rules = Rules()
    updates: list[UpdatePolicy] = []

    async def save(update: UpdatePolicy) -> None:
        updates.append(update)
        rules.allow(update.tool_name)

    stage = stage_rules(rules, SmallTool("look"), SmallTool("fetch"), save=save)
    running = asyncio.create_task(stage.run("look", "fetch", "look", "look"))
    await await_questions(stage, 4)
    stage.scheduler.confirm("c2", Outcome.PROCEED_ALWAYS)
    while [call.status for call in stage.scheduler.calls].count(CallStatus.SUCCESS) < 3:
        await asyncio.sleep(0)
    assert stage.statuses("c1")[-1] == "awaiting_approval"
    with pytest.raises(ConfirmationError, match="no call 'c0' waits"):
        stage.scheduler.confirm("c0", Outcome.CANCEL)
    stage.scheduler.confirm("c1", Outcome.PROCEED_ONCE)
    done = await running
    assert [call.outcome for call in done] == [None, "proceed_once", "proceed_always", None]
    assert {event.call_id: event.decision for event in stage.responses()} == {
        "c0": "auto_accept",
        "c1": "accept",
        "c2": "accept",
        "c3": "auto_accept",
    }
    assert [(u.call_id, u.tool_name, u.rule) for u in updates] == [("c2", "look", RULE)]
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.requirement("SCHED-10")
async def test_a_lasting_answer_holds_for_the_calls_of_later_waves():
    rules = Rules()
    stage = stage_rules(rules, SmallTool("change", kind=Kind.EDIT))
    stage.on_event = lambda event: (
        isinstance(event, ConfirmationRequestEvent)
        and stage.scheduler.confirm(event.call_id, Outcome.PROCEED_ALWAYS)
    )
    done = await stage.run("change", "change", "change")
    assert [call.status for call in done] == [CallStatus.SUCCESS] * 3
    (question,) = stage.questions()
    assert question.outcomes == ("proceed_once", "proceed_always", "cancel")
    assert question.lasting[0]["words"] == "all of it"
    assert question.lasting[0]["toml"] == "[[rule]]"


@pytest.mark.requirement("SCHED-10")
async def test_where_nothing_lasting_is_offered_it_cannot_be_answered():
    stage = Stage(SmallTool("look"), decide=deciding(look=ASK))
    running = asyncio.create_task(stage.run("look"))
    await await_questions(stage)
    assert stage.questions()[0].outcomes == ("proceed_once", "cancel")
    for outcome in (Outcome.PROCEED_ALWAYS, Outcome.PROCEED_ALWAYS_AND_SAVE, "nonsense"):
        with pytest.raises(ConfirmationError):
            stage.scheduler.confirm("c0", outcome)
    assert stage.statuses("c0")[-1] == "awaiting_approval"
    stage.scheduler.confirm("c0", Outcome.CANCEL)
    assert (await running)[0].status is CallStatus.CANCELLED


async def test_a_lasting_answer_that_was_not_offered_is_no_approval_of_a_callback_either():
    stage = Stage(
        SmallTool("look"), decide=deciding(look=ASK), approver=lambda _: Outcome.PROCEED_ALWAYS
    )
    (done,) = await stage.run("look")
    assert done.status is CallStatus.ERROR
    assert response_of(done)["error"].startswith(
        'Tool execution was not approved: the answer "proceed_always" is not offered'
    )


async def test_a_command_that_may_deceive_is_never_approved_beyond_its_call():
    details = ExecConfirmation(
        title="t",
        command="ls\u202e",
        command_shown="ls",
        root_command="ls",
        root_commands=("ls",),
        warnings=("hides something",),
    )
    stage = stage_rules(Rules(), SmallTool("look", asks=details), approver=lambda _: False)
    await stage.run("look")
    assert stage.questions()[0].outcomes == ("proceed_once", "cancel")


@pytest.mark.requirement("SCHED-04")
async def test_a_waiting_call_that_the_policy_comes_to_deny_is_denied():
    rules = Rules()
    stage = stage_rules(rules, SmallTool("look"), SmallTool("fetch"))
    rejections: list[ToolPolicyRejection] = []
    stage.bus.subscribe(ToolPolicyRejection, rejections.append)
    running = asyncio.create_task(stage.run("look", "fetch"))
    await await_questions(stage, 2)
    rules.denied.add("look")
    rules.changed()
    while stage.statuses("c0")[-1] != "error":
        await asyncio.sleep(0)
    stage.scheduler.confirm("c1", Outcome.PROCEED_ONCE)
    look, fetch = await running
    assert look.response.error_type is ToolErrorType.POLICY_VIOLATION
    assert fetch.status is CallStatus.SUCCESS
    assert [message.call_id for message in rejections] == ["c0"]


@pytest.mark.requirement("SCHED-04")
@pytest.mark.parametrize(
    ("payload", "error"),
    [
        (None, "User did not allow tool call"),
        ({"reason": "Use\nthe tests."}, "User did not allow tool call. Feedback: Use\nthe tests."),
        ({"feedback": "No."}, "User did not allow tool call. Feedback: No."),
        ({"reason": " "}, "User did not allow tool call"),
    ],
)
async def test_the_model_is_told_why_a_person_said_no(payload, error):
    stage = Stage(SmallTool("look"), decide=deciding(look=ASK))
    running = asyncio.create_task(stage.run("look"))
    await await_questions(stage)
    stage.scheduler.confirm("c0", Outcome.CANCEL, payload)
    (done,) = await running
    assert response_of(done) == {"error": f"[Operation Cancelled] Reason: {error}"}
    assert stage.responses()[0].decision == "reject"


@pytest.mark.requirement("SCHED-04", "SCHED-05")
@pytest.mark.parametrize(
    ("payload", "alone"),
    [
        ({"reason": "not this"}, True),
        ({"feedback": "not this"}, True),
        (None, False),
        ({"reason": " \n"}, False),
        ({"scope": "all"}, False),
        ({"scope": "all", "reason": "none of this"}, False),
    ],
)
async def test_a_no_ends_its_call_alone_if_it_has_words_else_the_whole_batch(payload, alone):
    stage = Stage(
        SmallTool("forever", forever),
        SmallTool("look"),
        SmallTool("change", kind=Kind.EDIT),
        decide=deciding(look=ASK),
    )
    running = asyncio.create_task(stage.run("look", "look", "forever", "change"))
    await await_questions(stage, 2)
    stage.scheduler.confirm("c0", Outcome.CANCEL, payload)
    while stage.statuses("c0")[-1] != "cancelled":
        await asyncio.sleep(0)
    if alone:
        assert stage.statuses("c1")[-1] == "awaiting_approval"
        assert stage.statuses("c2")[-1] == "executing"
        stage.scheduler.confirm("c1", Outcome.PROCEED_ONCE)
        stage.scheduler.cancel("c2")
    done = await running
    statuses = [str(call.status) for call in done]
    assert done[0].ends_turn is not alone
    ends = ["cancelled", "success", "cancelled", "success"]
    assert statuses == (ends if alone else ["cancelled"] * 4)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_one_call_can_be_cancelled_and_no_other_is():
    stage = Stage(SmallTool("forever", forever), SmallTool("echo"))
    running = asyncio.create_task(stage.run("forever", "echo"))
    while "executing" not in stage.statuses("c0"):
        await asyncio.sleep(0)
    with pytest.raises(SchedulerError, match="no call 'zzz' is at work"):
        stage.scheduler.cancel("zzz")
    stage.scheduler.cancel("c0", "Enough")
    first, second = await running
    assert response_of(first) == {"error": "[Operation Cancelled] Reason: Enough"}
    assert second.status is CallStatus.SUCCESS
    with pytest.raises(SchedulerError):
        stage.scheduler.cancel("c0")


async def test_the_answers_to_questions_become_part_of_the_call():
    class Asking(SmallTool):
        def build(self, params: dict[str, Any]) -> Any:
            call = super().build(params)

            def with_answers(answers: dict[int, str]) -> Any:
                return Asking("ask").build({"text": f"{answers}"})

            call.with_answers = with_answers
            return call

    question = Question(question="Which?", header="w", type="text")
    details = AskUserConfirmation(title="Ask", questions=(question,))
    stage = Stage(Asking("ask", asks=details), decide=deciding(ask=ASK))
    running = asyncio.create_task(stage.run("ask"))
    await await_questions(stage)
    with pytest.raises(ConfirmationError, match="no index"):
        stage.scheduler.confirm("c0", Outcome.PROCEED_ONCE, {"answers": {"first": "x"}})
    stage.scheduler.confirm("c0", Outcome.PROCEED_ONCE, Payload(answers={"0": "this"}))
    (done,) = await running
    assert response_of(done) == {"output": "got {0: 'this'}"}


async def test_an_approver_that_changes_its_call_for_ever_is_stopped():
    stage = Stage(
        SmallTool("look"),
        decide=deciding(look=ASK),
        approver=lambda _: Answer(Outcome.PROCEED_ONCE, Payload(new_content="x")),
    )
    (done,) = await stage.run("look")
    assert done.status is CallStatus.ERROR


async def test_equal_call_ids_are_answered_one_after_the_other():
    stage = Stage(SmallTool("look"), decide=deciding(look=ASK))
    running = asyncio.create_task(stage.run(request("same", "look"), request("same", "look")))
    await await_questions(stage, 2)
    stage.scheduler.confirm("same", Outcome.PROCEED_ONCE)
    stage.scheduler.confirm("same", Outcome.CANCEL)
    with pytest.raises(ConfirmationError):
        stage.scheduler.confirm("same", Outcome.PROCEED_ONCE)
    assert [str(call.status) for call in await running] == ["success", "cancelled"]


async def test_those_who_show_batches_hear_of_all_calls_whenever_some_have_changed():
    stage = Stage(SmallTool("echo"), SmallTool("change", kind=Kind.EDIT))
    over_bus: list[ToolCallsUpdate] = []
    stage.bus.subscribe(ToolCallsUpdate, over_bus.append)
    await stage.run("echo", "change", "nope")
    events = [event for event in stage.events if isinstance(event, ToolCallsUpdateEvent)]
    assert [[c.call_id for c in event.calls] for event in events] == [["c0", "c1", "c2"]] * len(
        events
    )
    assert [c.status for c in events[-1].calls] == ["success", "success", "error"]
    assert ["executing", "validating", "error"] in [[c.status for c in e.calls] for e in events]
    for _ in range(3):
        await asyncio.sleep(0)
    assert [message.calls for message in over_bus] == [event.calls for event in events]


async def test_a_request_to_a_callback_carries_the_decision_and_the_details():
    seen: list[ConfirmationRequest] = []
    stage = Stage(
        SmallTool("look"), decide=deciding(look=ASK), approver=lambda r: seen.append(r) or True
    )
    await stage.run("look")
    assert seen[0].decision.reason == "rule for look"
    assert seen[0].details.title == "Really?"
