"""Tools that belong to a session: plan mode, subagents, and those that a command of the settings
lists."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from alhena.agent.subagents import builtin_agents
from alhena.agent.toolset.workbench import SessionLinks
from alhena.policy.model import PolicyOutcome, PolicyRule
from alhena.tools.builtin.subagents import DelegateToAgent, RunAgent
from alhena.tools.contract import ExecutionContext, Tool, ToolResult
from alhena.tools.declared import LazyTool

if TYPE_CHECKING:
    from alhena.agent.options import SessionOptions
    from alhena.agent.subagents import AgentDefinition
    from alhena.agent.subagents.remote import RemoteAgent, RemoteAgents
    from alhena.agent.toolset.workbench import Workbench
    from alhena.system.web.fetch import GuardedFetcher

_ANSWERED = PolicyRule(
    decision=PolicyOutcome.ALLOW,
    priority=0,
    tool_names=("ask_user",),
    source="the program answers questions",
    layer="program",
)
"""Weaker than all of the user's rules, stronger than the default that nobody is there to ask:
somebody is, only not for approvals."""


def register_session_tools(
    bench: "Workbench",
    links: SessionLinks,
    plans: Path,
    wanted: Collection[str],
    options: "SessionOptions",
) -> None:
    """Adds those that are `wanted` to the workbench's registry, and the one that runs the agents
    of `options`. `plans` is where approved plans are kept."""
    agents, remote = options.agents, options.remote_agents
    if DelegateToAgent.name in wanted:
        agents = (*_builtin_agents(options), *agents)
    bench.agents = agents

    def enter_plan_mode() -> Tool:
        from alhena.tools.builtin.plan_mode import EnterPlanMode

        return EnterPlanMode(bench.modes)

    def exit_plan_mode() -> Tool:
        from alhena.tools.builtin.plan_mode import ExitPlanMode

        return ExitPlanMode(bench.modes, plans)

    def register(tool: Tool) -> None:
        if tool.name in wanted:
            bench.registry.register(tool)

    register(LazyTool("enter_plan_mode", enter_plan_mode))
    register(LazyTool("exit_plan_mode", exit_plan_mode))
    if links.ask is not None:
        from alhena.tools.builtin.ask_user import AskUser

        register(AskUser(links.ask))
        if not bench.context.interactive:
            bench.engine.add_rule(_ANSWERED)
    summaries = tuple(agent.summary for agent in (*agents, *remote))
    if summaries:
        opened = _open_remote(bench, options, remote) if remote else None
        run = _runner(bench, links, options, opened)
        bench.registry.register(DelegateToAgent(summaries, run))


def _runner(
    bench: "Workbench",
    links: SessionLinks,
    options: "SessionOptions",
    remote: "RemoteAgents | None",
) -> RunAgent:
    """Runs the agents of a session."""

    async def run(name: str, objective: str, context: ExecutionContext) -> ToolResult:
        if remote is not None and name in remote:
            return await remote.run(name, objective, context)
        from alhena.agent.chat import traits_of
        from alhena.agent.toolset.delegation import SubagentModel, Subagents
        from alhena.chat.chat import Outlets

        def model() -> SubagentModel:
            generator, own = links.answering()
            return SubagentModel(generator, traits_of(own), links.fallback)

        outlets = Outlets(links.emit, links.pace, texts=links.texts)
        subagents = Subagents(bench, model, outlets, links.approver, links.opening)
        return await subagents.run(name, objective, context)

    limited: RunAgent | None = None

    async def within_limits(name: str, objective: str, context: ExecutionContext) -> ToolResult:
        nonlocal limited
        if limited is None:
            from alhena.agent.toolset.delegation import AgentLimit

            limited = AgentLimit(options.settings.agents, links.ask).over(run)
        return await limited(name, objective, context)

    return within_limits


def _builtin_agents(options: "SessionOptions") -> "tuple[AgentDefinition, ...]":
    """The built-in agents as the settings change them."""
    overrides = options.settings.agents.overrides
    if not overrides:
        return builtin_agents()
    from alhena.agent.subagents.files import overridden

    return tuple(
        overridden(agent, overrides[agent.name]) if agent.name in overrides else agent
        for agent in builtin_agents()
        if agent.name not in overrides or overrides[agent.name].enabled is not False
    )


def _open_remote(
    bench: "Workbench", options: "SessionOptions", agents: "tuple[RemoteAgent, ...]"
) -> "RemoteAgents":
    from alhena.agent.subagents.remote import RemoteAgents

    remote = RemoteAgents(agents, options.environ, options.cwd)
    for rule in remote.rules:
        bench.engine.add_rule(rule)
    return remote


def open_fetcher(environ: Mapping[str, str]) -> "GuardedFetcher":
    """A fetcher that dials only public addresses, and none behind a proxy."""
    from alhena.http.client import proxy_for
    from alhena.http.connect import tls_context
    from alhena.http.endpoint import Endpoint
    from alhena.system.web.fetch import GuardedFetcher

    return GuardedFetcher(
        lambda: tls_context(environ),
        lambda url: proxy_for(Endpoint(url.scheme, url.host, url.port), environ) is not None,
    )
