"""Takes the calls of one model turn from request to response.

A batch is built whole first, so that calls which cannot run are answered at once. Then it goes
through in waves: contiguous calls of non-mutating kinds form one wave and run together, a mutating
call is a wave of its own. Each call is decided on, and a person asked, only when its wave has come
and in call order: a question shows the state that earlier calls left behind, and a rule that an
earlier answer made holds for later calls. A call of a wave starts as soon as it may, while later
ones of the same wave are still asked about. Responses keep call order.
"""

import asyncio
from collections.abc import Iterator, Sequence

from alhena.scheduler.confirm import SUPPORTED, Approver, Remember
from alhena.scheduler.errors import ConfirmationError
from alhena.scheduler.executor import Executor
from alhena.scheduler.gate import Authority, Gate
from alhena.scheduler.leash import INTERRUPTED
from alhena.scheduler.states import CompletedToolCall, Status, ToolCall, ValidatingToolCall
from alhena.scheduler.track import Emit, TrackedCall
from alhena.tools.boundary import Boundary, one_line
from alhena.tools.confirmation import ToolConfirmationOutcome
from alhena.tools.contract import MUTATOR_KINDS, ToolErrorType, ToolFailure, ToolInvocation
from alhena.tools.registry import ToolRegistry
from alhena.wire.calls import ToolCallRequestInfo
from alhena.wire.text import scrub

CANCELLED_BY_USER = "Operation cancelled by user"


class Scheduler:
    """One batch at a time; a batch that comes while one runs waits its turn (SCHED-02).

    `authority` says what the policy says; `approver`, when given, is asked about calls that need a
    person, otherwise such calls wait for `confirm`. `remember` is told of lasting answers; without
    it proceed_always means once. A tool must not schedule on the scheduler that runs it.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        authority: Authority,
        emit: Emit,
        executor: Executor,
        *,
        approver: Approver | None = None,
        remember: Remember | None = None,
    ) -> None:
        self._registry = registry
        self._emit = emit
        self._executor = executor
        self._gate = Gate(authority, executor, approver=approver, remember=remember)
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
        batch = [TrackedCall(request, self._emit, self._executor.clock) for request in given]
        cancellations = self._cancellations
        try:
            async with self._turn:
                if cancellations == self._cancellations:
                    self._batch = batch
                    await self._run(batch)
        finally:
            self._end(batch, cancelled=cancellations != self._cancellations)
        return [call.completed() for call in batch]

    def confirm(
        self, call_id: str, outcome: ToolConfirmationOutcome, payload: object = None
    ) -> None:
        """Answers for a waiting call. Raises ConfirmationError when no call can take the answer."""
        waiting = (
            call
            for call in self._batch
            if call.request.call_id == call_id
            and call.status is Status.AWAITING_APPROVAL
            and not call.answer.done()
        )
        call = next(waiting, None)
        if call is None:
            raise ConfirmationError(f"no call {call_id!r} waits for an answer")
        if outcome not in SUPPORTED or payload is not None:
            answers = ", ".join(sorted(SUPPORTED))
            raise ConfirmationError(
                f'the answer "{outcome}"{"" if payload is None else " with a payload"} '
                f"is not supported for call {call_id!r}",
                remedy=f"Answer with one of {answers}.",
            )
        call.answer.set_result(outcome)

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
            async with asyncio.TaskGroup() as group:
                for call in wave:
                    await self._gate.authorise(call)
                    if call.status is Status.SCHEDULED:
                        group.create_task(self._executor.run(call))

    def _end(self, batch: list[TrackedCall], *, cancelled: bool) -> None:
        """Answers what has no answer yet: batches that were given up in the queue, and calls
        whose task was cancelled before it began."""
        for call in batch:
            if not call.ended:
                call.end_cancelled(self._cancel_reason if cancelled else INTERRUPTED)
        if batch is self._batch:
            self._batch = []
        self._last = tuple(call.completed() for call in batch)

    def _build(self, call: TrackedCall) -> None:
        if call.ended:
            return
        request = call.request
        entry = self._registry.find(request.name)
        if entry is None:
            self._refuse(call)
            return
        boundary = Boundary()
        built: ToolInvocation | ToolFailure | None = None
        with boundary:
            built = entry.tool.build(request.args)
            if not isinstance(built, ToolFailure):
                call.params = built.params
                call.description = scrub(built.describe())
        if boundary.failure is not None or built is None:
            reason = "nothing was built" if built is None else "it cannot be described"
            if boundary.failure is not None:
                reason = one_line(boundary.failure)
            call.fail(reason, ToolErrorType.UNHANDLED_EXCEPTION)
        elif isinstance(built, ToolFailure):
            call.fail(built.message, built.type)
        else:
            call.entry, call.invocation = entry, built
            call.enter(
                ValidatingToolCall(
                    request=request,
                    start_time=call.start_time,
                    tool=entry.tool,
                    invocation=built,
                )
            )

    def _refuse(self, call: TrackedCall) -> None:
        """Answers a call to a tool that the model does not know. When it is there but hidden,
        because no call to it could run, people are told why; the model is told the same of both."""
        name = call.request.name
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
