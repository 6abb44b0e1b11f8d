"""Runs prompts, tool calls and compression in a session, one at a time."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self
from weakref import ref

import msgspec
from msgspec.structs import replace

from alhena.agent.chat import SessionModels
from alhena.agent.limits import REASONS, BusyError
from alhena.agent.loop import read_stop, run_prompt
from alhena.agent.run import (
    EventChannel,
    EventStream,
    LastTurn,
    ToolRun,
    Work,
    cancel_driver,
)
from alhena.agent.session import Session
from alhena.agent.session_factory import open_session
from alhena.agent.toolset.options import SessionSpec
from alhena.agent.toolset.toolset import Toolset
from alhena.chat.prompt import memory_change_part, plan_mode_part
from alhena.chat.turn import AnswerCollector
from alhena.errors import AlhenaError, InputError, InterruptedRunError
from alhena.events import (
    ContentEvent,
    ErrorEvent,
    Event,
    RunFinishedEvent,
    RunStartedEvent,
    ToolCallRequestEvent,
    UserMessageEvent,
    WarningEvent,
)
from alhena.models.catalogue import is_foreign_model
from alhena.threads import run_to_end
from alhena.wire.content import USER, Content, Part, ToolCallRequestInfo
from alhena.wire.json_values import scrub

if TYPE_CHECKING:
    from alhena.agent.final_answer import FinalAnswer
    from alhena.agent.limits.budget import TimeWatch
    from alhena.agent.restoring import AgentCheckpoints
    from alhena.agent.waiting import WaitingRun
    from alhena.models.generator import ContentGenerator
    from alhena.models.settings import ModelSettings
    from alhena.scheduler.states import CompletedToolCall


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt: its text, the parts sent before and after it, and the value it asks for, if any;
    one that `resumes` continues a run that waited. `within` are parts that stand in the text, each
    with the number of characters before it. `model` answers it, with `settings`; `instruct` makes
    the system instruction of its run, if the program has a function for it."""

    text: str
    within: tuple[tuple[int, Part], ...] = ()
    before: tuple[Part, ...] = ()
    attached: tuple[Part, ...] = ()
    final: "FinalAnswer | None" = None
    resumes: "WaitingRun | None" = None
    model: "str | ContentGenerator | None" = None
    settings: "ModelSettings | None" = None
    instruct: "Instruct | None" = None


Instruct = Callable[[str], Awaitable[str]]
"""Makes the system instruction of a run for its prompt."""


def watch_time(session: Session, resumes: "WaitingRun | None" = None) -> "TimeWatch | None":
    """Cancels the current task when the run's time limit, if any, is reached; a run that is resumed
    has taken some of it before."""
    ledger = session.access.ledger
    if resumes is not None:
        resumes.count_earlier(session)
    driver = asyncio.current_task()
    if ledger is None or not ledger.times or driver is None:
        return None
    from alhena.agent.limits.budget import TimeWatch

    return TimeWatch(ledger, driver)


async def drive_prompt(
    session: Session,
    channel: EventChannel,
    prompt_id: str,
    prompt: Prompt | None,
    listen: "Listen | None" = None,
) -> None:
    """Runs the prompt (or, without one, the calls proposed after a restore) and always closes the
    event stream."""
    start = time.perf_counter()
    last = LastTurn()
    listeners = [last.feed] if listen is None else [listen(session), last.feed]
    leave = [channel.subscribe(listener) for listener in listeners]
    reason = "error"
    watch = watch_time(session, None if prompt is None else prompt.resumes)
    try:
        proceeds = await _start(session, channel, prompt_id, prompt)
        await session.ready()
        if prompt is not None and prompt.instruct is not None:
            session.instruct(await prompt.instruct(prompt.text))
        if prompt is None:
            from alhena.agent.restoring import propose

            await propose(session, prompt_id)
        else:
            parts = await _first_parts(session, channel, prompt_id, prompt, proceeds=proceeds)
            while parts:
                turn = await run_prompt(session.chat, session.scheduler, session.guard, parts)
                ends = proceeds or session.guard.waiting
                parts = () if ends else await _ask_hooks(session, channel, prompt_id, turn)
        if watch is not None:
            watch.stop()
        await session.checkpoints.turn_over()
        await session.settle()
        reason = _find_reason(session, channel)
    except asyncio.CancelledError:
        error = watch and watch.error
        error = error or InterruptedRunError("the run was interrupted.")
        reason = _emit_error(channel, error)
        raise error from None
    except AlhenaError as error:
        reason = _emit_error(channel, error)
        if error.exit_code:
            raise
    finally:
        if watch is not None:
            watch.stop()
        try:
            await _end(session, channel)
        finally:
            channel.emit(
                RunFinishedEvent(
                    reason=reason,
                    text=last.text,
                    turns=session.limits.prompt_turns,
                    duration_ms=round((time.perf_counter() - start) * 1000, 3),
                    finish_reason=last.finish_reason,
                )
            )
            for end in leave:
                end()
            channel.close()


