"""Ends calls that the policy denies; the messages to the model about them."""

from alhena.policy.model import Decision, PolicyOutcome
from alhena.scheduler.states import TrackedCall
from alhena.tools.contract import ToolErrorType
from alhena.tools.threads import Boundary, one_line


def describe_denial(decision: Decision, display_name: str) -> str:
    """The message to the model about a call that may not run."""
    rule = decision.rule
    if rule is not None and rule.decision is PolicyOutcome.DENY:
        return " ".join(filter(None, ("Tool execution denied by policy.", rule.deny_message)))
    # No rule denies the call: it needs confirmation, and there is no person to ask.
    text = (
        f'Tool execution for "{display_name}" requires user confirmation, which is not supported '
        "in non-interactive mode."
    )
    return f"{text} Reason: {decision.reason.rstrip('.')}." if decision.reason else text


def deny(call: TrackedCall, decision: Decision) -> None:
    """Ends a call that the policy denies."""
    call.decision = decision
    shown = call.request.name if call.entry is None else call.entry.tool.display_name
    call.fail(describe_denial(decision, shown), ToolErrorType.POLICY_VIOLATION)


def deny_failed(call: TrackedCall, who: str, boundary: Boundary | None) -> None:
    """Ends a call because the policy or a checker failed."""
    call.fail(describe_failure(who, boundary), ToolErrorType.POLICY_VIOLATION)


def describe_failure(who: str, boundary: Boundary | None) -> str:
    """The message that the policy or a checker failed."""
    failure = None if boundary is None else boundary.failure
    reason = "no answer" if failure is None else one_line(failure)
    return f"Tool execution denied: {who} could not be asked ({reason})."
