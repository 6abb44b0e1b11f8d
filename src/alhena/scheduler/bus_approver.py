"""Serves the message bus of a program: asks there, and publishes what happens to calls."""

import msgspec

from alhena.events import Event, ToolCallResponseEvent, ToolCallsUpdateEvent
from alhena.scheduler.bus import MessageBus
from alhena.scheduler.confirmation import (
    PROCEEDING,
    Outcome,
    describe_update,
    make_answer,
    require_answer,
)
from alhena.scheduler.messages import (
    AskUserRequest,
    ToolCallsUpdate,
    ToolConfirmationRequest,
    ToolConfirmationResponse,
    ToolPolicyRejection,
)
from alhena.scheduler.question import Answer, ConfirmationRequest
from alhena.scheduler.states import ConfirmationError, NoListenerError
from alhena.tools.contract import Question, ToolErrorType
from alhena.tools.registry import declared_name


class BusApprover:
    """An approver whose answers come from the listeners on `bus`. A question without an answer
    after `timeout_s` seconds is no approval; None waits without limit."""

    def __init__(self, bus: MessageBus, timeout_s: float | None = None) -> None:
        self._bus = bus
        self._timeout_s = timeout_s

    async def approve(self, request: ConfirmationRequest) -> Answer:
        """Asks the listeners. Raises ConfirmationError when there is no valid answer."""
        if not self._bus.has(ToolConfirmationRequest):
            raise NoListenerError("the bus has no listener for confirmation requests.")
        answer = read_response(await self._bus.request(request, self._timeout_s))
        require_answer(answer, request)
        offer = request.find_offer(answer.outcome)
        if offer is not None:
            self._bus.publish(describe_update(request, offer))
        return answer

    async def ask(self, questions: tuple[Question, ...]) -> dict[int, str] | None:
        """Puts questions of the model to the listeners; returns the answers by index."""
        request = AskUserRequest(
            correlation_id=self._bus.new_id(),
            questions=tuple(msgspec.to_builtins(each) for each in questions),
        )
        response = await self._bus.request(request, None)
        if response.cancelled:
            return None
        return {int(key): text for key, text in response.answers.items() if key.isdecimal()}

    def feed(self, event: Event) -> None:
        """Publishes the state of a batch, and each denial."""
        match event:
            case ToolCallsUpdateEvent():
                self._bus.publish(ToolCallsUpdate(calls=event.calls))
            case ToolCallResponseEvent(error_type=ToolErrorType.POLICY_VIOLATION):
                self._bus.publish(
                    ToolPolicyRejection(
                        call_id=event.call_id,
                        name=event.name,
                        tool_name=declared_name(event.name),
                        message=event.error or "",
                        reason=event.reason,
                    )
                )
            case _:
                pass


def read_response(response: ToolConfirmationResponse) -> Answer:
    """The answer in a message. Raises ConfirmationError if there is none or it contradicts
    itself."""
    if response.requires_user_confirmation:
        raise ConfirmationError(response.reason or "no answer came")
    if response.outcome is None:
        outcome = Outcome.PROCEED_ONCE if response.confirmed else Outcome.CANCEL
        return make_answer(outcome, response.payload)
    answer = make_answer(response.outcome, response.payload)
    proceeds = answer.outcome in PROCEEDING
    if proceeds != response.confirmed and answer.outcome is not Outcome.MODIFY_WITH_EDITOR:
        raise ConfirmationError(
            f'the answer "{answer.outcome}" contradicts confirmed={response.confirmed}'
        )
    return answer