async def _first_parts(
    session: Session, channel: EventChannel, prompt_id: str, prompt: Prompt, *, proceeds: bool
) -> tuple[Part, ...]:
    """The parts to send first; none for a prompt that is over."""
    if prompt.resumes is not None:
        _begin(session, prompt_id, prompt, turns=prompt.resumes.turns)
        return await prompt.resumes.answer_calls(session, prompt_id)
    if proceeds:
        return _find_unanswered(session, channel, prompt_id, prompt)
    return await _build_parts(session, prompt_id, prompt)


def _find_reason(session: Session, channel: EventChannel) -> str:
    """The reason why a prompt ended without an error."""
    stop = read_stop(session.guard.ended_by)
    if not stop or session.guard.reason != "done":
        return session.guard.reason
    channel.emit(WarningEvent(message=stop))
    return "stopped"


async def _start(
    session: Session, channel: EventChannel, prompt_id: str, prompt: Prompt | None
) -> bool:
    """Waits for the tools and announces the run; True if the prompt is in the conversation
    already."""
    try:
        await session.bench.sources.gather()
    finally:
        channel.emit(
            RunStartedEvent(
                session_id=session.session_id,
                model=session.model,
                cwd=scrub(str(session.bench.workspace.cwd)),
                tools=session.bench.registry.names,
                notices=session.notices.take(),
            )
        )
        proceeds = session.first_prompt.take_proceeds() and prompt is not None
        if prompt is not None and prompt.resumes is None and not proceeds:
            channel.emit(UserMessageEvent(prompt_id=prompt_id, text=prompt.text))
    return proceeds


async def drive_call(
    session: Session, channel: EventChannel, request: ToolCallRequestInfo
) -> "Sequence[CompletedToolCall]":
    """Runs one call made by a person."""
    channel.emit(
        ToolCallRequestEvent(
            call_id=request.call_id,
            name=request.name,
            args=request.args,
            prompt_id=request.prompt_id,
        )
    )
    try:
        if session.bench.registry.get(request.name) is None:  # else it waits for no server
            await session.bench.sources.gather()
        return await session.scheduler().schedule(request)
    except asyncio.CancelledError:
        raise InterruptedRunError("the call was interrupted.") from None
    finally:
        await session.checkpoints.turn_over()


async def drive_start(session: Session, _channel: EventChannel) -> None:
    """Fires the SessionStart hooks."""
    try:
        if session.prompt_hooks is not None:
            await session.prompt_hooks.start()
    except asyncio.CancelledError:
        raise InterruptedRunError("the SessionStart hooks were interrupted.") from None


async def _build_parts(session: Session, prompt_id: str, prompt: Prompt) -> tuple[Part, ...]:
    """The parts of a new prompt, with what hooks add; changed memory goes before them."""
    _begin(session, prompt_id, prompt)
    await session.first_prompt.prepare()
    before = prompt.before
    changed = None if session.bench.memory is None else session.bench.memory.take_changes()
    if changed:
        before = (memory_change_part(changed), *before)
    bench = session.bench
    mode = plan_mode_part(
        session.chat.history.contents,
        bench.describe_plan_mode,
        planning=bench.authority.modes.planning,
    )
    before = before if mode is None else (mode, *before)
    parts: tuple[Part, ...] = (Part(text=prompt.text),)
    if session.prompt_hooks is not None:
        parts = await session.prompt_hooks.begin(prompt.text, session.chat)
    if prompt.within:
        first, *rest = parts
        parts = (*_split_text(first.text or "", prompt.within), *rest)
    said = (part for part in parts if part.text != "")  # none with media alone
    return (*before, *said, *prompt.attached)


