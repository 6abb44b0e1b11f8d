"""The agent loop of sessions and subagents: asks the model, runs its tool calls and returns the
results, within the limits of a prompt."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

import msgspec

from alhena.agent.limits import read_limits, wants_more
from alhena.agent.toolset.options import SessionSpec
from alhena.agent.toolset.toolset import SessionLinks, at_once
from alhena.chat.chat import Chat
from alhena.chat.turn import AnswerCollector, ChantingError
from alhena.config.settings import Settings
from alhena.events import ContentEvent, Event, ToolCallResponseEvent
from alhena.models.providers.select import ChosenGenerator
from alhena.threads import wait_until_done
from alhena.tools.contract import ToolErrorType
from alhena.values import Value
from alhena.wire.content import MODEL, Part, ToolCallRequestInfo, text_content

if TYPE_CHECKING:
    from alhena.agent.final_answer import FinalAnswer
    from alhena.agent.limits.budget import Ledger
    from alhena.agent.loops import CompletionJudge, LoopJudge, LoopWatch
    from alhena.agent.run import EventChannel
    from alhena.agent.subagents.state import AgentState, Resumption
    from alhena.chat.chat import Adapt
    from alhena.chat.loops import Loop
    from alhena.models.settings import ModelSettings
    from alhena.scheduler.question import Answer, ConfirmationRequest
    from alhena.scheduler.scheduler import Scheduler
    from alhena.scheduler.states import CompletedToolCall
    from alhena.tools.builtin.ask_user import Ask
    from alhena.wire.request import GenerateContentConfig


class TurnLimit(Protocol):
    """A limit of model turns."""

    async def check(self) -> None:
        """Returns when a further turn may start. Raises an AlhenaError when none may."""
        ...

    def take(self) -> None:
        """Counts a turn about to start, after `check`."""
        ...


class LoopGuard:
    """Detects loops between the turns of a prompt. A loop is first reported to the model with the
    next message. Detected again in the same prompt, it ends the run, unless a person can be asked
    and chooses to continue without further warnings: then the prompt `looks` no more. Not
    `enabled`: no detection. `judge`, if any, asks a model now and then; `completion_judge`, if any,
    says whether an answer without calls is complete."""

    def __init__(
        self,
        emit: Callable[[Event], None],
        *,
        enabled: bool = True,
        judge: "LoopJudge | None" = None,
        ask: "Ask | None" = None,
        role: str = "main",
        completion_judge: "CompletionJudge | None" = None,
    ) -> None:
        self.judge = judge
        self.completion_judge = completion_judge
        self.looks = enabled
        self.last: Loop | None = None
        self._emit = emit
        self._enabled = enabled
        self._ask = ask
        self._role = role
        self._prompt_id = ""
        self._watch: LoopWatch | None = None

    def new_prompt(self, prompt_id: str) -> None:
        """Resets the state for a prompt."""
        self._prompt_id = prompt_id
        self._watch = self.last = None
        self.looks = self._enabled
        if self.judge is not None:
            self.judge.new_prompt()

    async def check_calls(self, done: "Sequence[CompletedToolCall]") -> tuple[Part, ...]:
        """The note to the model about a loop that a turn's calls complete. Raises LoopError."""
        if not self.looks:
            return ()
        loop = self._open_watch().calls(done)
        if loop is None and self.judge is not None:
            loop = await self.judge.after_turn(self._prompt_id)
        return () if loop is None else await self._correct(loop)

    async def check_chanting(self, error: ChantingError) -> tuple[Part, ...]:
        """The note to the model about an answer that was broken off. Raises LoopError."""
        from alhena.agent.loops import GO_ON, describe_chanting

        return await self._correct(describe_chanting(error)) or (Part(text=GO_ON),)

    async def _correct(self, loop: "Loop") -> tuple[Part, ...]:
        """The note to the model about a loop; none if a person wants it to continue."""
        self.last = loop
        watch = self._open_watch()
        note = watch.correct(loop, self._prompt_id)
        if note is not None:
            return (note,)
        if self._ask is not None:
            what = f"The model repeats itself ({loop.detail})."
            if await wants_more(self._ask, what, "without looking for loops in this prompt"):
                self.looks = False
                watch.ignore(loop, self._prompt_id)
                return ()
        raise watch.end(loop, self._prompt_id)

    def _open_watch(self) -> "LoopWatch":
        if self._watch is None:
            from alhena.agent.loops import LoopWatch

            self._watch = LoopWatch(self._emit, self._role)
        return self._watch


