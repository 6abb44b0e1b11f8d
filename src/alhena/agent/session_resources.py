"""What the policy says of resources and prompts of MCP servers: the rules of their server hold."""

from collections.abc import Callable

from msgspec.structs import replace

from alhena.agent.workbench import Workbench
from alhena.mcp.resources import find
from alhena.mcp.servers import Servers
from alhena.policy.conditions import names_tool
from alhena.policy.decide import strictness
from alhena.policy.model import Decision, PolicyCall, PolicyOutcome
from alhena.tools.names import READ_RESOURCE

_PROMPT = "prompts/get"


def reviewed_reading(
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


def refuses_server(bench: Workbench, name: str) -> bool:
    """Whether the policy denies all that a server has, so that nothing is to be asked of it."""
    decision = bench.decide(PolicyCall(names=(_PROMPT,), args={}, server_name=name))
    rule = decision.rule
    denies = rule is not None and rule.decision is PolicyOutcome.DENY
    return denies and _speaks_of_server(decision, (_PROMPT,))


def _speaks_of_server(decision: Decision, names: tuple[str, ...]) -> bool:
    """Whether it is a rule of the user or the administrator for servers that decided."""
    rule = decision.rule
    if rule is None or rule.author == "default":
        return False
    return not names_tool(rule, PolicyCall(names=names, args={}))


def _of(server: str, call: PolicyCall) -> PolicyCall:
    return PolicyCall(names=(READ_RESOURCE,), args=call.args, server_name=server)
