"""Confirmation requests: details to show, possible answers, and their validation."""

import os
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from typing import Any, assert_never, cast

import msgspec

from alhena.events import ConfirmationRequestEvent
from alhena.policy.model import Decision, PolicyCall, PolicyOutcome
from alhena.scheduler.messages import AppliedUpdate, LastingRule, UpdatePolicy
from alhena.scheduler.question import (
    NOTHING,
    Answer,
    Approver,
    ConfirmationRequest,
    Edit,
    Payload,
    Verdict,
)
from alhena.scheduler.states import ConfirmationError, NoListenerError, plain
from alhena.scheduler.tracked_call import TrackedCall
from alhena.threads import in_daemon_thread
from alhena.tools.contract import (
    AskUserConfirmation,
    ConfirmationDetails,
    Deferred,
    EditConfirmation,
    ExecConfirmation,
    ExitPlanModeConfirmation,
    InfoConfirmation,
    McpConfirmation,
    Suspension,
    ToolConfirmationOutcome,
    ToolErrorType,
    ToolFailure,
)
from alhena.tools.edit.proposal import EditInvocation
from alhena.tools.registry import RegisteredTool
from alhena.tools.threads import Boundary, one_line
from alhena.wire.json_values import scrub

Outcome = ToolConfirmationOutcome

PROCEEDING = frozenset(Outcome) - {Outcome.CANCEL, Outcome.MODIFY_WITH_EDITOR}
"""Outcomes that let the call run."""


async def call_approver(approver: Approver, request: ConfirmationRequest) -> Verdict:
    """Calls `approver`, async or not, and returns its answer. Raises what it raises."""
    if iscoroutinefunction(approver):
        return await approver(request)
    answer = await in_daemon_thread(partial(approver, request))
    return await answer if isawaitable(answer) else answer


async def find_answer(approver: Approver, request: ConfirmationRequest) -> Answer:
    """The answer of `approver`. Raises ConfirmationError if there is none that the request
    accepts, and Deferred if it comes after the run."""
    boundary = Boundary()
    answer: object = None
    with boundary:
        answer = await call_approver(approver, request)
    if isinstance(boundary.failure, ConfirmationError | Deferred):
        raise boundary.failure
    if boundary.failure is not None:
        raise ConfirmationError(f"the approval callback raised {one_line(boundary.failure)}")
    if not isinstance(answer, bool | Outcome | Answer):
        raise ConfirmationError(
            f"the approval callback answered {type(answer).__name__}, no outcome"
        )
    found = to_answer(answer)
    require_answer(found, request)
    return found


def to_answer(verdict: Verdict) -> Answer:
    """Converts a verdict to an answer."""
    if isinstance(verdict, bool):
        verdict = Outcome.PROCEED_ONCE if verdict else Outcome.CANCEL
    return verdict if isinstance(verdict, Answer) else Answer(verdict)


def make_answer(outcome: str, payload: object = None) -> Answer:
    """Makes an answer from outcome and payload, plain or typed. Raises ConfirmationError."""
    try:
        known = Outcome(outcome)
    except ValueError as error:
        raise ConfirmationError(f"the answer {outcome!r} is no outcome") from error
    if payload is None or isinstance(payload, Payload):
        return Answer(known, payload or NOTHING)
    try:
        return Answer(known, msgspec.convert(payload, Payload))
    except (msgspec.ValidationError, RecursionError) as error:
        raise ConfirmationError(f"the payload of the answer cannot be used: {error}") from error


