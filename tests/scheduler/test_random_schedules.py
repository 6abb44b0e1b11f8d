"""Whatever a batch holds and whenever it is cancelled: N calls, N ends, N answers, nothing left."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alhena.events import Event, ToolCallResponseEvent, ToolCallUpdateEvent
from alhena.policy.model import Decision, PolicyCall, PolicyOutcome, PolicyRule
from alhena.scheduler.executor import Executor
from alhena.scheduler.question import Answer, ConfirmationRequest
from alhena.scheduler.states import TERMINAL, CallStatus, CompletedToolCall, advance
from alhena.tools.contract import ExecutionContext, Kind, ToolResult
from alhena.wire.content import ToolCallRequestInfo
from tests.scheduler.kit import SmallTool, Stage, crash, echo, forever, response_of


async def slow(params: dict[str, Any], context: ExecutionContext) -> ToolResult:
    for _ in range(len(params["text"])):
        await asyncio.sleep(0)
        context.update_output(".")
    return await echo(params, context)


async def half(params: dict[str, Any], context: ExecutionContext) -> ToolResult:
    try:
        return await slow(params, context)
    except asyncio.CancelledError:
        return ToolResult(llm_content="half")


async def quitter(params: dict[str, Any], context: ExecutionContext) -> ToolResult:
    raise asyncio.CancelledError


BODIES = {"echo": echo, "crash": crash, "slow": slow, "half": half, "quitter": quitter}
KINDS = {"": Kind.READ, "_edit": Kind.EDIT}
TOOLS = [
    SmallTool(body + suffix, BODIES[body], kind=kind, live=True)
    for body in BODIES
    for suffix, kind in KINDS.items()
]
MUTATING = {tool.name for tool in TOOLS if tool.kind is Kind.EDIT}
POLICIES = ("allow", "deny", "yes", "no", "raise", "later")


class PlannedCall:
    def __init__(self, name: str, policy: str, text: str) -> None:
        self.name = name
        self.policy = policy
        self.text = text

    def __repr__(self) -> str:
        return f"{self.name}/{self.policy}/{self.text}"

    def request(self, call_id: str) -> ToolCallRequestInfo:
        args: dict[str, Any] = {"text": self.text, "policy": self.policy}
        if self.name == "bad":
            args["text"] = 1
        name = "echo" if self.name == "bad" else self.name
        return ToolCallRequestInfo(call_id=call_id, name=name, args=args)


def decide(call: PolicyCall) -> Decision:
    policy = call.args["policy"]
    outcome = {"allow": PolicyOutcome.ALLOW, "deny": PolicyOutcome.DENY}.get(
        policy, PolicyOutcome.ASK_USER
    )
    return Decision(
        outcome=outcome, reason="planned", rule=PolicyRule(decision=outcome, priority=1)
    )


async def approve(asked: ConfirmationRequest) -> bool | Answer:
    match asked.args["policy"]:
        case "raise":
            raise LookupError("no idea")
        case "later":
            for _ in range(3):
                await asyncio.sleep(0)
            return True
        case policy:
            return policy == "yes" or Answer.no("not this one")


planned = st.builds(
    PlannedCall,
    st.sampled_from([*(tool.name for tool in TOOLS), "bad", "unknown"]),
    st.sampled_from(POLICIES),
    st.text("ab", max_size=4),
)
batches = st.lists(planned, min_size=1, max_size=8)


def check_calls(
    batch: list[PlannedCall], done: list[CompletedToolCall], events: list[Event], prefix: str
) -> None:
    ids = [f"{prefix}{index}" for index in range(len(batch))]
    assert [call.request.call_id for call in done] == ids
    assert all(call.status in TERMINAL for call in done)
    for call in done:
        assert set(response_of(call)) & {"output", "error"}
    reported = Counter(e.call_id for e in events if isinstance(e, ToolCallResponseEvent))
    assert all(reported[call_id] == 1 for call_id in ids)
    for call_id in ids:
        state = None
        for event in events:
            if isinstance(event, ToolCallUpdateEvent) and event.call_id == call_id:
                state = advance(state, CallStatus(event.status))
        assert state in TERMINAL


def check_exclusion(events: list[Event]) -> None:
    """While a mutating call runs, nothing else does."""
    running: dict[str, str] = {}
    for event in events:
        if isinstance(event, ToolCallUpdateEvent):
            if event.status == "executing":
                running[event.call_id] = event.name
            else:
                running.pop(event.call_id, None)
            assert len(running) <= 1 or not MUTATING & set(running.values())


def new_stage() -> Stage:
    return Stage(*TOOLS, decide=decide, approver=approve, executor=Executor(Path.cwd()))


async def run_undisturbed(batch: list[PlannedCall]) -> None:
    stage = new_stage()
    done = await stage.scheduler.schedule([c.request(f"a{i}") for i, c in enumerate(batch)])
    check_calls(batch, done, stage.events, "a")
    check_exclusion(stage.events)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    for plan, call in zip(batch, done, strict=True):
        if plan.name in {"bad", "unknown"} or plan.policy in {"deny", "raise"}:
            assert call.status is CallStatus.ERROR
        elif plan.policy == "no" or plan.name.startswith("quitter"):
            assert call.status is CallStatus.CANCELLED
        elif plan.name.startswith("crash"):
            assert call.status is CallStatus.ERROR
        else:
            assert response_of(call) == {"output": f"got {plan.text}"}


@pytest.mark.requirement("SCHED-01", "SCHED-03", "SCHED-06")
@given(batches)
def test_every_call_of_every_batch_ends_as_planned(batch):
    asyncio.run(run_undisturbed(batch))


async def run_disturbed(
    batch: list[PlannedCall], second: list[PlannedCall], at: int, how: str
) -> None:
    stage = new_stage()
    tasks: list[asyncio.Task[Any]] = []

    def strike() -> None:
        if how == "schedule":
            for task in tasks:
                task.cancel()
        else:
            stage.scheduler.cancel_all("Struck")

    def look(event: Event) -> None:
        if len(stage.events) == at:
            if how == "all at once":
                strike()
            else:
                asyncio.get_running_loop().call_soon(strike)

    stage.on_event = look
    plans = {"a": batch, "b": second}
    for prefix, plan in plans.items():
        wanted = [call.request(f"{prefix}{index}") for index, call in enumerate(plan)]
        tasks.append(asyncio.create_task(stage.scheduler.schedule(wanted)))
    results = await asyncio.gather(*tasks, return_exceptions=True)
    for (prefix, plan), result in zip(plans.items(), results, strict=True):
        if isinstance(result, asyncio.CancelledError):
            assert how == "schedule"
        else:
            check_calls(plan, result, stage.events, prefix)
    for prefix, plan in plans.items():
        ends = Counter(e.call_id for e in stage.responses())
        assert all(ends[f"{prefix}{index}"] == 1 for index in range(len(plan)))
    check_exclusion(stage.events)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert stage.scheduler.calls == ()


@pytest.mark.requirement("SCHED-01", "SCHED-02", "SCHED-05")
@settings(max_examples=100, deadline=None)
@given(
    batches,
    st.lists(planned, max_size=3),
    st.integers(1, 40),
    st.sampled_from(["all at once", "all soon", "schedule"]),
)
def test_cancelled_at_any_event_every_call_still_ends_with_one_response(batch, second, at, how):
    asyncio.run(run_disturbed(batch, second, at, how))


async def cancelled_in(status: str, size: int) -> None:
    """Reliability R7: cancel when the last of `size` parallel calls enters `status`."""
    stage = Stage(
        SmallTool("forever", forever),
        SmallTool("asked"),
        decide=lambda call: Decision(
            outcome=PolicyOutcome.ASK_USER if call.names[0] == "asked" else PolicyOutcome.ALLOW,
            reason="",
        ),
    )
    name = "asked" if status == "awaiting_approval" else "forever"
    last = f"c{size - 1}" if status != "awaiting_approval" else "c0"

    def look(event: Event) -> None:
        if isinstance(event, ToolCallUpdateEvent) and (event.call_id, event.status) == (
            last,
            status,
        ):
            asyncio.get_running_loop().call_soon(stage.scheduler.cancel_all)

    stage.on_event = look
    done = await stage.run(*[name] * size)
    assert [call.status for call in done] == [CallStatus.CANCELLED] * size
    assert len(stage.responses()) == size
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.requirement("SCHED-05")
@pytest.mark.parametrize("status", ["validating", "awaiting_approval", "scheduled", "executing"])
@pytest.mark.parametrize("size", range(1, 9))
async def test_cancelled_in_any_state_of_one_to_eight_parallel_calls_all_end(status, size):
    await cancelled_in(status, size)
