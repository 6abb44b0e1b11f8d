"""One question and its first answer, wherever it comes from."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from alhena.bus.messages import ToolConfirmationResponse
from alhena.events import ConfirmationRequestEvent
from alhena.policy.model import Decision, PolicyOutcome
from alhena.scheduler.confirm import Answer, ConfirmationRequest, answer_of, require_answer
from alhena.scheduler.denial import denial
from alhena.scheduler.errors import ConfirmationError
from alhena.scheduler.leash import Leash
from alhena.scheduler.questions import Asking, unanswered
from alhena.scheduler.states import WaitingToolCall
from alhena.scheduler.track import TrackedCall
from alhena.tools.boundary import Boundary
from alhena.tools.confirmation import ConfirmationDetails
from alhena.tools.contract import ToolErrorType, ToolFailure

T = TypeVar("T")

Decide = Callable[[TrackedCall], Awaitable[Decision | None]]
"""What holds for a call as it is now; None when it has ended over that."""


class OpenQuestion(msgspec.Struct, frozen=True):
    """What goes out: the request, and how everybody hears of it. `opened` is called when it has."""

    request: ConfirmationRequest
    event: ConfirmationRequestEvent
    opened: Callable[[], None] = lambda: None


class Answers:
    """The questions of one scheduler that are open. `decide` is the policy, which may come to an
    answer of its own while a person is asked."""

    def __init__(self, asking: Asking, leash: Leash, decide: Decide) -> None:
        self._asking = asking
        self._leash = leash
        self._decide = decide

    async def first(
        self, call: TrackedCall, question: OpenQuestion, *, by_hook: bool
    ) -> Answer | Decision | None:
        """The first answer over the bus, through `Scheduler.confirm`, or of the policy itself.
        None when the call has ended: it was stopped, or there is no answer to be had."""
        request = question.request
        call.open_question(request)
        try:
            enter_waiting(call, request.details)
            if call.ended:
                return None
            call.emit(question.event)
            question.opened()
            found = await held(self._leash, call, self._race(call, request, by_hook=by_hook))
        finally:
            call.close_question()
        if isinstance(found, asyncio.CancelledError):
            found = unanswered("whoever was asked has given up")
        if isinstance(found, ToolFailure) and not call.ended:
            call.fail(found.message, found.type)
        return None if isinstance(found, ToolFailure) or call.ended else found

    async def _race(
        self, call: TrackedCall, request: ConfirmationRequest, *, by_hook: bool
    ) -> Answer | ToolFailure | Decision | None:
        slot = call.answer
        if slot is None or slot.done():  # answered while it was announced, or not open
            return None if slot is None else slot.result()
        responses: list[ToolConfirmationResponse] = []

        def take(response: ToolConfirmationResponse) -> None:
            responses.append(response)
            if not slot.done():
                slot.set_result(_taken(response, request))

        over_bus = asyncio.create_task(self._over_bus(call, request, slot, take))
        try:
            return await self._settled(call, slot, over_bus, by_hook=by_hook)
        finally:
            call.close_question()  # from this moment on, nobody is told that an answer was taken
            if not responses:  # else it ends by itself, when those who were asked have gone
                over_bus.cancel()
            await asyncio.wait({over_bus})

    async def _settled(
        self,
        call: TrackedCall,
        slot: asyncio.Future[Answer | ToolFailure],
        over_bus: asyncio.Task[None],
        *,
        by_hook: bool,
    ) -> Answer | ToolFailure | Decision | None:
        """What fills the slot, or what the policy comes to say before that."""
        while True:
            again = call.reconsider = asyncio.get_running_loop().create_future()
            if call.stale:
                again.set_result(None)
            await asyncio.wait({slot, over_bus, again}, return_when=asyncio.FIRST_COMPLETED)
            if slot.done():
                return slot.result()
            if over_bus.done():
                over_bus.result()
            decision = await self._decide(call)
            if decision is None or call.ended:
                return None
            if decision.outcome is PolicyOutcome.DENY:
                return decision
            # Who has answered while the policy was asked has been told so: that counts.
            if slot.done() and isinstance(slot.result(), Answer):
                return slot.result()
            if decision.outcome is PolicyOutcome.ALLOW and not by_hook:
                return decision

    async def _over_bus(
        self,
        call: TrackedCall,
        request: ConfirmationRequest,
        slot: asyncio.Future[Answer | ToolFailure],
        take: Callable[[ToolConfirmationResponse], None],
    ) -> None:
        """Asks over the bus; where nobody listens, that is what the slot gets."""
        bus = self._asking.bus
        if bus.has(type(request)):
            await bus.request(request, self._asking.timeout_s, take)
        elif not slot.done():
            shown = request.tool_name if call.entry is None else call.entry.tool.display_name
            nobody = Decision(outcome=PolicyOutcome.DENY, reason=request.reason)
            slot.set_result(ToolFailure(denial(nobody, shown), ToolErrorType.POLICY_VIOLATION))


def _taken(
    response: ToolConfirmationResponse, request: ConfirmationRequest
) -> Answer | ToolFailure:
    """What a response comes to; what makes no sense is no approval."""
    try:
        answer = answer_of(response)
        require_answer(answer, request)
    except ConfirmationError as error:
        return unanswered(error.message)
    return answer


def enter_waiting(call: TrackedCall, details: ConfirmationDetails) -> None:
    """Takes a call that was built to the state in which it waits for a person."""
    if call.entry is None or call.invocation is None or call.decision is None:
        raise TypeError(f"call {call.request.call_id} was not built")
    call.enter(
        WaitingToolCall(
            request=call.request,
            start_time=call.start_time,
            tool=call.entry.tool,
            invocation=call.invocation,
            decision=call.decision,
            details=details,
        )
    )


async def held(
    leash: Leash, call: TrackedCall, work: Awaitable[T]
) -> T | asyncio.CancelledError | None:
    """What comes of `work`; None when the call was stopped first. Work that cancels itself comes to
    a CancelledError, as a value."""
    task = asyncio.ensure_future(work)
    if await leash.hold(call, task):
        return None
    return asyncio.CancelledError() if task.cancelled() else task.result()


async def stopped_at_boundary(work: Callable[[], Awaitable[T]]) -> T | Boundary:
    """What `work` comes to, or the boundary at which its failure stopped."""
    boundary = Boundary()
    with boundary:
        return await work()
    return boundary
