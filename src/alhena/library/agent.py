"""`Agent`, the library's front door."""

from __future__ import annotations  # help() shows the names of the types

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from os import PathLike
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar, cast, overload

import msgspec

from alhena.agent.final_answer import FinalAnswer
from alhena.agent.limits import BusyError, Usage
from alhena.agent.runner import SessionRunner
from alhena.agent.session import Session
from alhena.agent.subagents.remote import RemoteAgent
from alhena.agent.toolset.authority import own_tools
from alhena.agent.toolset.options import PolicySource, SessionSpec
from alhena.errors import AlhenaError, ConfigError, ProgramError
from alhena.events import Event
from alhena.library.blocking import LoopThread, wait_for
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
    hooks_of,
    instance_of,
    mode_of,
    require_usable,
    sequence_of,
    session_options,
    tools_of,
)
from alhena.library.result import Release, Result, ResultCollector, Run, warnings_of
from alhena.models.errors import CredentialsError
from alhena.models.generator import ContentGenerator
from alhena.policy.model import ApprovalMode
from alhena.scheduler.confirmation import call_approver
from alhena.scheduler.question import Answer, Approver, ConfirmationRequest, Verdict
from alhena.tools.contract import Tool, ToolConfirmationOutcome
from alhena.tools.function import DepsT, Image
from alhena.tools.value_types import schema_of, value_from_json
from alhena.values import Limits
from alhena.wire.content import Content, Part

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

    from typing_extensions import TypeForm

T = TypeVar("T")
Prompt = str | Sequence[str | Part | Image]
_SAME: Any = object()
"""The `deps` of a run that has those of its agent."""


