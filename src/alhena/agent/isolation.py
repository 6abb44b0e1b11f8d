"""Which tools a subagent has: those it names, of those the session has, and never delegation."""

from collections.abc import Sequence

from alhena.tools.contract import Tool
from alhena.tools.names import declared_name
from alhena.tools.registry import RegisteredTool, ToolRegistry

NEVER = frozenset(
    {"delegate_to_agent", "ask_user", "enter_plan_mode", "exit_plan_mode", "complete_task"}
)
"""Tools that steer the session or its person; whatever an agent lists, these are not its own."""


def isolated(session: ToolRegistry, patterns: Sequence[str], *own: Tool) -> ToolRegistry:
    """A registry of the session's visible tools that `patterns` mean, and of the agent's `own`.

    A pattern is a tool's name, `*`, or for an MCP server `server__tool`, `server__*` or their
    `mcp_server_` forms. A bare name never means a tool of a server, whatever that calls its tools.
    """
    registry = ToolRegistry()
    for name in session.names:
        entry = session.find(name)
        if entry is None or entry.tool.name in NEVER:
            continue
        if any(_means(pattern, entry) for pattern in patterns):
            registry.register(
                entry.tool, origin=entry.origin, server=entry.server, accepted=entry.names
            )
    for tool in own:
        registry.register(tool)
    return registry


def _means(pattern: str, entry: RegisteredTool) -> bool:
    if pattern == "*":
        return True
    if entry.server is None:
        return declared_name(pattern) == entry.tool.name
    prefixes = (f"{entry.server}__", f"mcp_{entry.server}_")
    if not pattern.startswith(prefixes):
        return pattern == "mcp_*"
    return pattern in entry.names or pattern in {f"{prefix}*" for prefix in prefixes}
