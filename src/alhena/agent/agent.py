"""Agent, the library's front door: a prompt in, events or an answer out."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self
from weakref import ref

import msgspec

from alhena.agent.driving import Around, drive_call, drive_compression, drive_prompt
from alhena.agent.limits.errors import BusyError
from alhena.agent.opening import open_session
from alhena.agent.options import (
    AgentOptions,
    Arguments,
    Limits,
    PolicySource,
    SessionOptions,
    mode_of,
    require_usable,
    sequence_of,
    session_options,
)
from alhena.agent.run import EventChannel, Run, ToolRun, ended, settled
from alhena.agent.session import Session
from alhena.agent.toolset.workbench import Workbench
from alhena.errors import InputError
from alhena.events import CompressedEvent, Event, RunFinishedEvent
from alhena.models.generator import ContentGenerator
from alhena.policy.model import ApprovalMode
from alhena.tools.contract import Tool
from alhena.wire.calls import ToolCallRequestInfo
from alhena.wire.content import Content, Part
from alhena.wire.json_values import scrub

if TYPE_CHECKING:
    from alhena.agent.restoring import AgentCheckpoints
    from alhena.scheduler.confirmation import Approver


def require_text(prompt: object) -> None:
    """Raises InputError for an empty prompt."""
    if not isinstance(prompt, str) or not prompt.strip():
        raise InputError("the prompt is empty or no text.", remedy="Give a string.")


Drive = Callable[[Session], Coroutine[Any, Any, None]]
"""Does the work of a run; its events go out over the session's channel."""


