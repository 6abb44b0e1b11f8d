"""`Agent`, the library's front door."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from os import PathLike
from typing import Any, Self

import msgspec

from alhena.agent.limits.errors import BusyError
from alhena.agent.limits.turns import Usage
from alhena.agent.options import PolicySource
from alhena.agent.runner import SessionRunner
from alhena.agent.session import Session
from alhena.events import Event, RunStartedEvent, WarningEvent
from alhena.library.blocking import LoopThread, wait_for
from alhena.library.options import (
    AgentOptions,
    Arguments,
    Limits,
    contents_of,
    mode_of,
    require_usable,
    sequence_of,
    session_options,
)
from alhena.library.result import Release, Result, ResultCollector, Run
from alhena.models.generator import ContentGenerator
from alhena.policy.model import ApprovalMode
from alhena.scheduler.confirmation import Approver
from alhena.tools.contract import Tool
from alhena.wire.content import Content, Part


class Agent:
    """An agent: a session with a model that can use tools.

        async with Agent(tools=[lookup], approve=ask_me) as agent:
            print(await agent.ask("What does this folder hold?"))

    `with` and `async with` keep it open, its MCP servers and connections with it. Without them each
    call opens and closes it, and its history goes on. The methods that end in `_sync` are for code
    that is not asynchronous; they work in notebooks too. Opening raises ConfigError or
    CredentialsError.
    """

    def __init__(  # noqa: PLR0913  a library's front door: keywords read better than structs
        self,
        model: str | ContentGenerator | None = None,
        *,
        instructions: str | None = None,
        tools: Sequence[Tool] = (),
        approve: Approver | None = None,
        approval_mode: ApprovalMode | str = ApprovalMode.DEFAULT,
        policy: Sequence[PolicySource] = (),
        hooks: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
        cwd: str | PathLike[str] | None = None,
        resume: str | None = None,
        history: Sequence[Content] | bytes = (),
        options: AgentOptions | None = None,
    ) -> None:
        """Checks the arguments; files are read when the agent is opened.

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
            history: a conversation to continue: contents, or what `history_json` returned.
            options: the rest.
        """
        self._given = Arguments(
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
            history=contents_of(history),
            options=options or AgentOptions(),
        )
        require_usable(self._given)
        self._runner = SessionRunner(lambda: session_options(self._given))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: LoopThread | None = None
        self._model = ""
        self._session_id = ""
        self._history = self._given.history
        self._ran = False
        self._earlier = Usage()
        self._warnings: list[str] = []

    def __repr__(self) -> str:
        return f"Agent(model={self.model!r})"

    async def __aenter__(self) -> Self:
        """Reads settings and policies, chooses the model, declares the tools."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise BusyError(
                "alhena runs on asyncio; no asyncio event loop runs here.",
                remedy="Under trio, call run_sync in a thread.",
            ) from None
        await self._runner.__aenter__()
        self._loop = loop
        self._session_id, self._model = self._runner.session_id, self._runner.model
        return self

    async def __aexit__(self, *_exc: object) -> None:
        """Stops what still runs and closes connections and files."""
        self._model, self._earlier = self.model, self.usage
        options = self._given.options
        if self._ran:  # the next opening goes on
            self._given = msgspec.structs.replace(
                self._given,
                resume=self.session_id if options.record else None,
                history=() if options.record else self.history,
                options=msgspec.structs.replace(options, session_id=None),
            )
        self._history, self._loop = self.history, None
        await self._runner.__aexit__(None, None, None)

    def __enter__(self) -> Self:
        self._thread = LoopThread()
        try:
            self._thread.call(self.__aenter__)
        except BaseException:
            self._thread.close()
            self._thread = None
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._thread is not None:
            try:
                self._thread.call(self.__aexit__)
            finally:
                self._thread.close()
                self._thread = None

    @property
    def session_id(self) -> str:
        """The id of the session, "" before it is first opened."""
        return self._session_id

    @property
    def model(self) -> str:
        """The model that answers; another one may take over when it cannot. "" before the agent
        is opened, where it depends on settings."""
        if self._loop is not None:
            return self._runner.model
        given = self._given.model
        return self._model or (given if isinstance(given, str) else getattr(given, "name", ""))

    @property
    def history(self) -> tuple[Content, ...]:
        """The conversation so far."""
        return self._history if self._loop is None else self._runner.history

    @property
    def usage(self) -> Usage:
        """The usage of all runs of this agent."""
        if self._loop is None:
            return self._earlier
        return self._earlier + self._runner.workbench.spending.usage()

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings so far, those about the person's files among them."""
        return tuple(self._warnings)

    @property
    def session(self) -> SessionRunner:
        """The open session, for calls of tools, checkpoints and compression."""
        return self._runner

    def history_json(self) -> bytes:
        """The conversation as JSON, for the `history` of another agent."""
        return msgspec.json.encode(self.history)

    def interrupt(self) -> None:
        """Ends the run in good order: tools are stopped, every call gets its response."""
        self._runner.interrupt()

    def run(self, prompt: str | Sequence[str | Part]) -> Run[str]:
        """Starts a prompt: await the run for its Result, or iterate over its events.

        `prompt` is text, or texts and `Part`s in order. Raises InputError for an empty prompt;
        awaiting and iterating raise the AlhenaError that ended the run (`LimitError` at a limit),
        and BusyError while another run is at work.
        """
        before, text, attached = parts_of(prompt)
        collector = ResultCollector()

        def listen(session: Session) -> Callable[[Event], None]:
            take = collector.start(session)
            self._ran = True

            def hear(event: Event) -> None:
                take(event)
                self._hear(event)

            return hear

        events = self._runner.run(text, before=before, attached=attached, listen=listen)
        return Run(events, collector, self._hold)

    def run_sync(self, prompt: str | Sequence[str | Part]) -> Result[str]:
        """Carries a prompt to its result, as `await run(prompt)` does."""

        async def whole() -> Result[str]:
            return await self.run(prompt)

        if self._thread is not None:
            return self._thread.call(whole)
        if self._loop is not None:
            if _running_loop() is self._loop:
                raise BusyError(
                    "run_sync would block the event loop that this agent was opened in.",
                    remedy="Use `await agent.run(…)`.",
                )
            return wait_for(self._loop, whole)
        thread = LoopThread()
        try:
            return thread.call(whole)
        finally:
            thread.close()

    async def ask(self, prompt: str | Sequence[str | Part]) -> str:
        """Carries a prompt to its answer and returns the text of the last model turn."""
        return (await self.run(prompt)).output

    def ask_sync(self, prompt: str | Sequence[str | Part]) -> str:
        """Carries a prompt to its answer, as `await ask(prompt)` does."""
        return self.run_sync(prompt).output

    async def _hold(self) -> Release | None:
        if self._loop is None:
            await self.__aenter__()
            return partial(self.__aexit__, None, None, None)
        if self._loop is not _running_loop():
            raise BusyError(
                "this agent was opened in another event loop.",
                remedy="Use one agent for each loop; they may share a model object.",
            )
        return None

    def _hear(self, event: Event) -> None:
        if isinstance(event, WarningEvent):
            fresh: Sequence[str] = (event.message,)
        elif isinstance(event, RunStartedEvent):
            fresh = event.notices
        else:
            return
        if fresh:
            import logging

            for text in fresh:
                logging.getLogger("alhena").warning("%s", text)
            self._warnings += fresh


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def parts_of(
    prompt: str | Sequence[str | Part],
) -> tuple[tuple[Part, ...], str, tuple[Part, ...]]:
    """The parts before the first text of a prompt, that text, and what follows, as parts. Raises
    TypeError."""
    items: tuple[Any, ...] = (prompt,) if isinstance(prompt, str) else sequence_of("prompt", prompt)
    before: list[Part] = []
    text = ""
    after: list[Part] = []
    for item in items:
        if isinstance(item, Part):
            (after if text else before).append(item)
        elif not isinstance(item, str):
            raise TypeError(f"prompt has to be text and Parts, not {type(item).__name__}")
        elif text:
            after.append(Part(text=item))
        else:
            text = item
    return tuple(before), text, tuple(after)
