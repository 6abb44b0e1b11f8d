"""Asking whether a call may run: what is asked, and what an answer can be."""

from collections.abc import Awaitable, Callable
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from alhena.bus.messages import ToolConfirmationRequest, ToolConfirmationResponse
from alhena.policy.model import Decision
from alhena.scheduler.errors import ConfirmationError
from alhena.tools.boundary import Boundary, one_line
from alhena.tools.confirmation import (
    AskUserConfirmation,
    ConfirmationDetails,
    ExitPlanModeConfirmation,
    ToolConfirmationOutcome,
)
from alhena.tools.contract import ToolFailure
from alhena.tools.daemon import in_daemon_thread
from alhena.values import Value

if TYPE_CHECKING:
    from alhena.bus.bus import MessageBus

Outcome = ToolConfirmationOutcome

PROCEEDING = frozenset(Outcome) - {Outcome.CANCEL, Outcome.MODIFY_WITH_EDITOR}
"""The answers with which the call runs."""


class Payload(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """What goes with an answer.

    With proceed: `new_content` is all that the file of an edit is to hold instead, `answers` those
    to the questions of ask_user (index as text -> answer), `approval_mode` what follows plan mode.
    With cancel: `reason` (`feedback` is the same) is what the model is told, and `scope` "all"
    ends every other call, too. `approved` false refuses a plan, whatever the outcome.
    """

    new_content: str | None = None
    answers: dict[str, str] | None = None
    approved: bool | None = None
    approval_mode: Literal["default", "autoEdit", "yolo"] | None = None
    feedback: str | None = None
    reason: str | None = None
    scope: Literal["call", "all"] = "call"


NOTHING = Payload()


class Answer(Value, frozen=True):
    """An answer to a confirmation, and what goes with it."""

    outcome: Outcome
    payload: Payload = NOTHING


class ConfirmationRequest(
    ToolConfirmationRequest, frozen=True, kw_only=True, tag="tool-confirmation-request"
):
    """A call that waits for an answer: the message on the bus, with `details` and the `decision`
    that asks as they are here."""

    details: ConfirmationDetails
    decision: Decision


Verdict = Answer | Outcome | bool
Approver = Callable[[ConfirmationRequest], Verdict | Awaitable[Verdict]]
"""Answers a request: an answer, an outcome, or True for proceed_once and False for cancel. A
function that is not async runs in a thread of its own."""


async def asked(approver: Approver, request: ConfirmationRequest) -> Verdict:
    """What `approver` answers, in whichever way it does. Raises what it raises."""
    if iscoroutinefunction(approver):
        return await approver(request)
    answer = await in_daemon_thread(partial(approver, request))
    return await answer if isawaitable(answer) else answer


async def verdict(approver: Approver, request: ConfirmationRequest) -> Answer | ToolFailure:
    """What `approver` answers. One that raises, or answers something else, is a failure."""
    boundary = Boundary()
    answer: object = None
    with boundary:
        answer = await asked(approver, request)
    if boundary.failure is not None:
        return ToolFailure(f"the approval callback raised {one_line(boundary.failure)}")
    if isinstance(answer, bool):
        return Answer(Outcome.PROCEED_ONCE if answer else Outcome.CANCEL)
    if isinstance(answer, Outcome):
        return Answer(answer)
    if isinstance(answer, Answer):
        return answer
    return ToolFailure(f"the approval callback answered {type(answer).__name__}, no outcome")


def listen(approver: Approver, bus: "MessageBus") -> Callable[[], None]:
    """Lets `approver` answer what is asked over `bus`; returns what ends that."""

    async def answer(message: ToolConfirmationRequest) -> None:
        if not isinstance(message, ConfirmationRequest):
            raise TypeError("an approval callback cannot answer for another process")
        bus.publish(response_to(message, await verdict(approver, message)))

    return bus.subscribe(ToolConfirmationRequest, answer)


def response_to(
    request: ToolConfirmationRequest, answer: Answer | ToolFailure
) -> ToolConfirmationResponse:
    """The message that carries an answer; of a failure, that there is none."""
    if isinstance(answer, ToolFailure):
        return request.refused(answer.message)
    return ToolConfirmationResponse(
        correlation_id=request.correlation_id,
        confirmed=answer.outcome in PROCEEDING,
        outcome=answer.outcome,
        payload=None if answer.payload == NOTHING else msgspec.to_builtins(answer.payload),
    )


def answer_of(response: ToolConfirmationResponse) -> Answer:
    """The answer that a message carries. Raises ConfirmationError when it is none: what
    contradicts itself is no approval."""
    if response.requires_user_confirmation:
        raise ConfirmationError(response.reason or "nobody answered")
    if response.outcome is None:
        outcome = Outcome.PROCEED_ONCE if response.confirmed else Outcome.CANCEL
        return answer_from(outcome, response.payload)
    answer = answer_from(response.outcome, response.payload)
    proceeds = answer.outcome in PROCEEDING
    if proceeds != response.confirmed and answer.outcome is not Outcome.MODIFY_WITH_EDITOR:
        raise ConfirmationError(
            f'the answer "{answer.outcome}" contradicts confirmed={response.confirmed}'
        )
    return answer


def answer_from(outcome: str, payload: object = None) -> Answer:
    """An outcome and its payload, as plain values or as they are here. Raises ConfirmationError."""
    try:
        known = Outcome(outcome)
    except ValueError as error:
        raise ConfirmationError(f"the answer {outcome!r} is no outcome") from error
    if payload is None or isinstance(payload, Payload):
        return Answer(known, payload or NOTHING)
    try:
        return Answer(known, msgspec.convert(payload, Payload))
    except (msgspec.ValidationError, RecursionError) as error:
        raise ConfirmationError(f"the payload of the answer cannot be used: {error}") from error


def require_answer(answer: Answer, request: ConfirmationRequest) -> None:
    """Raises ConfirmationError for an answer that the request does not take."""
    if answer.outcome not in request.outcomes:
        offered = ", ".join(request.outcomes)
        raise ConfirmationError(
            f'the answer "{answer.outcome}" is not offered for the call {request.call_id!r}',
            remedy=f"Answer with one of {offered}.",
        )
    payload, details = answer.payload, request.details
    proceeds, cancels = answer.outcome in PROCEEDING, answer.outcome is Outcome.CANCEL
    plan = isinstance(details, ExitPlanModeConfirmation)
    fitting = {
        "newContent": proceeds and request.modifiable,
        "answers": proceeds and isinstance(details, AskUserConfirmation),
        "approved": plan,
        "approvalMode": proceeds and plan,
        "feedback": cancels or plan,
        "reason": cancels or plan,
        "scope": cancels or payload.approved is False,
    }
    given: dict[str, Any] = {
        key: value
        for key, value in msgspec.to_builtins(payload).items()
        if value is not None and not (key == "scope" and value == "call")
    }
    for key in given:
        if not fitting[key]:
            raise ConfirmationError(
                f'"{key}" does not go with the answer "{answer.outcome}" '
                f"to the call {request.call_id!r}"
            )
    indexes: frozenset[str] = frozenset()
    if isinstance(details, AskUserConfirmation):
        indexes = frozenset(map(str, range(len(details.questions))))
    for key in payload.answers or {}:
        if key not in indexes:
            raise ConfirmationError(f"{key!r} is no index of a question")