class Agent(Generic[DepsT]):
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
        model: str | ContentGenerator | None = None,
        *,
        instructions: str | None = None,
        tools: Sequence[Tool | Callable[..., Any]] = (),
        builtin_tools: Sequence[str] | None = None,
        search_tools: bool = False,
        approve: Approver | Literal["always", "never"] | None = None,
        approval_mode: ApprovalMode | str = ApprovalMode.DEFAULT,
        policy: Sequence[PolicySource] = (),
        agents: Sequence[Subagent | RemoteAgent] = (),
        servers: Mapping[str, Server] = MappingProxyType({}),
        hooks: Mapping[str, Hook | Sequence[Hook]] = MappingProxyType({}),
        limits: Limits | None = None,
        cwd: str | PathLike[str] | None = None,
        isolated: bool = False,
        resume: str | None = None,
        history: Sequence[Content] | bytes = (),
        deps: DepsT = None,  # pyright: ignore[reportArgumentType]
        options: AgentOptions | None = None,
    ) -> None:
        """Checks the arguments; files are read when the agent is opened.

        Args:
            model: a name, or a model object; None is GEMINI_MODEL, the user's setting, or the
                default. Who makes a model object closes it.
            instructions: replaces the composed system instruction.
            tools: functions and tools of the program. They run without approval, unless they are
                made by `@tool(confirm=True)`.
            builtin_tools: the names of the only built-in tools to declare; None: all.
            search_tools: `tools` are not declared: the model finds them by `search_tools` and calls
                them by `call_tool`. For hundreds of tools.
            approve: called for each call that needs approval, or "always" or "never". Without it
                such calls are denied, and tools that need it are not declared.
            approval_mode: "default", "auto_edit", "yolo" or "plan".
            policy: rules, policy files, or directories of them.
            agents: subagents and remote agents that the model may give tasks to, beside the
                built-in ones.
            servers: MCP servers by name, beside those of the settings.
            hooks: functions or commands by event ("BeforeTool", …), as docs/hooks.md describes
                their input and output.
            limits: turns, tokens, seconds and cost.
            cwd: the workspace, by default the current directory.
            isolated: reads and writes nothing of the person's or the project's: settings, memory,
                policies, hooks, `.env` files, records. An administrator's policies hold, and the
                process's environment is read for keys.
            resume: the recorded session to continue: "latest", a number, or an id.
            history: a conversation to continue: contents, or what `history_json` returned.
            deps: any object, which tools find in their `ToolContext`.
            options: the rest.
        """
        self._deps = deps
        local, remote = agents_of(agents)
        self._given = AgentArguments(
            model=model,
            instructions=instructions,
            tools=tools_of(tools),
            builtin_tools=builtin_names(builtin_tools),
            search_tools=bool(search_tools),
            agents=local,
            remote_agents=remote,
            approve=self._guard_approver(approver_of(approve)),
            approval_mode=mode_of(approval_mode),
            policy=sequence_of("policy", policy),
            servers=servers,
            hooks=hooks_of(hooks),
            limits=instance_of("limits", Limits, limits),
            cwd=cwd,
            isolated=isolated,
            resume=resume,
            history=contents_of(history),
            options=instance_of("options", AgentOptions, options),
        )
        require_usable(self._given)
        self._home: TemporaryDirectory[str] | None = None
        self._runner = SessionRunner(self._options)
        self._program = AgentProgram(self._runner, self._fail)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turn = Lock()
        self._thread: LoopThread | None = None
        self._model = ""
        self._session_id = ""
        self._history = self._given.history
        self._ran = False
        self._fault: ProgramError | None = None
        self._earlier = Usage()
        self._warnings: list[str] = []

    def __repr__(self) -> str:
        return f"Agent(model={self.model!r})"

    async def __aenter__(self) -> Self:
        """Reads settings and policies, chooses the model, declares the tools."""
        loop = _running_loop()
        if loop is None:
            raise BusyError(
                "alhena runs on asyncio; no asyncio event loop runs here.",
                remedy="Under trio, call run_sync in a thread.",
            )
        if not self._turn.acquire(blocking=False):
            raise BusyError("this agent is open already.", remedy="Use a second Agent.")
        try:
            if self._given.isolated:
                from tempfile import TemporaryDirectory

                self._home = TemporaryDirectory(prefix="alhena-")
            await self._open()
        except BaseException:
            self._leave_home()
            self._turn.release()
            raise
        self._loop = loop
        self._session_id, self._model = self._runner.session_id, self._runner.model
        return self

    async def __aexit__(self, *_exc: object) -> None:
        """Stops what still runs and closes connections and files."""
        self._model, self._earlier = self.model, self.usage
        options = self._given.options
        recorded = options.record and not self._given.isolated
        if self._ran:  # the next opening goes on
            self._given = msgspec.structs.replace(
                self._given,
                resume=self.session_id if recorded else None,
                history=() if recorded else self.history,
                options=msgspec.structs.replace(options, session_id=None),
            )
        self._history, self._loop = self.history, None
        try:
            await self._runner.__aexit__(None, None, None)
        finally:
            self._leave_home()
            if self._turn.locked():
                self._turn.release()

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
        if loop is None or loop is _running_loop():
            self._runner.interrupt()
        elif not loop.is_closed():
            loop.call_soon_threadsafe(self._runner.interrupt)

    if TYPE_CHECKING:

        @overload
        def run(self, prompt: Prompt, *, deps: DepsT = ...) -> Run[str]: ...
        @overload
        def run(
            self,
            prompt: Prompt,
            *,
            output: TypeForm[T],
            check: Callable[[T], T] | None = None,
            corrections: int = 1,
            deps: DepsT = ...,
        ) -> Run[T]: ...

    def run(
        self,
        prompt: Prompt,
        *,
        output: Any = str,
        check: Any = None,
        corrections: int = 1,
        deps: Any = _SAME,
    ) -> Run[Any]:
        """Starts a prompt: await the run for its Result, or iterate over its events.

        Args:
            prompt: text, or texts, `Part`s and `Image`s in order.
            output: a type, or a JSON schema: the model is asked for a value of it, which is the
                result's `output`.
            check: a function of that value that returns it, or raises ValueError with what is
                wrong with it.
            corrections: number of corrections by the model before OutputError is raised.
            deps: instead of those of the agent, for this run.

        Raises InputError for an empty prompt and TypeError for a type that JSON cannot carry;
        awaiting and iterating raise the AlhenaError that ended the run (`LimitError` at a limit),
        and BusyError while another run is at work.
        """
        before, text, attached = parts_of(prompt)
        final = None
        if output is str and check is not None:
            raise TypeError("check needs output=, a type whose values it checks")
        if output is not str:
            if not isinstance(cast("object", corrections), int) or corrections < 0:
                raise TypeError(f"corrections has to be a number from 0, not {corrections!r:.60}")
            final = FinalAnswer(*read_output_type(output, check), corrections)
        collector = ResultCollector(None if final is None else lambda: final.value)

        def listen(session: Session) -> Callable[[Event], None]:
            take = collector.start(session)
            self._ran = True
            self._program.deps = self._deps if deps is _SAME else deps

            def hear(event: Event) -> None:
                take(event)
                self._hear(event)

            return hear

        events = self._runner.run(
            text, before=before, attached=attached, final=final, listen=listen
        )
        return Run(events, collector, self._hold, self._cause)

    if TYPE_CHECKING:

        @overload
        def run_sync(self, prompt: Prompt, *, deps: DepsT = ...) -> Result[str]: ...
        @overload
        def run_sync(
            self,
            prompt: Prompt,
            *,
            output: TypeForm[T],
            check: Callable[[T], T] | None = None,
            corrections: int = 1,
            deps: DepsT = ...,
        ) -> Result[T]: ...

    def run_sync(self, prompt: Prompt, **more: Any) -> Result[Any]:
        """Carries a prompt to its result; arguments are those of `run`."""

        async def whole() -> Result[Any]:
            return await self.run(prompt, **more)

        if self._thread is not None:
            return self._thread.call(whole)
        if self._loop is not None:
            if _running_loop() is self._loop:
                raise BusyError(
                    "run_sync would block the event loop that this agent was opened in.",
                    remedy="Use `await agent.run(…)`.",
                )
            if not self._loop.is_running():
                raise BusyError(
                    "the event loop that this agent was opened in does not run.",
                    remedy="Use `with agent:`, or call run_sync while that loop runs.",
                )
            return wait_for(self._loop, whole)
        thread = LoopThread()
        try:
            return thread.call(whole)
        finally:
            thread.close()

    if TYPE_CHECKING:

        @overload
        async def ask(self, prompt: Prompt, *, deps: DepsT = ...) -> str: ...
        @overload
        async def ask(
            self,
            prompt: Prompt,
            *,
            output: TypeForm[T],
            check: Callable[[T], T] | None = None,
            corrections: int = 1,
            deps: DepsT = ...,
        ) -> T: ...

    async def ask(self, prompt: Prompt, **more: Any) -> Any:
        """Carries a prompt to its answer and returns that; arguments are those of `run`."""
        return (await self.run(prompt, **more)).output

    if TYPE_CHECKING:

        @overload
        def ask_sync(self, prompt: Prompt, *, deps: DepsT = ...) -> str: ...
        @overload
        def ask_sync(
            self,
            prompt: Prompt,
            *,
            output: TypeForm[T],
            check: Callable[[T], T] | None = None,
            corrections: int = 1,
            deps: DepsT = ...,
        ) -> T: ...

    def ask_sync(self, prompt: Prompt, **more: Any) -> Any:
        """Carries a prompt to its answer and returns that; arguments are those of `run`."""
        return self.run_sync(prompt, **more).output

    def _guard_approver(self, approve: Approver | None) -> Approver | None:
        """The callback; when it fails, that ends the run."""
        if approve is None:
            return None

        async def ask(request: ConfirmationRequest) -> Verdict:
            try:
                answer = cast("object", await call_approver(approve, request))
            except Exception as error:  # noqa: BLE001  a function of the program may raise anything
                return self._fail(f"approve raised {type(error).__name__}: {error}", error)
            if isinstance(answer, bool | Answer | ToolConfirmationOutcome):
                return answer
            kind = type(answer).__name__
            return self._fail(f"approve returned {kind} instead of True, False or an Answer")

        return ask

    def _fail(self, message: str, cause: Exception | None = None) -> Answer:
        self._fault = ProgramError(message)
        self._fault.__cause__ = cause
        self._runner.interrupt()
        return Answer.no(stop=True)

    def _cause(self, error: AlhenaError) -> AlhenaError:
        fault, self._fault = self._fault, None
        return fault or error

    def _options(self) -> SessionSpec:
        options = session_options(self._given, None if self._home is None else self._home.name)
        client = msgspec.structs.replace(options.client, program=self._program)
        return msgspec.structs.replace(options, client=client)

    async def _open(self) -> None:
        try:
            await self._runner.__aenter__()
        except CredentialsError as error:
            if error.remedy and " --" in error.remedy:  # that is for people at a command line
                error.remedy = (
                    "Set GEMINI_API_KEY, or pass a model of alhena.models; in tests, a TestModel."
                )
            raise
        for tool in own_tools(self._given.tools, self._given.agents):
            if self._runner.toolset.needs_a_person(tool):
                await self._runner.__aexit__(None, None, None)
                raise ConfigError(
                    f"the tool {tool.name} needs approval, and no person can be asked.",
                    remedy=f'Pass approve=…, or policy=[Rule.allow("{tool.name}")].',
                )

    def _leave_home(self) -> None:
        home, self._home = self._home, None
        if home is not None:
            home.cleanup()

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
        fresh = warnings_of(event)
        if fresh:
            import logging

            for text in fresh:
                logging.getLogger("alhena").warning("%s", text)
            self._warnings += fresh


