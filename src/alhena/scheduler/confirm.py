"""Asking whether a call may run: what is asked, and what an answer can be."""

from collections.abc import Awaitable, Callable
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from typing import Any

import msgspec

from alhena.policy.model import Decision, PolicyOutcome
from alhena.tools.boundary import Boundary, one_line
from alhena.tools.confirmation import ConfirmationDetails, ToolConfirmationOutcome
from alhena.tools.contract import ToolErrorType, ToolFailure
from alhena.tools.daemon import in_daemon_thread

Outcome = ToolConfirmationOutcome

SUPPORTED = frozenset({Outcome.PROCEED_ONCE, Outcome.PROCEED_ALWAYS, Outcome.CANCEL})
"""The answers that a call can be given."""

NOT_ALLOWED = "User did not allow tool call"


class ConfirmationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A call that waits for an answer.

    `name` is what the model called, `tool_name` the declared name of the tool; `args` are the
    parameters under their declared names, `details` what to show, `decision` why it is asked.
    """

    call_id: str
    name: str
    tool_name: str
    args: dict[str, Any]
    details: ConfirmationDetails
    decision: Decision
    server_name: str | None = None


Verdict = Outcome | bool
Approver = Callable[[ConfirmationRequest], Verdict | Awaitable[Verdict]]
"""Answers a request: an outcome, or True for proceed_once and False for cancel. A function that is
not async runs in a thread of its own."""

Remember = Callable[[ConfirmationRequest, Outcome], None]
"""Told of every answer that holds beyond its call; adds the rule that makes it so."""


async def asked(approver: Approver, request: ConfirmationRequest) -> Verdict:
    """What `approver` answers, in whichever way it does. Raises what it raises."""
    if iscoroutinefunction(approver):
        return await approver(request)
    answer = await in_daemon_thread(partial(approver, request))
    return await answer if isawaitable(answer) else answer


async def verdict(approver: Approver, request: ConfirmationRequest) -> Outcome | ToolFailure:
    """What `approver` answers. One that raises, or answers something else, is a failure."""
    boundary = Boundary()
    answer: object = None
    with boundary:
        answer = await asked(approver, request)
    if boundary.failure is not None:
        return _unanswered(f"the approval callback raised {one_line(boundary.failure)}")
    if isinstance(answer, bool):
        return Outcome.PROCEED_ONCE if answer else Outcome.CANCEL
    if not isinstance(answer, Outcome):
        return _unanswered(f"the approval callback answered {type(answer).__name__}, no outcome")
    if answer not in SUPPORTED:
        return _unanswered(f'the answer "{answer}" is not supported')
    return answer


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


def _unanswered(reason: str) -> ToolFailure:
    return ToolFailure(
        f"Tool execution was not approved: {reason}.", ToolErrorType.EXECUTION_FAILED
    )
