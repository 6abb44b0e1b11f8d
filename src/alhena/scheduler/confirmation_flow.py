"""Confirmation of one call, from the first question to the final answer, including edits of the
call."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, cast

import msgspec

from alhena.events import ConfirmationRequestEvent, WarningEvent
from alhena.policy.model import Decision, PolicyOutcome
from alhena.scheduler.confirmation import (
    Asked,
    Confirmations,
    Outcome,
    build_event,
    build_request,
    changes_call,
    describe_refusal,
    describe_update,
    ends_turn,
    fail_unanswered,
    fail_unasked,
    find_answer,
    make_details,
    refine_details,
    refuses_call,
)
from alhena.scheduler.executor import Executor, Leash, at_boundary
from alhena.scheduler.messages import UpdatePolicy
from alhena.scheduler.question import Answer, ConfirmationRequest
from alhena.scheduler.states import ConfirmationError, NoListenerError, WaitingToolCall
from alhena.scheduler.tracked_call import TrackedCall, deny, describe_denial
from alhena.tools.contract import (
    ApprovableInvocation,
    ConfirmationDetails,
    Deferred,
    EditConfirmation,
    ExecutionContext,
    PlanningInvocation,
    ProposedContents,
    QuestioningInvocation,
    Suspension,
    ToolErrorType,
    ToolFailure,
    ToolInvocation,
    ToolResult,
)
from alhena.tools.edit.proposal import EditInvocation, find_vain_edit
from alhena.tools.registry import RegisteredTool
from alhena.tools.threads import Boundary, one_line
from alhena.wire.json_values import scrub

Decide = Callable[[TrackedCall], Awaitable[Decision | None]]
"""Asks the policy about the call as it is now; None if that ended the call."""


class OpenQuestion(msgspec.Struct, frozen=True):
    """A question to send: the request and its event. `opened` is called once it is sent."""

    request: ConfirmationRequest
    event: ConfirmationRequestEvent
    opened: Callable[[], None] = lambda: None


class AnswerWait:
    """Waits for answers to the open questions of one scheduler. `decide` asks the policy, which may
    settle a question while the person is being asked."""

    def __init__(self, asking: Confirmations, leash: Leash, decide: Decide) -> None:
        self._asking = asking
        self._leash = leash
        self._decide = decide

    async def wait(
        self, call: TrackedCall, question: OpenQuestion, *, by_hook: bool
    ) -> Answer | Decision | None:
        """The first answer: of the approver, `Scheduler.confirm` or a changed policy. None if the
        call has ended, because it was stopped or there is no answer."""
        request = question.request
        call.open_question(request)
        try:
            enter_waiting(call, request.details)
            given = call.take_given()
            if call.ended or given is not None:
                return None if call.ended else given
            call.emit(question.event)
            question.opened()
            found = await self._leash.run_work(
                call, self._wait_answer(call, request, by_hook=by_hook)
            )
        finally:
            call.close_question()
        if isinstance(found, asyncio.CancelledError):
            found = fail_unanswered("the question was withdrawn before it was answered")
        if isinstance(found, ToolFailure) and not call.ended:
            if found.type is ToolErrorType.DEFERRED:
                why = found.message or request.reason
                request = msgspec.structs.replace(request, reason=why)
                call.defer(Suspension(requests=(request,)))
            else:
                call.fail(found.message, found.type)
        return None if isinstance(found, ToolFailure) or call.ended else found

    async def _wait_answer(
        self, call: TrackedCall, request: ConfirmationRequest, *, by_hook: bool
    ) -> Answer | ToolFailure | Decision | None:
        slot = call.answer
        if slot is None or slot.done():  # answered while it was announced, or not open
            return None if slot is None else slot.result()
        asking = asyncio.create_task(self._ask(call, request))
        try:
            return await self._wait_first(call, slot, asking, by_hook=by_hook)
        finally:
            call.close_question()  # after this, `Scheduler.confirm` accepts no answer
            await self._leash.stop(asking)

    async def _wait_first(
        self,
        call: TrackedCall,
        slot: "asyncio.Future[Answer | ToolFailure]",
        asking: "asyncio.Task[Answer | ToolFailure]",
        *,
        by_hook: bool,
    ) -> Answer | ToolFailure | Decision | None:
        """Waits for an answer in the slot, one of the approver or a decision of the policy."""
        while True:
            again = call.open_reconsideration()
            await asyncio.wait({slot, asking, again}, return_when=asyncio.FIRST_COMPLETED)
            if slot.done() or asking.done():
                return _read_first(slot, asking)
            decision = await self._decide(call)
            if decision is None or call.ended:
                return None
            if decision.outcome is PolicyOutcome.DENY:
                return decision
            # An answer given while the policy was asked was accepted, so it counts.
            if slot.done() or asking.done():
                answer = _read_first(slot, asking)
                if isinstance(answer, Answer):
                    return answer
            if decision.outcome is PolicyOutcome.ALLOW and not by_hook:
                return decision

    async def _ask(self, call: TrackedCall, request: ConfirmationRequest) -> Answer | ToolFailure:
        """The approver's answer; a failure if there is none."""
        try:
            return await find_answer(self._asking.approve, request)
        except Deferred as deferred:
            return ToolFailure(scrub(deferred.reason), ToolErrorType.DEFERRED)
        except NoListenerError:
            shown = request.tool_name if call.entry is None else call.entry.tool.display_name
            nobody = Decision(outcome=PolicyOutcome.DENY, reason=request.reason)
            return ToolFailure(describe_denial(nobody, shown), ToolErrorType.POLICY_VIOLATION)
        except ConfirmationError as error:
            return fail_unanswered(error.message)


