"""Executes tool calls and stops them. Only this module executes tools (a test checks the call
sites)."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import msgspec

from alhena.errors import AlhenaError
from alhena.events import OutputTruncatedEvent, ToolOutputEvent
from alhena.scheduler.states import (
    CallStatus,
    CompletedToolCall,
    ExecutingToolCall,
    ScheduledToolCall,
    plain,
)
from alhena.scheduler.tracked_call import Clock, TrackedCall
from alhena.tools.contract import (
    Deferred,
    Discover,
    ExecutionContext,
    HostProgram,
    Kind,
    ToolErrorType,
    ToolFailure,
    ToolLocation,
    ToolResult,
)
from alhena.tools.output_store import OutputStore, Truncation, bounded_display, limit_result
from alhena.tools.response import response_parts
from alhena.tools.threads import Boundary, one_line
from alhena.values import FailedCall, Value
from alhena.wire.content import Part, ToolCallRequestInfo
from alhena.wire.json_values import scrub

if TYPE_CHECKING:
    from alhena.hooks.model import TailCall
    from alhena.scheduler.hooks import ToolHooks

T = TypeVar("T")

INTERRUPTED = "The run was interrupted"


class Leash:
    """Waits for a call's tasks. `grace_s`: seconds that a cancelled task may take to end."""

    def __init__(self, grace_s: float) -> None:
        self.grace_s = grace_s
        self._abandoned: set[asyncio.Future[Any]] = set()

    async def hold(self, call: TrackedCall, task: asyncio.Future[Any]) -> bool:
        """Waits until `task` ends. Returns True if the call was stopped first (then `task` is
        cancelled) or has ended meanwhile.

        A cancelled task that does not end in time is abandoned. If this wait itself is cancelled,
        the call is stopped the same way and CancelledError is raised.
        """
        try:
            await asyncio.wait({task, call.stopping}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            call.cancel(INTERRUPTED)
            await self.stop(task)
            raise
        if task.done():
            return call.ended
        await self.stop(task)
        return True

    async def run_work(
        self, call: TrackedCall, work: Awaitable[T]
    ) -> T | asyncio.CancelledError | None:
        """The result of `work`; None if the call was stopped first. Work that cancels itself gives
        a CancelledError as a value."""
        task = asyncio.ensure_future(work)
        if await self.hold(call, task):
            return None
        return asyncio.CancelledError() if task.cancelled() else task.result()

    async def stop(self, task: asyncio.Future[Any]) -> None:
        """Cancels a task and waits for its end; abandons one that does not end in time."""
        task.cancel()
        try:
            await asyncio.wait({task}, timeout=self.grace_s)
        finally:
            if not task.done():
                self._abandoned.add(task)
                task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Future[Any]) -> None:
        self._abandoned.discard(task)
        if not task.cancelled():
            task.exception()


async def at_boundary(work: Callable[[], Awaitable[T]]) -> T | Boundary:
    """The result of `work`, or the boundary with its failure."""
    boundary = Boundary()
    with boundary:
        return await work()
    return boundary


CANCEL_GRACE_S = 2.0
UNHEARD = "The tool had run by then; its result is kept back, for its hooks had not been heard"
HARMLESS_KINDS = frozenset(
    {Kind.READ, Kind.SEARCH, Kind.THINK, Kind.FETCH, Kind.COMMUNICATE, Kind.PLAN}
)
"""Kinds of calls that change nothing, so that they may run unrecorded."""

_EDITS = frozenset({Kind.EDIT, Kind.DELETE, Kind.MOVE})


class Keep(Protocol):
    """Takes a snapshot of what a call is about to change; returns its name, or None if it was not
    possible. With `edits` the call changes its locations alone. May be cancelled at any time."""

    def __call__(
        self, request: ToolCallRequestInfo, places: tuple[ToolLocation, ...], *, edits: bool
    ) -> Awaitable[str | None]:
        """Takes the snapshot."""
        ...


Durable = Callable[[], Awaitable[None]]
"""Returns when everything so far is on disk. Raises AlhenaError."""

MAX_REPLACEMENTS = 8
"""Maximum number of times hooks may replace one call."""


class Execution(Value, frozen=True):
    """A result with the parts for the model. `truncation` says how it was truncated. `beside`:
    those of the parts that do not belong to the result. `tail`: the call a hook wants instead."""

    result: ToolResult
    parts: tuple[Part, ...]
    data: dict[str, Any] | None
    truncation: Truncation | None = None
    beside: tuple[Part, ...] = ()
    tail: "TailCall | None" = None


