"""A call on its way through the states, its end when it is denied, and the batch it belongs to."""

import asyncio
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from alhena.events import (
    Event,
    ToolCallRequestEvent,
    ToolCallResponseEvent,
    ToolCallState,
    ToolCallsUpdateEvent,
    ToolCallUpdateEvent,
)
from alhena.policy.model import Decision, PolicyCall, PolicyOutcome
from alhena.scheduler.states import (
    TERMINAL,
    CallStatus,
    CancelledToolCall,
    CompletedToolCall,
    ErroredToolCall,
    ExecutingToolCall,
    SuccessfulToolCall,
    ToolCall,
    ToolCallResponseInfo,
    WaitingToolCall,
    advance,
    plain,
    proposal,
)
from alhena.tools.contract import (
    LlmContent,
    Suspension,
    ToolConfirmationOutcome,
    ToolDisplay,
    ToolErrorType,
    ToolFailure,
    ToolInvocation,
)
from alhena.tools.params import under_given_names
from alhena.tools.registry import RegisteredTool, called_names
from alhena.tools.response import cancelled_parts, cancelled_text, content_length, error_parts
from alhena.tools.threads import Boundary, one_line
from alhena.wire.content import Part, ToolCallRequestInfo
from alhena.wire.json_values import scrub

if TYPE_CHECKING:
    from alhena.scheduler.question import Answer, ConfirmationRequest


PENDING = "pending"
"""The status, in events, of a call that waits for an answer after its run."""
CANNOT_WAIT = (
    "This call needs an answer from a person, and the calls of an agent in a worktree of its own "
    "cannot wait for one."
)
CANNOT_REPLACE = (
    "The call that a hook put in the place of another needs an answer from a person, and cannot "
    "wait for one: the other call has run."
)

Emit = Callable[[Event], None]
Clock = Callable[[], float]


def call_for_policy(entry: RegisteredTool, args: dict[str, Any]) -> PolicyCall:
    """A call of a tool in the form the policy decides on."""
    names = called_names(entry.names, entry.server, args)
    return PolicyCall(names=names, args=args, server_name=entry.server)


class CallFindings:
    """A request, and what the scheduler has found about it.

    `request` is what is answered; `current` is what runs: the same, or the replacement that a hook
    made, with an id of its own.
    """

    def __init__(self, request: ToolCallRequestInfo, start_time: float) -> None:
        self.request = request
        self.current = request
        self.start_time = start_time
        self.replacements: int = 0
        self.replaced = False
        self.modified = False
        self.allowed = False
        self.ends_turn = False
        self.entry: RegisteredTool | None = None
        self.invocation: ToolInvocation | None = None
        self.decision: Decision | None = None
        self.outcome: ToolConfirmationOutcome | None = None
        self.output_file: str | None = None
        self.input_notice = ""
        self.given: Answer | None = None
        self.pending: Suspension | None = None
        self.can_wait = True
        self.earlier: Any = None

    def go_on(self, earlier: object, *, waits: bool) -> None:
        """Sets the state from which the call continues, and whether it may wait after its run."""
        self.earlier, self.can_wait = earlier, waits

    def set_entry(self, entry: RegisteredTool) -> None:
        """Sets the tool that the call is for."""
        self.entry = entry

    def set_decision(self, decision: Decision | None) -> None:
        """Sets the decision of the policy."""
        self.decision = decision

    def set_outcome(
        self, outcome: ToolConfirmationOutcome | None, invocation: ToolInvocation | None = None
    ) -> None:
        """Sets the person's answer, and the invocation that has it; None for no answer yet."""
        self.outcome = outcome
        self.invocation = invocation or self.invocation

    def refuse(self, *, ends_turn: bool) -> None:
        """Notes that a person refused the call, and with `ends_turn` the rest of its turn."""
        self.outcome, self.ends_turn = ToolConfirmationOutcome.CANCEL, ends_turn

    def end_turn(self, *, ends: bool) -> None:
        """Notes whether the call ends the turn."""
        self.ends_turn = ends

    def mark_modified(self) -> None:
        """Notes that a person has changed the call."""
        self.modified = True

    def start(self, at: float) -> None:
        """Notes when the call starts to run."""
        self.start_time = at

    def set_checkpoint(self, name: str | None) -> None:
        """Sets the checkpoint made before the call."""
        self.request = msgspec.structs.replace(self.request, checkpoint=name)

    def set_output_file(self, path: str | None) -> None:
        """Sets the file that has the whole output."""
        self.output_file = path

    def set_input_notice(self, notice: str) -> None:
        """Sets the notice for the model that hooks changed the arguments."""
        self.input_notice = notice

    def take_replaced(self) -> bool:
        """True, once, after a hook has put another call in place of this one."""
        replaced, self.replaced = self.replaced, False
        return replaced


