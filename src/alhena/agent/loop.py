"""The loop: ask the model, run what it calls, give it the results, until it calls nothing."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from alhena.agent.limits import TurnLimits
from alhena.agent.links import at_once
from alhena.agent.settle import settled
from alhena.chat.chat import Chat
from alhena.chat.turn import Turn
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
    limits: TurnLimits,
    parts: tuple[Part, ...],
    ids: tuple[str, str],
    step: Callable[[], Awaitable[None]] = at_once,
) -> Turn:
    """Carries a prompt to its last turn; `limits` goes on counting. `ids` are the prompt's and the
    session's. `step` is awaited before the results of tools are sent.

    Every call gets exactly one response, also when the run is cancelled, a limit is reached or a
    tool stops it: then the responses are recorded without asking the model again.
    """
    while True:
        limits.take()
        turn = await chat.send(parts, *ids)
        if not turn.calls:
            return turn
        done = await _run_calls(chat, scheduler, turn.calls)
        parts = answers(done)
        if any(call.response.error_type == ToolErrorType.STOP_EXECUTION for call in done):
            chat.record_responses(parts)
            return turn
        try:
            limits.check()
            await step()
        except BaseException:
            chat.record_responses(parts)
            raise


async def _run_calls(
    chat: Chat, scheduler: Scheduler, calls: Sequence[ToolCallRequestInfo]
) -> Sequence[CompletedToolCall]:
    """Runs a turn's calls. When cancelled, however often, ends them, records their responses, and
    goes on with the cancellation."""
    running = asyncio.ensure_future(scheduler.schedule(calls))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        scheduler.cancel_all(CANCELLED)
        try:
            await settled(running)
        finally:
            chat.record_responses(answers(running.result()))
        raise


def answers(done: Sequence[CompletedToolCall]) -> tuple[Part, ...]:
    """The parts of the user content that answers a batch."""
    return join_responses(call.response.response_parts for call in done)
