"""The tools and the policy over a workspace: everything that runs calls, with or without a
conversation."""

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from alhena.agent.limits import Spending, TurnLimits
from alhena.agent.toolset.model_access import Source
from alhena.agent.toolset.options import SessionOptions
from alhena.config.settings import Settings
from alhena.events import Event
from alhena.policy.engine import PolicyEngine, PolicyFilter, tighten
from alhena.policy.model import ApprovalMode, Decision, PolicyCall, PolicyContext
from alhena.policy.surroundings import Surroundings
from alhena.system.workspace import Workspace
from alhena.tools.builtin.subagents import RunAgent
from alhena.tools.contract import Tool
from alhena.tools.registry import READ_RESOURCE, ToolRegistry, all_names
from alhena.values import Value
from alhena.wire.content import Content

if TYPE_CHECKING:
    from alhena.agent.subagents import AgentDefinition
    from alhena.agent.subagents.remote_agents import RemoteAgents
    from alhena.agent.toolset.mcp import AgentServers, ServerControl
    from alhena.agent.toolset.memory import SessionMemory
    from alhena.agent.toolset.model_access import SessionFallback
    from alhena.hooks.planning import Hooks
    from alhena.mcp.servers import Servers
    from alhena.policy.safety_checks import SafetyChecks
    from alhena.scheduler.confirmation import Approver, Confirmations
    from alhena.scheduler.executor import Durable, Keep
    from alhena.scheduler.hooks import ToolHooks
    from alhena.scheduler.scheduler import Caller, Scheduler
    from alhena.skills.files import Skills
    from alhena.system.processes import ProcessGroups
    from alhena.tools.builtin.ask_user import Ask
    from alhena.tools.output_store import OutputStore

ToolSource = Callable[[], Awaitable[None]]
"""Registers its tools; reports failures instead of raising them."""


class ToolSources:
    """Sources are asked once, all at the same time, before the first prompt; one that was cancelled
    is asked again. Watchers are called when tools were added or removed."""

    def __init__(self) -> None:
        self._waiting: list[ToolSource] = []
        self.watchers: list[Callable[[], None]] = []
        self._closing: list[ToolSource] = []

    def add(self, source: ToolSource) -> None:
        """A source that is to be asked."""
        self._waiting.append(source)

    @property
    def waiting(self) -> bool:
        """True when one has still to be asked."""
        return bool(self._waiting)

    async def gather(self) -> None:
        """Asks all that have not answered yet."""
        if not self._waiting:
            return
        import asyncio  # not at the top: listing the tools needs no event loop

        async with asyncio.TaskGroup() as tasks:
            for source in self._waiting:
                tasks.create_task(self._ask(source))
        self.changed()

    def watch(self, listener: Callable[[], None]) -> None:
        """Calls `listener` whenever tools have come or gone."""
        self.watchers.append(listener)

    def when_closed(self, close: ToolSource) -> None:
        """Has `close` called when the session ends."""
        self._closing.append(close)

    async def close(self) -> None:
        """Ends what sources have left running. Can be called again."""
        while self._closing:
            await self._closing.pop()()

    def changed(self) -> None:
        """Tells those who watch."""
        for listener in tuple(self.watchers):
            listener()

    async def _ask(self, source: ToolSource) -> None:
        await source()
        self._waiting.remove(source)


async def at_once() -> None:
    """Does not wait."""


Delegate = Callable[["SessionLinks", "Toolset", "RemoteAgents | None"], RunAgent]
"""Makes what runs the subagents of a toolset; called before the first."""


