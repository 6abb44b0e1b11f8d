"""Takes the calls of one model turn from request to response.

A batch is built whole first, so that calls which cannot run are answered at once. Then it goes
through in waves: contiguous calls of non-mutating kinds form one wave and run together, a mutating
call is a wave of its own. Calls are decided on when their wave has come, in call order: a question
shows the state that earlier waves left behind. All calls of a wave that need a person are asked
about at once; a rule that one answer makes settles the others that it covers, and holds for those
of later waves. A call starts as soon as it may. A call that a hook puts in the place of one that
has run goes the same way, behind the wave of the first. Responses keep call order.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from alhena.scheduler.executor import INTERRUPTED, Executor
from alhena.scheduler.gate import Authority, Gate
from alhena.scheduler.states import (
    CompletedToolCall,
    ConfirmationError,
    SchedulerError,
    Status,
    ToolCall,
    ValidatingToolCall,
)
from alhena.scheduler.track import BatchView, Emit, TrackedCall
from alhena.tools.contract import MUTATOR_KINDS, ToolErrorType, ToolFailure, ToolInvocation
from alhena.tools.registry import ToolRegistry
from alhena.tools.threads import Boundary, one_line
from alhena.wire.calls import ToolCallRequestInfo

if TYPE_CHECKING:
    from alhena.scheduler.confirmation import Asking, Payload
    from alhena.tools.confirmation import ToolConfirmationOutcome

CANCELLED_BY_USER = "Operation cancelled by user"


class Scheduler:
    """One batch at a time; a batch that comes while one runs waits its turn (SCHED-02).

    `authority` says what the policy says. `asking` is how a person is asked; without it, calls that
    need one are denied. Hooks are those of the `executor`. A tool must not schedule on the
    scheduler that runs it.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        authority: Authority,
        emit: Emit,
        executor: Executor,
        *,
        asking: "Asking | None" = None,
    ) -> None:
        self._registry = registry
        self._emit = emit
        self._executor = executor
        self._gate = Gate(authority, executor, asking, executor.hooks, self.cancel_all)
        self._view = BatchView(emit, None if asking is None else asking.bus)
        self._turn = asyncio.Lock()
        self._batch: list[TrackedCall] = []
        self._cancellations = 0
        self._cancel_reason = CANCELLED_BY_USER
        self._last: tuple[CompletedToolCall, ...] = ()

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The present states of the batch that runs."""
        return tuple(call.state for call in self._batch if call.state is not None)

    @property
    def last_batch(self) -> tuple[CompletedToolCall, ...]:
        """The calls of the batch that ended last, also when its `schedule` was cancelled."""
        return self._last

    async def schedule(
        self, requests: ToolCallRequestInfo | Sequence[ToolCallRequestInfo]
    ) -> list[CompletedToolCall]:
        """Runs the calls to their ends and returns them in call order, one for each request.

        When this is cancelled, running tools are stopped first and every call has its response:
        as events, and in `last_batch`.
        """
        given = [requests] if isinstance(requests, ToolCallRequestInfo) else requests
        clock, changed = self._executor.clock, self._view.changed
        batch = [TrackedCall(request, self._emit, clock, changed) for request in given]
        cancellations = self._cancellations
        try:
            async with self._turn:
                if cancellations == self._cancellations:
                    self._batch = batch
                    self._view.show(batch)
                    await self._run(batch)
        finally:
            self._end(batch, cancelled=cancellations != self._cancellations)
        return [call.completed() for call in batch]

    def confirm(
        self,
        call_id: str,
        outcome: "ToolConfirmationOutcome",
        payload: "Payload | dict[str, object] | None" = None,
    ) -> None:
        """Answers for a waiting call; of several with this id, for the first. Raises
        ConfirmationError when no call can take the answer: whatever waited is still waiting."""
        from alhena.scheduler.confirmation import answer_from, require_answer

        for call in self._batch:
            question, taker = call.question, call.answer
            if call.current.call_id != call_id or question is None or taker is None:
                continue
            if taker.done() or call.ended:
                continue
            answer = answer_from(outcome, payload)
            require_answer(answer, question)
            taker.set_result(answer)
            return
        raise ConfirmationError(f"no call {call_id!r} waits for an answer")

    def cancel(self, call_id: str, reason: str = CANCELLED_BY_USER) -> None:
        """Ends one call, and no other: at once when it has not started, else through its tool.
        Raises SchedulerError when no call of this id is at work."""
        found = [call for call in self._batch if call.current.call_id == call_id and not call.ended]
        if not found:
            raise SchedulerError(f"no call {call_id!r} is at work")
        found[0].cancel(reason)

    def cancel_all(self, reason: str = CANCELLED_BY_USER) -> None:
        """Ends everything: queued batches and calls that have not started at once, running ones
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
            # What hooks have put in the place of these calls has waves of its own.
            while replaced := [call for call in wave if call.replaced]:
                for call in replaced:
                    call.replaced = False
                    self._build(call)
                for again in _waves(replaced):
                    await self._run_wave(again)

    async def _run_wave(self, wave: list[TrackedCall]) -> None:
        async with asyncio.TaskGroup() as group:
            for call in wave:
                group.create_task(self._carry(call))

    async def _carry(self, call: TrackedCall) -> None:
        """Takes one call through the gate and to its end."""
        await self._gate.authorise(call)
        if call.status is Status.SCHEDULED:
            await self._executor.run(call)
        if call.ended:
            response = call.completed().response
            if response.error_type is ToolErrorType.STOP_EXECUTION:
                self._stop_others(call, response.error or "The run was stopped")

    def _stop_others(self, stopped: TrackedCall, reason: str) -> None:
        """The run ends: calls that have not started never do, those that hooks have put in the
        place of others neither."""
        for call in self._batch:
            if call is not stopped and (call.replaced or call.status is not Status.EXECUTING):
                call.cancel(reason)

    def _end(self, batch: list[TrackedCall], *, cancelled: bool) -> None:
        """Answers what has no answer yet: batches that were given up in the queue, and calls
        whose task was cancelled before it began."""
        for call in batch:
            if not call.ended:
                call.end_cancelled(self._cancel_reason if cancelled else INTERRUPTED)
        if batch is self._batch:
            self._view.settle()
            self._view.show(())
            self._batch = []
        self._last = tuple(call.completed() for call in batch)

    def _build(self, call: TrackedCall) -> None:
        if call.ended:
            return
        if call.cancel_reason is not None:  # stopped between what has run and what takes its place
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
                reason = one_line(boundary.failure)
            call.fail(reason, ToolErrorType.UNHANDLED_EXCEPTION)
        elif isinstance(built, ToolFailure):
            call.fail(built.message, built.type)
        else:
            call.entry = entry
            call.enter(
                ValidatingToolCall(
                    request=call.request,
                    start_time=call.start_time,
                    tool=entry.tool,
                    invocation=built,
                )
            )

    def _refuse(self, call: TrackedCall) -> None:
        """Answers a call to a tool that the model does not know. When it is there but hidden,
        because no call to it could run, people are told why; the model is told the same of both."""
        name = call.current.name
        message = self._registry.suggestions(name)
        hidden = self._registry.find(name, excluded=True)
        if hidden is None:
            call.fail(message, ToolErrorType.TOOL_NOT_REGISTERED)
        else:
            reason = self._gate.refusal(call, hidden)
            call.fail(message, ToolErrorType.POLICY_VIOLATION, reason)


def _waves(batch: Sequence[TrackedCall]) -> Iterator[list[TrackedCall]]:
    """The calls that still have to run, in the groups that run together."""
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
