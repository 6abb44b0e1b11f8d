"""Confirmations: the request that a person sees, its details, and the answers it can have."""

from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from typing import Any, Literal, assert_never, cast

import msgspec

from alhena.events import ConfirmationRequestEvent
from alhena.policy.conditions import is_shell
from alhena.policy.model import Decision, PolicyCall
from alhena.scheduler.bus import (
    LastingRule,
    MessageBus,
    ToolConfirmationRequest,
    ToolConfirmationResponse,
    UpdatePolicy,
)
from alhena.scheduler.states import ConfirmationError
from alhena.scheduler.track import TrackedCall, plain
from alhena.tools.confirmation import (
    AskUserConfirmation,
    ConfirmationDetails,
    EditConfirmation,
    ExecConfirmation,
    ExitPlanModeConfirmation,
    InfoConfirmation,
    McpConfirmation,
    ToolConfirmationOutcome,
)
from alhena.tools.contract import ToolErrorType, ToolFailure
from alhena.tools.edit.modify import ModifiableInvocation
from alhena.tools.edit.proposal import ProposedContents
from alhena.tools.registry import RegisteredTool
from alhena.tools.threads import Boundary, in_daemon_thread, one_line
from alhena.values import Value
from alhena.wire.plain import scrub

Outcome = ToolConfirmationOutcome

PROCEEDING = frozenset(Outcome) - {Outcome.CANCEL, Outcome.MODIFY_WITH_EDITOR}
"""The answers with which the call runs."""


