"""Questions about calls: what is asked, as a request and as an event, and what answers mean."""

from collections.abc import Awaitable, Callable

import msgspec

from alhena.bus.bus import MessageBus
from alhena.bus.messages import LastingRule, UpdatePolicy
from alhena.events import ConfirmationRequestEvent
from alhena.policy.model import Decision, PolicyCall
from alhena.scheduler.confirm import Answer, ConfirmationRequest, Outcome
from alhena.scheduler.plain import plain
from alhena.scheduler.shown import holds_alone
from alhena.scheduler.track import TrackedCall
from alhena.tools.confirmation import ConfirmationDetails, EditConfirmation
from alhena.tools.contract import ToolErrorType, ToolFailure
from alhena.tools.editing import ProposedContents
from alhena.tools.modify import ModifiableInvocation
from alhena.tools.registry import RegisteredTool
from alhena.wire.text import scrub

NOT_ALLOWED = "User did not allow tool call"
_FEEDBACK = f"{NOT_ALLOWED}. Feedback: "

Offers = Callable[[PolicyCall], tuple[LastingRule, ...]]
"""What could be approved beyond a call; nothing that would not let the same call run again."""

Edit = Callable[[ProposedContents], Awaitable[str | ToolFailure]]
"""Lets a person change what a file is to hold; all of it, or why there is no change."""


def no_offers(_call: PolicyCall) -> tuple[LastingRule, ...]:
    """Every answer holds for its call alone."""
    return ()


class Asking(msgspec.Struct, frozen=True, kw_only=True):
    """Who is asked, and what answers can do.

    Questions go out over `bus`. `offers` says what could be approved beyond a call: whoever
    listens for UpdatePolicy makes it so. `edit` opens a person's editor. A question without an
    answer after `timeout_s` seconds is no approval; None waits for ever.
    """

    bus: MessageBus
    offers: Offers = no_offers
    edit: Edit | None = None
    timeout_s: float | None = None


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a call is asked about for. `by_hook`: it is not the policy that wants a person asked, so
    no rule can answer. `problem` says why it is asked once more."""

    details: ConfirmationDetails
    why: Decision
    by_hook: bool = False
    problem: str = ""


def question(
    call: TrackedCall, entry: RegisteredTool, asked: Asked, asking: Asking
) -> ConfirmationRequest:
    """The request for an answer, with all that it takes."""
    details = asked.details
    modifiable = isinstance(details, EditConfirmation) and isinstance(
        call.invocation, ModifiableInvocation
    )
    alone = asked.by_hook or holds_alone(details)
    lasting = () if alone else asking.offers(call.asked(entry))
    why = msgspec.structs.replace(
        asked.why,
        reason=scrub(asked.why.reason),
        parts=tuple(scrub(part) for part in asked.why.parts),
    )
    edits = (Outcome.MODIFY_WITH_EDITOR,) if modifiable and asking.edit is not None else ()
    return ConfirmationRequest(
        correlation_id=asking.bus.new_id(),
        call_id=call.current.call_id,
        name=call.current.name,
        tool_name=entry.tool.name,
        args=plain(call.params),
        details=details,
        decision=why,
        server_name=entry.server,
        reason=why.reason,
        parts=why.parts,
        outcomes=(
            Outcome.PROCEED_ONCE,
            *(each.outcome for each in lasting),
            *edits,
            Outcome.CANCEL,
        ),
        lasting=lasting,
        modifiable=modifiable,
        problem=scrub(asked.problem),
    )


def request_event(request: ConfirmationRequest) -> ConfirmationRequestEvent:
    """The question as everybody hears of it."""
    return ConfirmationRequestEvent(
        call_id=request.call_id,
        name=request.name,
        details=plain(request.details),
        reason=request.reason,
        parts=request.parts,
        outcomes=tuple(str(each) for each in request.outcomes),
        lasting=tuple(plain(each) for each in request.lasting),
        problem=request.problem,
        correlation_id=request.correlation_id,
    )


def update_policy(request: ConfirmationRequest, offer: LastingRule) -> UpdatePolicy:
    """The message that makes an offer hold (SCHED-10)."""
    rule = offer.rule or {}
    prefixes = rule.get("commandPrefix", ())
    return UpdatePolicy(
        call_id=request.call_id,
        tool_name=request.tool_name,
        outcome=offer.outcome,
        command_prefix=(prefixes,) if isinstance(prefixes, str) else tuple(prefixes),
        mcp_name=rule.get("mcpName"),
        rule=offer.rule,
        mode=offer.mode,
        persist=offer.persist,
        shown=offer.shown,
    )


def changes(answer: Answer) -> bool:
    """Whether an answer is about what the call does, too."""
    return answer.outcome is Outcome.MODIFY_WITH_EDITOR or answer.payload.new_content is not None


def refuses(answer: Answer) -> bool:
    """Whether an answer is a no."""
    return answer.outcome is Outcome.CANCEL or answer.payload.approved is False


def refusal(answer: Answer) -> str:
    """What the model is told of a no."""
    said = (answer.payload.reason or answer.payload.feedback or "").strip()
    return f"{_FEEDBACK}{said}" if said else NOT_ALLOWED


def says_why(error: str) -> bool:
    """Whether the error of a call is a no with what a person wants instead."""
    return _FEEDBACK in error


def unanswered(reason: str) -> ToolFailure:
    """The failure of a call about which there is no answer."""
    return ToolFailure(
        f"Tool execution was not approved: {reason.rstrip('.')}.", ToolErrorType.EXECUTION_FAILED
    )


def unasked(reason: str) -> ToolFailure:
    """The failure of a call that nobody could be asked about."""
    return ToolFailure(
        f"Tool execution was not approved: it cannot be asked for ({reason}).",
        ToolErrorType.UNHANDLED_EXCEPTION,
    )
