"""`Agent`, the library's front door."""

from __future__ import annotations  # help() shows the names of the types

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property, partial
from os import PathLike
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

import msgspec

from alhena.agent.limits import BusyError, Usage
from alhena.agent.subagents.remote import RemoteAgent
from alhena.agent.toolset.options import PolicySource, SessionSpec
from alhena.errors import AlhenaError, ConfigError
from alhena.events import Event
from alhena.library.blocking import OpensInThread, running_loop
from alhena.library.context import RunContext
from alhena.library.conversations import BranchesOff, ConversationPlace
from alhena.library.entry import PromptEntry
from alhena.library.options import (
    AgentArguments,
    AgentOptions,
    Hook,
    Server,
    Subagent,
    agents_of,
    approver_of,
    builtin_names,
    contents_of,
    function_of,
    hooks_of,
    instance_of,
    instructions_of,
    mode_of,
    model_of,
    require_usable,
    sequence_of,
    session_options,
    settings_of,
    tools_of,
)
from alhena.library.outputs import final_answer, require_free_names
from alhena.library.program import AgentProgram, OnToolError, address_program, find_logger
from alhena.library.prompts import Prompt, parts_of
from alhena.library.result import Release, ResultCollector, Run, warnings_of
from alhena.library.waiting import SAME, ResumesRuns, RunChoices
from alhena.models.errors import CredentialsError
from alhena.models.generator import Model
from alhena.models.settings import ModelSettings
from alhena.policy.model import ApprovalMode
from alhena.scheduler.question import Approver
from alhena.session.stored import Store
from alhena.tools.contract import ExecutionContext, Tool
from alhena.tools.function import DepsT
from alhena.tools.registry import BUILT_IN
from alhena.values import Limits
from alhena.wire.content import Content, Part

if TYPE_CHECKING:
    import asyncio
    from tempfile import TemporaryDirectory

    from alhena.agent.runner import SessionRunner
    from alhena.agent.session import Session
    from alhena.agent.waiting import WaitingRun
    from alhena.session.stored import StoredConversation

T = TypeVar("T")
Instructions = str | Callable[[RunContext[DepsT]], str | Awaitable[str]] | None