class Payload(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """What goes with an answer.

    With proceed: `new_content` is all that the file of an edit is to hold instead, `answers` those
    to the questions of ask_user (index as text -> answer), `approval_mode` what follows plan mode.
    With cancel: `reason` (`feedback` is the same) is what the model is told, and `scope` "all"
    ends every other call, too. `approved` false refuses a plan, whatever the outcome.
    """

    new_content: str | None = None
    answers: dict[str, str] | None = None
    approved: bool | None = None
    approval_mode: Literal["default", "autoEdit", "yolo"] | None = None
    feedback: str | None = None
    reason: str | None = None
    scope: Literal["call", "all"] = "call"


NOTHING = Payload()


class Answer(Value, frozen=True):
    """An answer to a confirmation, and what goes with it."""

    outcome: Outcome
    payload: Payload = NOTHING


class ConfirmationRequest(
    ToolConfirmationRequest, frozen=True, kw_only=True, tag="tool-confirmation-request"
):
    """A call that waits for an answer: the message on the bus, with `details` and the `decision`
    that asks as they are here."""

    details: ConfirmationDetails
    decision: Decision


Verdict = Answer | Outcome | bool
Approver = Callable[[ConfirmationRequest], Verdict | Awaitable[Verdict]]
"""Answers a request: an answer, an outcome, or True for proceed_once and False for cancel. A
function that is not async runs in a thread of its own."""


async def asked(approver: Approver, request: ConfirmationRequest) -> Verdict:
    """What `approver` answers, in whichever way it does. Raises what it raises."""
    if iscoroutinefunction(approver):
        return await approver(request)
    answer = await in_daemon_thread(partial(approver, request))
    return await answer if isawaitable(answer) else answer


async def verdict(approver: Approver, request: ConfirmationRequest) -> Answer | ToolFailure:
    """What `approver` answers. One that raises, or answers something else, is a failure."""
    boundary = Boundary()
    answer: object = None
    with boundary:
        answer = await asked(approver, request)
    if boundary.failure is not None:
        return ToolFailure(f"the approval callback raised {one_line(boundary.failure)}")
    if isinstance(answer, bool):
        return Answer(Outcome.PROCEED_ONCE if answer else Outcome.CANCEL)
    if isinstance(answer, Outcome):
        return Answer(answer)
    if isinstance(answer, Answer):
        return answer
    return ToolFailure(f"the approval callback answered {type(answer).__name__}, no outcome")


def listen(approver: Approver, bus: "MessageBus") -> Callable[[], None]:
    """Lets `approver` answer what is asked over `bus`; returns what ends that."""

    async def answer(message: ToolConfirmationRequest) -> None:
        if not isinstance(message, ConfirmationRequest):
            raise TypeError("an approval callback cannot answer for another process")
        bus.publish(response_to(message, await verdict(approver, message)))

    return bus.subscribe(ToolConfirmationRequest, answer)


def response_to(
    request: ToolConfirmationRequest, answer: Answer | ToolFailure
) -> ToolConfirmationResponse:
    """The message that carries an answer; of a failure, that there is none."""
    if isinstance(answer, ToolFailure):
        return request.refused(answer.message)
    return ToolConfirmationResponse(
        correlation_id=request.correlation_id,
        confirmed=answer.outcome in PROCEEDING,
        outcome=answer.outcome,
        payload=None if answer.payload == NOTHING else msgspec.to_builtins(answer.payload),
    )


def answer_of(response: ToolConfirmationResponse) -> Answer:
    """The answer that a message carries. Raises ConfirmationError when it is none: what
    contradicts itself is no approval."""
    if response.requires_user_confirmation:
        raise ConfirmationError(response.reason or "nobody answered")
    if response.outcome is None:
        outcome = Outcome.PROCEED_ONCE if response.confirmed else Outcome.CANCEL
        return answer_from(outcome, response.payload)
    answer = answer_from(response.outcome, response.payload)
    proceeds = answer.outcome in PROCEEDING
    if proceeds != response.confirmed and answer.outcome is not Outcome.MODIFY_WITH_EDITOR:
        raise ConfirmationError(
            f'the answer "{answer.outcome}" contradicts confirmed={response.confirmed}'
        )
    return answer


def answer_from(outcome: str, payload: object = None) -> Answer:
    """An outcome and its payload, as plain values or as they are here. Raises ConfirmationError."""
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
    """Raises ConfirmationError for an answer that the request does not take."""
    if answer.outcome not in request.outcomes:
        offered = ", ".join(request.outcomes)
        raise ConfirmationError(
            f'the answer "{answer.outcome}" is not offered for the call {request.call_id!r}',
            remedy=f"Answer with one of {offered}.",
        )
    payload, details = answer.payload, request.details
    proceeds, cancels = answer.outcome in PROCEEDING, answer.outcome is Outcome.CANCEL
    plan = isinstance(details, ExitPlanModeConfirmation)
    fitting = {
        "newContent": proceeds and request.modifiable,
        "answers": proceeds and isinstance(details, AskUserConfirmation),
        "approved": plan,
        "approvalMode": proceeds and plan,
        "feedback": cancels or plan,
        "reason": cancels or plan,
        "scope": cancels or payload.approved is False,
    }
    given: dict[str, Any] = {
        key: value
        for key, value in msgspec.to_builtins(payload).items()
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
"""Characters of unusual lines of a change that are looked at; of the rest it is said that they are
not."""


def refined(
    details: ConfirmationDetails, call: TrackedCall, entry: RegisteredTool
) -> ConfirmationDetails:
    """`details` with what may deceive a reader, and all programs of a command as the policy sees
    them; everything in it encodes to JSON. Raises what msgspec raises where that cannot be."""
    warned = _warned(details, call, entry)
    try:
        msgspec.json.encode(warned)
    except UnicodeEncodeError:
        return msgspec.convert(plain(warned), type(warned))
    return warned


def _warned(
    details: ConfirmationDetails, call: TrackedCall, entry: RegisteredTool
) -> ConfirmationDetails:
    match details:
        case ExecConfirmation():
            return _command(details) if is_shell(call.asked(entry)) else details
        case EditConfirmation():
            warnings = (*details.warnings, *_of_change(details))
            return msgspec.structs.replace(details, warnings=warnings)
        case InfoConfirmation():
            return msgspec.structs.replace(details, warnings=tuple(_of_words(details)))
        case McpConfirmation():
            return msgspec.structs.replace(details, warnings=tuple(_of_server(details)))
        case AskUserConfirmation() | ExitPlanModeConfirmation():
            return details
        case _:
            assert_never(details)


def in_words(call: TrackedCall, entry: RegisteredTool) -> ConfirmationDetails:
    """What to show of a call that its tool has no words for."""
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


def holds_alone(details: ConfirmationDetails) -> bool:
    """True when an answer to this can never hold for another call: questions to a person, plans,
    and what may deceive a reader. Auto-edit mode is none that a change could lead to by deceit."""
    if isinstance(details, ExecConfirmation | InfoConfirmation | McpConfirmation):
        return bool(details.warnings)
    return isinstance(details, AskUserConfirmation | ExitPlanModeConfirmation)


def _command(details: ExecConfirmation) -> ExecConfirmation:
    from alhena.policy.bash.reader import analyse
    from alhena.policy.suggest import root_commands
    from alhena.suspicious_text import suspicious

    # What cannot be read at all is named by how it begins.
    roots = root_commands(analyse(details.command)) or tuple(details.command.split(None, 1)[:1])
    return msgspec.structs.replace(
        details,
        root_command=", ".join(roots),
        root_commands=roots,
        warnings=suspicious(details.command, roots),
    )


def _of_change(details: EditConfirmation) -> Iterator[str]:
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


def _of_words(details: InfoConfirmation) -> Iterator[str]:
    from alhena.suspicious_text import hidden, suspicious

    yield from (f"the text {each}" for each in hidden(details.prompt))
    for url in details.urls:
        yield from (f"a URL {each}" for each in suspicious(url))


def _of_server(details: McpConfirmation) -> Iterator[str]:
    from alhena.suspicious_text import hidden, suspicious

    for what, name in (("server", details.server_name), ("tool", details.tool_display_name)):
        yield from (f"the name of the {what} {each}" for each in suspicious(name))
    for text in _texts(plain(details.tool_args)):
        yield from (f"an argument {each}" for each in hidden(text))
    yield from (f"the description {each}" for each in hidden(details.tool_description))


def _texts(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for key, item in cast("dict[str, Any]", value).items():
                yield from _texts(key)
                yield from _texts(item)
        case list():
            for item in cast("list[Any]", value):
                yield from _texts(item)
        case _:
            return


NOT_ALLOWED = "User did not allow tool call"
_FEEDBACK = f"{NOT_ALLOWED}. Feedback: "

Offers = Callable[[PolicyCall], tuple[LastingRule, ...]]
"""What could be approved beyond a call; nothing that would not let the same call run again."""

Edit = Callable[[ProposedContents], Awaitable[str | ToolFailure]]
"""Lets a person change what a file is to hold; all of it, or why there is no change."""


def no_offers(_call: PolicyCall) -> tuple[LastingRule, ...]:
    """Every answer holds for its call alone."""
    return ()


class Asking(msgspec.Struct, frozen=True, kw_only=True):
    """Who is asked, and what answers can do.

    Questions go out over `bus`. `offers` says what could be approved beyond a call: whoever
    listens for UpdatePolicy makes it so. `edit` opens a person's editor. A question without an
    answer after `timeout_s` seconds is no approval; None waits for ever.
    """

    bus: MessageBus
    offers: Offers = no_offers
    edit: Edit | None = None
    timeout_s: float | None = None


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a call is asked about for. `by_hook`: it is not the policy that wants a person asked, so
    no rule can answer. `problem` says why it is asked once more."""

    details: ConfirmationDetails
    why: Decision
    by_hook: bool = False
    problem: str = ""


def question(
    call: TrackedCall, entry: RegisteredTool, asked: Asked, asking: Asking
) -> ConfirmationRequest:
    """The request for an answer, with all that it takes."""
    details = asked.details
    modifiable = isinstance(details, EditConfirmation) and isinstance(
        call.invocation, ModifiableInvocation
    )
    alone = asked.by_hook or holds_alone(details)
    lasting = () if alone else asking.offers(call.asked(entry))
    why = msgspec.structs.replace(
        asked.why,
        reason=scrub(asked.why.reason),
        parts=tuple(scrub(part) for part in asked.why.parts),
    )
    edits = (Outcome.MODIFY_WITH_EDITOR,) if modifiable and asking.edit is not None else ()
    return ConfirmationRequest(
        correlation_id=asking.bus.new_id(),
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
    )


def request_event(request: ConfirmationRequest) -> ConfirmationRequestEvent:
    """The question as everybody hears of it."""
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


def update_policy(request: ConfirmationRequest, offer: LastingRule) -> UpdatePolicy:
    """The message that makes an offer hold (SCHED-10)."""
    rule = offer.rule or {}
    prefixes = rule.get("commandPrefix", ())
    return UpdatePolicy(
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


def changes(answer: Answer) -> bool:
    """True when an answer is about what the call does, too."""
    return answer.outcome is Outcome.MODIFY_WITH_EDITOR or answer.payload.new_content is not None


def refuses(answer: Answer) -> bool:
    """True when an answer is a no."""
    return answer.outcome is Outcome.CANCEL or answer.payload.approved is False


def refusal(answer: Answer) -> str:
    """What the model is told of a no."""
    said = (answer.payload.reason or answer.payload.feedback or "").strip()
    return f"{_FEEDBACK}{said}" if said else NOT_ALLOWED


def says_why(error: str) -> bool:
    """True when the error of a call is a no with what a person wants instead."""
    return _FEEDBACK in error


def unanswered(reason: str) -> ToolFailure:
    """The failure of a call about which there is no answer."""
    return ToolFailure(
        f"Tool execution was not approved: {reason.rstrip('.')}.", ToolErrorType.EXECUTION_FAILED
    )


def unasked(reason: str) -> ToolFailure:
    """The failure of a call that nobody could be asked about."""
    return ToolFailure(
        f"Tool execution was not approved: it cannot be asked for ({reason}).",
        ToolErrorType.UNHANDLED_EXCEPTION,
    )
