"""Runs that wait for answers: their state as JSON, and how they continue."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, cast

import msgspec

from alhena.agent.limits import Usage
from alhena.agent.loop import Batch, WaitingCalls, answer_calls
from alhena.agent.subagents.state import AgentState, Resumption
from alhena.chat.history import import_contents
from alhena.errors import InputError
from alhena.scheduler.confirmation import (
    changes_call,
    refuses_call,
    require_answer,
    to_answer,
)
from alhena.scheduler.question import Answer, ConfirmationRequest, Verdict
from alhena.scheduler.states import ConfirmationError, plain
from alhena.session.records import Answered, now
from alhena.tools.contract import ToolConfirmationOutcome, ToolFailure
from alhena.tools.registry import ToolRegistry, select_tools
from alhena.values import Value
from alhena.wire.content import (
    USER,
    Content,
    FunctionCall,
    Part,
    encode_value,
    request_info,
)

if TYPE_CHECKING:
    from alhena.agent.session import Session

VERSION = 2
"""The highest `RunState.version`. Incremented when an older program would misread a newer state."""
_ALONE = 1
"""The version of a state without subagents, which programs of that version read."""


class EarlierUsage(Value, frozen=True, kw_only=True):
    """The model turns, seconds and usage of a run until now."""

    turns: int = 0
    seconds: float = 0.0
    usage: Usage = Usage()


class RunState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A run that waits. `contents` is its conversation, which ends with calls; `answered` are those
    of them that have run, `requests` those that wait, also of subagents, which are in `agents`.
    `asks`: the run has to end with a value."""

    version: int
    id: str
    session_id: str
    contents: tuple[Content, ...]
    answered: tuple[Answered, ...]
    requests: tuple[ConfirmationRequest, ...]
    spent: EarlierUsage
    asks: bool = False
    agents: dict[str, AgentState] = {}


class _Versioned(msgspec.Struct):
    version: Annotated[int, msgspec.Meta(ge=_ALONE)]


def encode_state(
    waiting: WaitingCalls,
    contents: tuple[Content, ...],
    session_id: str,
    spent: EarlierUsage,
    *,
    asks: bool,
) -> bytes:
    """The state of a run as JSON."""
    state = RunState(
        version=VERSION if waiting.agents else _ALONE,
        id=waiting.state_id,
        session_id=session_id,
        contents=contents,
        answered=record_answers(waiting, contents),
        requests=tuple(map(_without_rule, waiting.requests)),
        spent=spent,
        asks=asks,
        agents=dict(waiting.agents),
    )
    return msgspec.json.encode(state)


def record_answers(waiting: WaitingCalls, contents: Sequence[Content]) -> tuple[Answered, ...]:
    """The calls at the end of a conversation that have run, with their responses."""
    names = {call.id or "": call.name for call in _last_calls(contents)}
    return tuple(
        Answered(
            at=now(),
            call_id=call_id,
            name=names.get(call_id, ""),
            parts=tuple(msgspec.Raw(encode_value(part)) for part in parts),
        )
        for call_id, parts in waiting.known.items()
    )


def _last_calls(contents: Sequence[Content]) -> list[FunctionCall]:
    calls = (part.function_call for each in contents[-1:] for part in each.parts)
    return [call for call in calls if call is not None]


def open_batch(
    state: "RunState | AgentState",
    answers: Mapping[str, Answer],
    prompt_id: str,
    registry: ToolRegistry,
) -> Batch:
    """The calls at the end of a state, of tools of `registry`, with what is known of them and the
    `answers`, of which a subagent gets those to its own calls."""
    searching = bool(registry.search.note)
    calls = tuple(
        request_info(call, call.id or "", prompt_id, searching=searching)
        for call in _last_calls(state.contents)
    )
    known = {
        each.call_id: tuple(msgspec.json.decode(raw, type=Part) for raw in each.parts)
        for each in state.answered
    }
    own, earlier = dict(answers), dict[str, Resumption]()
    for call_id, agent in state.agents.items():
        start = f"{call_id}/"
        theirs = {key: own.pop(key) for key in answers if key.startswith(start)}
        below = {key.removeprefix(start): each for key, each in theirs.items()}
        earlier[call_id] = Resumption(state=agent, answers=below)
        own[call_id] = Answer.yes()  # it was approved when it began
    for call in calls:
        given = own.get(call.call_id)
        if given is not None and given.payload.args == call.args:
            own[call.call_id] = _with_args(given, None)
    return Batch(calls=calls, known=known, answers=own, earlier=earlier)


