"""Schedules the tool calls of one model turn, from request to response.

All calls of a batch are built first, so that invalid calls are answered at once. The batch then
runs in waves: contiguous calls of non-mutating kinds form one wave and run together; a mutating
call is a wave of its own. The calls of a wave are authorised when the wave begins, in call order,
so that a confirmation shows the state after earlier waves. All confirmations of a wave are
requested at once; a rule created by one answer also settles the other calls it covers, in this wave
and later ones. Each call starts as soon as it is approved. A call that a hook puts in the place of
a finished one is processed the same way, after the wave of the first. Responses keep call order.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from alhena.scheduler.executor import INTERRUPTED, Executor
from alhena.scheduler.gate import CallPolicy, Gate
from alhena.scheduler.states import (
    CallStatus,
    CompletedToolCall,
    ConfirmationError,
    SchedulerError,
    ToolCall,
    ValidatingToolCall,
)
from alhena.scheduler.tracked_call import BatchView, Emit, TrackedCall
from alhena.tools.contract import MUTATOR_KINDS, ToolErrorType, ToolFailure, ToolInvocation
from alhena.tools.registry import RegisteredTool, ToolRegistry
from alhena.tools.threads import Boundary
from alhena.wire.content import ToolCallRequestInfo

if TYPE_CHECKING:
    from alhena.scheduler.confirmation import Confirmations
    from alhena.scheduler.question import Answer, Payload
    from alhena.tools.contract import ToolConfirmationOutcome

CANCELLED_BY_USER = "Operation cancelled by user"


class Caller(msgspec.Struct, frozen=True):
    """A subagent whose calls a scheduler runs; `parent` is the id of the call that runs it.
    `waits`: its calls may wait for answers after the run."""

    name: str
    agent_id: str
    parent: str
    waits: bool = True

    def call_id(self, own: str) -> str:
        """The id by which the session knows a call of the subagent."""
        return f"{self.parent}/{own}"

    def sign(self, request: ToolCallRequestInfo) -> ToolCallRequestInfo:
        """The request with the ids of the subagent and its parent."""
        return msgspec.structs.replace(
            request, parent_call_id=self.parent, scheduler_id=self.agent_id
        )


class Scheduler:
    """Runs one batch at a time; further batches wait in a queue (SCHED-02).

    `policy` gives policy decisions. `asking` asks a person; without it, calls that need
    confirmation are denied. Hooks are those of the `executor`. `caller`: the subagent whose calls
    these are. A tool must not schedule on the scheduler that runs it.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        policy: CallPolicy,
        emit: Emit,
        executor: Executor,
        *,
        asking: "Confirmations | None" = None,
        caller: Caller | None = None,
    ) -> None:
        self._registry = registry
        self._emit = emit
        self._executor = executor
        self._gate = Gate(policy, executor, asking, executor.hooks)
        self._view = BatchView(emit)
        self._caller = caller
        self._turn = asyncio.Lock()
        self._batch: list[TrackedCall] = []
        self._cancellations = 0
        self._cancel_reason = CANCELLED_BY_USER
        self._last: tuple[CompletedToolCall, ...] = ()

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Current states of the running batch."""
        return tuple(call.state for call in self._batch if call.state is not None)

    @property
    def last_batch(self) -> tuple[CompletedToolCall, ...]:
        """The calls of the batch that ended last, also if its `schedule` was cancelled."""
        return self._last

    async def schedule(
        self,
        requests: ToolCallRequestInfo | Sequence[ToolCallRequestInfo],
        answers: "Mapping[str, Answer]" = MappingProxyType({}),
        earlier: Mapping[str, Any] = MappingProxyType({}),
    ) -> list[CompletedToolCall]:
        """Runs the calls and returns them in call order, one for each request. `answers`, by call
        id, were given before: these calls are confirmed by them, whatever the policy allows.
        `earlier`, by call id, are the states from which those that ran in part continue.

        On cancellation, stops running tools first; every call still gets its response, as an event
        and in `last_batch`.
        """
        given = [requests] if isinstance(requests, ToolCallRequestInfo) else requests
        if self._caller is not None:
            given = [self._caller.sign(request) for request in given]
        clock, changed = self._executor.clock, self._view.note_change
        batch = [
            TrackedCall(request, self._emit, clock, changed, answers.get(request.call_id))
            for request in given
        ]
        for call in batch:
            waits = self._caller is None or self._caller.waits
            call.go_on(earlier.get(call.request.call_id), waits=waits)
        cancellations = self._cancellations
        try:
            async with self._turn:
                if cancellations == self._cancellations:
                    self._batch = batch
                    self._view.show(batch)
                    await self._run(batch)
        finally:
            self._end(batch, cancelled=cancellations != self._cancellations)
        return [call.require_end() for call in batch]

    def confirm(
        self,
        call_id: str,
        outcome: "ToolConfirmationOutcome",
        payload: "Payload | dict[str, object] | None" = None,
    ) -> None:
        """Answers the first waiting call with this id. Raises ConfirmationError if no call can take
        the answer; waiting calls keep waiting."""
        from alhena.scheduler.confirmation import make_answer, require_answer

        for call in self._batch:
            question, taker = call.question, call.answer
            if call.current.call_id != call_id or question is None or taker is None:
                continue
            if taker.done() or call.ended:
                continue
            answer = make_answer(outcome, payload)
            require_answer(answer, question)
            taker.set_result(answer)
            return
        raise ConfirmationError(f"no call {call_id!r} waits for an answer")

    def cancel(self, call_id: str, reason: str = CANCELLED_BY_USER) -> None:
        """Cancels one call: at once if it has not started, else through its tool. Raises
        SchedulerError if no call with this id is active."""
        found = [call for call in self._batch if call.current.call_id == call_id and not call.ended]
        if not found:
            raise SchedulerError(f"no call {call_id!r} is at work")
        found[0].cancel(reason)

    def cancel_all(self, reason: str = CANCELLED_BY_USER) -> None:
        """Cancels everything: queued batches and calls that have not started at once, running calls
        through their tools. Each `schedule` still returns a response for every call."""
        self._cancellations += 1
        self._cancel_reason = reason
        for call in tuple(self._batch):
            call.cancel(reason)

    async def _run(self, batch: list[TrackedCall]) -> None:
        for call in batch:
            self._build(call)
        for wave in _waves(batch):
            await self._run_wave(wave)
            # Calls that hooks put in the place of these run in further waves.
            while replaced := [call for call in wave if call.take_replaced()]:
                for call in replaced:
                    self._build(call)
                for again in _waves(replaced):
                    await self._run_wave(again)

    async def _run_wave(self, wave: list[TrackedCall]) -> None:
        async with asyncio.TaskGroup() as group:
            for call in wave:
                group.create_task(self._carry(call))

    async def _carry(self, call: TrackedCall) -> None:
        """Authorises and runs one call."""
        await self._gate.authorise(call)
        if call.status is CallStatus.SCHEDULED:
            await self._executor.run(call)
        if call.ended:
            ended = call.require_end()
            response = ended.response
            if ended.ends_turn and not call.was_given:
                self.cancel_all(CANCELLED_BY_USER)
            elif response.error_type is ToolErrorType.STOP_EXECUTION:
                self._stop_others(call, response.error or "The run was stopped")

    def _stop_others(self, stopped: TrackedCall, reason: str) -> None:
        """Cancels all calls that have not started, including replacements made by hooks, because
        the run ends."""
        for call in self._batch:
            if call is not stopped and (call.replaced or call.status is not CallStatus.EXECUTING):
                call.cancel(reason)

    def _end(self, batch: list[TrackedCall], *, cancelled: bool) -> None:
        """Ends calls that have no response yet: batches cancelled in the queue, and calls whose
        task was cancelled before it began."""
        for call in batch:
            if not call.ended:
                call.end_cancelled(self._cancel_reason if cancelled else INTERRUPTED)
        if batch is self._batch:
            self._view.settle()
            self._view.show(())
            self._batch = []
        self._last = tuple(call.require_end() for call in batch)

    def _build(self, call: TrackedCall) -> None:
        if call.ended:
            return
        if call.cancel_reason is not None:  # between a call and its replacement
            call.end_cancelled(call.cancel_reason)
            return
        request = call.current
        found = self._registry.find_call(request.name, request.args)
        if found is None:
            self._refuse(call)
            return
        entry, args = found
        boundary = Boundary()
        built: ToolInvocation | ToolFailure | None = None
        with boundary:
            built = entry.tool.build(args)
            if not isinstance(built, ToolFailure):
                call.take(built)
        if boundary.failure is not None or built is None:
            reason = "nothing was built" if built is None else "it cannot be described"
            if boundary.failure is not None:
                reason = self._executor.report(call, boundary.failure)
            call.fail(reason, ToolErrorType.UNHANDLED_EXCEPTION)
        elif isinstance(built, ToolFailure):
            call.fail(_with_schema(entry, built), built.type)
        else:
            call.set_entry(entry)
            call.enter(
                ValidatingToolCall(
                    request=call.request,
                    start_time=call.start_time,
                    tool=entry.tool,
                    invocation=built,
                )
            )

    def _refuse(self, call: TrackedCall) -> None:
        """Fails a call to a tool that is not declared. The model gets the same text for a missing
        and a hidden tool, and people the reason for hiding it; so does the model, where a person
        has approved the call meanwhile."""
        name = call.current.name
        message = self._registry.suggestions(name)
        hidden = self._registry.find(name, excluded=True)
        if hidden is None:
            call.fail(message, ToolErrorType.TOOL_NOT_REGISTERED)
        else:
            reason = self._gate.refusal(call, hidden)
            told = reason if call.was_given else message
            call.fail(told, ToolErrorType.POLICY_VIOLATION, reason)


def _with_schema(entry: RegisteredTool, failure: ToolFailure) -> str:
    """The message of a call that was not built; wrong arguments for a tool that is not declared
    come with its schema."""
    if entry.declared or failure.type is not ToolErrorType.INVALID_TOOL_PARAMS:
        return failure.message
    from alhena.tools.tool_search import explain_schema

    return explain_schema(failure.message, entry.schema or entry.tool.parameter_schema)


def _waves(batch: Sequence[TrackedCall]) -> Iterator[list[TrackedCall]]:
    """Groups the calls that still have to run into waves."""
    wave: list[TrackedCall] = []
    for call in batch:
        if call.ended or call.entry is None:
            continue
        if call.entry.tool.kind not in MUTATOR_KINDS:
            wave.append(call)
            continue
        if wave:
            yield wave
        yield [call]
        wave = []
    if wave:
        yield wave