def _read_first(
    slot: "asyncio.Future[Answer | ToolFailure]", asking: "asyncio.Task[Answer | ToolFailure]"
) -> Answer | ToolFailure:
    """The answer in the slot, else that of the approver."""
    if slot.done():
        return slot.result()
    if asking.cancelled():
        return fail_unanswered("the question was withdrawn before it was answered")
    return asking.result()


def enter_waiting(call: TrackedCall, details: ConfirmationDetails) -> None:
    """Takes a built call to the state in which it waits for a person."""
    if call.entry is None or call.invocation is None or call.decision is None:
        raise TypeError(f"call {call.request.call_id} was not built")
    call.enter(
        WaitingToolCall(
            request=call.request,
            start_time=call.start_time,
            tool=call.entry.tool,
            invocation=call.invocation,
            decision=call.decision,
            details=details,
        )
    )


UNCHANGED = "The editor left the proposed change as it was."


async def change_edit(
    invocation: EditInvocation,
    given: str | None,
    edit: Callable[[ProposedContents], Awaitable[str | ToolFailure]] | None,
    context: ExecutionContext,
) -> ToolInvocation | ToolFailure:
    """The call that writes what the person wants: `given`, or the text from their editor.

    Returns the same call if `given` equals the proposal; a failure if the editor fails or changes
    nothing, or if the content cannot be written.
    """
    contents = await invocation.contents(context)
    if isinstance(contents, ToolFailure):
        return contents
    text: str | ToolFailure | None = given
    if text is None:
        text = None if edit is None else await edit(contents)
        if text is None:
            return ToolFailure("There is no editor.", ToolErrorType.EXECUTION_FAILED)
        if text == contents.proposed:
            return ToolFailure(UNCHANGED, ToolErrorType.EXECUTION_FAILED)
    if isinstance(text, ToolFailure):
        return text
    if text == contents.proposed:
        return invocation
    changed = invocation.with_content(text)
    if isinstance(changed, EditInvocation):
        checked = await changed.contents(context)
        if isinstance(checked, ToolFailure):
            return checked
    return changed


MAX_QUESTIONS = 100
"""Maximum number of questions about one call: a program might answer with changes forever."""


