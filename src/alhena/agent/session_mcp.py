"""The MCP servers of a session: connected in the background, their tools among the others."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from alhena.agent.mcp_control import ServerControl
from alhena.agent.mcp_surroundings import surroundings
from alhena.config.home import config_home
from alhena.config.mcp_servers import configured_servers
from alhena.hooks.inputs import McpContext
from alhena.mcp.listing import claimed_names
from alhena.mcp.opening import opener
from alhena.mcp.pins import Pins
from alhena.mcp.server import ServerState
from alhena.mcp.servers import Outlets, Servers
from alhena.mcp.shown import harmless_arguments, harmless_url
from alhena.mcp.tool import McpTool, framed_instructions
from alhena.policy.model import (
    ApprovalMode,
    Decision,
    PolicyCall,
    PolicyContext,
    PolicyOutcome,
    PolicyRule,
)
from alhena.policy.settings_rules import unknown_server_tools
from alhena.system.private_files import PrivateFiles
from alhena.system.processes import ProcessGroups
from alhena.tools.registry import RegisteredTool

if TYPE_CHECKING:
    from alhena.agent.workbench import Workbench, WorkbenchOptions


def add_servers(
    bench: "Workbench",
    options: "WorkbenchOptions",
    groups: ProcessGroups | None,
    *,
    trusted: bool,
) -> None:
    """Gives the workbench its servers. Whoever opens a session starts them; at the latest the first
    prompt does, which waits for them if it is to. What keeps one from being there is a warning of
    the workbench. In a folder that is not trusted none is started that a workspace could have
    put there: their directory is the user's own."""
    environ, settings = options.environ, options.settings
    kept = groups or ProcessGroups()

    def warn(text: str) -> None:
        bench.warnings += (text,)

    def changed() -> None:
        rules = (*bench.engine.rules, *(rule for each in bench.filters for rule in each.rules))
        written = (rule for rule in rules if not _is_answer(rule, bench.saved))
        for text in unknown_server_tools(written, _tool_names(servers)):
            if text not in bench.warnings:
                warn(text)
        bench.sources.changed()

    roots = bench.workspace.roots
    around = surroundings(environ, settings, roots, kept, warn, trusted=trusted)
    if options.acceptance is not None:
        around = replace(around, why_held=options.acceptance.server)
    configured = partial(configured_servers, settings, environ, held=options.held_servers)
    servers = Servers(
        configured(None),
        opener(around),
        bench.registry,
        Pins(PrivateFiles(config_home(environ)), warn),
        Outlets(warn=warn, changed=changed, directory=around.cwd, named=options.named),
    )
    bench.servers = servers
    bench.server_control = ServerControl(servers, configured, environ, options.held_servers)

    async def source() -> None:
        servers.start()
        if options.wait_for_servers:
            await servers.settled()
        servers.begin()

    async def close() -> None:
        await servers.close()
        if groups is None:
            await kept.close()

    bench.sources.add(source)
    bench.sources.when_closed(close)


def _tool_names(servers: Servers) -> dict[str, frozenset[str] | None]:
    """All names of the tools of each server, of those that are left out, too; None where a server
    has not listed them yet."""
    found: dict[str, frozenset[str] | None] = {}
    for name, server in servers.servers.items():
        offer = server.offer
        listed = {*(each.name for each in offer.tools), *offer.left_out}
        tools = listed | {*server.config.exclude_tools}
        names = frozenset(each for tool in tools for each in (tool, *claimed_names((name, tool))))
        found[name] = names if server.state is ServerState.CONNECTED else None
    return found


def instructions(servers: Servers) -> str:
    """What servers want the model to know of them, for the system instruction."""
    return framed_instructions(
        (report.name, report.instructions) for report in servers.reports() if report.instructions
    )


def surely_named(decision: Decision, call: PolicyCall, servers: Servers) -> PolicyCall | None:
    """A call that may run, as it has to be decided on again: without the names that could be said
    of another tool, too. None where there are no such names."""
    names = servers.sure_names(call.names)
    if decision.outcome is not PolicyOutcome.ALLOW or names == call.names:
        return None
    return replace(call, names=names)


def reviewed(
    decision: Decision,
    call: PolicyCall,
    servers: Servers,
    context: PolicyContext,
    saved: Path | None,
) -> Decision:
    """The decision on a call of a server's tool. One that is not what was approved once is asked
    about again, unless everything is to run; so is one that a rule of the file `saved` allows, and
    of which nobody knows what it was then."""
    if decision.outcome is not PolicyOutcome.ALLOW or context.mode is ApprovalMode.YOLO:
        return decision
    approved = decision.rule is not None and _is_answer(decision.rule, saved)
    objection = servers.objection(call.names[0], approved=approved)
    if not objection:
        return decision
    return Decision(
        outcome=PolicyOutcome.ASK_USER if context.interactive else PolicyOutcome.DENY,
        reason=f"the tool {call.names[0]} {objection}",
        rule=decision.rule,
    )


def _is_answer(rule: PolicyRule, saved: Path | None) -> bool:
    """Whether a rule is what a person answered to a question, in this session or an earlier one."""
    from alhena.agent.lasting import FOR_GOOD, IN_SESSION
    from alhena.policy.gather import is_saved_approval

    if rule.file is None:
        return rule.source in {IN_SESSION, FOR_GOOD}
    return saved is not None and is_saved_approval(rule, saved)


def server_context(entry: RegisteredTool) -> McpContext | None:
    """What hooks are told of the server of a tool: nothing secret (MCP-08)."""
    if not isinstance(entry.tool, McpTool):
        return None
    server = entry.tool.server
    config, harmless = server.config, server.harmless
    over_stdio = config.address is None
    return McpContext(
        server_name=server.name,
        tool_name=entry.tool.listed.name,
        command=harmless(config.command) if over_stdio and config.command else None,
        args=tuple(map(harmless, harmless_arguments(config))) if over_stdio else None,
        cwd=harmless(config.cwd) if over_stdio and config.cwd else None,
        url=None if config.address is None else harmless(harmless_url(config.address)),
    )