def _with_args(answer: Answer, args: dict[str, Any] | None) -> Answer:
    """The answer with arguments for its call; None: those that it has."""
    return Answer(answer.outcome, msgspec.structs.replace(answer.payload, args=args))


def _without_rule(request: ConfirmationRequest) -> ConfirmationRequest:
    """The request without the rule that asked, which may hold a function."""
    decision = msgspec.structs.replace(request.decision, rule=None)
    bare = msgspec.structs.replace(request, decision=decision)
    return msgspec.convert(plain(bare), ConfirmationRequest)


def read_state(state: bytes) -> RunState:
    """Decodes a state. Raises InputError, and TypeError for what are no bytes."""
    if not isinstance(cast("object", state), bytes):
        raise TypeError(f"state has to be bytes, as Result.state() gives them, not {state!r:.60}")
    found: RunState | None = None
    try:
        version = msgspec.json.decode(state, type=_Versioned).version
        if version > VERSION:
            raise InputError(
                f"the state has version {version}; this alhena reads up to {VERSION}.",
                remedy="Resume it with the version that made it, or a newer one.",
            )
        found = msgspec.json.decode(state, type=RunState)
        problem = _find_damage(found)
    except msgspec.MsgspecError as error:
        problem = str(error)
    if problem or found is None:
        raise InputError(
            f"state is no state of a run: {problem}.", remedy="Pass what Result.state() returned."
        )
    return found


def _find_damage(state: RunState | AgentState) -> str:
    """The reason why a state cannot be continued; "" if it can. Raises MsgspecError."""
    calls = [call.id or "" for call in _last_calls(state.contents)]
    if not calls:
        return "its conversation does not end with calls"
    if len(set(calls)) < len(calls):
        return "two of its calls have the same id"
    for each in state.answered:
        for part in each.parts:
            msgspec.json.decode(part, type=Part)
    if isinstance(state, RunState):
        starts = tuple(f"{call_id}/" for call_id in state.agents)
        for each in state.requests:
            if each.call_id not in calls and not each.call_id.startswith(starts):
                return f"there is no call {each.call_id!r}"
    return next(filter(None, (_find_damage(each) for each in state.agents.values())), "")


Claim = Callable[[str], Awaitable[None]]
"""Uses a state, by its id. Raises InputError for one that was used."""


def drop_signers(contents: Sequence[Content]) -> list[Content]:
    """The contents without the names of who signed them."""
    return [msgspec.structs.replace(each, signed_by=None) for each in contents]


class WaitingRun:
    """A run that waits, and the answers with which it continues. `claim` is awaited with the id of
    the state before anything runs, and raises for one that was used. Raises InputError for answers
    that are missing, unknown, or do not fit their call."""

    def __init__(
        self, state: RunState, answers: Mapping[str, Verdict], claim: Claim | None = None
    ) -> None:
        self._state = state
        self._claim = claim
        self._answers = _require_answers(state, answers)

    @property
    def state(self) -> RunState:
        """The state that it continues."""
        return self._state

    @property
    def turns(self) -> int:
        """Model turns so far."""
        return self._state.spent.turns

    @property
    def prompt(self) -> str:
        """The text of its prompt; "" if that had none."""
        said = (each for each in reversed(self._state.contents) if each.role == USER)
        texts = ("".join(part.text or "" for part in each.parts) for each in said)
        return next((text for text in texts if text), "")

    def count_earlier(self, session: "Session") -> None:
        """Counts what the run took before against the limits of `session`, unless that is the one
        it began in."""
        ledger = session.access.ledger
        if ledger is not None:
            usage, alike = self._state.spent.usage, self._is_same(session)
            ledger.count_earlier(
                tokens=0 if alike else usage.input_tokens + usage.output_tokens,
                cost=0.0 if alike else usage.cost_usd or 0.0,
                seconds=self._state.spent.seconds,
            )

    async def answer_calls(self, session: "Session", prompt_id: str) -> tuple[Part, ...]:
        """Puts the conversation back and runs the calls that were answered. Returns what to send to
        the model; nothing when the run is over, or waits again. Raises InputError."""
        state, chat = self._state, session.chat
        registry = session.bench.registry
        batch = open_batch(state, self._answers, prompt_id, registry)
        _require_tools(session, registry, batch)
        self._require_present(session)
        if self._claim is not None:
            await self._claim(state.id)
        count = len(state.contents)
        if drop_signers(chat.export_contents()[:count]) == drop_signers(state.contents):
            chat.history.rollback(count)
        else:
            chat.replace_history(import_contents(state.contents, chat.model.name))
        if session.recording is not None:
            session.recording.put(*state.answered)
        return await answer_calls(chat, session.scheduler, session.guard, batch) or ()

    def _require_present(self, session: "Session") -> None:
        """Raises InputError where the stored conversation is not where the state left it."""
        from alhena.session.stored_recording import StoreRecording

        record = session.recording
        if not isinstance(record, StoreRecording) or not record.kept:
            return
        present = record.kept if not self._is_same(session) else session.chat.export_contents()
        if drop_signers(present) != drop_signers(self._state.contents):
            raise InputError(
                f"the conversation {record.conversation!r} is not where this state left it.",
                remedy="Resume it with the agent of its own conversation, before another prompt.",
            )

    def _is_same(self, session: "Session") -> bool:
        waiting = session.guard.waiting
        return waiting is not None and waiting.state_id == self._state.id


