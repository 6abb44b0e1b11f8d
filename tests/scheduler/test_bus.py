"""Requests always come to an answer, and no listener can harm another."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.events import ToolCallState
from alhena.scheduler.bus import (
    AskUserRequest,
    AskUserResponse,
    BusError,
    LastingRule,
    MessageBus,
    ToolCallsUpdate,
    ToolConfirmationRequest,
    ToolConfirmationResponse,
    ToolPolicyRejection,
    UpdatePolicy,
)


def confirmation(bus: MessageBus, call_id: str = "c0") -> ToolConfirmationRequest:
    return ToolConfirmationRequest(
        correlation_id=bus.new_id(), call_id=call_id, name="t", tool_name="t", args={}, details={}
    )


def yes(request: ToolConfirmationRequest) -> ToolConfirmationResponse:
    return ToolConfirmationResponse(correlation_id=request.correlation_id, confirmed=True)


REJECTION = ToolPolicyRejection(call_id="c", name="t", tool_name="t", message="no")


@pytest.mark.requirement("SCHED-09")
def test_the_messages_have_the_types_of_the_reference_and_encode_to_json():
    request = ToolConfirmationRequest(
        call_id="c",
        name="t",
        tool_name="t",
        args={"a": 1},
        details={"type": "info"},
        lasting=(LastingRule(outcome="proceed_always", words="w"),),
    )
    state = ToolCallState(call_id="c", name="t", status="success")
    messages = {
        "tool-confirmation-request": request,
        "tool-confirmation-response": request.make_refusal("no"),
        "tool-policy-rejection": REJECTION,
        "update-policy": UpdatePolicy(call_id="c", tool_name="t", outcome="proceed_always"),
        "tool-calls-update": ToolCallsUpdate(calls=(state,)),
        "ask-user-request": AskUserRequest(correlation_id="1", questions=({},)),
        "ask-user-response": AskUserResponse(correlation_id="1"),
    }
    for kind, message in messages.items():
        encoded = msgspec.json.decode(msgspec.json.encode(message))
        assert encoded["type"] == kind
    assert msgspec.json.decode(msgspec.json.encode(request))["toolName"] == "t"


@pytest.mark.requirement("SCHED-09")
async def test_a_request_is_answered_by_the_response_with_its_id_and_no_other():
    bus = MessageBus()
    seen: list[ToolConfirmationRequest] = []
    bus.subscribe(ToolConfirmationRequest, seen.append)
    asking = [asyncio.create_task(bus.request(confirmation(bus, f"c{n}"))) for n in range(3)]
    while len(seen) < 3:
        await asyncio.sleep(0)
    for request in reversed(seen):
        assert bus.publish(yes(request)) == 1
    answers = [await task for task in asking]
    assert [a.correlation_id for a in answers] == [r.correlation_id for r in seen]
    assert len({a.correlation_id for a in answers}) == 3
    assert bus.publish(yes(seen[0])) == 0  # nobody waits any more


@pytest.mark.requirement("SCHED-09")
async def test_where_nobody_listens_a_request_is_refused_at_once():
    bus = MessageBus()
    answer = await bus.request(confirmation(bus), None)
    assert (answer.confirmed, answer.requires_user_confirmation) == (False, True)
    assert answer.reason == "nothing listens"
    asked = await bus.request(AskUserRequest(correlation_id=bus.new_id(), questions=()), None)
    assert asked.cancelled


@pytest.mark.requirement("SCHED-09")
async def test_a_request_without_an_answer_is_refused_when_its_time_is_over():
    bus = MessageBus()
    bus.subscribe(ToolConfirmationRequest, lambda message: None)
    answer = await bus.request(confirmation(bus), 0)
    assert not answer.confirmed
    assert answer.reason == "no answer within 0 seconds"


async def test_a_front_end_that_dies_while_it_is_asked_is_no_approval():
    reports: list[str] = []
    bus = MessageBus(reports.append)

    async def dies(message: ToolConfirmationRequest) -> None:
        await asyncio.sleep(0)
        raise ConnectionError("gone")

    bus.subscribe(ToolConfirmationRequest, dies)
    answer = await bus.request(confirmation(bus), None)
    assert not answer.confirmed
    assert answer.reason == "whoever was asked has failed"
    assert reports == ["a listener for ToolConfirmationRequest failed: ConnectionError: gone"]


def thinking() -> tuple[Callable[[ToolConfirmationRequest], Awaitable[None]], asyncio.Event]:
    """A listener that never answers, and the event set when it is cancelled."""
    stopped = asyncio.Event()

    async def thinks(message: ToolConfirmationRequest) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    return thinks, stopped


async def test_a_front_end_that_leaves_while_it_is_asked_is_no_approval():
    bus = MessageBus()
    thinks, stopped = thinking()
    leave = bus.subscribe(ToolConfirmationRequest, thinks)
    asking = asyncio.create_task(bus.request(confirmation(bus), None))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    leave()
    answer = await asking
    assert (answer.confirmed, answer.reason) == (False, "whoever was asked has gone")
    await stopped.wait()
    assert not bus.has(ToolConfirmationRequest)


@pytest.mark.requirement("SCHED-09")
async def test_a_listener_that_fails_harms_no_other_and_is_reported():
    reports: list[str] = []
    bus = MessageBus(reports.append)
    heard: list[str] = []

    def broken(message: ToolPolicyRejection) -> None:
        raise ZeroDivisionError("one")

    bus.subscribe(ToolPolicyRejection, broken)
    bus.subscribe(ToolPolicyRejection, lambda message: heard.append(message.call_id))
    assert await bus.deliver(REJECTION) == 2
    assert heard == ["c"]
    assert reports == ["a listener for ToolPolicyRejection failed: ZeroDivisionError: one"]


async def test_a_listener_that_fails_while_another_thinks_leaves_the_question_open():
    bus = MessageBus()
    waiting: list[ToolConfirmationRequest] = []

    def broken(message: ToolConfirmationRequest) -> None:
        raise ValueError("broken")

    bus.subscribe(ToolConfirmationRequest, broken)
    bus.subscribe(ToolConfirmationRequest, waiting.append)
    asking = asyncio.create_task(bus.request(confirmation(bus), None))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not asking.done()
    bus.publish(yes(waiting[0]))
    assert (await asking).confirmed


async def test_a_correlation_id_that_is_open_cannot_be_used_again():
    bus = MessageBus()
    bus.subscribe(ToolConfirmationRequest, lambda message: None)
    request = confirmation(bus)
    asking = asyncio.create_task(bus.request(request, None))
    await asyncio.sleep(0)
    with pytest.raises(BusError, match="open already"):
        await bus.request(request, None)
    assert not asking.done()
    bus.publish(yes(request))
    assert (await asking).confirmed


async def test_a_request_that_is_cancelled_stops_whoever_is_asked():
    bus = MessageBus()
    thinks, stopped = thinking()
    bus.subscribe(ToolConfirmationRequest, thinks)
    request = confirmation(bus)
    asking = asyncio.create_task(bus.request(request, None))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert stopped.is_set()
    assert bus.publish(yes(request)) == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_closing_ends_listeners_that_do_not_come_to_an_end():
    bus = MessageBus(grace_s=0.01)
    bus.subscribe(ToolPolicyRejection, lambda message: asyncio.Event().wait())
    bus.publish(REJECTION)
    await bus.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}


class Plan:
    """Behaviour of the listeners of a request, and whether the asker cancels."""

    def __init__(self, acts: list[str], *, gives_up: bool) -> None:
        self.acts = acts
        self.gives_up = gives_up

    def __repr__(self) -> str:
        return f"{self.acts}{' gives up' if self.gives_up else ''}"


async def carried_out(plan: Plan) -> None:
    bus = MessageBus()

    def listener(act: str, index: int) -> None:
        async def act_out(message: ToolConfirmationRequest) -> None:
            for _ in range(index):
                await asyncio.sleep(0)
            match act:
                case "yes":
                    bus.publish(yes(message))
                case "no":
                    bus.publish(message.make_refusal("no"))
                case "dies":
                    raise LookupError
                case "leaves":
                    unsubscribe()
                case _:
                    raise asyncio.CancelledError

        unsubscribe = bus.subscribe(ToolConfirmationRequest, act_out)

    for index, act in enumerate(plan.acts):
        listener(act, index)
    asking = asyncio.create_task(bus.request(confirmation(bus), None))
    if plan.gives_up:
        asyncio.get_running_loop().call_soon(asking.cancel)
    (answer,) = await asyncio.gather(asking, return_exceptions=True)
    answers = [act for act in plan.acts if act in {"yes", "no"}]
    if plan.gives_up and plan.acts:
        assert isinstance(answer, asyncio.CancelledError)
    elif answers:
        assert answer.confirmed == (answers[0] == "yes")
    else:
        assert not answer.confirmed
        assert answer.requires_user_confirmation
    await bus.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.requirement("SCHED-09")
@given(
    st.builds(
        Plan,
        st.lists(st.sampled_from(["yes", "no", "dies", "leaves", "cancels"]), max_size=4),
        gives_up=st.booleans(),
    )
)
def test_whatever_listeners_do_there_is_one_answer_and_only_a_yes_is_one(plan):
    asyncio.run(carried_out(plan))