class AgentProgram:
    """The `tools.contract.HostProgram` of an agent."""

    def __init__(self, runner: SessionRunner, fail: Callable[[str], object]) -> None:
        self.deps: Any = None
        self._runner = runner
        self._fail = fail

    async def ask_model(self, prompt: str) -> str:
        """The text by which the agent's model answers `prompt`. Raises ModelError."""
        ask = self._runner.toolset.host.models.ask
        if ask is None:
            raise ProgramError("this agent has no model to ask.")
        return await ask(prompt)

    def fail(self, message: str) -> None:
        """Ends the run with a ProgramError."""
        self._fail(message)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def read_output_type(output: Any, check: Any) -> tuple[dict[str, Any], Callable[[Any], Any]]:
    """The schema of a type, and what reads a value of it. Raises TypeError."""
    if isinstance(output, Mapping):
        return _by_schema(dict(cast("Mapping[str, Any]", output)), check)
    try:
        schema = schema_of(output)
    except TypeError as error:
        raise TypeError(f"output cannot be {output!r:.100}: {error}") from None
    if check is not None and not callable(check):
        raise TypeError(f"check has to be a function, not {check!r:.60}")

    def read(data: Any) -> Any:
        value = value_from_json(output, data)
        return value if check is None else check(value)

    return schema, read


