"""Mistakes of a program that show when its agent is opened: names of tools and of services that are
not there, and tools that no person can approve."""

from alhena.agent.toolset.authority import own_tools
from alhena.agent.toolset.toolset import Toolset
from alhena.errors import ConfigError
from alhena.library.options import AgentArguments
from alhena.models.catalogue import service_of
from alhena.policy.engine import is_active
from alhena.policy.model import PolicyOutcome, Rule
from alhena.policy.settings_rules import ALWAYS_THERE
from alhena.tools.registry import ALIASES, BUILT_IN, NEVER, missing_tools, resolve_name

_NAMES = BUILT_IN | ALIASES.keys()


def check_program(bench: Toolset, given: AgentArguments) -> None:
    """Raises ConfigError for the first mistake."""
    for tool in own_tools(given.tools, given.agents):
        if bench.needs_a_person(tool):
            raise ConfigError(
                f"the tool {tool.name} needs approval, and no person can be asked.",
                remedy=f'Pass approve=…, or policy=[Rule.allow("{tool.name}")].',
            )
    for name in given.servers:
        if _needs_a_person(bench, given, name):
            raise ConfigError(
                f"the tools of the server {name} need approval, and no person can be asked.",
                remedy=f'Pass approve=…, or policy=[Rule.allow("{name}__*")].',
            )
    _check_agents(given)
    if _finds_further_tools(bench):
        return
    for index, rule in enumerate(given.policy):
        for name in rule.tool_names if isinstance(rule, Rule) else ():
            if not _may_be_elsewhere(name) and not _is_known(bench, given, name):
                raise ConfigError(
                    f"policy[{index}]: there is no tool {name!r}, so the rule has no effect.",
                    remedy=f"The tools are {', '.join(_list_tools(bench))}.",
                )
    for agent in given.agents:
        missing = missing_tools(bench.registry, agent.tools)
        if missing:
            raise ConfigError(
                f"Subagent {agent.name!r}: there is no tool {missing[0]!r}.",
                remedy=f"The tools are {', '.join(_list_tools(bench))}.",
            )


def _check_agents(given: AgentArguments) -> None:
    """Raises ConfigError for a model of no service, and a tool that no subagent can be given."""
    for agent in given.agents:
        if isinstance(agent.model, str):
            service_of(agent.model)
        for name in agent.tools:
            if resolve_name(name) in NEVER - ALWAYS_THERE:
                raise ConfigError(
                    f"Subagent {agent.name!r}: a subagent cannot have the tool {name!r}.",
                    remedy="Leave it out; the agent itself may have it.",
                )


def _finds_further_tools(bench: Toolset) -> bool:
    """True where servers, extensions or a command of the settings bring tools later."""
    place = bench.spec.place
    servers = bench.servers is not None and bench.servers.servers
    of_agents = bench.agents.servers is not None
    return bool(servers or of_agents or place.settings.tools.discovery_command or place.extensions)


def _may_be_elsewhere(name: str) -> bool:
    """True for a pattern, and for the name of a server's tool: a policy may serve many agents."""
    return "*" in name or "__" in name or name.startswith("mcp_")


def _list_tools(bench: Toolset) -> tuple[str, ...]:
    return tuple(sorted(bench.registry.names)) or ("none",)


def _is_known(bench: Toolset, given: AgentArguments, name: str) -> bool:
    return (
        resolve_name(name) in _NAMES
        or bench.registry.find(name, excluded=True) is not None
        or name in bench.agents.names
        or any(name == tool.name for tool in own_tools(given.tools, given.agents))
    )


def _needs_a_person(bench: Toolset, given: AgentArguments, server: str) -> bool:
    """True for a server whose tools can only be denied because there is no person to ask."""
    authority = bench.authority
    if authority.interactive:
        return False
    if not authority.excludes((f"{server}__tool",), server, authority.context):
        return False
    return not any(
        _may_allow(bench, given, rule)
        for rule in authority.engine.rules
        if rule.decision is PolicyOutcome.ALLOW and is_active(rule, authority.context)
    )


def _may_allow(bench: Toolset, given: AgentArguments, rule: Rule) -> bool:
    """True for a rule that allows a tool which may be one of a server."""
    return rule.mcp_name is not None or any(
        not _is_known(bench, given, name) for name in rule.tool_names if name != "*"
    )
