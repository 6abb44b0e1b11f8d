"""Questions over the bus: who answers, who does not, and what is no answer."""

import asyncio

import pytest

from alhena.scheduler.bus import (
    ToolConfirmationRequest,
    ToolConfirmationResponse,
)
from alhena.scheduler.states import CallStatus, ConfirmationError
from alhena.tools.contract import ToolErrorType
from tests.scheduler.kit import SmallTool, Stage, deciding, request, response_of
from tests.scheduler.rules import ASK, Rules, await_questions, stage_rules


@pytest.mark.requirement("SCHED-09")
async def test_where_nobody_listens_a_call_that_must_be_asked_about_does_not_run():
    stage = Stage(SmallTool("look"), decide=deciding(look=ASK))
    stage.bus.__init__()  # as it was before anybody came
    (done,) = await stage.run("look")
    assert done.response.error_type is ToolErrorType.POLICY_VIOLATION
    assert "requires user confirmation, which is not supported" in response_of(done)["error"]
    assert "executing" not in stage.statuses("c0")


@pytest.mark.requirement("SCHED-09")
async def test_a_front_end_over_the_bus_sees_all_it_needs_and_answers():
    async def thinks(message: ToolConfirmationRequest) -> None:
        await asyncio.Event().wait()

    stage = stage_rules(Rules(), SmallTool("look"))
    stage.bus.subscribe(ToolConfirmationRequest, thinks)
    seen: list[ToolConfirmationRequest] = []

    def front_end(message: ToolConfirmationRequest) -> None:
        seen.append(message)
        stage.bus.publish(
            ToolConfirmationResponse(
                correlation_id=message.correlation_id, confirmed=True, outcome="proceed_once"
            )
        )

    stage.bus.subscribe(ToolConfirmationRequest, front_end)
    (done,) = await stage.run(request("c0", "look", text="x"))
    assert done.status is CallStatus.SUCCESS
    assert (seen[0].name, seen[0].args, seen[0].reason) == ("look", {"text": "x"}, "ask_user look")
    assert seen[0].correlation_id == stage.questions()[0].correlation_id
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.requirement("SCHED-09")
@pytest.mark.parametrize(
    "response",
    [
        {"confirmed": False, "outcome": "proceed_once"},
        {"confirmed": True, "outcome": "cancel"},
        {"confirmed": True, "outcome": "proceed_always"},
        {"confirmed": True, "outcome": "whatever"},
        {"confirmed": True, "requires_user_confirmation": True},
        {"confirmed": True, "payload": {"newContent": "x"}},
        {"confirmed": True, "payload": {"unknown": 1}},
        {"confirmed": True, "payload": {"answers": {"0": "x"}}},
        {"confirmed": True, "payload": {"scope": "all"}},
        {"confirmed": True, "payload": {"approvalMode": "yolo"}},
    ],
)
async def test_an_answer_over_the_bus_that_makes_no_sense_is_no_approval(response):
    stage = Stage(SmallTool("look"), decide=deciding(look=ASK))

    def front_end(message: ToolConfirmationRequest) -> None:
        stage.bus.publish(
            ToolConfirmationResponse(correlation_id=message.correlation_id, **response)
        )

    stage.bus.subscribe(ToolConfirmationRequest, front_end)
    (done,) = await stage.run("look")
    assert done.status is CallStatus.ERROR
    assert response_of(done)["error"].startswith("Tool execution was not approved: ")
    assert "executing" not in stage.statuses("c0")


@pytest.mark.requirement("SCHED-09")
async def test_a_front_end_that_dies_while_it_is_asked_leaves_the_rest_of_the_run_alone():
    stage = Stage(SmallTool("look"), SmallTool("echo"), decide=deciding(look=ASK))
    stage.bus.__init__(stage.reports.append)

    async def front_end(message: ToolConfirmationRequest) -> None:
        await asyncio.sleep(0)
        raise BrokenPipeError("closed")

    stage.bus.subscribe(ToolConfirmationRequest, front_end)
    look, fine = await stage.run("look", "echo")
    assert response_of(look) == {
        "error": "Tool execution was not approved: whoever was asked has failed."
    }
    assert fine.status is CallStatus.SUCCESS
    assert "BrokenPipeError: closed" in stage.reports[0]


@pytest.mark.requirement("SCHED-04", "SCHED-09")
@pytest.mark.parametrize("first", ["bus", "confirm"])
async def test_of_two_answers_at_the_same_moment_the_first_counts_and_the_other_is_refused(first):
    stage = Stage(SmallTool("look"), decide=deciding(look=ASK))

    async def stubborn(message: ToolConfirmationRequest) -> None:
        try:
            await asyncio.Event().wait()
        finally:  # it takes a while to go, in which nothing may be answered any more
            for _ in range(20):
                await asyncio.sleep(0)

    stage.bus.subscribe(ToolConfirmationRequest, stubborn)
    running = asyncio.create_task(stage.run("look"))
    await await_questions(stage)
    for _ in range(5):
        await asyncio.sleep(0)
    number = stage.questions()[0].correlation_id
    no = ToolConfirmationResponse(correlation_id=number, confirmed=False)
    if first == "confirm":
        stage.scheduler.confirm("c0", "cancel")
        stage.bus.publish(ToolConfirmationResponse(correlation_id=number, confirmed=True))
    else:
        assert stage.bus.publish(no) == 1
        for _ in range(5):
            await asyncio.sleep(0)
    for _ in range(8):
        with pytest.raises(ConfirmationError, match="no call 'c0' waits"):
            stage.scheduler.confirm("c0", "proceed_once")
        await asyncio.sleep(0)
    (done,) = await running
    assert done.status is CallStatus.CANCELLED
    await stage.bus.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.requirement("SCHED-09")
async def test_a_question_nobody_answers_in_time_is_no_approval():
    stage = Stage(SmallTool("look"), decide=deciding(look=ASK), timeout_s=0.0)
    (done,) = await stage.run("look")
    assert "no answer within 0 seconds" in response_of(done)["error"]
