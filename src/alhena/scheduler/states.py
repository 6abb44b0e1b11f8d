"""The seven states of a tool call, each its own type, and the transitions between them
(SCHED-01)."""

from enum import StrEnum
from typing import Any, ClassVar

from alhena.errors import AlhenaError
from alhena.policy.model import Decision
from alhena.tools.confirmation import ConfirmationDetails, ToolConfirmationOutcome
from alhena.tools.contract import Tool, ToolDisplay, ToolErrorType, ToolInvocation
from alhena.values import Value
from alhena.wire.calls import ToolCallRequestInfo
from alhena.wire.content import Part


class Status(StrEnum):
    """Names of the states, as events and journals carry them."""

    VALIDATING = "validating"
    AWAITING_APPROVAL = "awaiting_approval"
    SCHEDULED = "scheduled"
    EXECUTING = "executing"
    SUCCESS = "success"
    ERROR = "error"
    CANCELLED = "cancelled"


class ToolCallResponseInfo(Value, frozen=True, kw_only=True):
    """What goes back to the model, and what people see (SCHED-08)."""

    call_id: str
    response_parts: tuple[Part, ...]
    result_display: ToolDisplay | None = None
    error: str | None = None
    error_type: ToolErrorType | None = None
    output_file: str | None = None
    content_length: int = 0
    data: dict[str, Any] | None = None


class CallBase(Value, frozen=True, kw_only=True):
    """What every state of a call carries. `start_time` is a monotonic clock's seconds: when the
    call came in, and once it runs when that began."""

    request: ToolCallRequestInfo
    start_time: float


class ValidatingToolCall(CallBase, frozen=True, kw_only=True):
    """Built; the policy has not spoken yet."""

    status: ClassVar[Status] = Status.VALIDATING
    tool: Tool
    invocation: ToolInvocation


class WaitingToolCall(CallBase, frozen=True, kw_only=True):
    """Waits for a person."""

    status: ClassVar[Status] = Status.AWAITING_APPROVAL
    tool: Tool
    invocation: ToolInvocation
    decision: Decision
    details: ConfirmationDetails


class ScheduledToolCall(CallBase, frozen=True, kw_only=True):
    """Approved, not started. `outcome` is None when nobody had to be asked."""

    status: ClassVar[Status] = Status.SCHEDULED
    tool: Tool
    invocation: ToolInvocation
    decision: Decision
    outcome: ToolConfirmationOutcome | None = None


class ExecutingToolCall(CallBase, frozen=True, kw_only=True):
    """Running. `pid` is the child's, once there is one."""

    status: ClassVar[Status] = Status.EXECUTING
    tool: Tool
    invocation: ToolInvocation
    decision: Decision
    outcome: ToolConfirmationOutcome | None = None
    pid: int | None = None


class EndedCall(CallBase, frozen=True, kw_only=True):
    """What the terminal states share."""

    response: ToolCallResponseInfo
    duration_ms: float
    tool: Tool | None = None
    invocation: ToolInvocation | None = None
    decision: Decision | None = None
    outcome: ToolConfirmationOutcome | None = None


class SuccessfulToolCall(EndedCall, frozen=True, kw_only=True):
    """Ran and has a result."""

    status: ClassVar[Status] = Status.SUCCESS


class ErroredToolCall(EndedCall, frozen=True, kw_only=True):
    """Could not be built, was denied, or failed."""

    status: ClassVar[Status] = Status.ERROR


class CancelledToolCall(EndedCall, frozen=True, kw_only=True):
    """Stopped before or while running."""

    status: ClassVar[Status] = Status.CANCELLED


ActiveToolCall = ValidatingToolCall | WaitingToolCall | ScheduledToolCall | ExecutingToolCall
CompletedToolCall = SuccessfulToolCall | ErroredToolCall | CancelledToolCall
ToolCall = ActiveToolCall | CompletedToolCall


class SchedulerError(AlhenaError):
    """The scheduler was asked for something it cannot do."""

    kind = "scheduler"


class TransitionError(SchedulerError):
    """A tool call cannot go from one state to the other: a defect of the caller."""

    kind = "transition"


class ConfirmationError(SchedulerError):
    """An answer that no waiting call can take; whatever waited is still waiting."""

    kind = "confirmation"


TERMINAL = frozenset({Status.SUCCESS, Status.ERROR, Status.CANCELLED})
"""A call that is in one of these stays there."""

TRANSITIONS: dict[Status | None, frozenset[Status]] = {
    # What cannot be built never validates; what is cancelled while queued was never built.
    None: frozenset({Status.VALIDATING, Status.ERROR, Status.CANCELLED}),
    Status.VALIDATING: frozenset(
        {Status.SCHEDULED, Status.AWAITING_APPROVAL, Status.ERROR, Status.CANCELLED}
    ),
    # What a person has changed is shown once more. An approval that cannot be had ends in an error.
    Status.AWAITING_APPROVAL: frozenset(
        {Status.AWAITING_APPROVAL, Status.SCHEDULED, Status.ERROR, Status.CANCELLED}
    ),
    Status.SCHEDULED: frozenset({Status.EXECUTING, Status.CANCELLED}),
    # A running call enters its state again when it learns the id of its process. A call that a hook
    # puts in the place of one that has run is validated as any other.
    Status.EXECUTING: frozenset(
        {
            Status.EXECUTING,
            Status.VALIDATING,
            Status.SUCCESS,
            Status.ERROR,
            Status.CANCELLED,
        }
    ),
    Status.SUCCESS: frozenset(),
    Status.ERROR: frozenset(),
    Status.CANCELLED: frozenset(),
}
"""From (None: not there yet) -> to."""


def advance(old: Status | None, new: Status) -> Status:
    """`new`, when it can follow `old`; raises TransitionError when it cannot."""
    if new not in TRANSITIONS[old]:
        raise TransitionError(f"a tool call cannot go from {old or 'nothing'} to {new}")
    return new
