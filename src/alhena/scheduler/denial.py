"""Calls that may not run: what the model is told, and who else hears of it."""

from typing import TYPE_CHECKING

from alhena.policy.model import Decision, PolicyOutcome
from alhena.scheduler.track import TrackedCall
from alhena.tools.boundary import Boundary, one_line
from alhena.tools.contract import ToolErrorType

if TYPE_CHECKING:
    from alhena.bus.bus import MessageBus


def denial(decision: Decision, display_name: str) -> str:
    """What the model is told of a call that may not run."""
    rule = decision.rule
    if rule is not None and rule.decision is PolicyOutcome.DENY:
        return " ".join(filter(None, ("Tool execution denied by policy.", rule.deny_message)))
    # Nothing denies the call: somebody would have to be asked, and nobody is there.
    text = (
        f'Tool execution for "{display_name}" requires user confirmation, which is not supported '
        "in non-interactive mode."
    )
    return f"{text} Reason: {decision.reason.rstrip('.')}." if decision.reason else text


def deny(call: TrackedCall, decision: Decision, bus: "MessageBus | None") -> None:
    """Ends a call that the policy does not let run, and says so on the bus."""
    call.decision = decision
    name = call.request.name if call.entry is None else call.entry.tool.name
    shown = name if call.entry is None else call.entry.tool.display_name
    message = denial(decision, shown)
    if bus is not None:
        from alhena.bus.messages import ToolPolicyRejection

        if bus.has(ToolPolicyRejection):
            bus.publish(
                ToolPolicyRejection(
                    call_id=call.current.call_id,
                    name=call.current.name,
                    tool_name=name,
                    message=message,
                    reason=decision.reason,
                )
            )
    call.fail(message, ToolErrorType.POLICY_VIOLATION)


def deny_unknown(call: TrackedCall, who: str, boundary: Boundary | None) -> None:
    """Ends a call of which nobody can say whether it may run."""
    call.fail(unknown(who, boundary), ToolErrorType.POLICY_VIOLATION)


def unknown(who: str, boundary: Boundary | None) -> str:
    """Why nobody can say whether a call may run."""
    failure = None if boundary is None else boundary.failure
    reason = "no answer" if failure is None else one_line(failure)
    return f"Tool execution denied: {who} could not be asked ({reason})."
