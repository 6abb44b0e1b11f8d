"""MCP servers of a single agent: started for one task of it, ended with it."""

import copy
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import msgspec

from alhena.agent.options import SessionOptions
from alhena.agent.subagents import AgentDefinition
from alhena.agent.toolset.delegation import isolated
from alhena.agent.toolset.mcp import surroundings
from alhena.agent.toolset.workbench import Workbench
from alhena.config.home import config_home
from alhena.config.mcp_servers import configured_servers
from alhena.mcp.opening import opener
from alhena.mcp.pins import Pins
from alhena.mcp.servers import Outlets, Servers
from alhena.system.private_files import PrivateFiles
from alhena.system.processes import ProcessGroups
from alhena.tools.names import READ_RESOURCE
from alhena.tools.registry import RegisteredTool, ToolRegistry

_LIST_RESOURCES = "list_mcp_resources"


class AgentServers:
    """Opens the servers of agents in a session."""

    def __init__(self, options: SessionOptions, groups: ProcessGroups, *, trusted: bool) -> None:
        self._options = options
        self._groups = groups
        self._trusted = trusted

    @asynccontextmanager
    async def open(
        self, bench: Workbench, agent: AgentDefinition, warn: Callable[[str], None]
    ) -> AsyncGenerator[tuple[Workbench, AgentDefinition]]:
        """Starts the servers of an agent; gives the workbench with their tools, which take the
        names of others, and the agent with the right to them."""
        options = self._options
        environ = options.environ
        around = surroundings(
            environ,
            options.settings,
            bench.workspace.roots,
            self._groups,
            warn,
            trusted=self._trusted,
        )
        around = msgspec.structs.replace(around, why_held=agent.why_held)
        entries = dict(agent.mcp_servers)
        of_agent = msgspec.structs.replace(
            options.settings,
            mcp_servers=entries,
            mcp=msgspec.structs.replace(options.settings.mcp, server_command=None),
        )
        registry = ToolRegistry()
        session = isolated(bench.registry, agent.tools)
        others = [found for name in session.names if (found := session.find(name)) is not None]
        for each in others:
            if each.server is None and each.tool.name not in (READ_RESOURCE, _LIST_RESOURCES):
                _add(registry, each)
        servers = Servers(
            configured_servers(of_agent, environ),
            opener(around),
            registry,
            Pins(PrivateFiles(config_home(environ)), warn),
            Outlets(warn=warn, changed=lambda: None, directory=around.cwd),
        )
        try:
            servers.start()
            await servers.settled()
            servers.begin()
            own = tuple(registry.names)
            for each in others:
                if each.server not in servers.servers and registry.find(each.wire_name) is None:
                    _add(registry, each)
            derived = copy.copy(bench)
            derived.take_over(registry, servers)
            rights = (*agent.tools, *own, *(f"{name}__*" for name in servers.servers))
            yield derived, msgspec.structs.replace(agent, tools=rights)
        finally:
            await servers.close()


def _add(registry: ToolRegistry, entry: RegisteredTool) -> None:
    registry.register(entry.tool, origin=entry.origin, server=entry.server, accepted=entry.names)
