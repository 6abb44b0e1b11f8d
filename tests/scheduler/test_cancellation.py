import asyncio
from pathlib import Path
from typing import Any

import pytest

from alhena.events import ConfirmationRequestEvent, ToolCallUpdateEvent
from alhena.policy.model import PolicyOutcome
from alhena.scheduler.executor import Executor
from alhena.scheduler.question import ConfirmationRequest
from alhena.scheduler.states import CallStatus
from alhena.tools.contract import ExecutionContext, Kind, ToolErrorType, ToolResult
from tests.scheduler.kit import (
    SmallTool,
    Stage,
    deciding,
    echo,
    forever,
    request,
    requests,
    response_of,
)

BY_USER = {"error": "[Operation Cancelled] Reason: Operation cancelled by user"}
INTERRUPTED = {"error": "[Operation Cancelled] Reason: The run was interrupted"}


def only_this_task() -> bool:
    return asyncio.all_tasks() == {asyncio.current_task()}


def when(stage: Stage, call_id: str, status: str) -> asyncio.Event:
    """Set once the call has this status."""
    reached = asyncio.Event()

    def look(event: object) -> None:
        if isinstance(event, ToolCallUpdateEvent) and (event.call_id, event.status) == (
            call_id,
            status,
        ):
            reached.set()

    stage.on_event = look
    return reached


@pytest.mark.requirement("SCHED-05")
async def test_cancel_all_ends_running_waiting_and_queued_calls_each_with_a_response():
    stage = Stage(
        SmallTool("forever", forever),
        SmallTool("asked"),
        SmallTool("change", kind=Kind.EDIT),
        decide=deciding(asked=PolicyOutcome.ASK_USER),
    )
    waiting = when(stage, "c1", "awaiting_approval")
    first = asyncio.create_task(stage.run("forever", "asked", "change"))
    queued = asyncio.create_task(stage.scheduler.schedule(requests(request("q", "change"))))
    await waiting.wait()
    assert stage.statuses("c0")[-1] == "executing"
    stage.scheduler.cancel_all()
    assert stage.statuses("c1")[-1] == "cancelled"
    done = await first + await queued
    assert [response_of(call) for call in done] == [BY_USER] * 4
    assert [call.status for call in done] == [CallStatus.CANCELLED] * 4
    assert stage.statuses("q") == ["cancelled"]
    assert "executing" not in stage.statuses("c2")
    assert len(stage.responses()) == 4
    assert only_this_task()


@pytest.mark.requirement("SCHED-05")
async def test_a_running_tool_sees_the_cancellation_both_ways():
    seen: list[str] = []

    async def body(params: dict[str, Any], context: ExecutionContext) -> ToolResult:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append(f"event {context.cancellation.is_set()}")
            raise
        raise AssertionError

    stage = Stage(SmallTool("slow", body))
    started = when(stage, "c0", "executing")
    running = asyncio.create_task(stage.run("slow"))
    await started.wait()
    await asyncio.sleep(0)
    stage.scheduler.cancel_all("Enough")
    (done,) = await running
    assert seen == ["event True"]
    assert response_of(done) == {"error": "[Operation Cancelled] Reason: Enough"}
    assert done.response.error_type is ToolErrorType.CANCELLED


async def test_what_a_tool_had_come_to_when_it_was_cancelled_is_kept():
    async def body(params: dict[str, Any], context: ExecutionContext) -> ToolResult:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return ToolResult(llm_content="half of it", display="half")
        raise AssertionError

    stage = Stage(SmallTool("slow", body))
    started = when(stage, "c0", "executing")
    running = asyncio.create_task(stage.run("slow"))
    await started.wait()
    await asyncio.sleep(0)
    stage.scheduler.cancel_all()
    (done,) = await running
    assert done.status is CallStatus.CANCELLED
    assert response_of(done) == {"output": "half of it", **BY_USER}
    assert done.response.result_display == "half"


async def test_a_tool_that_will_not_stop_is_left_behind():
    release = asyncio.Event()
    stubborn_ended = asyncio.Event()

    async def body(params: dict[str, Any], context: ExecutionContext) -> ToolResult:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                context.update_output("no")
        stubborn_ended.set()
        raise OSError("nobody hears this")

    stage = Stage(SmallTool("mule", body), executor=Executor(Path.cwd(), grace_s=0.01))
    started = when(stage, "c0", "executing")
    running = asyncio.create_task(stage.run("mule"))
    await started.wait()
    await asyncio.sleep(0)
    stage.scheduler.cancel_all("Stop")
    (done,) = await running
    assert done.status is CallStatus.CANCELLED
    assert response_of(done)["error"].endswith("The tool did not stop and was left behind")
    release.set()
    await stubborn_ended.wait()
    while not only_this_task():
        await asyncio.sleep(0)
    assert len(stage.responses()) == 1


