"""Decisions on calls of MCP servers' tools and on reading their resources."""

from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from alhena.config.mcp_servers import harmless_url, harmless_words
from alhena.hooks.inputs import McpContext
from alhena.mcp.resources import find
from alhena.mcp.servers import Servers
from alhena.mcp.tool import McpTool
from alhena.policy.conditions import names_tool
from alhena.policy.gather import FOR_GOOD, IN_SESSION, is_saved_approval
from alhena.policy.model import (
    ApprovalMode,
    Decision,
    PolicyCall,
    PolicyContext,
    PolicyOutcome,
    PolicyRule,
    strictness,
)
from alhena.tools.registry import READ_RESOURCE, RegisteredTool


def drop_unsure_names(decision: Decision, call: PolicyCall, servers: Servers) -> PolicyCall | None:
    """A call that may run, as it has to be decided on again: without the names that could be said
    of another tool, too. None where there are no such names."""
    names = servers.sure_names(call.names)
    if decision.outcome is not PolicyOutcome.ALLOW or names == call.names:
        return None
    return replace(call, names=names)


def review_call(
    decision: Decision,
    call: PolicyCall,
    servers: Servers,
    context: PolicyContext,
    saved: Path,
) -> Decision:
    """The decision on a call of a server's tool. One that is not what was approved once is asked
    about again, unless everything is to run; so is one that a rule of the file `saved` allows, and
    whose state at that time is unknown."""
    if decision.outcome is not PolicyOutcome.ALLOW or context.mode is ApprovalMode.YOLO:
        return decision
    approved = decision.rule is not None and is_answer(decision.rule, saved)
    objection = servers.objection(call.names[0], approved=approved)
    if not objection:
        return decision
    return Decision(
        outcome=PolicyOutcome.ASK_USER if context.interactive else PolicyOutcome.DENY,
        reason=f"the tool {call.names[0]} {objection}",
        rule=decision.rule,
    )


def is_answer(rule: PolicyRule, saved: Path) -> bool:
    """True when a rule is what a person answered to a question, in this session or an earlier
    one."""
    if rule.file is None:
        return rule.source in {IN_SESSION, FOR_GOOD}
    return is_saved_approval(rule, saved)


def server_context(entry: RegisteredTool) -> McpContext | None:
    """Description of a tool's server for hooks, without secrets (MCP-08)."""
    if not isinstance(entry.tool, McpTool):
        return None
    server = entry.tool.server
    config, harmless = server.config, server.harmless
    over_stdio = config.address is None
    return McpContext(
        server_name=server.name,
        tool_name=entry.tool.listed.name,
        command=harmless(config.command) if over_stdio and config.command else None,
        args=tuple(map(harmless, harmless_words(config.args))) if over_stdio else None,
        cwd=harmless(config.cwd) if over_stdio and config.cwd else None,
        url=None if config.address is None else harmless(harmless_url(config.address)),
    )


_PROMPT = "prompts/get"


def review_reading(
    decision: Decision, call: PolicyCall, servers: Servers, decide: Callable[[PolicyCall], Decision]
) -> Decision:
    """The decision on a call that reads a resource, made stricter by what `decide` says of its
    server. The URI of one that the server does not list is sent to it as the model wrote it, so
    that only an approval that holds for the server lets it pass."""
    uri = call.args.get("uri")
    found = find(servers.servers, uri) if isinstance(uri, str) else None
    if found is None or decision.outcome is PolicyOutcome.DENY:
        return decision
    server = found.server
    of_server = decide(_of(server.name, call))
    if strictness(of_server) <= strictness(decision):
        return decision
    if any(each.uri == found.uri for each in server.offer.resources):
        return of_server if _speaks_of_server(of_server, call.names) else decision
    why = f"the server {server.name} does not list this resource, and would be sent what it says"
    return replace(of_server, reason=f"{why}; {of_server.reason}")


def refuses_server(decide: Callable[[PolicyCall], Decision], name: str) -> bool:
    """True when the policy denies all that a server has, so that nothing is to be asked of it."""
    decision = decide(PolicyCall(names=(_PROMPT,), args={}, server_name=name))
    rule = decision.rule
    denies = rule is not None and rule.decision is PolicyOutcome.DENY
    return denies and _speaks_of_server(decision, (_PROMPT,))


def _speaks_of_server(decision: Decision, names: tuple[str, ...]) -> bool:
    """True when it is a rule of the user or the administrator for servers that decided."""
    rule = decision.rule
    if rule is None or rule.author == "default":
        return False
    return not names_tool(rule, PolicyCall(names=names, args={}))


def _of(server: str, call: PolicyCall) -> PolicyCall:
    return PolicyCall(names=(READ_RESOURCE,), args=call.args, server_name=server)