class WaitingCalls(Value, frozen=True, kw_only=True):
    """The calls of a turn that wait for answers, and the response parts of its others by call
    id. `state_id` is the id of the run's state, `agents` are the subagents whose calls wait, by the
    call that runs them."""

    state_id: str
    requests: "tuple[ConfirmationRequest, ...]"
    known: "Mapping[str, tuple[Part, ...]]"
    agents: "Mapping[str, AgentState]" = MappingProxyType({})

    @property
    def calls(self) -> dict[str, str]:
        """The names of the calls by id; "" for those of subagents that wait."""
        named = {each.call_id: each.tool_name for each in self.requests}
        return named | dict.fromkeys(self.agents, "")


class TurnGuard:
    """The checks between the turns of a prompt, in a session and in a subagent alike.

    `limits` are checked before each turn, `loops` after it, and `step` is awaited before tool
    results are sent, with the texts that it returns. `final`: the value the prompt has to end with.
    `ended_by`: the call that ended the prompt; `waiting`: those that wait for answers; `handed`:
    the one whose subagent took over. `said`: the texts of the model. With
    `numbered` each turn has its own prompt id.
    """

    def __init__(
        self,
        limits: Sequence[TurnLimit],
        loops: LoopGuard,
        emit: Callable[[Event], None],
        *,
        session_id: str = "",
        step: Callable[[], Awaitable[Sequence[str] | None]] = at_once,
        numbered: bool = False,
    ) -> None:
        self.loops = loops
        self.final: FinalAnswer | None = None
        self.ended_by: CompletedToolCall | None = None
        self.waiting: WaitingCalls | None = None
        self.handed: CompletedToolCall | None = None
        self.said: list[str] = []
        self.turns = 0
        self._settings: ModelSettings | None = None
        self._limits = tuple(limits)
        self.emit = emit
        self._session_id = session_id
        self._step = step
        self._numbered = numbered
        self._prompt_id = ""

    def new_prompt(
        self,
        prompt_id: str,
        final: "FinalAnswer | None" = None,
        settings: "ModelSettings | None" = None,
        earlier: "AgentState | None" = None,
    ) -> None:
        """Resets the state for a new prompt, which may ask for a value and have settings. It counts
        on from `earlier`, where it waited."""
        self.final, self.ended_by, self._settings = final, None, settings
        self.waiting = self.handed = None
        self.turns = 0 if earlier is None else earlier.turns
        self.said[:] = () if earlier is None else earlier.said
        self._prompt_id = prompt_id
        self.loops.new_prompt(prompt_id)

    @property
    def words(self) -> str:
        """The last text of the model."""
        return self.said[-1] if self.said else ""

    @property
    def reason(self) -> str:
        """The reason of a prompt's end in good order: "cancelled" when a person refused a call,
        which ended it, "pending" when calls wait for answers, "done"."""
        given = self.final is not None and self.final.given
        if self.ended_by is not None and self.ended_by.ends_turn and not given:
            return "cancelled"
        return "pending" if self.waiting else "done"

    async def admit(self) -> None:
        """Returns when a further turn may start. Raises LimitError and what a limit raises."""
        for limit in self._limits:
            await limit.check()

    async def send(self, chat: Chat, parts: tuple[Part, ...]) -> AnswerCollector:
        """Runs a model turn, which counts. Raises what `Chat.send` raises."""
        for limit in self._limits:
            limit.take()
        self.turns += 1
        prompt_id = f"{self._prompt_id}#{self.turns}" if self._numbered else self._prompt_id
        adapt = self._find_adaptation(chat)
        hears = self.loops.looks
        turn = await chat.send(
            parts, prompt_id, self._session_id, adapt=adapt, hears_chanting=hears
        )
        if text := turn.text.strip():
            self.said.append(text)
        return turn

    def _find_adaptation(self, chat: Chat) -> "Adapt | None":
        """The change of the settings of requests by the prompt, if it has any."""
        final, settings = self.final, self._settings
        if settings is None:
            return None if final is None else final.adapt_config

        def adapt(config: "GenerateContentConfig") -> "GenerateContentConfig":
            config = settings.apply(config, chat.model.name)
            return config if final is None else final.adapt_config(config)

        return adapt

    def read_text(self, text: str) -> Part | None:
        """The correction of an answer that is not the value; None ends the prompt. Raises
        OutputError."""
        return None if self.final is None else self.final.read_text(text)

    async def read_finals(self, calls: Sequence[ToolCallRequestInfo]) -> dict[str, Part]:
        """The responses, by call id, to the calls that give the value the prompt asks for."""
        found: dict[str, Part] = {}
        if self.final is not None:
            for call in calls:
                if self.final.takes(call.name):
                    found[call.call_id], event = await self.final.read_call(call)
                    self.emit(event)
        return found

    def must_wait(self, done: "Sequence[CompletedToolCall]", batch: "Batch") -> bool:
        """True when calls wait for answers, so that the prompt ends for now: `waiting` has them."""
        pending = {each.response.call_id: each.pending for each in done if each.pending is not None}
        requests = tuple(request for each in pending.values() for request in each.requests)
        end = find_end(done)
        stops = end is not None and end.response.error_type == ToolErrorType.STOP_EXECUTION
        if not requests or stops:
            return False
        ran = {
            each.response.call_id: each.response.response_parts
            for each in done
            if each.pending is None
        }
        state_id = os.urandom(12).hex()
        self.waiting = WaitingCalls(
            state_id=state_id,
            requests=requests,
            known=dict(batch.known) | ran,
            agents={key: each.state for key, each in pending.items() if each.state is not None},
        )
        return True

    def is_over(self, done: "Sequence[CompletedToolCall]") -> bool:
        """True when one of a turn's calls ends the prompt, or its value is settled."""
        self.ended_by = find_end(done)
        self.handed = find_handoff(done)
        if self.handed is not None:
            return True
        return self.ended_by is not None or (self.final is not None and self.final.over)

    def finish(self, chat: Chat) -> None:
        """Ends the conversation with the value, or the answer of the agent that took over, if there
        is one. Raises OutputError."""
        if self.handed is not None:
            text = str(self.handed.response.result_display or "")
            chat.history.add_model(text_content(MODEL, text))
            self.emit(ContentEvent(text=text))
            return
        if self.final is not None and self.final.over:
            self.final.finish(chat)

    async def check_calls(self, done: "Sequence[CompletedToolCall]") -> tuple[Part, ...]:
        """Parts to send after the results of a turn's calls. Raises LimitError, LoopError, and what
        `step` raises: then no further turn may start."""
        note = await self.loops.check_calls(done)
        await self.admit()
        said = await self._step() or ()
        return (*note, *(Part(text=f"{MEANWHILE}{text}") for text in said))

    async def check_chanting(self, error: ChantingError) -> tuple[Part, ...]:
        """Parts to send after an answer that was broken off. Raises LimitError, LoopError."""
        note = await self.loops.check_chanting(error)
        await self.admit()
        return note