def _by_schema(schema: dict[str, Any], check: Any) -> tuple[dict[str, Any], Callable[[Any], Any]]:
    """A JSON schema, and what reads a value of it."""
    from alhena.tools.params import problem_with

    def read(data: Any) -> Any:
        problem = problem_with(schema, data)
        if problem is not None:
            raise ValueError(problem)
        return data if check is None else check(data)

    return schema, read


def parts_of(
    prompt: Prompt,
) -> tuple[tuple[Part, ...], str, tuple[Part, ...]]:
    """The parts before the first text of a prompt, that text, and what follows, as parts. Raises
    TypeError."""
    if not isinstance(cast("object", prompt), Iterable):
        raise TypeError(f"prompt has to be text, Parts and Images, not {prompt!r:.60}")
    items: tuple[Any, ...] = (prompt,) if isinstance(prompt, str) else sequence_of("prompt", prompt)
    before: list[Part] = []
    text = ""
    after: list[Part] = []
    for item in items:
        if isinstance(item, Image):
            item = item.part
        if isinstance(item, Part):
            (after if text else before).append(item)
        elif not isinstance(item, str):
            raise TypeError(f"prompt has to be text, Parts and Images, not {type(item).__name__}")
        elif text:
            after.append(Part(text=item))
        else:
            text = item
    return tuple(before), text, tuple(after)