def require_answer(answer: Answer, request: ConfirmationRequest) -> None:
    """Raises ConfirmationError for an answer that the request does not accept."""
    if answer.outcome not in request.outcomes and answer.payload.result is msgspec.UNSET:
        offered = ", ".join(request.outcomes)
        raise ConfirmationError(
            f'the answer "{answer.outcome}" is not offered for the call {request.call_id!r}',
            remedy=f"Answer with one of {offered}.",
        )
    payload, details = answer.payload, request.details
    proceeds, cancels = answer.outcome in PROCEEDING, answer.outcome is Outcome.CANCEL
    plan = isinstance(details, ExitPlanModeConfirmation)
    fitting = {
        "args": proceeds and not plan and not isinstance(details, AskUserConfirmation),
        "newContent": proceeds and request.modifiable,
        "answers": proceeds and isinstance(details, AskUserConfirmation),
        "approved": plan,
        "approvalMode": proceeds and plan,
        "feedback": cancels or plan,
        "reason": cancels or plan,
        "scope": cancels or payload.approved is False,
    }
    settled = msgspec.structs.replace(payload, result=msgspec.UNSET)
    given: dict[str, Any] = {
        key: value
        for key, value in msgspec.to_builtins(settled).items()
        if value is not None and not (key == "scope" and value == "call")
    }
    for key in given:
        if not fitting[key]:
            raise ConfirmationError(
                f'"{key}" does not go with the answer "{answer.outcome}" '
                f"to the call {request.call_id!r}"
            )
    indexes: frozenset[str] = frozenset()
    if isinstance(details, AskUserConfirmation):
        indexes = frozenset(map(str, range(len(details.questions))))
    for key in payload.answers or {}:
        if key not in indexes:
            raise ConfirmationError(f"{key!r} is no index of a question")


LOOKED_AT = 200_000
"""Maximum number of characters of unusual lines in a change that are checked; a warning reports the
rest as unchecked."""


def refine_details(
    details: ConfirmationDetails, call: TrackedCall, entry: RegisteredTool
) -> ConfirmationDetails:
    """Adds warnings about deceptive text, and all programs of a command; the result encodes to
    JSON. Raises what msgspec raises if that is impossible."""
    warned = _add_warnings(details, call, entry)
    try:
        msgspec.json.encode(warned)
    except UnicodeEncodeError:
        return msgspec.convert(plain(warned), type(warned))
    return warned


def _add_warnings(
    details: ConfirmationDetails, call: TrackedCall, entry: RegisteredTool
) -> ConfirmationDetails:
    match details:
        case ExecConfirmation():
            return _describe_command(details) if call.policy_call(entry).is_shell else details
        case EditConfirmation():
            warnings = (*details.warnings, *_check_change(details))
            return msgspec.structs.replace(details, warnings=warnings)
        case InfoConfirmation():
            return msgspec.structs.replace(details, warnings=tuple(_check_prompt(details)))
        case McpConfirmation():
            return msgspec.structs.replace(details, warnings=tuple(_check_server(details)))
        case AskUserConfirmation() | ExitPlanModeConfirmation():
            return details
        case _:
            assert_never(details)


def make_details(call: TrackedCall, entry: RegisteredTool) -> ConfirmationDetails:
    """Default details for a call whose tool has none."""
    shown = entry.tool.display_name
    if entry.server is None:
        prompt = call.description or entry.tool.name
        return InfoConfirmation(title=f"Run {shown}?", prompt=prompt)
    return McpConfirmation(
        title="Confirm MCP Tool Execution",
        server_name=entry.server,
        tool_name=entry.tool.name,
        tool_display_name=shown,
        tool_args=call.params,
        tool_description=entry.tool.description,
        tool_parameter_schema=entry.tool.parameter_schema,
    )


def applies_once(details: ConfirmationDetails) -> bool:
    """True if an answer applies to this call only: to questions, plans, and text that may deceive.
    Edits may still switch to auto-edit mode, whatever their warnings."""
    if isinstance(details, ExecConfirmation | InfoConfirmation | McpConfirmation):
        return bool(details.warnings)
    return isinstance(details, AskUserConfirmation | ExitPlanModeConfirmation)


def _describe_command(details: ExecConfirmation) -> ExecConfirmation:
    from alhena.policy.command_prefix import root_commands
    from alhena.shell.parse.analysis import analyse
    from alhena.suspicious_text import suspicious

    # An unreadable command is named by its first word.
    roots = root_commands(analyse(details.command)) or tuple(details.command.split(None, 1)[:1])
    return msgspec.structs.replace(
        details,
        root_command=", ".join(roots),
        root_commands=roots,
        warnings=suspicious(details.command, roots),
    )


