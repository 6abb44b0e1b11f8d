"""What runs do, from their first event to the last."""

import asyncio
import time
from collections.abc import Callable

from alhena.agent.channel import EventChannel
from alhena.agent.errors import REASONS
from alhena.agent.last_text import LastText
from alhena.agent.loop import run_prompt
from alhena.agent.run import ToolRun
from alhena.agent.session import Session
from alhena.chat.prompt import changed_memory
from alhena.chat.turn import Turn
from alhena.errors import AlhenaError, InterruptedRunError
from alhena.events import (
    CompressedEvent,
    ErrorEvent,
    RunFinishedEvent,
    RunStartedEvent,
    ToolCallRequestEvent,
    UserMessageEvent,
    WarningEvent,
)
from alhena.wire.calls import ToolCallRequestInfo
from alhena.wire.content import Part
from alhena.wire.text import scrub

Around = tuple[tuple[Part, ...], tuple[Part, ...]]
"""What is sent with a prompt: before its text, and behind it."""


async def drive_prompt(
    session: Session, channel: EventChannel, prompt_id: str, prompt: str, around: Around | None
) -> None:
    """Runs the prompt (or, with no `around`, the calls that the session went back to) and closes
    the event stream, whatever happens."""
    emit = channel.emit
    start = time.perf_counter()
    text = LastText()
    unsubscribe = channel.subscribe(text.feed)
    reason = "error"
    watch = session.course.watch_time()
    try:
        try:
            await session.bench.sources.gather()
        finally:
            emit(
                RunStartedEvent(
                    session_id=session.session_id,
                    model=session.model,
                    cwd=scrub(str(session.bench.workspace.cwd)),
                    tools=session.bench.registry.names,
                    notices=session.take_notices(),
                )
            )
            if around is not None:
                emit(UserMessageEvent(prompt_id=prompt_id, text=prompt))
        await session.ready()
        if around is None:
            from alhena.agent.restoring import propose

            await propose(session, (prompt_id, session.session_id))
        else:
            await _carry(session, channel, prompt_id, prompt, around)
        if watch is not None:
            watch.stop()
        await session.bench.turn_over()
        await session.settle()
        reason = "done"
    except asyncio.CancelledError:
        error = watch and watch.error
        error = error or InterruptedRunError("the run was interrupted.")
        reason = _report(channel, error)
        raise error from None
    except AlhenaError as error:
        reason = _report(channel, error)
        if error.exit_code:
            raise
    finally:
        if watch is not None:
            watch.stop()
        try:
            await _end(session, channel)
        finally:
            emit(
                RunFinishedEvent(
                    reason=reason,
                    text=text.value,
                    turns=session.limits.prompt_turns,
                    duration_ms=round((time.perf_counter() - start) * 1000, 3),
                )
            )
            unsubscribe()
            channel.close()


async def drive_call(
    channel: EventChannel, request: ToolCallRequestInfo, run: ToolRun, session: Session
) -> None:
    """Takes one call of a person's to its end, and closes the event stream."""
    channel.emit(
        ToolCallRequestEvent(
            call_id=request.call_id,
            name=request.name,
            args=request.args,
            prompt_id=request.prompt_id,
        )
    )
    try:
        await session.bench.sources.gather()
        (run.completed,) = await session.scheduler.schedule(request)
    except asyncio.CancelledError:
        raise InterruptedRunError("the call was interrupted.") from None
    finally:
        try:
            await session.bench.turn_over()
        finally:
            channel.close()


async def drive_compression(
    channel: EventChannel, take: Callable[[CompressedEvent], None], session: Session
) -> None:
    """Compresses the conversation, and closes the event stream."""
    try:
        take(await session.compress())
    except asyncio.CancelledError:
        raise InterruptedRunError("the compression was interrupted.") from None
    finally:
        channel.close()


async def _carry(
    session: Session, channel: EventChannel, prompt_id: str, prompt: str, around: Around
) -> None:
    """Takes a prompt to its end, past the hooks if there are any."""
    chat, course = session.chat, session.course
    course.new_prompt(prompt_id)
    if session.before_first is not None:
        await session.before_first()
        session.before_first = None
    changed = None if session.bench.memory is None else session.bench.memory.take_changes()
    if changed:
        around = ((changed_memory(changed), *around[0]), around[1])

    async def send(parts: tuple[Part, ...]) -> Turn:
        nonlocal around
        (before, attached), around = around, ((), ())  # they go with the prompt, not with
        parts = (*before, *parts, *attached)  # what hooks send after it
        ids = (prompt_id, session.session_id)
        return await run_prompt(chat, session.scheduler, course, parts, ids)

    if session.prompt_hooks is None:
        await send((Part(text=prompt),))
        return
    await session.prompt_hooks.carry(
        prompt,
        chat,
        send,
        lambda text: channel.emit(UserMessageEvent(prompt_id=prompt_id, text=text)),
    )


async def _end(session: Session, channel: EventChannel) -> None:
    """What is done at the end of a run, whatever has become of it."""
    try:
        await session.bench.turn_over()
    finally:
        await _flush(session, channel)


async def _flush(session: Session, channel: EventChannel) -> None:
    """Has the run written down before it ends; what keeps it from that is a warning."""
    problem = await session.flush()
    if problem is not None:
        channel.emit(WarningEvent(message=problem))


def _report(channel: EventChannel, error: AlhenaError) -> str:
    """Emits the event of an error; returns the reason it gives the run's end. What ends with
    exit code 0 was asked for."""
    if not error.exit_code:
        channel.emit(WarningEvent(message=str(error)))
        return "stopped"
    channel.emit(ErrorEvent(error_type=error.kind, message=str(error), exit_code=error.exit_code))
    return error.kind if error.kind in REASONS else "error"
