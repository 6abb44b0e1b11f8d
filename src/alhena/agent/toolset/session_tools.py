"""Tools that belong to a session: plan mode, subagents, and those that a command of the settings
lists."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from alhena.agent.toolset.subagents import builtin_agents
from alhena.agent.toolset.workbench import SessionLinks
from alhena.policy.model import PolicyOutcome, PolicyRule
from alhena.tools.builtin.subagents import DelegateToAgent
from alhena.tools.contract import ExecutionContext, Tool, ToolResult
from alhena.tools.declared import LazyTool

if TYPE_CHECKING:
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
    bench: "Workbench", links: SessionLinks, plans: Path, wanted: Collection[str]
) -> None:
    """Adds those that are `wanted` to the workbench's registry. `plans` is where approved plans are
    kept."""

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

    async def run(name: str, objective: str, context: ExecutionContext) -> ToolResult:
        from alhena.agent.chat import traits_of
        from alhena.agent.toolset.delegation import SubagentModel, Subagents
        from alhena.chat.chat import Outlets

        def model() -> SubagentModel:
            generator, own = links.answering()
            return SubagentModel(generator, traits_of(own), links.fallback)

        outlets = Outlets(links.emit, links.pace, texts=links.texts)
        agents = Subagents(bench, model, outlets, links.approver, links.opening)
        return await agents.run(name, objective, context)

    summaries = tuple(agent.summary for agent in builtin_agents())
    register(DelegateToAgent(summaries, run))


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