def _check_change(details: EditConfirmation) -> Iterator[str]:
    from alhena.suspicious_text import hidden, suspicious

    yield from (f"the path {each}" for each in suspicious(details.file_path))
    known = frozenset((details.original_content or "").split("\n"))
    lines = details.new_content.split("\n")
    odd = [
        line if not (line.isascii() and line.isprintable()) and line not in known else ""
        for line in lines
    ]
    text = "\n".join(odd)
    if len(text) - len(lines) > LOOKED_AT:
        yield f"only the first {LOOKED_AT:,} characters of unusual lines were looked at"
        kept = LOOKED_AT + len(lines)
        text = text[:kept]
    yield from (f"the new content {each}" for each in hidden(text))


def _check_prompt(details: InfoConfirmation) -> Iterator[str]:
    from alhena.suspicious_text import hidden, suspicious

    yield from (f"the text {each}" for each in hidden(details.prompt))
    for url in details.urls:
        yield from (f"a URL {each}" for each in suspicious(url))


def _check_server(details: McpConfirmation) -> Iterator[str]:
    from alhena.suspicious_text import hidden, suspicious

    for what, name in (("server", details.server_name), ("tool", details.tool_display_name)):
        yield from (f"the name of the {what} {each}" for each in suspicious(name))
    for text in _list_texts(plain(details.tool_args)):
        yield from (f"an argument {each}" for each in hidden(text))
    yield from (f"the description {each}" for each in hidden(details.tool_description))