class CallServices(Value, frozen=True, kw_only=True):
    """Services of the session for its calls. What `discover` finds for the locations of a
    successful call is added as a part after its result. A call that may change something, or that
    a person approved, starts only after `keep` has taken a snapshot and `durable` has returned, so
    that everything before it is on disk. `program` serves the tools that it wrote; `traceparent`
    gives the trace context of a call, `enter_span` makes it the current one."""

    discover: "Discover | None" = None
    durable: Durable | None = None
    keep: Keep | None = None
    program: HostProgram | None = None
    traceparent: Callable[[str], str] = lambda _call_id: ""
    enter_span: Callable[[str], AbstractContextManager[object]] = lambda _call_id: nullcontext()


NO_SERVICES = CallServices()


class Executor:
    """Runs a scheduled call to its end: success, error or cancelled (SCHED-07).

    A cancelled tool that does not end within `grace_s` seconds is abandoned; its call ends all the
    same. A result too long for the model is saved whole in `outputs`; without `outputs` nothing is
    truncated (TOOLS-22). AfterTool `hooks` run before the call ends; if they replace it, the new
    call is `TrackedCall.current`.
    """

    def __init__(
        self,
        cwd: Path,
        *,
        clock: Clock = time.monotonic,
        grace_s: float = CANCEL_GRACE_S,
        outputs: OutputStore | None = None,
        hooks: "ToolHooks | None" = None,
        services: CallServices = NO_SERVICES,
    ) -> None:
        self.cwd = cwd
        self.hooks = hooks
        self.clock = clock
        self.outputs = outputs
        self.discover = services.discover
        self.durable = services.durable
        self.keep = services.keep
        self.program = services.program
        self.traceparent = services.traceparent
        self.enter_span = services.enter_span
        self.leash = Leash(grace_s)

    async def run(self, call: TrackedCall) -> None:
        """Executes `call` if it is still scheduled, and ends it."""
        scheduled = call.state
        if not isinstance(scheduled, ScheduledToolCall):
            return
        if not await self._take_snapshot(call, scheduled):
            return
        call.start(self.clock())
        call.enter(
            ExecutingToolCall(
                request=call.request,
                start_time=call.start_time,
                tool=scheduled.tool,
                invocation=scheduled.invocation,
                decision=scheduled.decision,
                outcome=scheduled.outcome,
            )
        )
        if not await self._wait_for_disk(call, scheduled):
            return
        context = self.context(call, live=scheduled.tool.can_update_output)
        task = asyncio.create_task(self._execution(call, scheduled, context))
        try:
            stopped = await self.leash.hold(call, task)
        except asyncio.CancelledError:
            self._apply_outcome(call, task, stopped=True)
            raise
        self._apply_outcome(call, task, stopped=stopped)

    async def _take_snapshot(self, call: TrackedCall, scheduled: ScheduledToolCall) -> bool:
        """Takes the snapshot; False if the call ended meanwhile."""
        if self.keep is None or scheduled.tool.kind in HARMLESS_KINDS:
            return True
        places: tuple[ToolLocation, ...] = ()
        with Boundary():  # a tool that cannot name its locations gets the default snapshot
            places = tuple(scheduled.invocation.locations())
        # A hook may run a formatter, or whatever else; a path with escapes is not the file's own.
        exact = bool(places) and not any("\\" in place.path for place in places)
        edits = exact and scheduled.tool.kind in _EDITS and self.hooks is None
        task = asyncio.ensure_future(self.keep(call.current, places, edits=edits))
        if await self.leash.hold(call, task):
            return False
        call.set_checkpoint(task.result())
        return True

    async def _wait_for_disk(self, call: TrackedCall, scheduled: ScheduledToolCall) -> bool:
        """Waits until everything so far is on disk; False if the call ended meanwhile."""
        matters = scheduled.tool.kind not in HARMLESS_KINDS or scheduled.outcome is not None
        if self.durable is not None and matters and call.cancel_reason is None:
            try:
                await self.durable()
            except AlhenaError as error:
                call.fail(f"Not started: {error}", ToolErrorType.STOP_EXECUTION)
                return False
        if call.cancel_reason is not None:
            call.end_cancelled(call.cancel_reason)
            return False
        return True

    def context(self, call: TrackedCall, *, live: bool = False) -> ExecutionContext:
        """The context for the tool of `call`; its output is emitted only if `live`."""
        in_loop = _loop_caller()
        replacements = call.replacements

        def output(text: str, screen: bool = False) -> None:
            at_work = call.status is CallStatus.EXECUTING and call.replacements == replacements
            if live and at_work:
                call_id = call.current.call_id
                call.emit(ToolOutputEvent(call_id=call_id, text=plain(text), screen=screen))

        def report(pid: int) -> None:
            if isinstance(call.state, ExecutingToolCall) and call.replacements == replacements:
                call.enter(msgspec.structs.replace(call.state, pid=pid))

        return ExecutionContext(
            self.cwd,
            cancellation=call.cancellation,
            update_output=lambda text: in_loop(output, text),
            update_screen=lambda text: in_loop(output, text, True),
            report_pid=lambda pid: in_loop(report, pid),
            call_id=call.current.call_id,
            program=self.program,
            traceparent=self.traceparent(call.current.call_id),
            earlier=call.earlier,
        )

    async def _execution(
        self, call: TrackedCall, scheduled: ScheduledToolCall, context: ExecutionContext
    ) -> Execution | ToolFailure:
        boundary = Boundary()
        with boundary:
            with self.enter_span(context.call_id):
                result = cast("object", await scheduled.invocation.execute(context))
            if not isinstance(result, ToolResult):
                kind = type(result).__name__
                raise TypeError(f"the tool returned {kind} instead of a ToolResult")
            if result.error is not None and result.error.type is ToolErrorType.DEFERRED:
                return result.error
            if result.error is not None and result.error.exception is not None:
                result = self._report_failure(call, result, result.error)
            said: str | ToolFailure | TailCall | ToolResult = ""
            if self.hooks is not None and self.hooks.after_heard:
                if call.cancel_reason is not None:
                    return ToolFailure(UNHEARD, ToolErrorType.CANCELLED)
                try:
                    said = await self.hooks.after(call, result)
                except asyncio.CancelledError:
                    return ToolFailure(UNHEARD, ToolErrorType.CANCELLED)
            if isinstance(said, ToolFailure):
                return said
            if isinstance(said, ToolResult):
                result, said = said, ""
            if not isinstance(said, str):
                return self._replace_call(call, result, said)
            beside = await self._discover_memory(call, scheduled, result)
            made = self._bound_result(call, scheduled.tool.name, result, said)
            return msgspec.structs.replace(made, parts=(*made.parts, *beside), beside=beside)
        if isinstance(boundary.failure, Deferred):
            return ToolFailure(boundary.failure.reason, ToolErrorType.DEFERRED)
        reason = self.report(call, boundary.failure) or "unknown"
        return ToolFailure(reason, ToolErrorType.UNHANDLED_EXCEPTION)

    def report(self, call: TrackedCall, raised: Exception | None, usual: str = "") -> str:
        """Reports what a function of the program raised, if anything; returns what the model
        reads, which is `usual`, or what was raised, unless the program says otherwise."""
        if raised is None:
            return usual
        from alhena.scheduler.failures import report_exception

        current, args = call.current, call.params or call.current.args
        failed = FailedCall(call_id=current.call_id, name=current.name, args=args, exception=raised)
        return report_exception(self.program, call.emit, failed) or usual or one_line(raised)

    def _report_failure(
        self, call: TrackedCall, result: ToolResult, error: ToolFailure
    ) -> ToolResult:
        said = self.report(call, error.exception, error.message)
        error = ToolFailure(said, error.type)
        return msgspec.structs.replace(result, llm_content=said, display=said, error=error)

    async def _discover_memory(
        self, call: TrackedCall, scheduled: ScheduledToolCall, result: ToolResult
    ) -> tuple[Part, ...]:
        """Memory for the locations of this call. Cancelled meanwhile: none, but the finished tool's
        result is still reported."""
        if self.discover is None or result.error is not None:
            return ()
        places = tuple(scheduled.invocation.locations())
        try:
            told = await self.discover(scheduled.tool.name, places, call.cancellation)
        except asyncio.CancelledError:
            return ()
        return (Part(text=scrub(told)),) if told else ()

    def _replace_call(self, call: TrackedCall, result: ToolResult, tail: "TailCall") -> Execution:
        """The result of a call that a hook replaced: the model never gets it."""
        request = call.request
        result = msgspec.structs.replace(result, display=bounded_display(result.display))
        parts = response_parts(request.answered_name, request.call_id, result.llm_content)
        plain(result.display)
        return Execution(result, parts, plain(result.data), tail=tail)

    def _bound_result(
        self, call: TrackedCall, tool: str, result: ToolResult, said: str
    ) -> Execution:
        """Truncates the result and appends the notices of its hooks."""
        request = call.request
        truncation: Truncation | None = None
        if self.outputs is None:
            display = bounded_display(result.display)
            result = msgspec.structs.replace(result, display=display)
        else:
            made = limit_result(result, self.outputs, tool, request.call_id)
            result, truncation = made.result, made.truncation
        if call.input_notice or said:
            from alhena.scheduler.hooks import with_notice

            result = with_notice(with_notice(result, call.input_notice), said)
        parts = response_parts(request.answered_name, request.call_id, result.llm_content)
        plain(result.display)
        return Execution(result, parts, plain(result.data), truncation)

    def _apply_outcome(
        self,
        call: TrackedCall,
        task: "asyncio.Task[Execution | ToolFailure]",
        *,
        stopped: bool,
    ) -> None:
        """Moves `call` on by the outcome of its task: to its end, or to the call in its place."""
        if task.done() and not task.cancelled():
            outcome = task.result()
            if isinstance(outcome, Execution) and outcome.truncation is not None:
                self._report(call, outcome.truncation)
        _move_by_outcome(call, task, stopped=stopped)

    def _report(self, call: TrackedCall, truncation: Truncation) -> None:
        call.set_output_file(truncation.output_file)
        call.emit(
            OutputTruncatedEvent(
                call_id=call.current.call_id,
                name=call.current.name,
                original_length=truncation.original_length,
                truncated_length=truncation.truncated_length,
                threshold=0 if self.outputs is None else self.outputs.threshold,
                output_file=truncation.output_file,
                problem=truncation.problem,
            )
        )


