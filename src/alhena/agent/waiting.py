"""Runs that wait for answers: their state as JSON, and how they continue."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

import msgspec

from alhena.agent.limits import Usage
from alhena.agent.loop import Batch, WaitingCalls, answer_calls
from alhena.chat.history import import_contents
from alhena.errors import InputError
from alhena.scheduler.confirmation import require_answer, to_answer
from alhena.scheduler.question import Answer, ConfirmationRequest, Verdict
from alhena.scheduler.states import ConfirmationError, plain
from alhena.session.records import Answered, now
from alhena.tools.contract import ToolConfirmationOutcome, ToolFailure
from alhena.values import Value
from alhena.wire.content import Content, Part, ToolCallRequestInfo, encode_value

if TYPE_CHECKING:
    from alhena.agent.session import Session

VERSION = 1
"""Value of `RunState.version`. Incremented when an older program would misread a newer state."""


class EarlierUsage(Value, frozen=True, kw_only=True):
    """The model turns, seconds and usage of a run until now."""

    turns: int = 0
    seconds: float = 0.0
    usage: Usage = Usage()


class RunState(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A run that waits. `contents` is its conversation, which ends with calls; `answered` are those
    of them that have run, `requests` those that wait. `asks`: the run has to end with a value."""

    version: int
    id: str
    session_id: str
    contents: tuple[Content, ...]
    answered: tuple[Answered, ...]
    requests: tuple[ConfirmationRequest, ...]
    spent: EarlierUsage
    asks: bool = False


class _Versioned(msgspec.Struct):
    version: int


def encode_state(
    waiting: WaitingCalls,
    contents: tuple[Content, ...],
    session_id: str,
    spent: EarlierUsage,
    *,
    asks: bool,
) -> bytes:
    """The state of a run as JSON."""
    names = {
        part.function_call.id or "": part.function_call.name
        for part in contents[-1].parts
        if part.function_call is not None
    }
    answered = tuple(
        Answered(
            at=now(),
            call_id=call_id,
            name=names.get(call_id, ""),
            parts=tuple(msgspec.Raw(encode_value(part)) for part in parts),
        )
        for call_id, parts in waiting.known.items()
    )
    state = RunState(
        version=VERSION,
        id=waiting.state_id,
        session_id=session_id,
        contents=contents,
        answered=answered,
        requests=tuple(map(_without_rule, waiting.requests)),
        spent=spent,
        asks=asks,
    )
    return msgspec.json.encode(state)


def _without_rule(request: ConfirmationRequest) -> ConfirmationRequest:
    """The request without the rule that asked, which may hold a function."""
    decision = msgspec.structs.replace(request.decision, rule=None)
    bare = msgspec.structs.replace(request, decision=decision)
    return msgspec.convert(plain(bare), ConfirmationRequest)


def read_state(state: bytes) -> RunState:
    """Decodes a state. Raises InputError, and TypeError for what are no bytes."""
    if not isinstance(cast("object", state), bytes):
        raise TypeError(f"state has to be bytes, as Result.state() gives them, not {state!r:.60}")
    try:
        version = msgspec.json.decode(state, type=_Versioned).version
        if version > VERSION:
            raise InputError(
                f"the state has version {version}; this alhena reads up to {VERSION}.",
                remedy="Resume it with the version that made it, or a newer one.",
            )
        return msgspec.json.decode(state, type=RunState)
    except msgspec.MsgspecError as error:
        raise InputError(
            f"state is no state of a run: {error}.", remedy="Pass what Result.state() returned."
        ) from None


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
        calls = tuple(
            ToolCallRequestInfo(
                call_id=call.id or "", name=call.name, args=call.args or {}, prompt_id=prompt_id
            )
            for call in (part.function_call for part in state.contents[-1].parts)
            if call is not None
        )
        self._require_tools(session, calls)
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
        known = {
            each.call_id: tuple(msgspec.json.decode(raw, type=Part) for raw in each.parts)
            for each in state.answered
        }
        batch = Batch(calls=calls, known=known, answers=self._answers)
        return await answer_calls(chat, session.scheduler, session.guard, batch) or ()

    def _require_present(self, session: "Session") -> None:
        """Raises InputError where the stored conversation is not where the state left it."""
        from alhena.session.stored import StoreRecording

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

    def _require_tools(self, session: "Session", calls: tuple[ToolCallRequestInfo, ...]) -> None:
        for call in calls:
            if call.call_id not in self._answers:
                continue
            registry = session.bench.registry
            found = registry.find_call(call.name, call.args)
            if found is None and registry.find(call.name, excluded=True) is None:
                raise InputError(
                    f"the call {call.call_id!r} is one of {call.name}, which this agent does not"
                    " have.",
                    remedy="Resume the state with the tools of the agent that made it.",
                )
            args = self._answers[call.call_id].payload.args
            built = None if args is None or found is None else found[0].tool.build(args)
            if isinstance(built, ToolFailure):
                raise InputError(
                    f"the arguments in the answer to {call.call_id!r} ({call.name}) do not fit: "
                    f"{built.message}"
                )


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
        found[call_id] = answer
    return found


def _remedy(request: ConfirmationRequest) -> str:
    if ToolConfirmationOutcome.PROCEED_ONCE in request.outcomes:
        return f"Answer with one of {', '.join(request.outcomes)}."
    return f"{request.tool_name} deferred the call: give Answer.result(value) or Answer.no(why)."
