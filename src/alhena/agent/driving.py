"""Drives runs, from the first event to the last."""

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from alhena.agent.limits.errors import REASONS
from alhena.agent.loop import run_prompt
from alhena.agent.run import EventChannel, ToolRun
from alhena.agent.session import Session
from alhena.chat.prompt import changed_memory
from alhena.chat.turn import Turn
from alhena.errors import AlhenaError, InterruptedRunError
from alhena.events import (
    ApiRequestEvent,
    ApiResponseEvent,
    CompressedEvent,
    ContentEvent,
    ErrorEvent,
    Event,
    ModelFallbackEvent,
    RetryEvent,
    RunFinishedEvent,
    RunStartedEvent,
    ToolCallRequestEvent,
    UserMessageEvent,
    WarningEvent,
)
from alhena.wire.calls import ToolCallRequestInfo
from alhena.wire.content import USER, Part
from alhena.wire.json_values import scrub

if TYPE_CHECKING:
    from alhena.agent.final_answer import FinalAnswer


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt: its text, the parts sent before and after it, and the value it asks for, if any."""

    text: str
    before: tuple[Part, ...] = ()
    attached: tuple[Part, ...] = ()
    final: "FinalAnswer | None" = None


class LastTurn:
    """Collects from the events the text of a run's last model turn and its finish reason. Retracted
    text is left out."""

    def __init__(self) -> None:
        self.text = self.finish_reason = ""

    def feed(self, event: Event) -> None:
        """Processes an event; a request of the session's own model begins a new turn."""
        match event:
            case ContentEvent():
                self.text += event.text
            case ApiRequestEvent() if event.role == "main":
                self.text = self.finish_reason = ""
            case ApiResponseEvent() if event.role == "main":
                self.finish_reason = event.finish_reason
            case RetryEvent() | ModelFallbackEvent() if event.retract:
                self.text = ""
            case _:
                pass


async def drive_prompt(
    session: Session, channel: EventChannel, prompt_id: str, prompt: Prompt | None
) -> None:
    """Runs the prompt (or, without one, the calls proposed after a restore) and always closes the
    event stream."""
    emit = channel.emit
    start = time.perf_counter()
    last = LastTurn()
    unsubscribe = channel.subscribe(last.feed)
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
            proceeds, session.proceeds = session.proceeds and prompt is not None, False
            if prompt is not None and not proceeds:
                emit(UserMessageEvent(prompt_id=prompt_id, text=prompt.text))
        await session.ready()
        if prompt is None:
            from alhena.agent.restoring import propose

            await propose(session, (prompt_id, session.session_id))
        else:
            await (_proceed if proceeds else _carry)(session, channel, prompt_id, prompt)
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
                    text=last.text,
                    turns=session.limits.prompt_turns,
                    duration_ms=round((time.perf_counter() - start) * 1000, 3),
                    finish_reason=last.finish_reason,
                )
            )
            unsubscribe()
            channel.close()


async def drive_call(
    channel: EventChannel, request: ToolCallRequestInfo, run: ToolRun, session: Session
) -> None:
    """Runs one call made by a person and closes the event stream."""
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
        (run.completed,) = await session.scheduler().schedule(request)
    except asyncio.CancelledError:
        raise InterruptedRunError("the call was interrupted.") from None
    finally:
        try:
            await session.bench.turn_over()
        finally:
            channel.close()


async def drive_start(channel: EventChannel, session: Session) -> None:
    """Fires the SessionStart hooks and closes the event stream."""
    try:
        if session.prompt_hooks is not None:
            await session.prompt_hooks.start()
    except asyncio.CancelledError:
        raise InterruptedRunError("the SessionStart hooks were interrupted.") from None
    finally:
        channel.close()


async def drive_compression(
    take: Callable[[CompressedEvent], None], channel: EventChannel, session: Session
) -> None:
    """Compresses the conversation and closes the event stream."""
    try:
        take(await session.compress())
    except asyncio.CancelledError:
        raise InterruptedRunError("the compression was interrupted.") from None
    finally:
        channel.close()


async def _carry(session: Session, channel: EventChannel, prompt_id: str, prompt: Prompt) -> None:
    """Runs a prompt to its end, with its hooks, if any."""
    chat, course = session.chat, session.course
    if prompt.final is not None:
        prompt.final.by_tool = not session.chosen.speaks_gemini
    course.new_prompt(prompt_id, prompt.final)
    around = (prompt.before, prompt.attached)
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
        await send((Part(text=prompt.text),))
        return

    def announce(text: str) -> None:
        said = f"an AfterAgent hook blocked the answer; its reason is the next prompt: {text}"
        channel.emit(WarningEvent(message=said))
        channel.emit(UserMessageEvent(prompt_id=prompt_id, text=text))

    await session.prompt_hooks.carry(prompt.text, chat, send, announce)


async def _proceed(session: Session, channel: EventChannel, prompt_id: str, prompt: Prompt) -> None:
    """Continues a prompt at the step where its journal ends: what was sent last without an answer
    is sent again; an answer that ends the prompt is told again."""
    chat, course = session.chat, session.course
    if prompt.final is not None:
        prompt.final.by_tool = not session.chosen.speaks_gemini
    said = chat.history.contents[session.recording.opening if session.recording else 0 :]
    turns = sum(entry.content.role != USER for entry in said)
    course.new_prompt(prompt_id, prompt.final, turns=turns)
    last = chat.history.contents[-1].content
    parts = last.parts
    if last.role == USER:
        chat.history.rollback(len(chat.history) - 1)
    else:
        text = "".join(part.text or "" for part in parts if not part.thought)
        correction = None if prompt.final is None else prompt.final.read_text(text)
        if correction is None:
            channel.emit(ContentEvent(text=text))
            return
        parts = (correction,)
    await run_prompt(chat, session.scheduler, course, parts, (prompt_id, session.session_id))


async def _end(session: Session, channel: EventChannel) -> None:
    """Ends a run, whatever its outcome."""
    try:
        await session.bench.turn_over()
    finally:
        await _flush(session, channel)


async def _flush(session: Session, channel: EventChannel) -> None:
    """Writes the run to disk before it ends; a failure becomes a warning."""
    problem = await session.flush()
    if problem is not None:
        channel.emit(WarningEvent(message=problem))


def _report(channel: EventChannel, error: AlhenaError) -> str:
    """Emits the event of an error; returns the reason it gives the run's end. What ends with
    exit code 0 was asked for by a hook."""
    if not error.exit_code:
        from alhena.hooks.model import HookBlockedError

        channel.emit(WarningEvent(message=str(error)))
        return "blocked" if isinstance(error, HookBlockedError) else "stopped"
    channel.emit(ErrorEvent(error_type=error.kind, message=str(error), exit_code=error.exit_code))
    return error.kind if error.kind in REASONS else "error"