class Agent:
    """A session with a model that can use tools. Use it as an async context manager.

        async with Agent(tools=[lookup], approve=ask_me) as agent:
            print(await agent.ask("What does this folder hold?"))

    Entering raises ConfigError or CredentialsError.
    """

    def __init__(  # noqa: PLR0913  a library's front door: keywords read better than structs
        self,
        model: str | ContentGenerator | None = None,
        *,
        instructions: str | None = None,
        tools: Sequence[Tool] = (),
        approve: "Approver | None" = None,
        approval_mode: ApprovalMode | str = ApprovalMode.DEFAULT,
        policy: Sequence[PolicySource] = (),
        hooks: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
        cwd: str | os.PathLike[str] | None = None,
        resume: str | None = None,
        history: Sequence[Content] = (),
        options: AgentOptions | SessionOptions | None = None,
    ) -> None:
        """Checks the arguments; files are read when the agent is entered.

        Args:
            model: a name, or a model object; None is GEMINI_MODEL, the user's setting, or the
                default. Who makes a model object closes it.
            instructions: replaces the composed system instruction.
            tools: functions decorated with `@tool`, or other tools, beside the built-in ones.
            approve: called for each call that needs approval; without it such calls are denied.
            approval_mode: "default", "auto_edit", "yolo" or "plan".
            policy: rules, policy files, or directories of them.
            hooks: the program's hooks, as settings.json has them.
            limits: turns, tokens, seconds and cost.
            cwd: the workspace, by default the current directory.
            resume: the recorded session to continue: "latest", a number, or an id.
            history: contents of a conversation to continue, as `Agent.history` gives them.
            options: the rest. Front ends give `SessionOptions`, which hold everything.
        """
        if isinstance(options, SessionOptions):
            given = options
        else:
            given = Arguments(
                model=model,
                instructions=instructions,
                tools=sequence_of("tools", tools),
                approve=approve,
                approval_mode=mode_of(approval_mode),
                policy=sequence_of("policy", policy),
                hooks=hooks,
                limits=limits or Limits(),
                cwd=cwd,
                resume=resume,
                history=sequence_of("history", history),
                options=options or AgentOptions(),
            )
            require_usable(given)
        self._given: Arguments | SessionOptions = given
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
        self._session = open_session(session_options(self._given), self._channel)
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
    def history(self) -> tuple[Content, ...]:
        """The conversation so far."""
        return tuple(entry.content for entry in self._opened().chat.history.contents)

    @property
    def model(self) -> str:
        """The model that answers; another one may take over when it cannot."""
        return self._opened().model

    @property
    def workbench(self) -> Workbench:
        """The tools, policies, hooks and approval mode of the session, for front ends."""
        return self._opened().bench

    @property
    def checkpoints(self) -> "AgentCheckpoints":
        """Checkpoints of the session."""
        from alhena.agent.restoring import AgentCheckpoints

        drive = partial(self._drive, "", None)
        return AgentCheckpoints(self._opened, self._idle, Run(partial(self._start, drive)))

    def run(
        self, prompt: str, *, before: Sequence[Part] = (), attached: Sequence[Part] = ()
    ) -> Run:
        """Carries a prompt to its answer, event by event; the last one is a RunFinishedEvent.

        `before` and `attached` are sent with the prompt, around its text; hooks see the text only.
        When the run fails, its ErrorEvent and RunFinishedEvent come first, then the AlhenaError is
        raised. Leaving the iteration early stops the run and its tools. Raises InputError for what
        is no prompt, and BusyError, with the first event, while another run is at work.
        """
        require_text(prompt)
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
            prompt_id=self._opened().prompt_id(self._prompts),
        )
        return ToolRun(
            request.call_id,
            lambda run: self._start(partial(drive_call, self._channel, request, run), run),
        )

    async def ask(self, prompt: str) -> str:
        """Carries a prompt to its answer and returns the text of the last model turn."""
        answer = ""
        async for event in self.run(prompt):
            if isinstance(event, RunFinishedEvent):
                answer = event.text
        return answer

    async def compress(self, hear: Callable[[Event], object] | None = None) -> CompressedEvent:
        """Puts a summary in the place of all but the end of the conversation, if it is shorter so;
        the event says what became of that. `hear` is given each event on the way, those of the
        requests for the summary among them. Raises BusyError while a run is at work,
        InterruptedRunError when it is interrupted, JournalError."""
        done: list[CompressedEvent] = []
        async for event in Run(
            partial(self._start, partial(drive_compression, self._channel, done.append))
        ):
            if hear is not None:
                hear(event)
        return done[0]

    def interrupt(self) -> bool:
        """Ends the run in good order: tools are stopped, every call gets its response. Of a session
        that is being closed, the hooks it waits for. What the person waits for of an MCP server is
        given up, and files that are about to be put back are left. False when there is nothing to
        interrupt, or it was interrupted already."""
        control = None if self._session is None else self.workbench.server_control
        gave_up = control is not None and control.give_up()
        stays = self._session is not None and self._session.stay()
        return self._interrupted() or gave_up or stays

    def _interrupted(self) -> bool:
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
        session = self._opened()
        if self._driver is not None:
            await ended(self._driver)
        self._driver = None
        return session

    async def clear(self, resume: str | None = None) -> None:
        """Ends the conversation and begins another: a new session, with the same approval mode, or
        with `resume` (as in `__init__`) one that another run left. Raises SessionError, and then
        the session goes on."""
        session = await self._idle()
        options = msgspec.structs.replace(
            session_options(self._given),
            approval_mode=session.bench.modes.mode,
            history=(),
            resume=resume,
            session_id=None,
        )
        channel = EventChannel()
        opened = open_session(options, channel, source="clear")
        self._channel, self._session = channel, opened
        self._prompts = opened.prompts
        opened.told = session.told
        opened.shown = len(opened.bench.warnings) if session.told else 0
        self._closing = session
        closing = asyncio.ensure_future(session.aclose("clear"))
        try:
            await settled(closing)
        finally:
            self._closing = None
        closing.result()

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

    async def _drive(self, prompt: str, around: Around | None, session: Session) -> None:
        """Runs the prompt; with no `around`, the calls that the session went back to."""
        self._prompts += 1
        prompt_id = session.prompt_id(self._prompts)
        await drive_prompt(session, self._channel, prompt_id, prompt, around)

    def _opened(self) -> Session:
        if self._session is None:
            raise BusyError(
                "this agent is not open.", remedy="Use it inside `async with Agent(...)`."
            )
        return self._session
