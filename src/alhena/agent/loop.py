"""The agent loop: asks the model, runs its tool calls and returns the results, within the limits of
a prompt."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from alhena.agent.limits import wants_more
from alhena.agent.run import settled
from alhena.agent.toolset.options import SessionOptions
from alhena.agent.toolset.toolset import SessionLinks
from alhena.chat.chat import Chat
from alhena.chat.turn import ChantingError, Turn
from alhena.config.settings import BudgetSettings, Settings
from alhena.models.providers.select import ChosenGenerator
from alhena.tools.contract import ToolErrorType
from alhena.wire.content import Part, ToolCallRequestInfo

if TYPE_CHECKING:
    from alhena.agent.final_answer import FinalAnswer
    from alhena.agent.limits.budget import Ledger, TimeWatch
    from alhena.agent.loops import LoopJudge, LoopWatch
    from alhena.agent.run import EventChannel
    from alhena.chat.loops import Loop
    from alhena.scheduler.scheduler import Scheduler
    from alhena.scheduler.states import CompletedToolCall
    from alhena.tools.builtin.ask_user import Ask


FINAL = "final_answer"
"""Name of the tool by which a model gives the value that a prompt asks for."""


class Course:
    """Decides between the turns of a prompt. A detected loop is first reported to the model with
    the next message; detected again in the same prompt, it ends the run, unless a person can be
    asked and chooses to continue without further warnings: then the prompt `looks` no more. Not
    `detects_loops`: no detection. `cancelled`: a person refused a call, which ended the prompt.
    `judge`, if any, asks a model now and then; `ledger`, if any, admits requests. `step` is awaited
    before tool results are sent."""

    def __init__(
        self,
        chat: Chat,
        links: SessionLinks,
        *,
        detects_loops: bool = True,
        judge: "LoopJudge | None" = None,
        ledger: "Ledger | None" = None,
    ) -> None:
        self.step = links.step
        self.judge = judge
        self.ledger = ledger
        self.final: FinalAnswer | None = None
        self.cancelled = False
        self._limits = links.turns
        self._chat = chat
        self._emit = links.emit
        self._ask = links.ask
        self._detects = detects_loops
        self.looks = detects_loops
        self._prompt_id = ""
        self._watch: LoopWatch | None = None

    def new_prompt(
        self, prompt_id: str, final: "FinalAnswer | None" = None, *, turns: int = 0
    ) -> None:
        """Resets the state for a new prompt, which may ask for a value, and has had `turns`."""
        self._limits.new_prompt(turns)
        self.final = final
        self.cancelled = False
        self._prompt_id = prompt_id
        self._watch = None
        self.looks = self._detects
        if self.judge is not None:
            self.judge.new_prompt()

    def watch_time(self) -> "TimeWatch | None":
        """Cancels the current task when the run's time limit, if any, is reached."""
        driver = asyncio.current_task()
        if self.ledger is None or not self.ledger.times or driver is None:
            return None
        from alhena.agent.limits.budget import TimeWatch

        return TimeWatch(self.ledger, driver)

    async def begin(self) -> None:
        """Checks the limits before the first turn. Raises LimitError."""
        await self._within_limits()

    def take(self) -> None:
        """Counts the start of a turn."""
        self._limits.take()

    def read_finals(self, calls: Sequence[ToolCallRequestInfo]) -> dict[str, Part]:
        """The responses, by call id, to the calls that give the value the prompt asks for."""
        found: dict[str, Part] = {}
        if self.final is None:
            return found
        for call in calls:
            if call.name == FINAL:
                found[call.call_id], event = self.final.read_call(call)
                self._emit(event)
        return found

    async def after_calls(self, done: "Sequence[CompletedToolCall]") -> tuple[Part, ...]:
        """Parts to send after the results of a turn's calls. Raises LimitError, LoopError, and what
        `step` raises: then no further turn may start."""
        note: tuple[Part, ...] = ()
        if self.looks:
            loop = self._watching().calls(done)
            if loop is None and self.judge is not None:
                loop = await self.judge.after_turn(self._prompt_id)
            if loop is not None:
                note = await self._corrected(loop)
        await self._within_limits()
        await self.step()
        return note

    async def after_chanting(self, error: "ChantingError") -> tuple[Part, ...]:
        """Parts to send after an answer that was broken off. Raises LimitError, LoopError."""
        from alhena.agent.loops import GO_ON, chanting

        note = await self._corrected(chanting(error))
        await self._within_limits()
        return note or (Part(text=GO_ON),)

    async def _within_limits(self) -> None:
        await self._limits.check()
        if self.ledger is not None:
            await self.ledger.admit(self._chat.model.name)

    async def _corrected(self, loop: "Loop") -> tuple[Part, ...]:
        """The note to the model about a loop; none if a person wants it to continue."""
        watch = self._watching()
        note = watch.correct(loop, self._prompt_id)
        if note is not None:
            return (note,)
        if self._ask is not None:
            what = f"The model seems to go in circles: {loop.detail}."
            if await wants_more(self._ask, what, "without looking for loops in this prompt"):
                self.looks = False
                watch.ignore(loop, self._prompt_id)
                return ()
        raise watch.end(loop, self._prompt_id)

    def _watching(self) -> "LoopWatch":
        if self._watch is None:
            from alhena.agent.loops import LoopWatch

            self._watch = LoopWatch(self._emit)
        return self._watch


