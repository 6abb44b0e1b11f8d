"""Decides whether a built call may run; ends it with the reason if not.

The order is policy, person (if the policy asks for one), BeforeTool hooks. A hook may stop or block
the call, require confirmation, or change the input; changed input goes through policy and person
again.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, assert_never

import msgspec

from alhena.policy.model import Decision, PolicyCall, PolicyOutcome
from alhena.scheduler.executor import Executor, at_boundary
from alhena.scheduler.states import ScheduledToolCall, ValidatingToolCall, WaitingToolCall
from alhena.scheduler.tracked_call import (
    TrackedCall,
    call_for_policy,
    deny,
    deny_failed,
    describe_denial,
    describe_failure,
)
from alhena.tools.contract import ToolErrorType, ToolFailure
from alhena.tools.registry import RegisteredTool
from alhena.tools.threads import Boundary

if TYPE_CHECKING:
    from alhena.hooks.model import HookVerdict
    from alhena.scheduler.confirmation import Confirmations
    from alhena.scheduler.confirmation_flow import Asker
    from alhena.scheduler.hooks import ToolHooks
    from alhena.scheduler.question import ConfirmationRequest


BLOCKED = "Tool execution blocked"

Decide = Callable[[PolicyCall], Decision]

Check = Callable[[PolicyCall, Decision], Awaitable[Decision]]
"""Checks a decision of the rules and returns the final one. It may be stricter, never laxer."""

Watch = Callable[[Callable[[], None]], Callable[[], None]]
"""Calls a listener after each change of the policy; returns the function that unsubscribes it."""


class CallPolicy(msgspec.Struct, frozen=True):
    """Sources of decisions: `decide` by rules, `check` by safety checkers, if any. `watch` notifies
    of changes of the rules and of the approval mode."""

    decide: Decide
    check: Check | None = None
    watch: Watch | None = None


class Gate:
    """Asks the policy, a person if the policy says so, and the hooks.

    Without `asking` there is no person to ask: calls that need confirmation are denied.
    """

    def __init__(
        self,
        policy: CallPolicy,
        executor: Executor,
        asking: "Confirmations | None",
        hooks: "ToolHooks | None",
    ) -> None:
        self._policy = policy
        self._executor = executor
        self._asking = asking
        self._hooks = hooks
        self._asker: Asker | None = None
        self._at_work: dict[TrackedCall, None] = {}
        self._unwatch: Callable[[], object] = lambda: None

    async def authorise(self, call: TrackedCall) -> None:
        """Takes a validating call to scheduled, or ends it."""
        if not isinstance(call.state, ValidatingToolCall) or call.entry is None:
            return
        if not self._at_work and self._policy.watch is not None:
            self._unwatch = self._policy.watch(self._policy_changed)
        self._at_work[call] = None
        try:
            if await self._passes(call, call.entry) and not call.ended:
                _schedule(call)
        finally:
            del self._at_work[call]
            if not self._at_work:
                self._unwatch()

    def refusal(self, call: TrackedCall, hidden: RegisteredTool) -> str:
        """The reason, for people, that no call to a hidden tool can run."""
        asked = call_for_policy(hidden, call.current.args)
        boundary = Boundary()
        with boundary:
            call.set_decision(self._policy.decide(asked))
        if call.decision is None or boundary.failure is not None:
            return describe_failure("the policy", boundary)
        return describe_denial(call.decision, hidden.tool.display_name)

    def _policy_changed(self) -> None:
        """Makes waiting calls consult the policy again: it may cover them by now."""
        for call in self._at_work:
            call.policy_changed()

    async def _passes(self, call: TrackedCall, entry: RegisteredTool) -> bool:
        """True if policy, person and hooks let the call run; otherwise it has ended."""
        decision = await self._find_decision(call)
        if decision is None or not await self._permits(call, decision):
            return False
        hooks = self._hooks
        if hooks is not None and hooks.before_heard:
            said = await self._run_hooks(call, hooks)
            if said is None or not await self._apply_verdict(call, entry, said):
                return False
        while call.stale:
            if not await self._permits_again(call):
                return False
        return True

    async def _permits_again(self, call: TrackedCall) -> bool:
        """True if the changed policy lets the call run. A person's approval still counts, but a
        denial prevails over it."""
        decision = await self._find_decision(call)
        if decision is None:
            return False
        if call.outcome is not None and decision.outcome is not PolicyOutcome.DENY:
            return True
        return await self._permits(call, decision)

    async def _permits(self, call: TrackedCall, decision: Decision) -> bool:
        """True if the call may run, after confirmation if required; otherwise it has ended."""
        call.set_decision(decision)
        match decision.outcome:
            case PolicyOutcome.DENY:
                deny(call, decision)
                return False
            case PolicyOutcome.ALLOW if call.given is None:
                return not call.ended
            case PolicyOutcome.ASK_USER | PolicyOutcome.ALLOW:
                return await self._ask(call, decision)
            case _:
                assert_never(decision.outcome)

    async def _ask(self, call: TrackedCall, why: Decision, *, by_hook: bool = False) -> bool:
        if self._asking is None and call.given is None:
            nobody = msgspec.structs.replace(why, outcome=PolicyOutcome.DENY)
            deny(call, nobody)
            return False
        if self._asker is None:
            from alhena.scheduler.confirmation import UNATTENDED
            from alhena.scheduler.confirmation_flow import Asker

            asking = self._asking or UNATTENDED
            self._asker = Asker(asking, self._executor, self._find_decision, self._notify)
        return await self._asker.ask_person(call, why, by_hook=by_hook) and not call.ended

    def _notify(self, _call: TrackedCall, request: "ConfirmationRequest") -> None:
        """Fires Notification hooks in the background, so that the person need not wait for them."""
        hooks = self._hooks
        if hooks is not None and hooks.notification_heard:
            hooks.notify(request)

    async def _run_hooks(self, call: TrackedCall, hooks: "ToolHooks") -> "HookVerdict | None":
        """The verdict of the BeforeTool hooks; None if the call was stopped first."""
        said = await self._executor.leash.run_work(call, hooks.before(call))
        if isinstance(said, asyncio.CancelledError):
            call.fail(f"{BLOCKED}: its hooks gave up", ToolErrorType.EXECUTION_FAILED)
            return None
        return said

    async def _apply_verdict(
        self, call: TrackedCall, entry: RegisteredTool, said: "HookVerdict"
    ) -> bool:
        """Applies the verdict of the hooks. True if the call may run; otherwise it has ended."""
        from alhena.scheduler.hooks import describe_stop, rebuilt

        if said.stop is not None:
            call.fail(describe_stop(said.stop), ToolErrorType.STOP_EXECUTION)
            return False
        if said.block is not None:
            call.fail(f"{BLOCKED}: {said.block}", ToolErrorType.EXECUTION_FAILED)
            return False
        approved = call.outcome is not None
        if said.tool_input is not None:
            built = rebuilt(call, entry, said.tool_input)
            if isinstance(built, ToolFailure):
                call.fail(built.message, built.type)
                return False
            if built is not None:
                decision = await self._find_decision(call)
                call.set_outcome(None)
                if decision is None or not await self._permits(call, decision):
                    return False
                approved = call.outcome is not None
        if not said.ask or approved:
            return True
        reason = (
            f"a BeforeTool hook asks: {said.reason}" if said.reason else "a BeforeTool hook asks"
        )
        why = Decision(outcome=PolicyOutcome.ASK_USER, reason=reason)
        return await self._ask(call, why, by_hook=True)

    async def _find_decision(self, call: TrackedCall) -> Decision | None:
        """The decision for this call; None if it ended, because it was stopped or the decision
        failed."""
        entry = call.entry
        if entry is None:
            return None
        asked = call.policy_call(entry)
        call.consider()
        boundary = Boundary()
        decision: Decision | None = None
        with boundary:
            decision = self._policy.decide(asked)
        check = self._policy.check
        if decision is None or boundary.failure is not None:
            usual = describe_failure("the policy", boundary)
            said = self._executor.report(call, boundary.failure, usual)
            call.fail(said, ToolErrorType.POLICY_VIOLATION)
            return None
        if check is None or decision.outcome is PolicyOutcome.DENY:
            return decision
        work = at_boundary(partial(check, asked, decision))
        found = await self._executor.leash.run_work(call, work)
        if isinstance(found, Boundary | asyncio.CancelledError):
            boundary = found if isinstance(found, Boundary) else None
            deny_failed(call, "the safety checkers", boundary)
            return None
        return found


def _schedule(call: TrackedCall) -> None:
    state = call.state
    if (
        not isinstance(state, ValidatingToolCall | WaitingToolCall)
        or call.invocation is None
        or call.decision is None
    ):
        raise TypeError(f"call {call.request.call_id} is {call.status} and cannot be scheduled")
    call.enter(
        ScheduledToolCall(
            request=call.request,
            start_time=call.start_time,
            tool=state.tool,
            invocation=call.invocation,
            decision=call.decision,
            outcome=call.outcome,
        )
    )
