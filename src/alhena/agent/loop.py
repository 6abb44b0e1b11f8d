"""The loop: ask the model, run what it calls, give it the results, until it calls nothing."""

import asyncio
from collections.abc import Sequence

from alhena.agent.course import Course
from alhena.agent.settle import settled
from alhena.chat.chat import Chat
from alhena.chat.turn import ChantingError, Turn
from alhena.scheduler.scheduler import Scheduler
from alhena.scheduler.states import CompletedToolCall
from alhena.tools.contract import ToolErrorType
from alhena.tools.response import join_responses
from alhena.wire.calls import ToolCallRequestInfo
from alhena.wire.content import Part

CANCELLED = "the run was interrupted"


async def run_prompt(
    chat: Chat,
    scheduler: Scheduler,
    course: Course,
    parts: tuple[Part, ...],
    ids: tuple[str, str],
) -> Turn:
    """Carries a prompt to its last turn, as far as `course` lets it. `ids` are the prompt's and the
    session's.

    Every call gets exactly one response, also when the run is cancelled, a limit is reached or a
    tool stops it: then the responses are recorded without asking the model again.
    """
    await course.begin()
    while True:
        course.take()
        try:
            turn = await chat.send(parts, *ids)
        except ChantingError as error:
            parts = await course.after_chanting(error)
            continue
        if not turn.calls:
            return turn
        done = await run_calls(chat, scheduler, turn.calls)
        parts = answers(done)
        if any(call.response.error_type == ToolErrorType.STOP_EXECUTION for call in done):
            chat.record_responses(parts)
            return turn
        try:
            parts = (*parts, *await course.after_calls(done))
        except BaseException:
            chat.record_responses(parts)
            raise


async def run_calls(
    chat: Chat,
    scheduler: Scheduler,
    calls: Sequence[ToolCallRequestInfo],
    known: tuple[Part, ...] = (),
) -> Sequence[CompletedToolCall]:
    """Runs a turn's calls. When cancelled, however often, ends them, records their responses behind
    those that are `known`, and goes on with the cancellation."""
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


def answers(done: Sequence[CompletedToolCall]) -> tuple[Part, ...]:
    """The parts of the user content that answers a batch."""
    return join_responses(call.response.response_parts for call in done)
