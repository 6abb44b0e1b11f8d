"""`Agent`: the library's front door. A prompt in, events or an answer out."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast
from weakref import ref

import msgspec

from alhena.agent.channel import EventChannel
from alhena.agent.errors import BusyError
from alhena.agent.loop import run_prompt
from alhena.agent.options import AgentOptions, AgentSettings
from alhena.agent.run import Run, ToolRun, ended
from alhena.agent.session import Session
from alhena.agent.session_opening import open_session
from alhena.agent.workbench import Workbench
from alhena.chat.prompt import changed_memory
from alhena.chat.turn import Turn
from alhena.errors import AlhenaError, InputError, InterruptedRunError
from alhena.events import (
    ApiRequestEvent,
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
from alhena.policy.model import PolicyRule
from alhena.tools.contract import Tool
from alhena.wire.calls import ToolCallRequestInfo
from alhena.wire.content import Content, Part
from alhena.wire.text import scrub

if TYPE_CHECKING:
    from alhena.scheduler.confirm import Approver

Around = tuple[tuple[Part, ...], tuple[Part, ...]]
"""What is sent with a prompt: before its text, and behind it."""

Drive = Callable[[Session], Coroutine[Any, Any, None]]
"""Does the work of a run; its events go out over the session's channel."""

REASONS = {53: "turn_limit", 130: "interrupted"}
"""Exit code of an error -> the `reason` of the last event; anything else is "error"."""


