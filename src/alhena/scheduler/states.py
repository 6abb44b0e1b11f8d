"""The seven states of a tool call with the transitions between them (SCHED-01), a call on its way
through them, and the batch it belongs to."""

import asyncio
import threading
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, cast

import msgspec

from alhena.errors import AlhenaError
from alhena.events import (
    Event,
    ToolCallRequestEvent,
    ToolCallResponseEvent,
    ToolCallState,
    ToolCallsUpdateEvent,
    ToolCallUpdateEvent,
)
from alhena.policy.model import Decision, PolicyCall
from alhena.tools.contract import (
    ConfirmationDetails,
    DiffStat,
    EditConfirmation,
    FileDiff,
    LlmContent,
    Tool,
    ToolConfirmationOutcome,
    ToolDisplay,
    ToolErrorType,
    ToolFailure,
    ToolInvocation,
)
from alhena.tools.params import under_given_names
from alhena.tools.registry import RegisteredTool, called_names
from alhena.tools.response import cancelled_parts, cancelled_text, content_length, error_parts
from alhena.values import Value
from alhena.wire.content import Part, ToolCallRequestInfo
from alhena.wire.json_values import scrub

if TYPE_CHECKING:
    from alhena.scheduler.question import Answer, ConfirmationRequest


class Status(StrEnum):
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

    status: ClassVar[Status] = Status.VALIDATING
    tool: Tool
    invocation: ToolInvocation


class WaitingToolCall(CallBase, frozen=True, kw_only=True):
    """Waiting for a person's answer."""

    status: ClassVar[Status] = Status.AWAITING_APPROVAL
    tool: Tool
    invocation: ToolInvocation
    decision: Decision
    details: ConfirmationDetails


class ScheduledToolCall(CallBase, frozen=True, kw_only=True):
    """Approved, not started. `outcome` is None if no confirmation was needed."""

    status: ClassVar[Status] = Status.SCHEDULED
    tool: Tool
    invocation: ToolInvocation
    decision: Decision
    outcome: ToolConfirmationOutcome | None = None


class ExecutingToolCall(CallBase, frozen=True, kw_only=True):
    """Running. `pid`: id of the child process, once there is one."""

    status: ClassVar[Status] = Status.EXECUTING
    tool: Tool
    invocation: ToolInvocation
    decision: Decision
    outcome: ToolConfirmationOutcome | None = None
    pid: int | None = None


class EndedCall(CallBase, frozen=True, kw_only=True):
    """Fields of the terminal states. `ends_turn`: a person refused the call without words, so that
    the next word is theirs: the rest of its batch is cancelled and the model is not asked."""

    response: ToolCallResponseInfo
    duration_ms: float
    tool: Tool | None = None
    invocation: ToolInvocation | None = None
    decision: Decision | None = None
    outcome: ToolConfirmationOutcome | None = None
    ends_turn: bool = False


class SuccessfulToolCall(EndedCall, frozen=True, kw_only=True):
    """Ended with a result."""

    status: ClassVar[Status] = Status.SUCCESS


class ErroredToolCall(EndedCall, frozen=True, kw_only=True):
    """Failed: could not be built, was denied, or its tool failed."""

    status: ClassVar[Status] = Status.ERROR


class CancelledToolCall(EndedCall, frozen=True, kw_only=True):
    """Cancelled before or while running."""

    status: ClassVar[Status] = Status.CANCELLED


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


TERMINAL = frozenset({Status.SUCCESS, Status.ERROR, Status.CANCELLED})
"""States that a call never leaves."""

