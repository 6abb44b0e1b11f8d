"""list_mcp_resources: what there is to read on MCP servers."""

from collections.abc import Mapping
from typing import Any

from alhena.display_text import escaped, exact
from alhena.mcp.resources import listed
from alhena.mcp.server import Server
from alhena.tools.base import BaseInvocation, DeclarativeTool
from alhena.tools.contract import ExecutionContext, Kind, ToolInvocation, ToolResult

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "serverName": {
            "type": "string",
            "description": "Only those of this server.",
        }
    },
}


class ListMcpResources(DeclarativeTool):
    """Lists the resources of `servers`."""

    name = "list_mcp_resources"
    display_name = "List MCP Resources"
    kind = Kind.SEARCH
    parameter_schema = _SCHEMA

    def __init__(self, servers: Mapping[str, Server]) -> None:
        self._servers = servers

    def invocation(self, params: dict[str, Any]) -> ToolInvocation:
        """The call."""
        return _Listing(params, self._servers)


class _Listing(BaseInvocation):
    def __init__(self, params: dict[str, Any], servers: Mapping[str, Server]) -> None:
        super().__init__(params)
        self._servers = servers

    def describe(self) -> str:
        """One line for people."""
        only = self.params.get("serverName")
        return f"List the MCP resources of {only}" if only else "List all MCP resources"

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """A line for each resource."""
        del context
        only = self.params.get("serverName")
        servers = [each for each in self._servers.values() if only in (None, "", each.name)]
        lines = [
            "- "
            + " | ".join(
                filter(
                    None,
                    (
                        escaped(f"{server.name}:{each.uri}"),
                        escaped(each.title or each.name),
                        " ".join(exact(each.description).split()),
                    ),
                )
            )
            for server, each in listed(servers)
        ]
        if not lines:
            told = f"No resources found for server: {only}" if only else "No MCP resources found."
            return ToolResult(llm_content=told, display=told)
        text = "Available MCP Resources:\n" + "\n".join(lines) + "\n"
        return ToolResult(llm_content=text, display=f"Listed {len(lines)} resources.")
