"""The tools and the policy over a workspace: everything that runs calls, with or without a
conversation."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from alhena.agent.limits import Spending, TurnLimits
from alhena.agent.toolset.authority import Authority
from alhena.agent.toolset.model_access import Source
from alhena.agent.toolset.options import SessionSpec
from alhena.config.settings import Settings
from alhena.events import Event
from alhena.policy.model import PolicyContext
from alhena.system.workspace import Workspace
from alhena.tools.builtin.subagents import RunAgent
from alhena.tools.catalogue import ToolHost
from alhena.tools.contract import Tool
from alhena.tools.registry import ToolRegistry, ToolSources, all_names
from alhena.values import Value
from alhena.wire.content import Content

if TYPE_CHECKING:
    from alhena.agent.subagents import AgentDefinition
    from alhena.agent.subagents.remote import RemoteAgent
    from alhena.agent.subagents.remote_agents import RemoteAgents
    from alhena.agent.toolset.mcp import AgentServers, ServerControl
    from alhena.agent.toolset.memory import SessionMemory
    from alhena.agent.toolset.model_access import SessionFallback
    from alhena.chat.recovery import Substitute
    from alhena.hooks.planning import Hooks
    from alhena.mcp.servers import Servers
    from alhena.models.generator import ContentGenerator
    from alhena.scheduler.confirmation import Confirmations
    from alhena.scheduler.executor import Durable, Keep
    from alhena.scheduler.gate import Decide
    from alhena.scheduler.hooks import ToolHooks
    from alhena.scheduler.question import Approver
    from alhena.scheduler.scheduler import Caller, Scheduler
    from alhena.skills.files import Skills
    from alhena.telemetry.spans import Spans
    from alhena.tools.builtin.ask_user import Ask


class SessionAgents(Value, frozen=True, kw_only=True):
    """The agents that a session can delegate to, `remote` ones too. `problems` say which
    definition files cannot be used; `servers` opens the MCP servers of agents."""

    local: "tuple[AgentDefinition, ...]" = ()
    remote: "tuple[RemoteAgent, ...]" = ()
    problems: tuple[str, ...] = ()
    servers: "AgentServers | None" = None

    @property
    def names(self) -> tuple[str, ...]:
        """All names."""
        return tuple(each.name for each in (*self.local, *self.remote))


async def at_once() -> None:
    """Does not wait."""


Delegate = Callable[["SessionLinks", "Toolset", "RemoteAgents | None"], RunAgent]
"""Makes what runs the subagents of a toolset; called before the first."""


FindModel = Callable[["str | ContentGenerator"], "Substitute"]
"""Finds a model by its name or object. Raises ConfigError, CredentialsError."""


class SessionLinks(Value, frozen=True, kw_only=True):
    """Services of a session for its tools.

    `answering` gives the model when a tool first needs one, `delegate` runs subagents; `emit` takes
    the events of such requests and `pace` holds them back; `approver` and `ask` reach the person,
    if there is one; `turns` counts those of the session and its subagents; `fallback` decides
    whether another model answers when one cannot; `opening` are the contents that a subagent's
    conversation begins with; `memory` is that of the session; `durable` and `keep` are awaited
    before a call may change something, `step` before results are sent; `resumed`: the session
    continues what another run left; `transcript` is the path of its record, "" for none. With
    `texts` the events of requests say what was sent and answered. `find_model` gives a program's
    model object, or a model of another service by its name."""

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
    find_model: "FindModel | None" = None


_SHELL = "run_shell_command"
_OF_SHELL = ("list_background_processes", "read_background_output")


class Toolset(msgspec.Struct, kw_only=True, eq=False):
    """The tools of a session, over the services of `host`; `authority` decides on their calls.

    `warnings` are for people, `notes` for those who look closer. `spending` is what the session's
    requests took. The last of `tracers` knows the span of a call.
    """

    spec: SessionSpec
    links: SessionLinks
    host: ToolHost
    registry: ToolRegistry
    authority: Authority
    spending: Spending
    hooks: "Hooks | None" = None
    agents: SessionAgents
    server_control: "ServerControl | None" = None
    skills: "Skills | None" = None
    sources: ToolSources
    warnings: list[str]
    notes: tuple[str, ...] = ()
    when_closed: list[Callable[[], object]] = []
    tracers: "list[Spans]" = []
    around_calls: "ToolHooks | None" = None

    @property
    def settings(self) -> Settings:
        """The settings of the session."""
        return self.spec.place.settings

    @property
    def workspace(self) -> Workspace:
        """The workspace of the tools."""
        return self.host.workspace

    @property
    def sandbox(self) -> str:
        """The kind of sandbox that commands run in, "" for none."""
        sandbox = self.host.sandbox
        return "" if sandbox is None else sandbox.name

    @property
    def memory(self) -> "SessionMemory | None":
        """The memory of the session."""
        return self.links.memory

    @property
    def servers(self) -> "Servers | None":
        """The MCP servers of the session."""
        return self.authority.servers

    def trace_of(self, call_id: str) -> str:
        """The W3C trace context of a running call, "" where none is kept."""
        return self.tracers[-1].traceparent(call_id) if self.tracers else ""

    def enter_span(self, call_id: str) -> AbstractContextManager[object]:
        """Makes the span of a running call the current one, where spans are made."""
        return self.tracers[-1].inside_call(call_id) if self.tracers else nullcontext()

    def scheduler(
        self,
        emit: Callable[[Event], None],
        approver: "Approver | None" = None,
        registry: ToolRegistry | None = None,
        caller: "Caller | None" = None,
        patterns: Sequence[str] = (),
    ) -> "Scheduler":
        """A scheduler over these tools, or over those of another registry for a subagent, the
        `caller`; policy and hooks are the same, and of the shell there are only the commands that
        the `patterns` of its tools name, if they do. Without `approver` no person is asked."""
        from alhena.scheduler.executor import CallServices, Executor
        from alhena.scheduler.gate import CallPolicy
        from alhena.scheduler.scheduler import Scheduler

        authority = self.authority
        asking: Confirmations | None = None
        if approver is not None:
            from alhena.agent.toolset.approval import confirm_with

            asking = confirm_with(
                approver,
                self.authority,
                emit,
                edit=self.spec.people.edit,
                lasting=not self.settings.security.disable_always_allow,
            )
        known_as: Callable[[str], str] = str if caller is None else caller.call_id
        services = CallServices(
            durable=self.links.durable,
            keep=self.links.keep,
            program=self.spec.client.program,
            traceparent=lambda call_id: self.trace_of(known_as(call_id)),
            enter_span=lambda call_id: self.enter_span(known_as(call_id)),
            discover=None if self.memory is None else self.memory.conversation(),
        )
        executor = Executor(
            self.workspace.cwd,
            outputs=self.host.outputs,
            hooks=self._hooks_of_tools(),
            services=services,
        )
        return Scheduler(
            self.registry if registry is None else registry,
            CallPolicy(
                self._decide_for(caller, patterns),
                None if authority.checks is None else authority.check,
                authority.watch,
            ),
            emit,
            executor,
            asking=asking,
            caller=caller,
        )

    def _decide_for(self, caller: "Caller | None", patterns: Sequence[str]) -> "Decide":
        """The decisions on the calls of a caller with these tools."""
        decide = self.authority.decide_for(caller)
        if caller is None or not any("(" in each for each in patterns):
            return decide
        from alhena.policy.engine import tighten
        from alhena.policy.settings_rules import restrict_shell

        only = restrict_shell(f"agent {caller.name}", patterns)
        context = self.authority.context
        return lambda call: tighten(decide(call), call, (only,) if only else (), context)

    def _hooks_of_tools(self) -> "ToolHooks | None":
        """The hooks around calls, one for all schedulers; None when there are none."""
        if self.hooks is not None and self.around_calls is None:
            from alhena.scheduler.hooks import tool_hooks

            told = None
            if self.servers is not None or self.authority.own_servers is not None:
                from alhena.agent.toolset.mcp_review import server_context as told

            self.around_calls = tool_hooks(self.hooks, told)
        return self.around_calls

    def add_servers(self, registry: ToolRegistry, own: "Servers") -> "Toolset":
        """These tools with the servers of an agent, whose tools are in `registry`."""
        authority = msgspec.structs.replace(self.authority, own_servers=own)
        return msgspec.structs.replace(
            self, registry=registry, authority=authority, around_calls=None
        )

    def hide_denied(self) -> None:
        """Takes the tools out of sight that could only ever be denied: they are not declared, and
        a call to one is answered as to a tool that is not there. Where a person may change the
        mode, it must be denied in every mode, so that what is declared stays the same."""
        self.registry.hide(())
        context = self.authority.context
        modes = self.authority.modes.reachable if context.interactive else (context.mode,)
        contexts = [msgspec.structs.replace(context, mode=mode) for mode in modes]
        denied = [
            tool.name
            for tool in self.registry.all_tools
            if all(self._only_denied(tool, each) for each in contexts)
        ]
        if _SHELL in denied and not context.interactive:  # nothing can have been started
            denied += _OF_SHELL
        self.registry.hide(denied)

    def describe_plan_mode(self) -> str:
        """The text that tells the model of plan mode."""
        from alhena.chat.prompt import omitted_sections, plan_mode_text

        rules = "plan" not in omitted_sections(self.spec.place.environ)
        return plan_mode_text(self.registry.names, rules=rules)

    def needs_a_person(self, tool: Tool) -> bool:
        """True for a tool whose calls are denied only because there is no person to ask."""
        asking = msgspec.structs.replace(self.authority.context, interactive=True)
        return self._only_denied(tool, self.authority.context) and not self._only_denied(
            tool, asking
        )

    def _only_denied(self, tool: Tool, context: PolicyContext) -> bool:
        entry = self.registry.find(tool.name)
        server = None if entry is None else entry.server
        names = all_names(tool.name) if entry is None else entry.names
        return self.authority.excludes(names, server, context)


def window_of(bench: Toolset, model: str) -> int:
    """Tokens of the context window: the setting's, else the model's."""
    from alhena.models.catalogue import model_info

    return bench.settings.model.context_window or model_info(model).input_limit


def add_root(bench: Toolset, root: Path) -> None:
    """Adds a directory, a real path, to the workspace of a session. A sandbox keeps its own."""
    workspace = bench.workspace
    workspace.add_root(root)
    bench.authority.extend_roots(workspace.roots)