def _list_texts(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for key, item in cast("dict[str, Any]", value).items():
                yield from _list_texts(key)
                yield from _list_texts(item)
        case list():
            for item in cast("list[Any]", value):
                yield from _list_texts(item)
        case _:
            return


NOT_ALLOWED = "User did not allow tool call"
_FEEDBACK = f"{NOT_ALLOWED}. Feedback: "

Offers = Callable[[PolicyCall], tuple[LastingRule, ...]]
"""Approvals beyond this call that can be offered; only those that would allow the same call
again."""


def no_offers(_call: PolicyCall) -> tuple[LastingRule, ...]:
    """Offers nothing: every answer applies to its call only."""
    return ()


Save = Callable[[UpdatePolicy], Awaitable[None]]
"""Applies an approval beyond its call, which an answer chose."""


async def save_nothing(_update: UpdatePolicy) -> None:
    """Applies nothing."""


class Confirmations(msgspec.Struct, frozen=True, kw_only=True):
    """The approver and the effects of its answers: `approve` answers; `offers` lists approvals
    beyond a call, and `save` applies them; `edit` opens the person's editor."""

    approve: Approver
    offers: Offers = no_offers
    save: Save = save_nothing
    edit: Edit | None = None


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Content of a question. `by_hook`: a hook, not the policy, requires confirmation, so that no
    rule can settle it. `problem` says why the call is asked about again."""

    details: ConfirmationDetails
    why: Decision
    by_hook: bool = False
    problem: str = ""


def build_request(
    call: TrackedCall, entry: RegisteredTool, asked: Asked, asking: Confirmations
) -> ConfirmationRequest:
    """Builds the request with the answers it accepts."""
    details = asked.details
    modifiable = isinstance(details, EditConfirmation) and isinstance(
        call.invocation, EditInvocation
    )
    alone = asked.by_hook or applies_once(details)
    lasting = () if alone else asking.offers(call.policy_call(entry))
    why = msgspec.structs.replace(
        asked.why,
        reason=scrub(asked.why.reason),
        parts=tuple(scrub(part) for part in asked.why.parts),
    )
    edits = (Outcome.MODIFY_WITH_EDITOR,) if modifiable and asking.edit is not None else ()
    return ConfirmationRequest(
        correlation_id=os.urandom(8).hex(),
        call_id=call.current.call_id,
        name=call.current.name,
        tool_name=entry.tool.name,
        args=plain(call.params),
        details=details,
        decision=why,
        server_name=entry.server,
        reason=why.reason,
        parts=why.parts,
        outcomes=(
            Outcome.PROCEED_ONCE,
            *(each.outcome for each in lasting),
            *edits,
            Outcome.CANCEL,
        ),
        lasting=lasting,
        modifiable=modifiable,
        problem=scrub(asked.problem),
        by_hook=asked.by_hook,
    )


def build_event(request: ConfirmationRequest) -> ConfirmationRequestEvent:
    """The question as an event."""
    return ConfirmationRequestEvent(
        call_id=request.call_id,
        name=request.name,
        details=plain(request.details),
        reason=request.reason,
        parts=request.parts,
        outcomes=tuple(str(each) for each in request.outcomes),
        lasting=tuple(plain(each) for each in request.lasting),
        problem=request.problem,
        correlation_id=request.correlation_id,
    )


def describe_update(request: ConfirmationRequest, offer: LastingRule) -> AppliedUpdate:
    """The change of the policy by an offered approval (SCHED-10)."""
    rule = offer.rule or {}
    prefixes = rule.get("commandPrefix", ())
    return AppliedUpdate(
        call_id=request.call_id,
        tool_name=request.tool_name,
        outcome=offer.outcome,
        command_prefix=(prefixes,) if isinstance(prefixes, str) else tuple(prefixes),
        mcp_name=rule.get("mcpName"),
        rule=offer.rule,
        mode=offer.mode,
        persist=offer.persist,
        shown=offer.shown,
    )


def changes_call(answer: Answer) -> bool:
    """True if the answer also changes the call."""
    payload = answer.payload
    changed = payload.new_content is not None or payload.args is not None
    return changed or answer.outcome is Outcome.MODIFY_WITH_EDITOR


def refuses_call(answer: Answer) -> bool:
    """True if the answer refuses the call."""
    return answer.outcome is Outcome.CANCEL or answer.payload.approved is False


def ends_turn(answer: Answer) -> bool:
    """True for a refusal that ends the turn: it has no words, or is for all calls."""
    return refuses_call(answer) and (answer.payload.scope == "all" or not _read_reason(answer))


def _read_reason(answer: Answer) -> str:
    return (answer.payload.reason or "").strip() or (answer.payload.feedback or "").strip()


def describe_refusal(answer: Answer) -> str:
    """The message to the model about a refusal."""
    said = _read_reason(answer)
    return f"{_FEEDBACK}{said}" if said else NOT_ALLOWED


def fail_unanswered(reason: str) -> ToolFailure:
    """The failure of a call whose question got no answer."""
    return ToolFailure(
        f"Tool execution was not approved: {reason.rstrip('.')}.", ToolErrorType.EXECUTION_FAILED
    )


def fail_unasked(reason: str) -> ToolFailure:
    """The failure of a call whose question could not be built."""
    return ToolFailure(
        f"Tool execution was not approved: it cannot be asked for ({reason}).",
        ToolErrorType.UNHANDLED_EXCEPTION,
    )


def defer_by_tool(call: TrackedCall, reason: str) -> None:
    """Makes a running call wait, because its tool raised Deferred. Only its result can be given, or
    a refusal."""
    entry = call.entry
    if entry is None:
        raise TypeError(f"call {call.request.call_id} was not built")
    why = Decision(outcome=PolicyOutcome.ASK_USER, reason=reason or "its tool waits for the result")
    asked = Asked(details=make_details(call, entry), why=why, by_hook=True)
    request = build_request(call, entry, asked, UNATTENDED)
    request = msgspec.structs.replace(request, outcomes=(Outcome.CANCEL,))
    call.emit(build_event(request))
    call.defer(Suspension(requests=(request,)))


async def _refuse_question(_request: ConfirmationRequest) -> Answer:
    raise NoListenerError("there is no person to ask.")


UNATTENDED = Confirmations(approve=_refuse_question)
"""For calls that were answered before: any other question has no person to answer it."""