def _split_text(text: str, within: tuple[tuple[int, Part], ...]) -> list[Part]:
    """The text in pieces, with other parts between them."""
    made: list[Part] = []
    start = 0
    for place, part in within:
        made += [Part(text=text[start:place])] if place > start else []
        made.append(part)
        start = place
    return [*made, Part(text=text[start:])] if text[start:] else made


def _find_unanswered(
    session: Session, channel: EventChannel, prompt_id: str, prompt: Prompt
) -> tuple[Part, ...]:
    """The parts that continue a prompt where its journal ends: those sent last without an answer;
    none after an answer that ends the prompt, which is emitted again."""
    history = session.chat.history
    recording = session.recording
    said = history.contents[recording.opening if recording else 0 :]
    turns = sum(entry.content.role != USER for entry in said)
    turns += recording.agent_turns if recording else 0
    _begin(session, prompt_id, prompt, turns=turns)
    last = history.contents[-1].content
    if last.role == USER:
        history.rollback(len(history) - 1)
        return last.parts
    text = "".join(part.text or "" for part in last.parts if not part.thought)
    correction = None if prompt.final is None else prompt.final.read_text(text)
    if correction is None:
        channel.emit(ContentEvent(text=text))
        return ()
    return (correction,)


def _begin(session: Session, prompt_id: str, prompt: Prompt, *, turns: int = 0) -> None:
    other = session.run_models.use(prompt.model)
    if prompt.final is not None:
        chosen = session.access.chosen
        prompt.final.ask_by_tool(
            always=other or not chosen.speaks_gemini, by_form=chosen.private and not other
        )
    session.limits.new_prompt(turns)
    session.guard.new_prompt(prompt_id, prompt.final, prompt.settings)


async def _ask_hooks(
    session: Session, channel: EventChannel, prompt_id: str, turn: AnswerCollector
) -> tuple[Part, ...]:
    """The parts to send after an answer that a hook blocked; none after any other."""
    hooks = session.prompt_hooks
    text = None if hooks is None else await hooks.after(turn, session.chat)
    if text is None:
        return ()
    said = f"an AfterAgent hook blocked the answer; its reason is the next prompt: {text}"
    channel.emit(WarningEvent(message=said))
    channel.emit(UserMessageEvent(prompt_id=prompt_id, text=text))
    return (Part(text=text),)


async def _end(session: Session, channel: EventChannel) -> None:
    """Ends a run, whatever its outcome."""
    try:
        await session.checkpoints.turn_over()
    finally:
        await _flush(session, channel)


async def _flush(session: Session, channel: EventChannel) -> None:
    """Writes the run to disk before it ends; a failure becomes a warning."""
    problem = await session.flush()
    if problem is not None:
        channel.emit(WarningEvent(message=problem))


def _emit_error(channel: EventChannel, error: AlhenaError) -> str:
    """Emits the event of an error; returns the reason it gives the run's end. What ends with
    exit code 0 was asked for by a hook."""
    if not error.exit_code:
        from alhena.hooks.model import HookBlockedError

        channel.emit(WarningEvent(message=str(error)))
        return "blocked" if isinstance(error, HookBlockedError) else "stopped"
    channel.emit(ErrorEvent(error_type=error.kind, message=str(error), exit_code=error.exit_code))
    return error.kind if error.kind in REASONS else "error"


def require_text(prompt: object) -> None:
    """Raises InputError for an empty prompt."""
    if not isinstance(prompt, str) or not prompt.strip():
        raise InputError("the prompt is empty or no text.", remedy="Give a string.")


Listen = Callable[[Session], Callable[[Event], None]]
"""Takes the session of a run that starts; returns what takes its events."""