def open_guard(
    settings: Settings,
    chat: Chat,
    links: SessionLinks,
    interject: Callable[[], Sequence[str]] | None = None,
) -> TurnGuard:
    """The checks of a session: its limits and its loop detection. `interject` as in `People`."""
    looks = not settings.model.disable_loop_detection
    judge = None
    if looks and settings.model.loop_check_turns > 0:
        from alhena.agent.loops import LoopJudge

        judge = LoopJudge(chat, links, settings.model.loop_check_turns)
    completion_judge = None
    if not settings.model.skip_next_speaker_check:
        from alhena.agent.loops import CompletionJudge

        completion_judge = CompletionJudge(chat, links)
    loops = LoopGuard(
        links.emit, enabled=looks, judge=judge, ask=links.ask, completion_judge=completion_judge
    )

    async def step() -> Sequence[str]:
        await links.step()
        return () if interject is None else interject()

    return TurnGuard((links.turns,), loops, links.emit, session_id=links.session_id, step=step)


def within_budget(
    spec: SessionSpec,
    settings: Settings,
    chosen: ChosenGenerator,
    ask: "Ask | None",
    channel: "EventChannel",
) -> "tuple[ChosenGenerator, Ask | None, Ledger | None]":
    """Wraps the generator and the confirmation callback so that the budget holds; imports nothing
    without a budget. Raises ConfigError for limits that cannot be enforced and for invalid
    prices."""
    limits = read_limits(spec.limits, settings.model.budget)
    unlimited = limits.tokens is limits.seconds is limits.cost is None
    own = settings.model.prices
    if unlimited and not own:
        return chosen, ask, None
    from alhena.models.prices import Prices

    prices = Prices(own)
    if unlimited:
        return chosen, ask, None
    from alhena.agent.limits.budget import Ledger, limit_generator

    ledger = Ledger(limits, prices, ask, spent=spec.record.spent)
    ledger.require_price(chosen.model)
    channel.subscribe(ledger.feed)
    generator = limit_generator(chosen.generator, ledger)
    kept = msgspec.structs.replace(chosen, generator=generator)
    return kept, None if ask is None else ledger.exclude_time(ask), ledger


