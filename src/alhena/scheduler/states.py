"""The seven states of a tool call with the transitions between them (SCHED-01)."""

from enum import StrEnum
from typing import Any, ClassVar, cast

import msgspec

from alhena.errors import AlhenaError
from alhena.policy.model import Decision
from alhena.tools.contract import (
    ConfirmationDetails,
    DiffStat,
    EditConfirmation,
    FileDiff,
    Suspension,
    Tool,
    ToolConfirmationOutcome,
    ToolDisplay,
    ToolErrorType,
    ToolInvocation,
)
from alhena.values import Value
from alhena.wire.content import Part, ToolCallRequestInfo
from alhena.wire.json_values import scrub


class CallStatus(StrEnum):
    """Names of the states, as written in events and journals."""

    VALIDATING = "validating"
    AWAITING_APPROVAL = "awaiting_approval"
    SCHEDULED = "scheduled"
    EXECUTING = "executing"
    SUCCESS = "success"
    ERROR = "error"
    CANCELLED = "cancelled"


class ToolCallResponseInfo(Value, frozen=True, kw_only=True):
    """Response of a call: parts for the model, display for people (SCHED-08)."""

    call_id: str
    response_parts: tuple[Part, ...]
    result_display: ToolDisplay | None = None
    error: str | None = None
    error_type: ToolErrorType | None = None
    output_file: str | None = None
    content_length: int = 0
    data: dict[str, Any] | None = None


class CallBase(Value, frozen=True, kw_only=True):
    """Fields of every state. `start_time`: seconds of a monotonic clock at which the call arrived
    or, once it runs, started."""

    request: ToolCallRequestInfo
    start_time: float


class ValidatingToolCall(CallBase, frozen=True, kw_only=True):
    """Built; not yet decided by the policy."""

    status: ClassVar[CallStatus] = CallStatus.VALIDATING
    tool: Tool
    invocation: ToolInvocation


class WaitingToolCall(CallBase, frozen=True, kw_only=True):
    """Waiting for a person's answer."""

    status: ClassVar[CallStatus] = CallStatus.AWAITING_APPROVAL
    tool: Tool
    invocation: ToolInvocation
    decision: Decision
    details: ConfirmationDetails


class ScheduledToolCall(CallBase, frozen=True, kw_only=True):
    """Approved, not started. `outcome` is None if no confirmation was needed."""

    status: ClassVar[CallStatus] = CallStatus.SCHEDULED
    tool: Tool
    invocation: ToolInvocation
    decision: Decision
    outcome: ToolConfirmationOutcome | None = None


class ExecutingToolCall(CallBase, frozen=True, kw_only=True):
    """Running. `pid`: id of the child process, once there is one."""

    status: ClassVar[CallStatus] = CallStatus.EXECUTING
    tool: Tool
    invocation: ToolInvocation
    decision: Decision
    outcome: ToolConfirmationOutcome | None = None
    pid: int | None = None


class FinishedToolCall(CallBase, frozen=True, kw_only=True):
    """Fields of the terminal states. `ends_turn`: a person refused the call without words, so that
    the next word is theirs: the rest of its batch is cancelled and the model is not asked.
    `pending`: the call waits for answers, which come after the run; it has no response yet."""

    response: ToolCallResponseInfo
    duration_ms: float
    tool: Tool | None = None
    invocation: ToolInvocation | None = None
    decision: Decision | None = None
    outcome: ToolConfirmationOutcome | None = None
    ends_turn: bool = False
    pending: "Suspension | None" = None


class SuccessfulToolCall(FinishedToolCall, frozen=True, kw_only=True):
    """Ended with a result."""

    status: ClassVar[CallStatus] = CallStatus.SUCCESS


class ErroredToolCall(FinishedToolCall, frozen=True, kw_only=True):
    """Failed: could not be built, was denied, or its tool failed."""

    status: ClassVar[CallStatus] = CallStatus.ERROR


class CancelledToolCall(FinishedToolCall, frozen=True, kw_only=True):
    """Cancelled before or while running."""

    status: ClassVar[CallStatus] = CallStatus.CANCELLED