class SessionRunner:
    """Opens a session, by `async with`, and does one thing at a time in it: prompts, calls,
    compression, going back. Front ends use it; programs have `Agent` around it.

    Entering raises ConfigError or CredentialsError.
    """

    def __init__(self, options: SessionSpec | Callable[[], SessionSpec]) -> None:
        """`options`, or what reads them whenever a session is opened; `adaptations` change them."""
        self._options = options
        self.adaptations: list[Callable[[SessionSpec], SessionSpec]] = []
        self._channel = EventChannel()
        self._session: Session | None = None
        self._closing: Session | None = None
        self._driver: asyncio.Task[None] | None = None
        self._reader: Callable[[], EventStream | None] = lambda: None
        self._calls = 0

    async def __aenter__(self) -> Self:
        """Reads settings and policies, chooses the model, declares the tools."""
        if self._session is not None:
            raise BusyError("this agent is open already.", remedy="Use a second Agent.")
        self._channel = EventChannel()  # lives as long as the session, and its listeners with it
        self._session = open_session(await self._read_options(), self._channel)
        self._session.start_servers()
        self._session.checkpoints.begin()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        """Stops what still runs and closes connections and files."""
        session, self._session = self._session, None
        self._closing = session
        driver, self._driver = self._driver, None
        try:
            if driver is not None:
                await cancel_driver(driver)
        finally:
            if session is not None:
                await session.aclose()

    @property
    def session_id(self) -> str:
        """The id of this session."""
        return self._require_session().session_id

    @property
    def history(self) -> tuple[Content, ...]:
        """The conversation so far."""
        return self._require_session().chat.export_contents()

    @property
    def model(self) -> str:
        """The model that answers; another one may take over when it cannot."""
        return self._require_session().model

    @property
    def toolset(self) -> Toolset:
        """The tools, policies, hooks and approval mode of the session, for front ends."""
        return self._require_session().bench

    @property
    def checkpoints(self) -> "AgentCheckpoints":
        """Checkpoints of the session."""
        from alhena.agent.restoring import AgentCheckpoints

        async def propose(session: Session, channel: EventChannel) -> None:
            await drive_prompt(session, channel, session.prompt_ids.take_next(), None)

        return AgentCheckpoints(
            self._require_session, self._idle, EventStream(self._start, propose)
        )

    def run(
        self,
        prompt: str | Prompt,
        *,
        before: Sequence[Part] = (),
        attached: Sequence[Part] = (),
        within: Sequence[tuple[int, Part]] = (),
        final: "FinalAnswer | None" = None,
        listen: Listen | None = None,
    ) -> EventStream:
        """Carries a prompt to its answer, event by event; the last one is a RunFinishedEvent.

        `before` and `attached` are sent with the prompt, around its text, and each part of `within`
        behind so many of its characters; hooks see the text only.
        `final` is the value the run has to end with. A `Prompt` has all of these.
        When the run fails, its ErrorEvent and RunFinishedEvent come first, then the AlhenaError is
        raised. Leaving the iteration early stops the run and its tools. `listen` is called when it
        starts and returns a function that is given each event at once. Raises InputError for what
        is no prompt, and BusyError, with the first event, while another run is at work.
        """
        if not isinstance(prompt, Prompt):
            require_text(prompt)
            prompt = Prompt(
                text=prompt,
                within=tuple(within),
                before=tuple(before),
                attached=tuple(attached),
                final=final,
            )
        elif prompt.resumes is None and (prompt.text or not (prompt.before or prompt.attached)):
            require_text(prompt.text)
        given = replace(prompt, text=scrub(prompt.text))

        async def answer(session: Session, channel: EventChannel) -> None:
            await drive_prompt(session, channel, session.prompt_ids.take_next(), given, listen)

        return EventStream(self._start, answer)

    def call(self, name: str, args: Mapping[str, Any]) -> ToolRun:
        """Calls a tool as a person would have it: through the same policy, confirmation and hooks
        as the model's calls, event by event. The model does not learn of it.

        Raises BusyError, with the first event, while another run is at work.
        """
        self._calls += 1
        request = ToolCallRequestInfo(
            call_id=f"client-{self._calls}",
            name=name,
            args=dict(args),
            is_client_initiated=True,
            prompt_id=self._require_session().prompt_ids.current,
        )
        done: list[CompletedToolCall] = []

        async def call(session: Session, channel: EventChannel) -> None:
            done.extend(await drive_call(session, channel, request))

        return ToolRun(request.call_id, done, self._start, call)

    async def ask(self, prompt: str) -> str:
        """Carries a prompt to its answer and returns the text of the last model turn."""
        answer = ""
        async for event in self.run(prompt):
            if isinstance(event, RunFinishedEvent):
                answer = event.text
        return answer

    def run_aside(self, work: Work) -> EventStream:
        """Does something beside prompts and calls, event by event. Raises BusyError while a run is
        at work, InterruptedRunError when it is interrupted."""
        return EventStream(self._start, work)

    def interrupt(self) -> bool:
        """Ends the run in good order: tools are stopped, every call gets its response. Of a session
        that is being closed, the hooks it waits for. What the person waits for of an MCP server is
        given up, and files that are about to be put back are left. False when there is nothing to
        interrupt, or it was interrupted already."""
        control = None if self._session is None else self.toolset.server_control
        gave_up = control is not None and control.give_up()
        stays = self._session is not None and self._session.checkpoints.pending.stop()
        return self._interrupt_driver() or gave_up or stays

    def _interrupt_driver(self) -> bool:
        driver, closing = self._driver, self._closing
        if driver is None and closing is not None and closing.prompt_hooks is not None:
            return closing.prompt_hooks.hurry()
        if driver is None or driver.done() or driver.cancelling():
            return False
        return driver.cancel("interrupted")

    def kill(self) -> None:
        """Ends every process the session has started, at once."""
        for session in (self._session, self._closing):
            if session is not None:
                session.kill()

    async def _idle(self) -> Session:
        """The session, when nothing runs any more."""
        session = self._require_session()
        if self._driver is not None:
            await cancel_driver(self._driver)
        self._driver = None
        return session

    async def clear(self, resume: str | None = None) -> None:
        """Ends the conversation and begins another: a new session, with the same approval mode, or
        with `resume` (as in `__init__`) one that another run left. Raises SessionError, and then
        the session continues."""
        session = await self._idle()
        options = await self._read_options()
        options = replace(
            options,
            permissions=replace(
                options.permissions, approval_mode=session.bench.authority.modes.mode
            ),
            record=replace(options.record, history=(), resume=resume, session_id=None),
        )
        channel = EventChannel()
        opened = open_session(options, channel, source="clear")
        self._channel, self._session = channel, opened
        opened.checkpoints.begin()
        opened.notices.continue_from(session.notices)
        self._closing = session
        try:
            await run_to_end(asyncio.ensure_future(session.aclose("clear")))
        finally:
            self._closing = None
            opened.start_servers()  # not before: some can run only once at a time

    async def _start(
        self, run: EventStream, work: Work
    ) -> tuple["asyncio.Task[None]", AsyncIterator[Event]]:
        """Starts a run, when no other one is being read; one that was left is ended."""
        session = self._require_session()
        busy = BusyError(
            "this agent is still at work on another prompt.",
            remedy="Wait for it, aclose() its iteration, or use a second Agent.",
        )
        reader = self._reader()
        if reader is not None and not reader.over:
            raise busy
        self._reader = ref(run)  # others are refused from now on
        try:
            if self._driver is not None:
                await cancel_driver(self._driver)
            if self._session is not session:  # closed with the run that was left
                raise busy
        except (asyncio.CancelledError, BusyError):
            self._reader = lambda: None
            raise
        self._channel.open()
        self._driver = asyncio.ensure_future(work(session, self._channel))
        # A task that is cancelled before its first step runs nothing, not even its clean-up.
        self._driver.add_done_callback(self._driver_ended)
        return self._driver, self._channel.events()

    def _driver_ended(self, driver: "asyncio.Task[None]") -> None:
        """Ends the stream of this driver, not that of one that has followed it already."""
        if driver is self._driver:
            self._channel.close()

    async def _read_options(self) -> SessionSpec:
        options = self._options if isinstance(self._options, SessionSpec) else self._options()
        for adapt in self.adaptations:
            options = adapt(options)
        place = options.place
        if is_foreign_model(SessionModels(options.model.name, place.environ, place.settings).name):
            from alhena.agent.prompt_size import fit_prompt_size

            options = await fit_prompt_size(options)
        return options

    def _require_session(self) -> Session:
        if self._session is None:
            remedy = "Use it inside `async with Agent(...)`."
            raise BusyError("this agent is not open.", remedy=remedy)
        return self._session