class SessionLinks(Value, frozen=True, kw_only=True):
    """Services of a session for its tools.

    `answering` gives the model when a tool first needs one, `delegate` runs subagents; `emit` takes
    the events of such requests and `pace` holds them back; `approver` and `ask` reach the person,
    if there is one; `turns` counts those of the session and its subagents; `fallback` decides
    whether another model answers when one cannot; `opening` are the contents that a subagent's
    conversation begins with; `memory` is that of the session; `durable` and `keep` are awaited
    before a call may change something, `step` before results are sent; `resumed`: the session
    continues what another run left; `transcript` is the path of its record, "" for none. With
    `texts` the events of requests say what was sent and answered."""

    session_id: str
    answering: Source
    delegate: Delegate
    emit: Callable[[Event], None] = lambda _event: None
    pace: Callable[[], Awaitable[None]] = at_once
    step: Callable[[], Awaitable[None]] = at_once
    approver: "Approver | None" = None
    ask: "Ask | None" = None
    turns: TurnLimits = msgspec.field(default_factory=TurnLimits)
    fallback: "SessionFallback | None" = None
    opening: tuple[Content, ...] = ()
    memory: "SessionMemory | None" = None
    durable: "Durable | None" = None
    keep: "Keep | None" = None
    resumed: bool = False
    texts: bool = False
    transcript: str = ""