ActiveToolCall = ValidatingToolCall | WaitingToolCall | ScheduledToolCall | ExecutingToolCall
CompletedToolCall = SuccessfulToolCall | ErroredToolCall | CancelledToolCall
ToolCall = ActiveToolCall | CompletedToolCall


class SchedulerError(AlhenaError):
    """The scheduler was asked for something it cannot do."""

    kind = "scheduler"


class TransitionError(SchedulerError):
    """Invalid transition of a tool call: a defect of the caller."""

    kind = "transition"


class ConfirmationError(SchedulerError):
    """No waiting call can take this answer; waiting calls keep waiting."""

    kind = "confirmation"


class NoListenerError(ConfirmationError):
    """There is no person to ask."""


TERMINAL = frozenset({CallStatus.SUCCESS, CallStatus.ERROR, CallStatus.CANCELLED})
"""States that a call never leaves."""

TRANSITIONS: dict[CallStatus | None, frozenset[CallStatus]] = {
    # A call that cannot be built, or is cancelled in the queue, never validates.
    None: frozenset({CallStatus.VALIDATING, CallStatus.ERROR, CallStatus.CANCELLED}),
    CallStatus.VALIDATING: frozenset(
        {CallStatus.SCHEDULED, CallStatus.AWAITING_APPROVAL, CallStatus.ERROR, CallStatus.CANCELLED}
    ),
    # A call changed by the person is confirmed again. A failed confirmation is an error.
    CallStatus.AWAITING_APPROVAL: frozenset(
        {CallStatus.AWAITING_APPROVAL, CallStatus.SCHEDULED, CallStatus.ERROR, CallStatus.CANCELLED}
    ),
    CallStatus.SCHEDULED: frozenset({CallStatus.EXECUTING, CallStatus.CANCELLED}),
    # A running call enters its state again when its process id is known. The replacement that a
    # hook makes of a finished call is validated like any other.
    CallStatus.EXECUTING: frozenset(
        {
            CallStatus.EXECUTING,
            CallStatus.VALIDATING,
            CallStatus.SUCCESS,
            CallStatus.ERROR,
            CallStatus.CANCELLED,
        }
    ),
    CallStatus.SUCCESS: frozenset(),
    CallStatus.ERROR: frozenset(),
    CallStatus.CANCELLED: frozenset(),
}
"""Allowed transitions, from (None: new) to."""


def advance(old: CallStatus | None, new: CallStatus) -> CallStatus:
    """Returns `new` if it can follow `old`; raises TransitionError otherwise."""
    if new not in TRANSITIONS[old]:
        raise TransitionError(f"a tool call cannot go from {old or 'nothing'} to {new}")
    return new


def plain(value: object) -> Any:
    """Converts to plain values: structs become dicts, lone surrogates are replaced.

    Raises what msgspec raises for values that have no plain form.
    """
    return _scrub_value(value if isinstance(value, str) else msgspec.to_builtins(value))


def proposal(details: ConfirmationDetails) -> FileDiff | None:
    """The edit that waited for approval, to display it when the call is cancelled."""
    if not isinstance(details, EditConfirmation):
        return None
    lines = details.file_diff.splitlines()
    return FileDiff(
        file_diff=details.file_diff,
        file_name=details.file_name,
        file_path=details.file_path,
        original_content=details.original_content,
        new_content=details.new_content,
        diff_stat=DiffStat(ai_added_lines=_count(lines, "+"), ai_removed_lines=_count(lines, "-")),
    )


def _count(lines: list[str], sign: str) -> int:
    """Counts the lines of a unified diff with this sign, without its file headers."""
    return sum(line.startswith(sign) and not line.startswith(sign * 3) for line in lines)


def _scrub_value(value: Any) -> Any:
    match value:
        case str():
            return scrub(value)
        case dict():
            members = cast("dict[str, Any]", value)
            return {scrub(key): _scrub_value(item) for key, item in members.items()}
        case list() | tuple():
            return [_scrub_value(item) for item in cast("list[Any]", value)]
        case _:
            return value