@pytest.mark.requirement("SCHED-05")
async def test_cancelling_schedule_stops_running_tools_before_it_ends():
    ended: list[str] = []

    async def body(params: dict[str, Any], context: ExecutionContext) -> ToolResult:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(params["text"])
        raise AssertionError

    stage = Stage(SmallTool("slow", body), SmallTool("change", kind=Kind.EDIT))
    started = when(stage, "b", "executing")
    running = asyncio.create_task(
        stage.run(request("a", "slow", text="a"), request("b", "slow", text="b"), "change")
    )
    await started.wait()
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert sorted(ended) == ["a", "b"]
    assert [response_of(call) for call in stage.scheduler.last_batch] == [INTERRUPTED] * 3
    assert len(stage.responses()) == 3
    assert only_this_task()


async def test_cancelling_a_queued_schedule_takes_it_out_and_the_next_goes_on():
    go = asyncio.Event()

    async def body(params: dict[str, Any], context: ExecutionContext) -> ToolResult:
        await go.wait()
        return await echo(params, context)

    stage = Stage(SmallTool("slow", body), SmallTool("echo"))
    started = when(stage, "c0", "executing")
    first = asyncio.create_task(stage.run("slow"))
    await started.wait()
    second = asyncio.create_task(stage.run(request("gone", "echo")))
    third = asyncio.create_task(stage.run(request("kept", "echo")))
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    assert stage.statuses("gone") == ["cancelled"]
    go.set()
    assert [(await first)[0].status, (await third)[0].status] == [CallStatus.SUCCESS] * 2


async def test_cancel_all_stops_an_approver_that_still_thinks():
    stopped: list[bool] = []

    async def approve(asked: ConfirmationRequest) -> bool:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(True)
        return True

    stage = Stage(
        SmallTool("asked"), decide=deciding(asked=PolicyOutcome.ASK_USER), approver=approve
    )
    running = asyncio.create_task(stage.run("asked"))
    while not stage.questions():
        await asyncio.sleep(0)
    for _ in range(5):
        await asyncio.sleep(0)
    stage.scheduler.cancel_all()
    (done,) = await running
    assert (done.status, stopped) == (CallStatus.CANCELLED, [True])
    assert only_this_task()


async def test_cancelling_from_within_the_question_itself_is_an_answer():
    stage = Stage(SmallTool("asked"), decide=deciding(asked=PolicyOutcome.ASK_USER))

    def cancel(event: object) -> None:
        if isinstance(event, ConfirmationRequestEvent):
            stage.scheduler.cancel_all("No questions")

    stage.on_event = cancel
    (done,) = await stage.run("asked")
    assert response_of(done) == {"error": "[Operation Cancelled] Reason: No questions"}


async def test_a_tool_that_cancels_itself_is_cancelled_and_others_are_not():
    async def body(params: dict[str, Any], context: ExecutionContext) -> ToolResult:
        raise asyncio.CancelledError

    stage = Stage(SmallTool("quitter", body), SmallTool("echo"))
    quitter, fine = await stage.run("quitter", "echo")
    assert response_of(quitter) == {
        "error": "[Operation Cancelled] Reason: The tool cancelled itself"
    }
    assert fine.status is CallStatus.SUCCESS


async def test_a_scheduler_works_on_after_everything_was_cancelled():
    stage = Stage(SmallTool("forever", forever), SmallTool("echo"))
    started = when(stage, "c0", "executing")
    running = asyncio.create_task(stage.run("forever"))
    await started.wait()
    stage.scheduler.cancel_all()
    await running
    (done,) = await stage.run("echo")
    assert done.status is CallStatus.SUCCESS


async def test_an_error_in_whoever_listens_ends_the_batch_with_every_call_answered():
    stage = Stage(SmallTool("forever", forever), SmallTool("echo"))
    armed = [True]

    def trip(event: object) -> None:
        if armed and getattr(event, "status", "") == "success":
            armed.clear()
            raise ValueError("a listener's defect")

    stage.on_event = trip
    with pytest.raises(ExceptionGroup) as caught:
        await stage.run("forever", "echo")
    assert caught.group_contains(ValueError, match="a listener's defect")
    assert stage.scheduler.last_batch[0].status is CallStatus.CANCELLED
    assert only_this_task()


@pytest.mark.parametrize("status", ["validating", "awaiting_approval", "scheduled", "executing"])
async def test_a_call_that_is_cancelled_in_the_very_event_of_a_state_goes_no_further(status):
    ran: list[str] = []

    async def body(params: dict[str, Any], context: ExecutionContext) -> ToolResult:
        ran.append("body")
        return await echo(params, context)

    stage = Stage(
        SmallTool("act", body),
        decide=deciding(act=PolicyOutcome.ASK_USER),
        approver=lambda asked: True,
    )

    def cancel(event: object) -> None:
        if isinstance(event, ToolCallUpdateEvent) and event.status == status:
            stage.scheduler.cancel_all()

    stage.on_event = cancel
    (done,) = await stage.run("act")
    assert response_of(done) == BY_USER
    assert ran == []
    assert stage.statuses("c0")[-2:] == [status, "cancelled"]
    assert bool(stage.questions()) == (status in {"scheduled", "executing"})