MEANWHILE = "The user says, while you work: "
"""The beginning of a part with what a person said between two requests."""
CANCELLED = "the run was interrupted"
NOT_ANSWERED = "This call did not run: the turn ended before it was approved."


async def run_prompt(
    chat: Chat,
    scheduler: "Callable[[], Scheduler]",
    guard: TurnGuard,
    parts: tuple[Part, ...],
) -> AnswerCollector:
    """Runs a prompt to its last turn, as far as `guard` allows. Every call gets exactly one
    response, also if the run is cancelled, a limit is reached, a person refuses a call or a tool
    stops it: the responses are then recorded without asking the model again."""
    await guard.admit()
    while True:
        try:
            turn = await guard.send(chat, parts)
        except ChantingError as error:
            parts = await guard.check_chanting(error)
            continue
        if not turn.calls:
            correction = guard.read_text(turn.text)
            if correction is None and guard.loops.completion_judge is not None:
                correction = await guard.loops.completion_judge.continuation()
            if correction is None:
                return turn
            await guard.admit()
            parts = (correction,)
            continue
        results = await answer_calls(chat, scheduler, guard, Batch(calls=tuple(turn.calls)))
        if results is None:
            return turn
        parts = results


class Batch(Value, frozen=True, kw_only=True):
    """The calls of a turn. `known`: the response parts of those that have run, by call id;
    `answers`: what was answered to those that waited, `earlier`: the states from which those that
    ran in part continue."""

    calls: tuple[ToolCallRequestInfo, ...]
    known: Mapping[str, tuple[Part, ...]] = MappingProxyType({})
    answers: "Mapping[str, Answer]" = MappingProxyType({})
    earlier: "Mapping[str, Resumption]" = MappingProxyType({})