def _loop_caller() -> Callable[..., None]:
    """Returns a function that calls others in the loop's thread, because tools may run in threads:
    at once when already there, else soon."""
    loop = asyncio.get_running_loop()
    home = threading.get_ident()

    def call(function: Callable[..., None], *args: object) -> None:
        if threading.get_ident() == home:
            function(*args)
        elif not loop.is_closed():
            loop.call_soon_threadsafe(function, *args)

    return call


def _move_by_outcome(
    call: TrackedCall, task: "asyncio.Task[Execution | ToolFailure]", *, stopped: bool
) -> None:
    reason = call.cancel_reason or "The tool cancelled itself"
    if not task.done():
        call.end_cancelled(f"{reason}. The tool did not stop and was left behind")
        return
    if task.cancelled():
        call.end_cancelled(reason)
        return
    outcome = task.result()
    if isinstance(outcome, ToolFailure):
        if outcome.type is ToolErrorType.CANCELLED:
            call.end_cancelled(f"{reason}. {outcome.message}")
        elif stopped:
            call.end_cancelled(reason)
        elif outcome.suspension is not None:
            call.defer(outcome.suspension)
        elif outcome.type is ToolErrorType.DEFERRED:
            from alhena.scheduler.confirmation import defer_by_tool

            defer_by_tool(call, outcome.message)
        else:
            call.fail(outcome.message, outcome.type)
    elif outcome.tail is None:
        call.enter(_make_completed(call, outcome, reason, stopped=stopped))
    elif stopped:
        call.end_cancelled(reason)
    elif call.replacements >= MAX_REPLACEMENTS:
        call.fail(
            f"Hooks have put another call in the place of this one {MAX_REPLACEMENTS} times, and "
            "want one more.",
            ToolErrorType.EXECUTION_FAILED,
        )
    else:
        ended = _make_completed(call, outcome, reason, stopped=False)
        call.replace(outcome.tail.name, outcome.tail.args, ended)


def _make_completed(
    call: TrackedCall, done: Execution, reason: str, *, stopped: bool
) -> CompletedToolCall:
    result = done.result
    if stopped:
        return call.make_cancelled(reason, result.llm_content, result.display or None, done.beside)
    if result.error is None:
        return call.make_success(done.parts, result.display, done.data)
    if result.error.type in (ToolErrorType.CANCELLED, ToolErrorType.CANCELLED_BY_USER):
        call.end_turn(ends=result.error.type is ToolErrorType.CANCELLED_BY_USER)
        return call.make_cancelled(result.error.message)
    return call.make_error(result.error.message, result.error.type, result.display, done.data)
