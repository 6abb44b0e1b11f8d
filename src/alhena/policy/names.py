"""Does a rule speak of this tool? Names, wildcards and MCP servers (POL-04)."""

from alhena.policy.model import PolicyCall, PolicyOutcome, PolicyRule

SHELL_NAMES = frozenset({"run_shell_command", "ShellTool", "shell"})
"""Every name of the one tool whose `command` argument rules can look at."""


def is_shell(call: PolicyCall) -> bool:
    """Is this a call of the built-in shell tool? A server's tool never is, whatever its name."""
    return call.server_name is None and not SHELL_NAMES.isdisjoint(call.names)


def names_tool(rule: PolicyRule, call: PolicyCall) -> bool:
    """Do the rule's `tool_names` and `mcp_name` cover the tool of this call?

    An allow by bare name does not reach a server's tool of that name: what a server calls its
    tools is the server's choice, so such an allow has to name the server.
    """
    if rule.mcp_name is not None:
        return _of_server(rule.mcp_name, call) and (
            not rule.tool_names or any(_server_tool(rule, name, call) for name in rule.tool_names)
        )
    if not rule.tool_names:
        return True
    allow = rule.decision is PolicyOutcome.ALLOW
    return any(_covers(name, call, allow=allow) for name in rule.tool_names)


def names_server(rule: PolicyRule, call: PolicyCall) -> bool:
    """Does the rule name tools (no wildcards) of the MCP server of this call?"""
    if not rule.tool_names or any("*" in name for name in rule.tool_names):
        return False
    if rule.mcp_name not in (None, "*"):
        return rule.mcp_name in _spellings(call.server_name or "")
    return rule.mcp_name is None and rule.tool_names[0].startswith(_prefixes(call))


def _covers(name: str, call: PolicyCall, *, allow: bool) -> bool:
    if name == "*":
        return True
    if name.endswith("*"):
        return _wildcard(name, call, allow=allow)
    if name not in call.names:
        return False
    return not (allow and call.server_name is not None) or name in _qualified(call)


def _wildcard(pattern: str, call: PolicyCall, *, allow: bool) -> bool:
    stem = pattern[:-1]
    server = call.server_name
    if server is None:
        return any(name.startswith(stem) for name in call.names)
    if pattern == "mcp_*":
        return True
    if stem.endswith("__") and stem[:-2] in _spellings(server):
        return True
    if stem.startswith("mcp_") and stem.endswith("_") and stem[4:-1] in _spellings(server):
        return True
    return not allow and any(name.startswith(stem) for name in call.names)


def _of_server(server: str, call: PolicyCall) -> bool:
    if call.server_name is not None:
        return server == "*" or server in _spellings(call.server_name)
    if server == "*":
        return any("__" in name or name.startswith("mcp_") for name in call.names)
    return any(name.startswith((f"{server}__", f"mcp_{server}_")) for name in call.names)


def _server_tool(rule: PolicyRule, tool: str, call: PolicyCall) -> bool:
    if tool == "*" or tool in call.names:
        return True
    servers = _spellings(call.server_name) if call.server_name else {rule.mcp_name or ""}
    for server in servers:
        if {f"{server}__{tool}", f"mcp_{server}_{tool}"} & set(call.names):
            return True
        for prefix in (f"{server}__", f"mcp_{server}_"):
            if tool.startswith(prefix) and tool[len(prefix) :] in call.names:
                return True
    return False


def _qualified(call: PolicyCall) -> set[str]:
    prefixes = _prefixes(call)
    return {name for name in call.names if name.startswith(prefixes)}


def _prefixes(call: PolicyCall) -> tuple[str, ...]:
    """What begins the qualified names of its server's tools."""
    return tuple(
        prefix
        for server in sorted(_spellings(call.server_name or ""))
        for prefix in (f"{server}__", f"mcp_{server}_")
    )


def _spellings(server: str) -> set[str]:
    """A server's name as configured, and as it stands inside tool names."""
    return {
        server,
        "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "_" for c in server),
    }