TRANSITIONS: dict[Status | None, frozenset[Status]] = {
    # A call that cannot be built, or is cancelled in the queue, never validates.
    None: frozenset({Status.VALIDATING, Status.ERROR, Status.CANCELLED}),
    Status.VALIDATING: frozenset(
        {Status.SCHEDULED, Status.AWAITING_APPROVAL, Status.ERROR, Status.CANCELLED}
    ),
    # A call changed by the person is confirmed again. A failed confirmation is an error.
    Status.AWAITING_APPROVAL: frozenset(
        {Status.AWAITING_APPROVAL, Status.SCHEDULED, Status.ERROR, Status.CANCELLED}
    ),
    Status.SCHEDULED: frozenset({Status.EXECUTING, Status.CANCELLED}),
    # A running call enters its state again when its process id is known. The replacement that a
    # hook makes of a finished call is validated like any other.
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
"""Allowed transitions, from (None: new) to."""


def advance(old: Status | None, new: Status) -> Status:
    """Returns `new` if it can follow `old`; raises TransitionError otherwise."""
    if new not in TRANSITIONS[old]:
        raise TransitionError(f"a tool call cannot go from {old or 'nothing'} to {new}")
    return new


def plain(value: object) -> Any:
    """Converts to plain values: structs become dicts, lone surrogates are replaced.

    Raises what msgspec raises for values that have no plain form.
    """
    return _scrubbed(value if isinstance(value, str) else msgspec.to_builtins(value))


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


def _scrubbed(value: Any) -> Any:
    match value:
        case str():
            return scrub(value)
        case dict():
            members = cast("dict[str, Any]", value)
            return {scrub(key): _scrubbed(item) for key, item in members.items()}
        case list() | tuple():
            return [_scrubbed(item) for item in cast("list[Any]", value)]
        case _:
            return value


Emit = Callable[[Event], None]
Clock = Callable[[], float]


class CallOnItsWay:
    """A request, its state so far, and the question about it.

    `request` is what is answered; `current` is what runs: the same, or the replacement that a hook
    made, with an id of its own. `changed` is called after each change of state.
    """

    def __init__(
        self,
        request: ToolCallRequestInfo,
        emit: Emit,
        clock: Clock,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.request = request
        self.current = request
        self.replacements: int = 0
        self.replaced = False
        self.modified = False
        self.changed_args: dict[str, Any] | None = None
        self.changed = changed
        self.emit = emit
        self.clock = clock
        self.state: ToolCall | None = None
        self.entry: RegisteredTool | None = None
        self.invocation: ToolInvocation | None = None
        self.description = ""
        self.decision: Decision | None = None
        self.outcome: ToolConfirmationOutcome | None = None
        self.start_time = clock()
        self.cancel_reason: str | None = None
        self.cancellation = threading.Event()
        self.params: dict[str, Any] = {}
        self.output_file: str | None = None
        loop = asyncio.get_running_loop()
        self.stopping: asyncio.Future[None] = loop.create_future()
        self.question: ConfirmationRequest | None = None
        self.answer: asyncio.Future[Answer | ToolFailure] | None = None
        self.reconsider: asyncio.Future[None] | None = None
        self.stale = False
        self.allowed = False
        self.ends_turn = False
        self.input_notice = ""
        self._shown: ToolCallState | None = None

    @property
    def status(self) -> Status | None:
        """Name of the current state; None before the first."""
        return None if self.state is None else self.state.status

    @property
    def ended(self) -> bool:
        """True when the call has its response."""
        return self.status in TERMINAL

    @property
    def shown(self) -> ToolCallState | None:
        """The call in the form for views of a whole batch; None before its first state."""
        return self._shown

    def asked(self, entry: RegisteredTool) -> PolicyCall:
        """The call in the form the policy decides on."""
        names = called_names(entry.names, entry.server, self.params)
        return PolicyCall(names=names, args=self.params, server_name=entry.server)

    def take(self, invocation: ToolInvocation) -> None:
        """Makes `invocation` the one that runs. Raises what its description raises."""
        self.params = invocation.params
        self.description = scrub(invocation.describe())
        self.invocation = invocation

    def change(self, invocation: ToolInvocation) -> None:
        """Like `take`, for an invocation whose arguments may differ from the proposed ones."""
        self.take(invocation)
        proposed, entry = self.current.args, self.entry
        name, schema = ("", {}) if entry is None else (entry.tool.name, entry.tool.parameter_schema)
        args = plain(under_given_names(name, invocation.params, proposed, schema))
        self.changed_args = None if args == proposed else args

    def open_question(self, request: "ConfirmationRequest") -> None:
        """Opens the question: the call now takes an answer to `request`."""
        self.question = request
        self.answer = asyncio.get_running_loop().create_future()

    def close_question(self) -> None:
        """Closes the question: the call takes no more answers."""
        self.question = self.answer = self.reconsider = None

    def policy_changed(self) -> None:
        """Marks the policy's decision as stale and wakes whoever waits for an answer."""
        self.stale = True
        if self.reconsider is not None and not self.reconsider.done():
            self.reconsider.set_result(None)


class TrackedCall(CallOnItsWay):
    """A call that moves through the states; every change is checked and emitted.

    Listeners may re-enter: callers of `enter` must check `ended` before they continue.
    """

    def enter(self, state: ToolCall) -> None:
        """Enters a state and emits events; raises TransitionError for an invalid transition."""
        advance(self.status, state.status)
        self.state = state
        self.allowed = self.allowed or state.status is Status.SCHEDULED
        self._announce(state)
        if isinstance(state, SuccessfulToolCall | ErroredToolCall | CancelledToolCall):
            self.emit(self._response_event(state))
        self.changed()

    def _announce(self, state: ToolCall) -> None:
        self.emit(
            ToolCallUpdateEvent(
                call_id=self.current.call_id,
                name=self.current.name,
                status=state.status,
                description=self.description,
                pid=state.pid if isinstance(state, ExecutingToolCall) else None,
            )
        )
        self._shown = ToolCallState(
            call_id=self.current.call_id,
            name=self.current.name,
            status=state.status,
            description=self.description,
            parent_call_id=self.request.parent_call_id,
            scheduler_id=self.request.scheduler_id,
        )

    def completed(self) -> CompletedToolCall:
        """The terminal state. Raises TypeError for a call that has not ended."""
        state = self.state
        if not isinstance(state, SuccessfulToolCall | ErroredToolCall | CancelledToolCall):
            raise TypeError(f"call {self.request.call_id} is {self.status}, not at its end")
        return state

    def fail(
        self, message: str, error_type: ToolErrorType, display: ToolDisplay | None = None
    ) -> None:
        """Ends the call with an error; `message` goes to the model."""
        self.enter(self.errored(message, error_type, display))

    def end_cancelled(self, reason: str) -> None:
        """Ends the call as cancelled."""
        self.enter(self.cancelled(reason))

    def replace(self, name: str, args: dict[str, Any], ended: CompletedToolCall) -> None:
        """Emits the response of the finished call and replaces it by another one, which must still
        be built."""
        self._announce(ended)
        self.emit(msgspec.structs.replace(self._response_event(ended), parts=()))
        self.changed()
        self.replacements += 1
        self.current = msgspec.structs.replace(
            self.request,
            call_id=f"{self.request.call_id}~{self.replacements + 1}",
            name=name,
            args=args,
        )
        self.replaced = True
        self.allowed = self.modified = False
        self.entry = self.invocation = self.decision = self.outcome = None
        self.output_file = self.changed_args = None
        self.description = self.input_notice = ""
        self.start_time = self.clock()
        self.emit(
            ToolCallRequestEvent(
                call_id=self.current.call_id,
                name=name,
                args=args,
                prompt_id=self.request.prompt_id,
                replaces=self.request.call_id,
            )
        )

    def succeeded(
        self, parts: tuple[Part, ...], display: ToolDisplay, data: dict[str, Any] | None
    ) -> SuccessfulToolCall:
        """Makes the terminal state of a successful call."""
        response = self._response(parts, display, data=data)
        return SuccessfulToolCall(**self._end(response))

    def errored(
        self,
        message: str,
        error_type: ToolErrorType,
        display: ToolDisplay | None = None,
        data: dict[str, Any] | None = None,
    ) -> ErroredToolCall:
        """Makes the terminal state of a failed call; `message` goes to the model."""
        message = scrub(message)
        parts = error_parts(self.request.name, self.request.call_id, message)
        response = self._response(
            parts,
            message if display is None or display == "" else display,
            error=message,
            error_type=error_type,
            data=data,
        )
        return ErroredToolCall(**self._end(response))

    def cancelled(
        self,
        reason: str,
        partial: LlmContent | None = None,
        display: ToolDisplay | None = None,
        beside: tuple[Part, ...] = (),
    ) -> CancelledToolCall:
        """Makes the terminal state of a cancelled call, with its partial result and the parts
        beside it."""
        own = cancelled_parts(self.request.name, self.request.call_id, reason, partial)
        parts = (*own, *beside)
        text = scrub(cancelled_text(reason))
        if display is None and isinstance(self.state, WaitingToolCall):
            display = proposal(self.state.details)
        response = self._response(
            parts, display or text, error=text, error_type=ToolErrorType.CANCELLED
        )
        return CancelledToolCall(**self._end(response))

    def cancel(self, reason: str) -> None:
        """Cancels the call: at once if it is not executing, else through the running tool."""
        if self.ended or self.cancel_reason is not None:
            return
        self.cancel_reason = reason
        self.cancellation.set()
        self.stopping.set_result(None)
        if self.status is not Status.EXECUTING:
            self.end_cancelled(reason)

    def _response(
        self,
        parts: tuple[Part, ...],
        display: ToolDisplay,
        *,
        error: str | None = None,
        error_type: ToolErrorType | None = None,
        data: dict[str, Any] | None = None,
    ) -> ToolCallResponseInfo:
        return ToolCallResponseInfo(
            call_id=self.request.call_id,
            response_parts=parts,
            result_display=display,
            error=error,
            error_type=error_type,
            output_file=self.output_file,
            content_length=content_length(parts),
            data=data,
        )

    def _end(self, response: ToolCallResponseInfo) -> dict[str, Any]:
        return {
            "request": self.request,
            "start_time": self.start_time,
            "response": response,
            "duration_ms": round((self.clock() - self.start_time) * 1000, 3),
            "tool": None if self.entry is None else self.entry.tool,
            "invocation": self.invocation,
            "decision": self.decision,
            "outcome": self.outcome,
            "ends_turn": self.ends_turn,
        }

    def _response_event(self, state: CompletedToolCall) -> ToolCallResponseEvent:
        response = state.response
        server = None if self.entry is None else self.entry.server
        return ToolCallResponseEvent(
            call_id=self.current.call_id,
            name=self.current.name,
            status=state.status,
            display=plain(response.result_display),
            error=response.error,
            error_type=response.error_type,
            duration_ms=state.duration_ms,
            decision=self._verdict(),
            denied=response.error_type is ToolErrorType.POLICY_VIOLATION
            or self.outcome is ToolConfirmationOutcome.CANCEL,
            reason="" if self.decision is None else scrub(self.decision.reason),
            rule="" if self.decision is None else scrub(self.decision.rule_source),
            content_length=response.content_length,
            output_file=response.output_file,
            data=plain(response.data),
            tool_type="native" if server is None else "mcp",
            mcp_server_name=server,
            args=self.changed_args,
            proposed_args=None if self.changed_args is None else plain(self.current.args),
            parts=response.response_parts,
            replaces=self.request.call_id if self.replacements else None,
        )

    def _verdict(self) -> str:
        if not self.allowed or self.outcome is ToolConfirmationOutcome.CANCEL:
            return "reject"
        if self.outcome is None:
            return "auto_accept"
        return "modify" if self.modified else "accept"


class BatchView:
    """Emits the states of a batch after changes; changes of one loop iteration give one event."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._calls: tuple[TrackedCall, ...] = ()
        self._due: asyncio.Handle | None = None

    def show(self, calls: Iterable[TrackedCall]) -> None:
        """Sets the calls of the batch."""
        self._calls = tuple(calls)

    def changed(self) -> None:
        """Notes that a call has changed."""
        if self._due is None:
            self._due = asyncio.get_running_loop().call_soon(self.tell)

    def settle(self) -> None:
        """Emits pending changes now, if there are any."""
        if self._due is not None:
            self.tell()

    def tell(self) -> None:
        """Emits the current states of the batch."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
        states = tuple(call.shown for call in self._calls if call.shown is not None)
        if states:
            self._emit(ToolCallsUpdateEvent(calls=states))