class Asker:
    """Asks about the calls of one scheduler. `decide` asks the policy, `notify` is called
    for each question."""

    def __init__(
        self,
        asking: Confirmations,
        executor: Executor,
        decide: Decide,
        notify: Callable[[TrackedCall, ConfirmationRequest], None],
    ) -> None:
        self._asking = asking
        self._executor = executor
        self._decide = decide
        self._notify = notify
        self._answers = AnswerWait(asking, executor.leash, decide)

    async def ask_person(self, call: TrackedCall, why: Decision, *, by_hook: bool = False) -> bool:
        """Asks until there is an answer; False if the call has ended. `by_hook`: a hook, not the
        policy, requires confirmation."""
        entry = call.entry
        if entry is None:
            return False
        # A rule or hook requires confirmation even if the tool has nothing to confirm.
        in_any_case = by_hook or why.rule is not None or call.given is not None
        details = await self._find_details(call, entry, in_any_case=in_any_case)
        if call.ended or details is None:
            return not call.ended
        asked = Asked(details=details, why=why, by_hook=by_hook)
        return await self._ask_until_answered(call, entry, asked)

    async def _ask_until_answered(
        self, call: TrackedCall, entry: RegisteredTool, asked: Asked
    ) -> bool:
        """Asks again after each answer that changes the call; True if it may run."""
        for _ in range(MAX_QUESTIONS):
            put = self._build_question(call, entry, asked)
            if put is None:
                return False
            answer = await self._answers.wait(call, put, by_hook=asked.by_hook)
            if answer is None:
                return False
            request = put.request
            if isinstance(answer, Decision):
                return self._apply_decision(call, answer)
            if not changes_call(answer) or refuses_call(answer):
                return await self._apply_answer(call, request, answer)
            changed = await self._change_call(call, asked, answer)
            if changed is None:
                return False
            if not changed.problem and answer.outcome is not Outcome.MODIFY_WITH_EDITOR:
                put = self._build_question(call, entry, changed)
                return put is not None and await self._apply_answer(call, put.request, answer)
            asked = changed
        call.fail(
            f"Tool execution was not approved: it was asked about {MAX_QUESTIONS} times.",
            ToolErrorType.EXECUTION_FAILED,
        )
        return False

    def _build_question(
        self, call: TrackedCall, entry: RegisteredTool, asked: Asked
    ) -> OpenQuestion | None:
        """Builds the question; ends the call and returns None if that fails."""
        boundary = Boundary()
        with boundary:
            request = build_request(call, entry, asked, self._asking)
            opened = partial(self._notify, call, request)
            return OpenQuestion(request, build_event(request), opened)
        failure = fail_unasked(
            "nothing" if boundary.failure is None else one_line(boundary.failure)
        )
        call.fail(failure.message, failure.type)
        return None

    def _apply_decision(self, call: TrackedCall, decision: Decision) -> bool:
        """Applies a decision that the policy made meanwhile."""
        if decision.outcome is PolicyOutcome.DENY:
            deny(call, decision)
            return False
        call.set_decision(decision)
        call.set_outcome(None)
        return True

    async def _apply_answer(
        self, call: TrackedCall, request: ConfirmationRequest, answer: Answer
    ) -> bool:
        """Applies a final answer; False if the call has ended."""
        payload = answer.payload
        if refuses_call(answer):
            call.refuse(ends_turn=ends_turn(answer))
            call.end_cancelled(describe_refusal(answer))
            return False
        offer = request.find_offer(answer.outcome)
        if offer is not None and not await self._save(call, describe_update(request, offer)):
            return False
        invocation = call.invocation
        if isinstance(invocation, ApprovableInvocation):
            invocation.approve()
        answered: ToolInvocation | None = None
        if payload.answers is not None and isinstance(invocation, QuestioningInvocation):
            given = {int(key): text for key, text in payload.answers.items()}
            answered = invocation.with_answers(given)
        if payload.result is not msgspec.UNSET and invocation is not None:
            answered = GivenInvocation(invocation, payload.result)
        if payload.approval_mode is not None and isinstance(invocation, PlanningInvocation):
            answered = invocation.with_mode(payload.approval_mode)
        call.set_outcome(answer.outcome, answered)
        return True

    async def _save(self, call: TrackedCall, update: UpdatePolicy) -> bool:
        """Applies a saved approval, whose failure is a warning; False if the call has ended."""
        work = partial(self._asking.save, update)
        found = await self._executor.leash.run_work(call, at_boundary(work))
        if isinstance(found, Boundary) and found.failure is not None:
            text = f"the approval holds for this call only: {one_line(found.failure)}"
            call.emit(WarningEvent(message=text))
        return not call.ended

    async def _find_details(
        self, call: TrackedCall, entry: RegisteredTool, *, in_any_case: bool
    ) -> ConfirmationDetails | None:
        """The details to show. None if the call has ended, because it was stopped or its tool
        failed, or if its tool has nothing to confirm and not `in_any_case`."""
        invocation = call.invocation
        if invocation is None:
            return None

        async def say() -> ConfirmationDetails | ToolFailure | None:
            context = self._executor.context(call)
            found = cast("object", await invocation.confirmation(context))
            if isinstance(invocation, EditInvocation) and (
                vain := await find_vain_edit(invocation, found, context)
            ):
                return vain
            if found is None and in_any_case:
                found = make_details(call, entry)
            if not isinstance(found, ConfirmationDetails | None):
                kind = type(found).__name__
                raise TypeError(f"the tool returned {kind} instead of what to confirm")
            return None if found is None else refine_details(found, call, entry)

        said = await self._executor.leash.run_work(call, at_boundary(say))
        if isinstance(said, Boundary):
            raised = said.failure
            said = fail_unasked("nothing" if raised is None else one_line(raised))
            text = self._executor.report(call, raised, said.message)
            said = ToolFailure(text, said.type)
        elif isinstance(said, asyncio.CancelledError):
            said = fail_unasked("the tool cancelled itself")
        if isinstance(said, ToolFailure) and not call.ended:
            call.fail(said.message, said.type)
        return None if isinstance(said, ToolFailure) else said

    async def _change_call(self, call: TrackedCall, asked: Asked, answer: Answer) -> Asked | None:
        """Applies the person's change and asks the policy about it. Returns the next question, with
        the problem if nothing was changed; None if the call has ended."""
        invocation, entry, details = call.invocation, call.entry, asked.details
        asked = msgspec.structs.replace(asked, problem="")
        if entry is not None and answer.payload.args is not None:
            made = _build_with_args(entry, answer.payload.args)
        elif entry is None or not isinstance(invocation, EditInvocation):
            return msgspec.structs.replace(asked, problem="What it writes cannot be changed.")
        else:
            made = await self._change_edit(call, invocation, details, answer)
        if made is None or call.ended:
            return None
        if isinstance(made, ToolFailure):
            return msgspec.structs.replace(asked, problem=made.message)
        if made is invocation:
            return asked
        return await self._decide_again(call, entry, made, asked)

    async def _change_edit(
        self,
        call: TrackedCall,
        invocation: EditInvocation,
        details: ConfirmationDetails,
        answer: Answer,
    ) -> ToolInvocation | ToolFailure | None:
        if answer.outcome is Outcome.MODIFY_WITH_EDITOR and isinstance(details, EditConfirmation):
            enter_waiting(call, msgspec.structs.replace(details, is_modifying=True))
            if call.ended:
                return None
        return await self._build_change(call, invocation, answer)

    async def _decide_again(
        self, call: TrackedCall, entry: RegisteredTool, made: ToolInvocation, asked: Asked
    ) -> Asked | None:
        """Puts the changed call to the policy; returns the next question, None if it has ended."""
        call.change(made)
        call.mark_modified()
        decision = await self._decide(call)
        if decision is not None and decision.outcome is PolicyOutcome.DENY:
            deny(call, decision)
        if decision is None or call.ended:
            return None
        shown = await self._find_details(call, entry, in_any_case=False)
        if call.ended:
            return None
        call.set_decision(decision)
        by_policy = decision.outcome is PolicyOutcome.ASK_USER and not asked.by_hook
        why = decision if by_policy else asked.why
        return msgspec.structs.replace(asked, details=shown or asked.details, why=why)

    async def _build_change(
        self, call: TrackedCall, invocation: EditInvocation, answer: Answer
    ) -> ToolInvocation | ToolFailure | None:
        """The invocation with the person's change; None if the call was stopped."""
        context = self._executor.context(call)
        content = answer.payload.new_content
        work = partial(change_edit, invocation, content, self._asking.edit, context)
        made = await self._executor.leash.run_work(call, at_boundary(work))
        if isinstance(made, Boundary):
            return ToolFailure(one_line(made.failure) if made.failure else "Nothing came of it.")
        if isinstance(made, asyncio.CancelledError):
            return ToolFailure("The call was stopped while its change was open in the editor.")
        return made


class GivenInvocation:
    """A call whose result was given: it was done elsewhere."""

    def __init__(self, proposed: ToolInvocation, value: Any) -> None:
        self.params = proposed.params
        self.describe = proposed.describe
        self.locations = proposed.locations
        self.confirmation = proposed.confirmation
        self._value = value

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Returns the given result. Raises TypeError for one that cannot be put to a model."""
        from alhena.tools.function import result_of

        del context
        return result_of(self._value)


def _build_with_args(entry: RegisteredTool, args: dict[str, Any]) -> ToolInvocation | ToolFailure:
    """The call with these arguments."""
    boundary = Boundary()
    with boundary:
        return entry.tool.build(args)
    failure = "nothing" if boundary.failure is None else one_line(boundary.failure)
    return ToolFailure(f"the tool made {failure} of it")
