"""The gate: a call that was built becomes one that may run, or ends here (SCHED-03)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import assert_never

import msgspec

from alhena.events import ConfirmationRequestEvent
from alhena.policy.model import Decision, PolicyCall, PolicyOutcome
from alhena.scheduler.confirm import (
    NOT_ALLOWED,
    Approver,
    ConfirmationRequest,
    Remember,
    denial,
    verdict,
)
from alhena.scheduler.executor import Executor
from alhena.scheduler.plain import plain
from alhena.scheduler.states import ScheduledToolCall, ValidatingToolCall, WaitingToolCall
from alhena.scheduler.track import TrackedCall
from alhena.tools.boundary import Boundary, one_line
from alhena.tools.confirmation import (
    ConfirmationDetails,
    InfoConfirmation,
    ToolConfirmationOutcome,
)
from alhena.tools.contract import ExecutionContext, ToolErrorType, ToolFailure, ToolInvocation
from alhena.tools.registry import RegisteredTool
from alhena.wire.text import scrub

Decide = Callable[[PolicyCall], Decision]

Check = Callable[[PolicyCall, Decision], Awaitable[Decision]]
"""Takes a decision of the rules to the one that holds. It may be stricter, never laxer."""


class Authority(msgspec.Struct, frozen=True):
    """Who says whether a call may run: `decide` the rules, `check` the safety checkers, if any."""

    decide: Decide
    check: Check | None = None


class Gate:
    """Asks the policy, then a person when the policy says so."""

    def __init__(
        self,
        authority: Authority,
        executor: Executor,
        *,
        approver: Approver | None,
        remember: Remember | None,
    ) -> None:
        self._authority = authority
        self._executor = executor
        self._approver = approver
        self._remember = remember

    async def authorise(self, call: TrackedCall) -> None:
        """Takes a validating call to scheduled, or to its end."""
        state, entry = call.state, call.entry
        if not isinstance(state, ValidatingToolCall) or entry is None:
            return
        decision = await self._decision(call, entry)
        if decision is None or call.ended:
            return
        call.decision = decision
        match decision.outcome:
            case PolicyOutcome.DENY:
                message = denial(decision, entry.tool.display_name)
                call.fail(message, ToolErrorType.POLICY_VIOLATION)
            case PolicyOutcome.ALLOW:
                _schedule(call, state, decision)
            case PolicyOutcome.ASK_USER:
                await self._ask(call, state, entry, decision)
            case _:
                assert_never(decision.outcome)

    def refusal(self, call: TrackedCall, hidden: RegisteredTool) -> str:
        """Why no call to a hidden tool can run, in words for people."""
        call.decision = self._authority.decide(
            PolicyCall(names=hidden.names, args=call.request.args, server_name=hidden.server)
        )
        return denial(call.decision, hidden.tool.display_name)

    async def _decision(self, call: TrackedCall, entry: RegisteredTool) -> Decision | None:
        """What holds for this call; None when it has ended, because that cannot be said or it was
        stopped meanwhile."""
        asked = PolicyCall(names=entry.names, args=call.params, server_name=entry.server)
        boundary = Boundary()
        decision: Decision | None = None
        with boundary:
            decision = self._authority.decide(asked)
        check = self._authority.check
        if decision is None or boundary.failure is not None:
            _deny_unknown(call, "the policy", boundary)
            return None
        if check is None or decision.outcome is PolicyOutcome.DENY:
            return decision
        task = asyncio.create_task(_checked(check, asked, decision))
        if await self._executor.leash.hold(call, task):
            return None
        if task.cancelled():
            _deny_unknown(call, "the safety checkers", None)
            return None
        found = task.result()
        if isinstance(found, Boundary):
            _deny_unknown(call, "the safety checkers", found)
            return None
        return found

    async def _ask(
        self, call: TrackedCall, state: ValidatingToolCall, entry: RegisteredTool, why: Decision
    ) -> None:
        details = await self._details(call, state.invocation)
        if call.ended:
            return
        if isinstance(details, ToolFailure):
            call.fail(details.message, details.type)
            return
        if details is None and why.rule is None:
            _schedule(call, state, why)
            return
        if details is None:  # a rule wants a question that the tool has no words for
            prompt = call.description or entry.tool.name
            details = InfoConfirmation(title=f"Run {entry.tool.display_name}?", prompt=prompt)
        request = ConfirmationRequest(
            call_id=call.request.call_id,
            name=call.request.name,
            tool_name=entry.tool.name,
            args=call.params,
            details=details,
            decision=why,
            server_name=entry.server,
        )
        outcome = await self._answer(call, state, request)
        if outcome is None or call.ended:
            return
        if isinstance(outcome, ToolFailure):
            call.fail(outcome.message, outcome.type)
            return
        call.outcome = outcome
        if outcome is ToolConfirmationOutcome.CANCEL:
            call.end_cancelled(NOT_ALLOWED)
            return
        if outcome is ToolConfirmationOutcome.PROCEED_ALWAYS and self._remember is not None:
            self._remember(request, outcome)
        _schedule(call, state, why)

    async def _details(
        self, call: TrackedCall, invocation: ToolInvocation
    ) -> ConfirmationDetails | ToolFailure | None:
        """What to show for this call; None when there is nothing to approve, or it was stopped."""
        task = asyncio.create_task(_confirmation(invocation, self._executor.context(call)))
        if await self._executor.leash.hold(call, task):
            return None
        if task.cancelled():
            return _unasked("the tool cancelled itself")
        return task.result()

    async def _answer(
        self, call: TrackedCall, state: ValidatingToolCall, request: ConfirmationRequest
    ) -> ToolConfirmationOutcome | ToolFailure | None:
        """The first answer of the approver and of `Scheduler.confirm`; None when stopped."""
        call.enter(
            WaitingToolCall(
                request=call.request,
                start_time=call.start_time,
                tool=state.tool,
                invocation=state.invocation,
                decision=request.decision,
                details=request.details,
            )
        )
        if call.ended:
            return None
        call.emit(
            ConfirmationRequestEvent(
                call_id=request.call_id,
                name=request.name,
                details=plain(request.details),
                reason=scrub(request.decision.reason),
            )
        )
        task = asyncio.create_task(_first_answer(call.answer, self._approver, request))
        if await self._executor.leash.hold(call, task):
            return None
        if task.cancelled():
            return _unasked("the approval callback cancelled itself")
        return task.result()


async def _checked(check: Check, asked: PolicyCall, decision: Decision) -> Decision | Boundary:
    """The decision behind the checkers, or the boundary at which their failure stopped."""
    boundary = Boundary()
    with boundary:
        return await check(asked, decision)
    return boundary


def _deny_unknown(call: TrackedCall, who: str, boundary: Boundary | None) -> None:
    """Ends a call of which nobody can say whether it may run."""
    failure = None if boundary is None else boundary.failure
    reason = "no answer" if failure is None else one_line(failure)
    message = f"Tool execution denied: {who} could not be asked ({reason})."
    call.fail(message, ToolErrorType.POLICY_VIOLATION)


async def _confirmation(
    invocation: ToolInvocation, context: ExecutionContext
) -> ConfirmationDetails | ToolFailure | None:
    boundary = Boundary()
    with boundary:
        return await invocation.confirmation(context)
    return _unasked("nothing" if boundary.failure is None else one_line(boundary.failure))


async def _first_answer(
    answer: asyncio.Future[ToolConfirmationOutcome],
    approver: Approver | None,
    request: ConfirmationRequest,
) -> ToolConfirmationOutcome | ToolFailure:
    if approver is None or answer.done():
        return await answer
    asking = asyncio.create_task(verdict(approver, request))
    try:
        await asyncio.wait({asking, answer}, return_when=asyncio.FIRST_COMPLETED)
        return answer.result() if answer.done() else asking.result()
    finally:
        if asking.cancel():
            await asyncio.wait({asking})


def _schedule(call: TrackedCall, state: ValidatingToolCall, decision: Decision) -> None:
    call.enter(
        ScheduledToolCall(
            request=call.request,
            start_time=call.start_time,
            tool=state.tool,
            invocation=state.invocation,
            decision=decision,
            outcome=call.outcome,
        )
    )


def _unasked(reason: str) -> ToolFailure:
    return ToolFailure(
        f"Tool execution was not approved: it cannot be asked for ({reason}).",
        ToolErrorType.UNHANDLED_EXCEPTION,
    )