class SessionMode:
    """The mode now, and the one that leaving plan mode leads back to. Satisfies
    `tools.plan_mode.ModeSwitch`. `allows_yolo`: whether everything may run without asking;
    `may_act`: whether anything that changes files may, as in a trusted folder."""

    def __init__(
        self,
        mode: ApprovalMode = ApprovalMode.DEFAULT,
        *,
        allows_yolo: bool = True,
        may_act: bool = True,
    ) -> None:
        self.allows_yolo = allows_yolo
        self.may_act = may_act
        self._mode = mode
        self._work_mode = ApprovalMode.DEFAULT if mode is ApprovalMode.PLAN else mode
        self._listeners: list[Callable[[], None]] = []

    @property
    def mode(self) -> ApprovalMode:
        """The mode now."""
        return self._mode

    @property
    def planning(self) -> bool:
        """True when plan mode is on."""
        return self._mode is ApprovalMode.PLAN

    @property
    def next_mode(self) -> str:
        """The mode that leaving plan mode leads to: the one before it."""
        return self._work_mode

    def allows(self, mode: ApprovalMode) -> bool:
        """True for a mode that the session may be switched to."""
        if mode is ApprovalMode.YOLO:
            return self.allows_yolo and self.may_act
        return self.may_act or mode is not ApprovalMode.AUTO_EDIT

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Calls `listener` after every change."""
        self._listeners.append(listener)

    def switch(self, mode: ApprovalMode) -> None:
        """Changes the mode; holds for every decision from now on, also in the turn that runs. The
        default takes the place of a mode that is not allowed."""
        if not self.allows(mode):
            mode = ApprovalMode.DEFAULT
        if mode is self._mode:
            return
        self._mode = mode
        if mode is not ApprovalMode.PLAN:
            self._work_mode = mode
        for listener in self._listeners:
            listener()

    def enter_plan_mode(self) -> None:
        """Turns plan mode on."""
        self.switch(ApprovalMode.PLAN)

    def leave_plan_mode(self, mode: str | None = None) -> None:
        """Turns plan mode off, into `mode`, or `next_mode` without one; nothing changes when it is
        off."""
        if self.planning:
            self.switch(self._work_mode if mode is None else ApprovalMode(mode))


_SHELL = "run_shell_command"
_OF_SHELL = ("list_background_processes", "read_background_output")
"""Tools for what only commands of the shell leave behind."""


class Toolset(msgspec.Struct, kw_only=True, eq=False):
    """A workspace with the tools for it and the policy over them, for the session of `links`.

    `warnings` are for people, `notes` for those who look closer. `filters` and, where there are
    any, safety `checks` make decisions of the `engine` stricter. Permanent approvals go to
    the file `saved`. `spending` is what the session's requests took. `sandbox` says what commands
    run in, "" for nothing. `agents` are those that can be delegated to; `ask_model` answers tools
    of the program. The last of `tracers` gives the trace context of a call. `own_servers` are those
    of the agent that this is for, opened by `agent_servers`; `servers` are the session's.

    `modes.switch` changes the approval mode while the session runs.
    """

    options: SessionOptions
    settings: Settings
    links: SessionLinks
    memory: "SessionMemory | None"
    groups: "ProcessGroups | None"
    workspace: Workspace
    registry: ToolRegistry
    engine: PolicyEngine
    modes: SessionMode
    surroundings: Surroundings
    outputs: "OutputStore"
    spending: Spending
    saved: Path
    sandbox: str
    ask_model: Callable[[str], Awaitable[str]]
    filters: tuple[PolicyFilter, ...] = ()
    checks: "SafetyChecks | None" = None
    hooks: "Hooks | None" = None
    agents: "tuple[AgentDefinition, ...]" = ()
    agent_problems: tuple[str, ...] = ()
    agent_servers: "AgentServers | None" = None
    servers: "Servers | None" = None
    own_servers: "Servers | None" = None
    server_control: "ServerControl | None" = None
    skills: "Skills | None" = None
    sources: ToolSources
    warnings: list[str]
    notes: tuple[str, ...] = ()
    when_closed: list[Callable[[], object]] = []
    tracers: list[Callable[[str], str]] = []
    watchers: dict[Callable[[], None], None] = {}
    around_calls: "ToolHooks | None" = None

    @property
    def context(self) -> PolicyContext:
        """The circumstances of a decision that is made now."""
        return PolicyContext(
            mode=self.modes.mode,
            interactive=self.options.interactive,
            surroundings=self.surroundings,
        )

    def decide(self, call: PolicyCall) -> Decision:
        """The policy's decision on a call."""
        context = self.context
        return self.decide_by(self.engine, call, context)

    def _decides_for(self, caller: "Caller | None") -> Callable[[PolicyCall], Decision]:
        if caller is None:
            return self.decide
        name = caller.name

        def decide(call: PolicyCall) -> Decision:
            context = msgspec.structs.replace(self.context, subagent=name)
            return self.decide_by(self.engine, call, context)

        return decide

    def decide_by(self, engine: PolicyEngine, call: PolicyCall, context: PolicyContext) -> Decision:
        """The policy's decision on a call with the rules of `engine` in a `context`."""
        servers = self.servers_of(call.server_name, call.names)
        if servers is not None and servers is self.own_servers:
            from alhena.policy.settings_rules import rules_for_own

            trusted = (name for name, each in servers.servers.items() if each.config.trust)
            engine = PolicyEngine(rules_for_own(engine.rules, trusted))
        decision = tighten(engine.decide(call, context), call, self.filters, context)
        if servers is None:
            return decision
        if call.server_name is not None:
            from alhena.agent.toolset.mcp import reviewed, surely_named

            sure = surely_named(decision, call, servers)
            if sure is not None:
                decision = tighten(engine.decide(sure, context), sure, self.filters, context)
            return reviewed(decision, call, servers, context, self.saved)
        if READ_RESOURCE not in call.names:
            return decision
        from alhena.agent.toolset.mcp import reviewed_reading

        return reviewed_reading(
            decision, call, servers, lambda each: self.decide_by(engine, each, context)
        )

    def servers_of(self, name: str | None, names: tuple[str, ...] = ()) -> "Servers | None":
        """The servers that the one called `name`, or a call to read a resource, belongs to."""
        own = self.own_servers
        if own is None:
            return self.servers
        from alhena.mcp.resources import offers_resources

        reads = READ_RESOURCE in names and offers_resources(own.servers)
        return own if name in own.servers or reads else self.servers

    @contextmanager
    def stricter(self, rules: PolicyFilter) -> Generator[None]:
        """Decides by these rules, too, for a while."""
        self.filters += (rules,)
        try:
            yield
        finally:
            self.filters = tuple(each for each in self.filters if each is not rules)

    async def check(self, call: PolicyCall, decision: Decision) -> Decision:
        """The decision after the safety checkers."""
        if self.checks is None:
            return decision
        return await self.checks.check(call, decision, self.context)

    def watch(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Calls `listener` whenever the policy may decide otherwise; returns what ends that."""
        self.watchers[listener] = None
        return lambda: self.watchers.pop(listener, None)

    def policy_changed(self) -> None:
        """Tells those who watch that a rule was added, or that the mode is another."""
        for listener in tuple(self.watchers):
            listener()

    def trace_of(self, call_id: str) -> str:
        """The W3C trace context of a running call, "" where none is kept."""
        return self.tracers[-1](call_id) if self.tracers else ""

    def scheduler(
        self,
        emit: Callable[[Event], None],
        approver: "Approver | None" = None,
        registry: ToolRegistry | None = None,
        caller: "Caller | None" = None,
    ) -> "Scheduler":
        """A scheduler over these tools, or over those of another registry for a subagent, the
        `caller`; policy and hooks are the same. Without `approver` no person is asked."""
        from alhena.scheduler.executor import Executor
        from alhena.scheduler.gate import Authority
        from alhena.scheduler.scheduler import Scheduler

        asking: Confirmations | None = None
        if approver is not None:
            from alhena.agent.toolset.approval import confirm_with

            asking = confirm_with(approver, self, emit)
        executor = Executor(self.workspace.cwd, outputs=self.outputs, hooks=self._hooks_of_tools())
        executor.durable = self.links.durable
        executor.keep = self.links.keep
        executor.program = self.options.program
        known_as: Callable[[str], str] = str if caller is None else caller.call_id
        executor.traceparent = lambda call_id: self.trace_of(known_as(call_id))
        if self.memory is not None:
            executor.discover = self.memory.conversation()
        return Scheduler(
            self.registry if registry is None else registry,
            Authority(
                self._decides_for(caller), None if self.checks is None else self.check, self.watch
            ),
            emit,
            executor,
            asking=asking,
            caller=caller,
        )

    def _hooks_of_tools(self) -> "ToolHooks | None":
        """The hooks around calls, one for all schedulers; None when there are none."""
        if self.hooks is not None and self.around_calls is None:
            from alhena.scheduler.hooks import tool_hooks

            told = None
            if self.servers is not None or self.own_servers is not None:
                from alhena.agent.toolset.mcp import server_context as told

            self.around_calls = tool_hooks(self.hooks, told)
        return self.around_calls

    def hide_denied(self) -> None:
        """Takes the tools out of sight that could only ever be denied: they are not declared, and
        a call to one is answered as to a tool that is not there. Holds for the mode of now: to be
        called again when that has changed."""
        self.registry.hide(())
        context = self.context
        denied = [tool.name for tool in self.registry.all_tools if self._only_denied(tool, context)]
        if _SHELL in denied and not context.interactive:  # nothing can have been started
            denied += _OF_SHELL
        self.registry.hide(denied)

    def needs_a_person(self, tool: Tool) -> bool:
        """True for a tool whose calls are denied only because there is no person to ask."""
        asking = msgspec.structs.replace(self.context, interactive=True)
        return self._only_denied(tool, self.context) and not self._only_denied(tool, asking)

    def _only_denied(self, tool: Tool, context: PolicyContext) -> bool:
        entry = self.registry.find(tool.name)
        server = None if entry is None else entry.server
        names = all_names(tool.name) if entry is None else entry.names
        return self.engine.excluded(names, context, server) or any(
            item.excludes(names, context, server) for item in self.filters
        )


def window_of(bench: Toolset, model: str) -> int:
    """Tokens of the context window: the setting's, else the model's."""
    from alhena.models.catalogue import model_info

    return bench.settings.model.context_window or model_info(model).input_limit


def add_root(bench: Toolset, root: Path) -> None:
    """Adds a directory, a real path, to the workspace of a session. A sandbox keeps its own."""
    workspace = bench.workspace
    workspace.roots = (*workspace.roots, root)
    bench.surroundings = Surroundings(
        workspace.cwd, workspace.roots, trusted=bench.surroundings.trusted
    )
    bench.policy_changed()