class CallOnItsWay(CallFindings):
    """A call, its state so far, and the question about it. `changed` is called after each change of
    state."""

    def __init__(
        self,
        request: ToolCallRequestInfo,
        emit: Emit,
        clock: Clock,
        changed: Callable[[], None] = lambda: None,
        given: "Answer | None" = None,
    ) -> None:
        """`given`: the answer to the first question about the call, given before it was asked."""
        super().__init__(request, clock())
        self.given, self.was_given = given, given is not None
        self.changed_args: dict[str, Any] | None = None
        self.changed = changed
        self.emit = emit
        self.clock = clock
        self.state: ToolCall | None = None
        self.description = ""
        self.cancel_reason: str | None = None
        self.cancellation = threading.Event()
        self.params: dict[str, Any] = {}
        loop = asyncio.get_running_loop()
        self.stopping: asyncio.Future[None] = loop.create_future()
        self.question: ConfirmationRequest | None = None
        self.answer: asyncio.Future[Answer | ToolFailure] | None = None
        self.reconsider: asyncio.Future[None] | None = None
        self.stale = False
        self._shown: ToolCallState | None = None

    @property
    def status(self) -> CallStatus | None:
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

    def take_given(self) -> "Answer | None":
        """The answer given beforehand, once."""
        given, self.given = self.given, None
        return given

    def policy_call(self, entry: RegisteredTool) -> PolicyCall:
        """The call in the form the policy decides on."""
        return call_for_policy(entry, self.params)

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

    def open_reconsideration(self) -> "asyncio.Future[None]":
        """The future that is done when the policy's decision is stale."""
        self.reconsider = asyncio.get_running_loop().create_future()
        if self.stale:
            self.reconsider.set_result(None)
        return self.reconsider

    def consider(self) -> None:
        """Notes that the policy is asked now: its decision is not stale."""
        self.stale = False

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
        self.allowed = self.allowed or state.status is CallStatus.SCHEDULED
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

    def require_end(self) -> CompletedToolCall:
        """The terminal state. Raises TypeError for a call that has not ended."""
        state = self.state
        if not isinstance(state, SuccessfulToolCall | ErroredToolCall | CancelledToolCall):
            raise TypeError(f"call {self.request.call_id} is {self.status}, not at its end")
        return state

    def fail(
        self, message: str, error_type: ToolErrorType, display: ToolDisplay | None = None
    ) -> None:
        """Ends the call with an error; `message` goes to the model."""
        self.enter(self.make_error(message, error_type, display))

    def defer(self, pending: Suspension) -> None:
        """Ends the call for this run: it waits. One that cannot wait fails."""
        if not self.can_wait or self.replacements:
            told = CANNOT_REPLACE if self.replacements else CANNOT_WAIT
            self.fail(told, ToolErrorType.POLICY_VIOLATION)
            return
        self.pending = pending
        reasons = dict.fromkeys(each.reason for each in pending.requests)
        waits = f"It waits for an answer. {' '.join(reasons)}".rstrip()
        response = self._response((), waits, error=waits, error_type=ToolErrorType.DEFERRED)
        self.enter(ErroredToolCall(**self._end(response)))

    def end_cancelled(self, reason: str) -> None:
        """Ends the call as cancelled."""
        self.enter(self.make_cancelled(reason))

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

    def make_success(
        self, parts: tuple[Part, ...], display: ToolDisplay, data: dict[str, Any] | None
    ) -> SuccessfulToolCall:
        """Makes the terminal state of a successful call."""
        response = self._response(parts, display, data=data)
        return SuccessfulToolCall(**self._end(response))

    def make_error(
        self,
        message: str,
        error_type: ToolErrorType,
        display: ToolDisplay | None = None,
        data: dict[str, Any] | None = None,
    ) -> ErroredToolCall:
        """Makes the terminal state of a failed call; `message` goes to the model."""
        message = scrub(message)
        parts = error_parts(self.request.answered_name, self.request.call_id, message)
        response = self._response(
            parts,
            message if display is None or display == "" else display,
            error=message,
            error_type=error_type,
            data=data,
        )
        return ErroredToolCall(**self._end(response))

    def make_cancelled(
        self,
        reason: str,
        partial: LlmContent | None = None,
        display: ToolDisplay | None = None,
        beside: tuple[Part, ...] = (),
    ) -> CancelledToolCall:
        """Makes the terminal state of a cancelled call, with its partial result and the parts
        beside it."""
        own = cancelled_parts(self.request.answered_name, self.request.call_id, reason, partial)
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
        if self.status is not CallStatus.EXECUTING:
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
            "pending": self.pending,
        }

    def _response_event(self, state: CompletedToolCall) -> ToolCallResponseEvent:
        response = state.response
        server = None if self.entry is None else self.entry.server
        return ToolCallResponseEvent(
            call_id=self.current.call_id,
            name=self.current.name,
            status=state.status if self.pending is None else PENDING,
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
        if self.pending is not None:
            return PENDING
        if not self.allowed or self.outcome is ToolConfirmationOutcome.CANCEL:
            return "reject"
        if self.outcome is None:
            return "auto_accept"
        return "modify" if self.modified else "accept"


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
    call.set_decision(decision)
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


class BatchView:
    """Emits the states of a batch after changes; changes of one loop iteration give one event."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._calls: tuple[TrackedCall, ...] = ()
        self._due: asyncio.Handle | None = None

    def show(self, calls: Iterable[TrackedCall]) -> None:
        """Sets the calls of the batch."""
        self._calls = tuple(calls)

    def note_change(self) -> None:
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