class Agent:
    """A session with a model that can use tools. Use it as an async context manager.

        async with Agent(tools=[lookup], approve=ask_me) as agent:
            print(await agent.ask("What does this folder hold?"))

    `model`: a name; None is GEMINI_MODEL, the user's setting, or the default. `cwd`: the workspace,
    by default the current directory. `tools`: functions decorated with `@tool` (or any Tool),
    beside the built-in ones. `approve`: called for each tool call that needs a person's consent;
    without it such calls are denied. `policy`: policy files, directories, or rules. Entering raises
    ConfigError or CredentialsError.
    """

    def __init__(
        self,
        model: str | None = None,
        cwd: str | os.PathLike[str] | None = None,
        tools: Sequence[Tool] = (),
        approve: "Approver | None" = None,
        policy: str | os.PathLike[str] | Sequence[str | os.PathLike[str] | PolicyRule] = (),
        settings: AgentSettings | None = None,
    ) -> None:
        self._options = AgentOptions(
            model=model,
            cwd=Path(cwd) if cwd is not None else None,
            tools=tuple(_checked(item) for item in tools),
            approve=approve,
            policy=(policy,) if isinstance(policy, str | os.PathLike) else tuple(policy),
            settings=settings or AgentSettings(),
        )
        if approve is not None and not callable(approve):
            raise TypeError(f"approve has to be callable, not {type(approve).__name__}")
        _require_name(model)
        self._channel = EventChannel()
        self._session: Session | None = None
        self._closing: Session | None = None
        self._driver: asyncio.Task[None] | None = None
        self._reader: Callable[[], Run | None] = lambda: None
        self._prompts = 0
        self._calls = 0

    async def __aenter__(self) -> Self:
        """Reads settings and policies, chooses the model, declares the tools."""
        if self._session is not None:
            raise BusyError("this agent is open already.", remedy="Use a second Agent.")
        self._channel = EventChannel()  # lives as long as the session, and its listeners with it
        self._session = open_session(self._options, self._channel)
        self._prompts = self._session.prompts
        return self

    async def __aexit__(self, *_exc: object) -> None:
        """Stops what still runs and closes connections and files."""
        session, self._session = self._session, None
        self._closing = session
        driver, self._driver = self._driver, None
        try:
            if driver is not None:
                await ended(driver)
        finally:
            if session is not None:
                await session.aclose()

    @property
    def session_id(self) -> str:
        """The id of this session."""
        return self._opened().session_id

    @property
    def resumed(self) -> bool:
        """Whether this session goes on from what another run left."""
        return self._opened().prompts > 0

    @property
    def history(self) -> tuple[Content, ...]:
        """The conversation so far."""
        return tuple(entry.content for entry in self._opened().chat.history.contents)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out when the session was opened, and why; no warning needs to be."""
        return self._opened().bench.notes

    @property
    def model(self) -> str:
        """The model that answers; another one may take over when it cannot."""
        return self._opened().model

    @property
    def workbench(self) -> Workbench:
        """The tools, policies, hooks and approval mode of the session, for front ends."""
        return self._opened().bench

    def run(
        self, prompt: str, *, before: Sequence[Part] = (), attached: Sequence[Part] = ()
    ) -> Run:
        """Carries a prompt to its answer, event by event; the last one is a RunFinishedEvent.

        `before` and `attached` are sent with the prompt, around its text; hooks see the text only.
        When the run fails, its ErrorEvent and RunFinishedEvent come first, then the AlhenaError is
        raised. Leaving the iteration early stops the run and its tools. Raises InputError for what
        is no prompt, and BusyError, with the first event, while another run is at work.
        """
        _require_text(prompt)
        around = (tuple(before), tuple(attached))
        return Run(partial(self._start, partial(self._drive, scrub(prompt), around)))

    def call(self, name: str, args: Mapping[str, Any]) -> ToolRun:
        """Calls a tool as a person would have it: through the same policy, confirmation and hooks
        as the model's calls, event by event. The model is told nothing of it.

        Raises BusyError, with the first event, while another run is at work.
        """
        self._calls += 1
        request = ToolCallRequestInfo(
            call_id=f"client-{self._calls}",
            name=name,
            args=dict(args),
            is_client_initiated=True,
            prompt_id=f"{self.session_id}#{self._prompts}",
        )
        return ToolRun(
            request.call_id,
            lambda run: self._start(partial(self._carry_call, request, run), run),
        )

    async def ask(self, prompt: str) -> str:
        """Carries a prompt to its answer and returns the text of the last model turn."""
        answer = ""
        async for event in self.run(prompt):
            if isinstance(event, RunFinishedEvent):
                answer = event.text
        return answer

    def interrupt(self) -> bool:
        """Ends the run in good order: tools are stopped, every call gets its response. Of a session
        that is being closed, the hooks it waits for. False when there is nothing to interrupt, or
        it was interrupted already."""
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

    async def clear(self) -> None:
        """Ends the conversation and begins another: a new session, with the same approval mode."""
        session = self._opened()
        if self._driver is not None:
            await ended(self._driver)
        self._driver = None
        mode = session.bench.modes.mode
        settings = msgspec.structs.replace(
            self._options.settings, approval_mode=mode, history=(), resume=None
        )
        options = msgspec.structs.replace(self._options, settings=settings)
        channel = EventChannel()
        opened = open_session(options, channel, source="clear")
        self._channel, self._session = channel, opened
        opened.told = session.told
        await session.aclose("clear")

    async def _start(
        self, drive: Drive, run: Run
    ) -> tuple["asyncio.Task[None]", AsyncIterator[Event]]:
        """Starts a run, when no other one is being read; one that was left is ended."""
        session = self._opened()
        reader = self._reader()
        if reader is not None and not reader.over:
            raise BusyError(
                "this agent is still at work on another prompt.",
                remedy="Wait for it, aclose() its iteration, or use a second Agent.",
            )
        if self._driver is not None:
            await ended(self._driver)
        self._reader = ref(run)
        self._channel.open()
        self._driver = asyncio.ensure_future(drive(session))
        # A task that is cancelled before its first step runs nothing, not even its clean-up.
        self._driver.add_done_callback(self._driver_ended)
        return self._driver, self._channel.events()

    def _driver_ended(self, driver: "asyncio.Task[None]") -> None:
        """Ends the stream of this driver, not that of one that has followed it already."""
        if driver is self._driver:
            self._channel.close()

    async def _drive(self, prompt: str, around: Around, session: Session) -> None:
        """Runs the prompt and closes the event stream, whatever happens."""
        self._prompts += 1
        prompt_id = f"{session.session_id}#{self._prompts}"
        emit = self._channel.emit
        start = time.perf_counter()
        text = LastText()
        unsubscribe = self._channel.subscribe(text.feed)
        emit(
            RunStartedEvent(
                session_id=session.session_id,
                model=session.model,
                cwd=scrub(str(session.bench.workspace.cwd)),
                tools=session.bench.registry.names,
                notices=session.take_notices(),
            )
        )
        emit(UserMessageEvent(prompt_id=prompt_id, text=prompt))
        reason = "error"
        try:
            await session.ready()
            await self._carry(session, prompt, around, prompt_id)
            await session.settle()
            reason = "done"
        except asyncio.CancelledError:
            error = InterruptedRunError("the run was interrupted.")
            reason = self._report(error)
            raise error from None
        except AlhenaError as error:
            reason = self._report(error)
            if error.exit_code:
                raise
        finally:
            try:
                await self._flush(session)
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
                self._channel.close()

    async def _carry_call(
        self, request: ToolCallRequestInfo, run: ToolRun, session: Session
    ) -> None:
        """Takes one call of a person's to its end, and closes the event stream."""
        self._channel.emit(
            ToolCallRequestEvent(
                call_id=request.call_id,
                name=request.name,
                args=request.args,
                prompt_id=request.prompt_id,
            )
        )
        try:
            (run.completed,) = await session.scheduler.schedule(request)
        except asyncio.CancelledError:
            raise InterruptedRunError("the call was interrupted.") from None
        finally:
            self._channel.close()

    async def _carry(self, session: Session, prompt: str, around: Around, prompt_id: str) -> None:
        """Takes a prompt to its end, past the hooks if there are any."""
        chat, limits = session.chat, session.limits
        limits.new_prompt()
        changed = None if session.bench.memory is None else session.bench.memory.take_changes()
        if changed:
            around = ((changed_memory(changed), *around[0]), around[1])

        async def send(parts: tuple[Part, ...]) -> Turn:
            nonlocal around
            (before, attached), around = around, ((), ())  # they go with the prompt, not with
            parts = (*before, *parts, *attached)  # what hooks send after it
            ids = (prompt_id, session.session_id)
            return await run_prompt(chat, session.scheduler, limits, parts, ids, session.step)

        if session.prompt_hooks is None:
            await send((Part(text=prompt),))
            return
        await session.prompt_hooks.carry(
            prompt,
            chat,
            send,
            lambda text: self._channel.emit(UserMessageEvent(prompt_id=prompt_id, text=text)),
        )

    async def _flush(self, session: Session) -> None:
        """Has the run written down before it ends; what keeps it from that is a warning."""
        problem = await session.flush()
        if problem is not None:
            self._channel.emit(WarningEvent(message=problem))

    def _report(self, error: AlhenaError) -> str:
        """Emits the event of an error; returns the reason it gives the run's end. What ends with
        exit code 0 was asked for."""
        if not error.exit_code:
            self._channel.emit(WarningEvent(message=str(error)))
            return "stopped"
        self._channel.emit(
            ErrorEvent(error_type=error.kind, message=str(error), exit_code=error.exit_code)
        )
        return REASONS.get(error.exit_code, "error")

    def _opened(self) -> Session:
        if self._session is None:
            raise BusyError(
                "this agent is not open.", remedy="Use it inside `async with Agent(...)`."
            )
        return self._session


def _require_name(model: object) -> None:
    if model is not None and not isinstance(model, str):
        raise TypeError(f"model has to be a name, not {type(model).__name__}")


def _require_text(prompt: object) -> None:
    if not isinstance(prompt, str) or not prompt.strip():
        raise InputError("the prompt is empty or no text.", remedy="Give a string.")


def _checked(item: object) -> Tool:
    """A tool as it was given. Raises TypeError for what is none."""
    if callable(getattr(item, "build", None)) and callable(getattr(item, "declaration", None)):
        return cast("Tool", item)
    name = getattr(item, "__name__", type(item).__name__)
    raise TypeError(f"{name} is no tool; make a function one with @tool")


class LastText:
    """The text of the last model turn, from the events. What was taken back is none of it."""

    def __init__(self) -> None:
        self.value = ""

    def feed(self, event: Event) -> None:
        """Takes an event; a request begins a new turn."""
        if isinstance(event, ContentEvent):
            self.value += event.text
        elif isinstance(event, ApiRequestEvent):
            if event.role == "main":  # what tools and subagents ask is no turn of the session's
                self.value = ""
        elif isinstance(event, RetryEvent | ModelFallbackEvent) and event.retract:
            self.value = ""