class Agent(OpensInThread, PromptEntry[DepsT], ResumesRuns[DepsT], BranchesOff[DepsT]):
    """An agent: a session with a model that can use tools.

        async with Agent(tools=[lookup], approve=ask_me) as agent:
            print(await agent.ask("What does this folder hold?"))

    `with` and `async with` keep it open, its MCP servers and connections with it. Without them each
    call opens and closes it, and its history continues. Methods ending in `_sync` are for code that
    is not asynchronous; they work in notebooks too. Opening raises ConfigError or
    CredentialsError.
    """

    def __init__(  # noqa: PLR0913  a library's front door: keywords read better than structs
        self,
        model: str | Model | None = None,
        *,
        instructions: Instructions[DepsT] = None,
        tools: Sequence[Tool | Callable[..., Any]] = (),
        builtin_tools: Sequence[str] | None = None,
        search_tools: bool = False,
        approve: Approver | Literal["always", "never", "defer"] | None = None,
        approval_mode: ApprovalMode | str = ApprovalMode.DEFAULT,
        policy: Sequence[PolicySource] = (),
        agents: Sequence[Subagent | RemoteAgent] = (),
        servers: Mapping[str, Server] = MappingProxyType({}),
        hooks: Mapping[str, Hook | Sequence[Hook]] = MappingProxyType({}),
        model_settings: ModelSettings | None = None,
        limits: Limits | None = None,
        cwd: str | PathLike[str] | None = None,
        isolated: bool = False,
        environment: bool | None = None,
        resume: str | None = None,
        history: Sequence[Content] | bytes | str | None = (),
        store: Store | None = None,
        conversation: str | None = None,
        on_tool_error: OnToolError | None = None,
        deps: DepsT = None,  # pyright: ignore[reportArgumentType]
        options: AgentOptions | None = None,
    ) -> None:
        """Checks the arguments; files are read when the agent is opened.

        Args:
            model: a name, or a model object; None is GEMINI_MODEL, the user's setting, or the
                default. Who makes a model object closes it.
            instructions: replaces the composed system instruction: a text, or a function of the
                RunContext, async or not, that returns it for each run.
            tools: functions and tools of the program. They run without approval, unless they are
                made by `@tool(confirm=True)`.
            builtin_tools: the names of the only built-in tools to declare; None: all.
            search_tools: `tools` are not declared: the model finds them by `search_tools` and calls
                them by `call_tool`. For hundreds of tools.
            approve: called for each call that needs approval, or "always" or "never"; with "defer"
                a run waits for the answers, which `resume` takes. Without it such calls are
                denied, and tools that need it are not declared.
            approval_mode: "default", "auto_edit", "yolo" or "plan".
            policy: rules, policy files, or directories of them.
            agents: subagents and remote agents that the model may give tasks to, beside the
                built-in ones.
            servers: MCP servers by name, beside those of the settings.
            hooks: functions or commands by event ("BeforeTool", …), as docs/hooks.md describes
                their input and output.
            model_settings: temperature, thinking and others, before those of the model object.
            limits: turns, tokens, seconds and cost.
            cwd: the workspace, by default the current directory.
            isolated: reads and writes nothing of the person's or the project's: settings, memory,
                policies, hooks, `.env` files, records. An administrator's policies hold, and the
                process's environment is read for keys.
            environment: sends first what the system, the workspace and the date are; None: unless
                the agent is isolated.
            resume: the recorded session to continue: "latest", a number, or an id.
            history: a conversation to continue: contents, or what `history_json` returned.
            store: keeps the conversation with the id `conversation`, which is continued or begun,
                instead of a record; and the states of runs that were resumed.
            conversation: its id in the store.
            on_tool_error: called with each FailedCall; returns what the model reads, or None for
                the usual text. What it raises ends the run.
            deps: any object, which tools find in their `ToolContext`.
            options: the rest.
        """
        self._deps = deps
        self._on_tool_error = function_of("on_tool_error", on_tool_error)
        local, remote = agents_of(agents)
        self._given = AgentArguments(
            model=model,
            instructions=instructions_of(instructions),
            environment=environment,
            tools=tools_of(tools),
            builtin_tools=builtin_names(builtin_tools),
            search_tools=bool(search_tools),
            agents=local,
            remote_agents=remote,
            approve=approver_of(approve),
            approval_mode=mode_of(approval_mode),
            policy=sequence_of("policy", policy),
            servers=servers,
            hooks=hooks_of(hooks),
            model_settings=settings_of("model_settings", model_settings),
            limits=instance_of("limits", Limits, limits),
            cwd=cwd,
            isolated=isolated,
            resume=resume,
            history=contents_of(history),
            options=instance_of("options", AgentOptions, options),
        )
        require_usable(self._given)
        self._place = ConversationPlace.of(store, conversation)
        if resume is not None and conversation is not None:
            raise ConfigError("resume and conversation exclude each other.", remedy="Pass one.")
        self._begin()

    def _begin(self) -> None:
        self._stored: StoredConversation | None = None
        self._home: TemporaryDirectory[str] | None = None
        self._program = AgentProgram(self._on_tool_error)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turn = Lock()
        self._model = ""
        self._session_id = ""
        self._history = self._given.history
        self._ran = False
        self._earlier = Usage()
        self._warnings: list[str] = []

    @cached_property
    def _runner(self) -> SessionRunner:
        """The session. Its modules, half of the package, load when the agent is first opened."""
        from alhena.agent.runner import SessionRunner

        runner = SessionRunner(self._options)
        self._program.serve(runner)
        return runner

    def __repr__(self) -> str:
        return f"Agent(model={self.model!r})"

    def _copy(self, given: AgentArguments, place: ConversationPlace) -> Self:
        made = object.__new__(type(self))
        vars(made).update(
            _deps=self._deps, _given=given, _place=place, _on_tool_error=self._on_tool_error
        )
        made._begin()
        return made

    async def __aenter__(self) -> Self:
        """Reads settings and policies, chooses the model, declares the tools."""
        await self._enter(passing=False)
        return self

    async def _enter(self, *, passing: bool) -> None:
        """Opens the agent; `passing`: for one run."""
        loop = running_loop()
        if loop is None:
            raise BusyError(
                "alhena runs on asyncio; no asyncio event loop runs here.",
                remedy="Under trio, call run_sync in a thread.",
            )
        if not self._turn.acquire(blocking=False):
            raise BusyError("this agent is open already.", remedy="Use a second Agent.")
        self._passing = passing
        try:
            if self._given.isolated:
                from tempfile import TemporaryDirectory

                self._home = TemporaryDirectory(prefix="alhena-")
            self._stored = None
            fresh = bool(self._given.history)
            self._stored = await self._place.open(fresh=fresh)
            await self._open()
        except BaseException:
            if self._stored is not None:
                self._stored.release()
            self._leave_home()
            self._turn.release()
            raise
        self._loop = loop
        self._session_id, self._model = self._runner.session_id, self._runner.model

    async def __aexit__(self, *_exc: object) -> None:
        """Stops what still runs and closes connections and files."""
        self._model, self._earlier = self.model, self.usage
        options = self._given.options
        recorded = options.record and not self._given.isolated
        stored = self._stored is not None
        if self._ran:  # the next opening goes on
            self._given = msgspec.structs.replace(
                self._given,
                resume=self.session_id if recorded and not stored else None,
                history=() if recorded or stored else self.history,
                options=msgspec.structs.replace(options, session_id=None),
            )
        self._history, self._loop = self.history, None
        try:
            await self._runner.__aexit__(None, None, None)
        finally:
            self._leave_home()
            if self._turn.locked():
                self._turn.release()

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
        return self._earlier + self._runner.toolset.spending.usage()

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
        """Ends the run in good order: tools are stopped, every call gets its response. May be
        called from any thread."""
        loop = self._loop
        if loop is None or loop is running_loop():
            self._runner.interrupt()
        elif not loop.is_closed():
            loop.call_soon_threadsafe(self._runner.interrupt)

    def _claim(self) -> Callable[[str], Awaitable[None]] | None:
        return self._place.claim

    def _start(self, prompt: Prompt, choices: RunChoices) -> Run[Any]:
        return self._launch(choices, *parts_of(prompt))

    def _launch_waiting(self, arguments: RunChoices, waiting: WaitingRun) -> Run[Any]:
        return self._launch(arguments, resumes=waiting)

    def _launch(
        self,
        choices: RunChoices,
        before: tuple[Part, ...] = (),
        text: str = "",
        attached: tuple[Part, ...] = (),
        resumes: WaitingRun | None = None,
    ) -> Run[Any]:
        from alhena.agent.runner import Prompt as RunPrompt

        output = choices.output
        final = final_answer(output, choices.check, choices.corrections, self._output_context)
        if final is not None:
            require_free_names(final, (*(each.name for each in self._given.tools), *BUILT_IN))
        value = None if final is None else lambda: final.value
        collector = ResultCollector(self._program, value, resumes)

        def listen(session: Session) -> Callable[[Event], None]:
            take = collector.start(session)
            self._ran = True
            self._program.begin(self._deps if choices.deps is SAME else choices.deps)

            def hear(event: Event) -> None:
                take(event)
                self._hear(event)

            return hear

        prompt = RunPrompt(
            text=text if resumes is None else resumes.prompt,
            before=before,
            attached=attached,
            final=final,
            resumes=resumes,
            model=model_of("model", choices.model),
            settings=settings_of("model_settings", choices.model_settings),
            instruct=self._instruct if callable(self._given.instructions) else None,
        )
        events = self._runner.run(prompt, listen=listen)
        return Run(events, collector, self._hold, self._program.take_fault, output)

    def _options(self) -> SessionSpec:
        options = session_options(self._given, None if self._home is None else self._home.name)
        client = msgspec.structs.replace(options.client, program=self._program)
        record = msgspec.structs.replace(options.record, stored=self._stored)
        approve = self._program.guard_approver(options.people.approve)
        people = msgspec.structs.replace(options.people, approve=approve)
        return msgspec.structs.replace(options, client=client, record=record, people=people)

    async def _instruct(self, prompt: str) -> str:
        """The instructions of a run that begins, made by the program's function."""
        context = RunContext(
            deps=self._program.deps,
            prompt=prompt,
            model=self._runner.model,
            cwd=self._runner.toolset.workspace.cwd,
            session_id=self._runner.session_id,
        )
        return await self._program.call("instructions", self._given.instructions, context)

    def _output_context(self) -> ExecutionContext:
        """The context of a function that is the output of a run."""
        return ExecutionContext(self._runner.toolset.workspace.cwd, program=self._program)

    async def _open(self) -> None:
        try:
            await self._runner.__aenter__()
        except AlhenaError as error:
            address_program(error)
            if (
                isinstance(error, CredentialsError) and error.remedy and " --" in error.remedy
            ):  # that is for people at a command line
                error.remedy = (
                    "Set GEMINI_API_KEY, or pass a model of alhena.models; in tests, a TestModel."
                )
            raise
        from alhena.library.opening_checks import check_program

        try:
            check_program(self._runner.toolset, self._given)
        except ConfigError:
            await self._runner.__aexit__(None, None, None)
            raise

    def _leave_home(self) -> None:
        home, self._home = self._home, None
        if home is not None:
            home.cleanup()

    async def _hold(self) -> Release | None:
        if self._loop is None:
            await self._enter(passing=True)
            return partial(self.__aexit__, None, None, None)
        if self._loop is not running_loop():
            raise BusyError(
                "this agent was opened in another event loop.",
                remedy="Use one agent for each loop; they may share a model object.",
            )
        return None

    def _hear(self, event: Event) -> None:
        fresh = warnings_of(event)
        if fresh:
            for text in fresh:
                find_logger("alhena").warning("%s", text)
            self._warnings += fresh