def _require_tools(session: "Session", registry: ToolRegistry, batch: Batch) -> None:
    """Raises InputError for an answered call of a tool that is not there, or whose new arguments do
    not fit it, in the subagents as well."""
    for call in batch.calls:
        if call.call_id not in batch.answers:
            continue
        found = registry.find_call(call.name, call.args)
        if found is None and registry.find(call.name, excluded=True) is None:
            raise InputError(
                f"the call {call.call_id!r} is one of {call.name}, which this agent does not have.",
                remedy="Resume the state with the tools of the agent that made it.",
            )
        args = batch.answers[call.call_id].payload.args
        built = None if args is None or found is None else found[0].tool.build(args)
        if isinstance(built, ToolFailure):
            raise InputError(
                f"the arguments in the answer to {call.call_id!r} ({call.name}) do not fit: "
                f"{built.message}"
            )
    agents = {each.name: each for each in session.bench.agents.local}
    for resumption in batch.earlier.values():
        state = resumption.state
        agent = agents.get(state.agent)
        if agent is None:
            raise InputError(
                f"the subagent {state.agent!r} waits, which this agent does not have.",
                remedy="Resume the state with the subagents of the agent that made it.",
            )
        own = select_tools(session.bench.registry, agent.tools, *agent.own_tools)
        _require_tools(session, own, open_batch(state, resumption.answers, "", own))


def _require_answers(state: RunState, answers: Mapping[str, Verdict]) -> dict[str, Answer]:
    """The answers by call id. Raises InputError, TypeError."""
    from alhena.tools.function import result_of

    if not isinstance(cast("object", answers), Mapping):
        raise TypeError(f"answers has to be a mapping of call ids to Answers, not {answers!r:.60}")
    requests = {each.call_id: each for each in state.requests}
    for call_id in answers:
        if call_id not in requests:
            raise InputError(
                f"no call {call_id!r} waits for an answer.",
                remedy=f"These do: {', '.join(map(repr, requests))}.",
            )
    found: dict[str, Answer] = {}
    for call_id, request in requests.items():
        if call_id not in answers:
            raise InputError(
                f"the call {call_id!r} ({request.tool_name}) has no answer.",
                remedy="Answer each call of Result.pending.",
            )
        given = answers[call_id]
        if not isinstance(cast("object", given), bool | Answer | ToolConfirmationOutcome):
            raise TypeError(f"the answer to {call_id!r} has to be an Answer, not {given!r:.60}")
        answer = to_answer(given)
        try:
            require_answer(answer, request)
        except ConfirmationError as error:
            raise InputError(error.message, remedy=_remedy(request)) from None
        if answer.payload.result is not msgspec.UNSET:
            try:
                result_of(answer.payload.result)
            except (TypeError, ValueError) as error:
                raise TypeError(f"the result of the call {call_id!r}: {error}") from None
        runs = not refuses_call(answer) and answer.payload.result is msgspec.UNSET
        if runs and not changes_call(answer):
            answer = _with_args(answer, request.args)  # what was shown is what runs
        found[call_id] = answer
    return found


def _remedy(request: ConfirmationRequest) -> str:
    if ToolConfirmationOutcome.PROCEED_ONCE in request.outcomes:
        return f"Answer with one of {', '.join(request.outcomes)}."
    return f"{request.tool_name} deferred the call: give Answer.result(value) or Answer.no(why)."
