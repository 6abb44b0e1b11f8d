"""One question and its first answer, wherever it comes from."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from alhena.policy.model import Decision, PolicyOutcome
from alhena.scheduler.confirm import Answer, ConfirmationRequest, answer_of, require_answer
from alhena.scheduler.denial import denial
from alhena.scheduler.errors import ConfirmationError
from alhena.scheduler.leash import Leash
from alhena.scheduler.questions import Asking, request_event, unanswered
from alhena.scheduler.states import WaitingToolCall
from alhena.scheduler.track import TrackedCall
from alhena.tools.boundary import Boundary
from alhena.tools.confirmation import ConfirmationDetails
from alhena.tools.contract import ToolErrorType, ToolFailure

T = TypeVar("T")

Decide = Callable[[TrackedCall], Awaitable[Decision | None]]
"""What holds for a call as it is now; None when it has ended over that."""


class Answers:
    """The questions of one scheduler that are open. `decide` is the policy, which may come to an
    answer of its own while a person is asked."""

    def __init__(self, asking: Asking, leash: Leash, decide: Decide) -> None:
        self._asking = asking
        self._leash = leash
        self._decide = decide

    async def first(
        self,
        call: TrackedCall,
        request: ConfirmationRequest,
        *,
        by_hook: bool,
        opened: Callable[[], None] = lambda: None,
    ) -> Answer | Decision | None:
        """The first answer over the bus, through `Scheduler.confirm`, or of the policy itself.
        None when the call has ended: it was stopped, or there is no answer to be had."""
        call.open_question(request)
        try:
            enter_waiting(call, request.details)
            if call.ended:
                return None
            call.emit(request_event(request))
            opened()
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
        direct = call.answer
        if direct is None or direct.done():  # answered while it was announced, or not open
            return None if direct is None else direct.result()
        over_bus = asyncio.create_task(self._over_bus(call, request))
        try:
            while True:
                again = call.reconsider = asyncio.get_running_loop().create_future()
                if call.stale:
                    again.set_result(None)
                await asyncio.wait({direct, over_bus, again}, return_when=asyncio.FIRST_COMPLETED)
                if direct.done():
                    return direct.result()
                if over_bus.done():
                    return over_bus.result()
                decision = await self._decide(call)
                if decision is None or call.ended:
                    return None
                if decision.outcome is PolicyOutcome.DENY:
                    return decision
                if decision.outcome is PolicyOutcome.ALLOW and not by_hook:
                    return decision
        finally:
            over_bus.cancel()
            await asyncio.wait({over_bus})

    async def _over_bus(
        self, call: TrackedCall, request: ConfirmationRequest
    ) -> Answer | ToolFailure:
        bus = self._asking.bus
        if not bus.has(type(request)):
            shown = request.tool_name if call.entry is None else call.entry.tool.display_name
            nobody = Decision(outcome=PolicyOutcome.DENY, reason=request.reason)
            return ToolFailure(denial(nobody, shown), ToolErrorType.POLICY_VIOLATION)
        response = await bus.request(request, self._asking.timeout_s)
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
