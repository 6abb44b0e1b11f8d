"""The seven states of a tool call, each its own type (SCHED-01)."""

from enum import StrEnum
from typing import Any, ClassVar

from alhena.policy.model import Decision
from alhena.tools.confirmation import ConfirmationDetails, ToolConfirmationOutcome
from alhena.tools.contract import Tool, ToolErrorType, ToolInvocation
from alhena.tools.display import ToolDisplay
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
