"""One call before a person, from the first question to the last answer (SCHED-04)."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import cast

import msgspec

from alhena.policy.model import Decision, PolicyOutcome
from alhena.scheduler.answering import (
    Answers,
    Decide,
    OpenQuestion,
    enter_waiting,
    held,
    stopped_at_boundary,
)
from alhena.scheduler.changing import change
from alhena.scheduler.confirm import Answer, ConfirmationRequest, Outcome
from alhena.scheduler.denial import deny
from alhena.scheduler.executor import Executor
from alhena.scheduler.questions import (
    Asked,
    Asking,
    changes,
    question,
    refusal,
    refuses,
    request_event,
    unasked,
    update_policy,
)
from alhena.scheduler.shown import in_words, refined
from alhena.scheduler.track import TrackedCall
from alhena.tools.answered import (
    ApprovableInvocation,
    PlanningInvocation,
    QuestioningInvocation,
)
from alhena.tools.boundary import Boundary, one_line
from alhena.tools.confirmation import ConfirmationDetails, EditConfirmation
from alhena.tools.contract import ToolErrorType, ToolFailure, ToolInvocation
from alhena.tools.modify import ModifiableInvocation
from alhena.tools.registry import RegisteredTool

MAX_QUESTIONS = 100
"""How often one call is asked about, for answers that change it: a program may never tire."""

ALL_CANCELLED = "User cancelled operation"


class Asker:
    """Asks about the calls of one scheduler. `decide` is the policy, `cancel_all` what an answer
    for all calls does, `notify` hears of each call that is asked about."""

    def __init__(
        self,
        asking: Asking,
        executor: Executor,
        decide: Decide,
        cancel_all: Callable[[str], None],
        notify: Callable[[TrackedCall, ConfirmationRequest], None],
    ) -> None:
        self._asking = asking
        self._executor = executor
        self._decide = decide
        self._cancel_all = cancel_all
        self._notify = notify
        self._answers = Answers(asking, executor.leash, decide)

    async def approved(self, call: TrackedCall, why: Decision, *, by_hook: bool = False) -> bool:
        """Asks until there is an answer; False when the call has ended. `by_hook`: it is not the
        policy that wants a person asked."""
        entry = call.entry
        if entry is None:
            return False
        # A rule, or a hook, wants a question even where the tool has nothing to confirm.
        in_any_case = by_hook or why.rule is not None
        details = await self._said(call, entry, in_any_case=in_any_case)
        if call.ended or details is None:
            return not call.ended
        asked = Asked(details=details, why=why, by_hook=by_hook)
        return await self._answered(call, entry, asked)

    async def _answered(self, call: TrackedCall, entry: RegisteredTool, asked: Asked) -> bool:
        """Asks as often as answers change the call; whether it may run."""
        for _ in range(MAX_QUESTIONS):
            put = self._put(call, entry, asked)
            if put is None:
                return False
            answer = await self._answers.first(call, put, by_hook=asked.by_hook)
            if answer is None:
                return False
            request = put.request
            if isinstance(answer, Decision):
                return self._settled(call, answer)
            if not changes(answer) or refuses(answer):
                return await self._accepted(call, request, answer)
            changed = await self._changed(call, asked, answer)
            if changed is None:
                return False
            if not changed.problem and answer.outcome is not Outcome.MODIFY_WITH_EDITOR:
                return await self._accepted(call, request, answer)
            asked = changed
        call.fail(
            f"Tool execution was not approved: it was asked about {MAX_QUESTIONS} times.",
            ToolErrorType.EXECUTION_FAILED,
        )
        return False

    def _put(self, call: TrackedCall, entry: RegisteredTool, asked: Asked) -> OpenQuestion | None:
        """The question as it goes out; None when the call has ended, for it cannot be put."""
        boundary = Boundary()
        with boundary:
            request = question(call, entry, asked, self._asking)
            opened = partial(self._notify, call, request)
            return OpenQuestion(request, request_event(request), opened)
        failure = unasked("nothing" if boundary.failure is None else one_line(boundary.failure))
        call.fail(failure.message, failure.type)
        return None

    def _settled(self, call: TrackedCall, decision: Decision) -> bool:
        """The policy has come to say by itself what is to be."""
        if decision.outcome is PolicyOutcome.DENY:
            deny(call, decision, self._asking.bus)
            return False
        call.decision = decision
        call.outcome = None
        return True

    async def _accepted(
        self, call: TrackedCall, request: ConfirmationRequest, answer: Answer
    ) -> bool:
        """An answer that ends the asking, taken to what it means; False when the call has ended."""
        payload = answer.payload
        if refuses(answer):
            call.outcome = Outcome.CANCEL
            call.end_cancelled(refusal(answer))
            if payload.scope == "all":
                self._cancel_all(ALL_CANCELLED)
            return False
        offer = next((each for each in request.lasting if each.outcome == answer.outcome), None)
        if offer is not None:
            message = update_policy(request, offer)
            await held(self._executor.leash, call, self._asking.bus.deliver(message))
            if call.ended:
                return False
        invocation = call.invocation
        if isinstance(invocation, ApprovableInvocation):
            invocation.approve()
        if payload.answers is not None and isinstance(invocation, QuestioningInvocation):
            given = {int(key): text for key, text in payload.answers.items()}
            call.invocation = invocation.with_answers(given)
        if payload.approval_mode is not None and isinstance(invocation, PlanningInvocation):
            call.invocation = invocation.with_mode(payload.approval_mode)
        call.outcome = answer.outcome
        return True

    async def _said(
        self, call: TrackedCall, entry: RegisteredTool, *, in_any_case: bool
    ) -> ConfirmationDetails | None:
        """What to show of the call. None when it has ended: it was stopped, or cannot say; and when
        its tool has nothing to confirm, unless it is to be asked about `in_any_case`."""
        invocation = call.invocation
        if invocation is None:
            return None

        async def say() -> ConfirmationDetails | None:
            context = self._executor.context(call)
            found = cast("object", await invocation.confirmation(context))
            if found is None and in_any_case:
                found = in_words(call, entry)
            if not isinstance(found, ConfirmationDetails | None):
                kind = type(found).__name__
                raise TypeError(f"the tool returned {kind} instead of what to confirm")
            return None if found is None else refined(found, call, entry)

        said = await held(self._executor.leash, call, stopped_at_boundary(say))
        if isinstance(said, Boundary):
            said = unasked("nothing" if said.failure is None else one_line(said.failure))
        elif isinstance(said, asyncio.CancelledError):
            said = unasked("the tool cancelled itself")
        if isinstance(said, ToolFailure) and not call.ended:
            call.fail(said.message, said.type)
        return None if isinstance(said, ToolFailure) else said

    async def _changed(self, call: TrackedCall, asked: Asked, answer: Answer) -> Asked | None:
        """The call as the person wants it, put to the policy again: what to ask about it now, or
        why it is still what it was. None when the call has ended."""
        invocation, entry, details = call.invocation, call.entry, asked.details
        asked = msgspec.structs.replace(asked, problem="")
        if entry is None or not isinstance(invocation, ModifiableInvocation):
            return msgspec.structs.replace(asked, problem="What it writes cannot be changed.")
        if answer.outcome is Outcome.MODIFY_WITH_EDITOR and isinstance(details, EditConfirmation):
            enter_waiting(call, msgspec.structs.replace(details, is_modifying=True))
            if call.ended:
                return None
        made = await self._made(call, invocation, answer)
        if made is None or call.ended:
            return None
        if isinstance(made, ToolFailure):
            return msgspec.structs.replace(asked, problem=made.message)
        if made is invocation:
            return asked
        call.change(made)
        call.modified = True
        decision = await self._decide(call)
        if decision is not None and decision.outcome is PolicyOutcome.DENY:
            deny(call, decision, self._asking.bus)
        if decision is None or call.ended:
            return None
        shown = await self._said(call, entry, in_any_case=False)
        if call.ended:
            return None
        call.decision = decision
        by_policy = decision.outcome is PolicyOutcome.ASK_USER and not asked.by_hook
        why = decision if by_policy else asked.why
        return msgspec.structs.replace(asked, details=shown or details, why=why)

    async def _made(
        self, call: TrackedCall, invocation: ModifiableInvocation, answer: Answer
    ) -> ToolInvocation | ToolFailure | None:
        """The call that does what the person wants; None when it was stopped."""
        context = self._executor.context(call)
        content = answer.payload.new_content
        work = partial(change, invocation, content, self._asking.edit, context)
        made = await held(self._executor.leash, call, stopped_at_boundary(work))
        if isinstance(made, Boundary):
            return ToolFailure(one_line(made.failure) if made.failure else "Nothing came of it.")
        if isinstance(made, asyncio.CancelledError):
            return ToolFailure("The editor was given up.")
        return made
