"""Resources of servers, and the two tools that list and read them."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from alhena.display_text import escaped, exact
from alhena.mcp.connection import ListedResource, McpError
from alhena.mcp.server import Server
from alhena.mcp.tool import MAX_MEDIA, is_base64
from alhena.tools.base import BaseInvocation, DeclarativeTool, failed
from alhena.tools.contract import (
    ExecutionContext,
    Kind,
    LlmContent,
    ToolErrorType,
    ToolFailure,
    ToolInvocation,
    ToolResult,
)
from alhena.tools.names import READ_RESOURCE
from alhena.wire.content import Blob, Part, takes_media
from alhena.wire.json_values import as_array, as_object

NO_CONTENT = "No content returned from resource."


class Found(msgspec.Struct, frozen=True):
    """A resource: its server and its URI."""

    server: Server
    uri: str


def find(servers: Mapping[str, Server], reference: str) -> Found | None:
    """Resolves `server:uri`, or a URI that one server lists; None if neither matches.

    With an explicit server any URI may be read, even an unlisted one: templates cover many.
    """
    named = [name for name in servers if reference.startswith(f"{name}:")]
    name = max(named, key=len, default=None)
    uri = "" if name is None else reference[len(name) + 1 :].strip()
    of_named = Found(servers[name], uri) if name is not None and uri else None
    if of_named is not None and ":" in uri.partition("/")[0]:
        return of_named  # a server cannot claim a reference to another server
    for server in servers.values():
        if any(each.uri == reference for each in server.offer.resources):
            return Found(server, reference)
    return of_named


def listed(servers: Iterable[Server]) -> list[tuple[Server, ListedResource]]:
    """All resources, by server."""
    return [(server, each) for server in servers for each in server.offer.resources]


async def read(found: Found) -> LlmContent | ToolFailure:
    """Reads a resource: text as it is, supported media as parts, and the type of other data."""
    try:
        result = await found.server.read_resource(found.uri)
    except McpError as error:
        return ToolFailure(f"Failed to read resource: {error}", ToolErrorType.MCP_TOOL_ERROR)
    items = as_array(result.get("contents")) or []
    pieces = [piece for item in items if (piece := _piece(as_object(item) or {})) is not None]
    if not pieces:
        return NO_CONTENT
    if all(isinstance(piece, str) for piece in pieces):
        return "".join(f"{piece}\n" for piece in pieces)
    return tuple(Part(text=piece) if isinstance(piece, str) else piece for piece in pieces)


def _piece(content: dict[str, Any]) -> str | Part | None:
    text: object = content.get("text")
    if isinstance(text, str):
        return text
    blob: object = content.get("blob")
    if not isinstance(blob, str):
        return None
    mime: object = content.get("mimeType")
    kind = mime if isinstance(mime, str) and mime else "application/octet-stream"
    media = takes_media(kind) and not kind.startswith("text/")
    if media and len(blob) <= MAX_MEDIA and is_base64(blob):
        return Part(inline_data=Blob(mime_type=kind, data=blob))
    return f"[Binary Data ({kind})]"


_LIST_SCHEMA: dict[str, Any] = {
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
    parameter_schema = _LIST_SCHEMA

    def __init__(self, servers: Mapping[str, Server]) -> None:
        self._servers = servers

    def invocation(self, params: dict[str, Any]) -> ToolInvocation:
        """Builds the call."""
        return _Listing(params, self._servers)


class _Listing(BaseInvocation):
    def __init__(self, params: dict[str, Any], servers: Mapping[str, Server]) -> None:
        super().__init__(params)
        self._servers = servers

    def describe(self) -> str:
        """Describes the call to people in one line."""
        only = self.params.get("serverName")
        return f"List the MCP resources of {only}" if only else "List all MCP resources"

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Lists one resource per line."""
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


_READ_SCHEMA: dict[str, Any] = {
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
    parameter_schema = _READ_SCHEMA

    def __init__(self, servers: Mapping[str, Server]) -> None:
        self._servers = servers

    def invocation(self, params: dict[str, Any]) -> ToolInvocation:
        """Builds the call."""
        return _Reading(params, find(self._servers, params["uri"]))

    def check(self, params: dict[str, Any]) -> ToolFailure | None:
        """Requires a listed resource, or at least an existing server."""
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
        """Describes the call to people in one line."""
        return f"Read the MCP resource {self.params['uri']}"

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Returns the contents."""
        del context
        uri: str = self.params["uri"]
        if self._found is None:
            message = f"Resource not found for URI: {uri}"
            return ToolResult.failed(message, ToolErrorType.MCP_RESOURCE_NOT_FOUND)
        content = await read(self._found)
        if isinstance(content, ToolFailure):
            return failed(content)
        return ToolResult(llm_content=content, display=f"Read resource {uri}.")
