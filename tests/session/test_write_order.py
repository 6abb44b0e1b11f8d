"""No call that matters starts before what led to it is on the disk."""

import asyncio
from typing import Any

import pytest

from alhena.policy.model import PolicyOutcome
from alhena.scheduler.states import CallStatus
from alhena.session.records import JournalError
from alhena.tools.contract import ExecutionContext, Kind, ToolErrorType, ToolResult
from tests.scheduler.kit import SmallTool, Stage, deciding, response_of


class Order:
    """Records the order of disk writes and tool calls."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.problem: JournalError | None = None
        self.gate: asyncio.Event | None = None
        self.waiting = asyncio.Event()

    async def durable(self) -> None:
        self.waiting.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.problem is not None:
            raise self.problem
        self.seen.append("disk")

    async def body(self, params: dict[str, Any], context: ExecutionContext) -> ToolResult:
        self.seen.append("tool")
        return ToolResult(llm_content="done")

    def stage(self, kind: Kind, **more: Any) -> Stage:
        stage = Stage(SmallTool("act", self.body, kind=kind), **more)
        stage.executor.durable = self.durable
        return stage


@pytest.mark.parametrize("kind", Kind)
async def test_a_call_that_may_change_something_waits_for_the_disk(kind: Kind):
    order = Order()
    (done,) = await order.stage(kind).run("act")
    assert done.status is CallStatus.SUCCESS
    harmless = kind in ("read", "search", "think", "fetch", "communicate", "plan")
    assert order.seen == (["tool"] if harmless else ["disk", "tool"])


async def test_what_a_person_has_approved_is_on_the_disk_before_it_runs():
    async def approve(_request: Any) -> bool:
        order.seen.append("person")
        return True

    order = Order()
    decide = deciding(act=PolicyOutcome.ASK_USER)
    await order.stage(Kind.READ, decide=decide, approver=approve).run("act")
    assert order.seen == ["person", "disk", "tool"]


async def test_a_call_does_not_start_when_it_cannot_be_recorded_and_the_run_ends():
    order = Order()
    order.problem = JournalError("the session cannot be recorded: no space.")
    first, second = await order.stage(Kind.EXECUTE).run("act", "act")
    assert order.seen == []
    assert first.response.error_type is ToolErrorType.STOP_EXECUTION
    assert response_of(first) == {"error": "Not started: the session cannot be recorded: no space."}
    assert second.status is CallStatus.CANCELLED


async def test_a_call_that_is_cancelled_while_it_waits_for_the_disk_never_starts():
    order = Order()
    order.gate = asyncio.Event()
    stage = order.stage(Kind.EXECUTE)
    running = asyncio.create_task(stage.run("act"))
    await order.waiting.wait()
    stage.scheduler.cancel_all("Stop")
    order.gate.set()
    (done,) = await running
    assert done.status is CallStatus.CANCELLED
    assert order.seen == ["disk"]
    assert stage.statuses("c0")[-2:] == ["executing", "cancelled"]
