"""read_mcp_resource: what a resource of an MCP server holds."""

from collections.abc import Mapping
from typing import Any

from alhena.mcp.resources import Found, find, read
from alhena.mcp.server import Server
from alhena.tools.base import BaseInvocation, DeclarativeTool, failed
from alhena.tools.contract import (
    ExecutionContext,
    Kind,
    ToolErrorType,
    ToolFailure,
    ToolInvocation,
    ToolResult,
)
from alhena.tools.names import READ_RESOURCE

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "uri": {"type": "string", "description": "The resource, as it is listed."},
    },
    "required": ["uri"],
}


class ReadMcpResource(DeclarativeTool):
    """Reads a resource of `servers`."""

    name = READ_RESOURCE
    display_name = "Read MCP Resource"
    kind = Kind.READ
    parameter_schema = _SCHEMA

    def __init__(self, servers: Mapping[str, Server]) -> None:
        self._servers = servers

    def invocation(self, params: dict[str, Any]) -> ToolInvocation:
        """The call."""
        return _Reading(params, find(self._servers, params["uri"]))

    def check(self, params: dict[str, Any]) -> ToolFailure | None:
        """There has to be such a resource, or at least the server that is named."""
        if find(self._servers, params["uri"]) is None:
            return ToolFailure(
                f"Resource not found for URI: {params['uri']}",
                ToolErrorType.MCP_RESOURCE_NOT_FOUND,
            )
        return None


class _Reading(BaseInvocation):
    def __init__(self, params: dict[str, Any], found: Found | None) -> None:
        super().__init__(params)
        self._found = found

    def describe(self) -> str:
        """One line for people."""
        return f"Read the MCP resource {self.params['uri']}"

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Its contents."""
        del context
        uri: str = self.params["uri"]
        if self._found is None:
            message = f"Resource not found for URI: {uri}"
            return ToolResult.failed(message, ToolErrorType.MCP_RESOURCE_NOT_FOUND)
        content = await read(self._found)
        if isinstance(content, ToolFailure):
            return failed(content)
        return ToolResult(llm_content=content, display=f"Read resource {uri}.")