def open_course(
    settings: Settings,
    chat: Chat,
    links: SessionLinks,
    ledger: "Ledger | None",
) -> Course:
    """Applies the limits and loop detection of a session."""
    looks = not settings.model.disable_loop_detection
    judge = None
    if looks and settings.model.loop_check_turns > 0:
        from alhena.agent.loops import LoopJudge

        judge = LoopJudge(chat, links, settings.model.loop_check_turns)
    return Course(chat, links, detects_loops=looks, judge=judge, ledger=ledger)


def within_budget(
    given: SessionOptions,
    settings: Settings,
    chosen: ChosenGenerator,
    ask: "Ask | None",
    channel: "EventChannel",
) -> "tuple[ChosenGenerator, Ask | None, Ledger | None]":
    """Wraps the generator and the confirmation callback so that the budget holds; imports nothing
    without a budget. Raises ConfigError for limits that cannot be enforced and for invalid
    prices."""
    set_by = settings.model.budget
    budget = BudgetSettings(
        max_tokens=set_by.max_tokens if given.max_tokens is None else given.max_tokens,
        max_seconds=set_by.max_seconds if given.max_seconds is None else given.max_seconds,
        max_cost=set_by.max_cost if given.max_cost is None else given.max_cost,
    )
    own = settings.model.prices
    if budget == BudgetSettings() and not own:
        return chosen, ask, None
    from alhena.models.prices import Prices

    prices = Prices(own)
    if budget == BudgetSettings():
        return chosen, ask, None
    from alhena.agent.limits.budget import Ledger, budgeted

    ledger = Ledger(budget, prices, ask, spent=given.spent)
    ledger.require_price(chosen.model)
    channel.subscribe(ledger.feed)
    generator = budgeted(chosen.generator, ledger)
    kept = msgspec.structs.replace(chosen, generator=generator)
    return kept, None if ask is None else ledger.untimed(ask), ledger


CANCELLED = "the run was interrupted"


async def run_prompt(
    chat: Chat,
    scheduler: "Callable[[], Scheduler]",
    course: Course,
    parts: tuple[Part, ...],
    ids: tuple[str, str],
) -> Turn:
    """Runs a prompt to its last turn, as far as `course` allows. `ids`: ids of the prompt and the
    session. Every call gets exactly one response, also if the run is cancelled, a limit is reached,
    a person refuses a call or a tool stops it: the responses are then recorded without asking the
    model again."""
    await course.begin()
    adapt = None if course.final is None else course.final.adapted
    while True:
        course.take()
        try:
            turn = await chat.send(parts, *ids, adapt=adapt, hears_chanting=course.looks)
        except ChantingError as error:
            parts = await course.after_chanting(error)
            continue
        if not turn.calls:
            correction = None if course.final is None else course.final.read_text(turn.text)
            if correction is None:
                return turn
            await course.begin()
            parts = (correction,)
            continue
        finals = course.read_finals(turn.calls)
        others = [call for call in turn.calls if call.call_id not in finals]
        known = tuple(finals.values())
        done = await run_calls(chat, scheduler(), others, known) if others else ()
        parts = (*answers(done), *known)
        if course.final is not None and course.final.over:
            chat.record_responses(parts)
            course.final.finish(chat)
            return turn
        course.cancelled = any(call.ends_turn for call in done)
        if course.cancelled or any(map(_stops, done)):
            chat.record_responses(parts)
            return turn
        try:
            parts = (*parts, *await course.after_calls(done))
        except BaseException:
            chat.record_responses(parts)
            raise


def _stops(call: "CompletedToolCall") -> bool:
    """True if the call ended the run."""
    return call.response.error_type == ToolErrorType.STOP_EXECUTION


async def run_calls(
    chat: Chat,
    scheduler: "Scheduler",
    calls: Sequence[ToolCallRequestInfo],
    known: tuple[Part, ...] = (),
) -> "Sequence[CompletedToolCall]":
    """Runs a turn's calls. On cancellation, even repeated, ends them, records their responses after
    those already `known`, and raises CancelledError."""
    running = asyncio.ensure_future(scheduler.schedule(calls))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        scheduler.cancel_all(CANCELLED)
        try:
            await settled(running)
        finally:
            chat.record_responses((*known, *answers(running.result())))
        raise


def answers(done: "Sequence[CompletedToolCall]") -> tuple[Part, ...]:
    """The parts of the user content that responds to a batch."""
    from alhena.tools.response import join_responses

    return join_responses(call.response.response_parts for call in done)