async def answer_calls(
    chat: Chat, scheduler: "Callable[[], Scheduler]", guard: TurnGuard, batch: Batch
) -> tuple[Part, ...] | None:
    """Runs the calls that have no response yet. Returns the parts to send next; None when the
    prompt is over, or waits for answers. Raises what `TurnGuard.check_calls` and `finish` raise;
    every call has its response then."""
    waiting = [call for call in batch.calls if call.call_id not in batch.known]
    known = [batch.known[each.call_id] for each in batch.calls if each.call_id in batch.known]
    try:
        finals = await guard.read_finals(waiting)
    except BaseException:  # a function of the program, which was asked for the value
        chat.record_responses((*join_parts(known), *cancel_calls(waiting, guard.emit)))
        raise
    others = [call for call in waiting if call.call_id not in finals]
    ends = tuple(finals.values())
    done: Sequence[CompletedToolCall] = ()
    if others:
        told = (*join_parts(known), *ends)
        done = await run_calls(chat, scheduler(), others, told, batch)
    if guard.must_wait(done, batch):
        return None
    results = dict(batch.known) | {each.response.call_id: parts_of(each) for each in done}
    ordered = (results[each.call_id] for each in batch.calls if each.call_id in results)
    parts = (*join_parts(ordered), *ends)
    if guard.is_over(done):
        chat.record_responses(parts)
        guard.finish(chat)
        return None
    try:
        return (*parts, *await guard.check_calls(done))
    except BaseException:
        chat.record_responses(parts)
        raise


def cancel_calls(
    calls: Sequence[ToolCallRequestInfo], emit: Callable[[Event], None]
) -> tuple[Part, ...]:
    """Ends the calls of a turn none of which has its response; returns their responses."""
    from alhena.tools.response import error_parts

    for call in calls:
        emit(
            ToolCallResponseEvent(
                call_id=call.call_id, name=call.name, status="cancelled", error=CANCELLED
            )
        )
    return tuple(part for c in calls for part in error_parts(c.answered_name, c.call_id, CANCELLED))


def read_stop(ended_by: "CompletedToolCall | None") -> str:
    """The words of a hook that stopped the prompt at this call; "" if none did."""
    response = None if ended_by is None else ended_by.response
    stops = response is not None and response.error_type == ToolErrorType.STOP_EXECUTION
    return response.error or "" if response is not None and stops else ""


def find_end(done: "Sequence[CompletedToolCall]") -> "CompletedToolCall | None":
    """The call that ended the prompt: one that a person refused, or that stopped the run."""
    refused = (call for call in done if call.ends_turn)
    stopped = (call for call in done if call.response.error_type == ToolErrorType.STOP_EXECUTION)
    return next(refused, None) or next(stopped, None)


HANDOFF = "handoff"
"""Key in the data of a call: the answer of its subagent ends the run."""


def find_handoff(done: "Sequence[CompletedToolCall]") -> "CompletedToolCall | None":
    """The call whose subagent took over, if one did."""
    return next((call for call in done if (call.response.data or {}).get(HANDOFF)), None)


async def run_calls(
    chat: Chat,
    scheduler: "Scheduler",
    calls: Sequence[ToolCallRequestInfo],
    known: tuple[Part, ...] = (),
    batch: Batch | None = None,
) -> "Sequence[CompletedToolCall]":
    """Runs a turn's calls, some with the answers of their `batch`. On cancellation, even repeated,
    ends them, records their responses after those already `known`, and raises CancelledError."""
    batch = batch or Batch(calls=tuple(calls))
    running = asyncio.ensure_future(scheduler.schedule(calls, batch.answers, batch.earlier))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        scheduler.cancel_all(CANCELLED)
        try:
            await wait_until_done(running)
        finally:
            chat.record_responses((*known, *join_answers(running.result())))
        raise


def join_answers(done: "Sequence[CompletedToolCall]") -> tuple[Part, ...]:
    """The parts of the user content that responds to a batch."""
    return join_parts(map(parts_of, done))


def join_parts(responses: "Iterable[Sequence[Part]]") -> tuple[Part, ...]:
    """The parts of the user content that has the responses of several calls."""
    from alhena.tools.response import join_responses

    return join_responses(responses)


def parts_of(call: "CompletedToolCall") -> tuple[Part, ...]:
    """The response of a call; of one that waits, that it did not run."""
    response = call.response
    if call.pending is None:
        return response.response_parts
    from alhena.tools.response import error_parts

    return error_parts(call.request.name, call.request.call_id, NOT_ANSWERED)
