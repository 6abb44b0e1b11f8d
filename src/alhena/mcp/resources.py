"""Resources of servers: `server:uri` and what stands behind it."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from alhena.mcp.connection import ListedResource
from alhena.mcp.content import MAX_MEDIA, is_base64
from alhena.mcp.errors import McpError
from alhena.mcp.server import Server
from alhena.tools.contract import LlmContent, ToolErrorType, ToolFailure
from alhena.wire.content import Blob, Part
from alhena.wire.media import takes_media
from alhena.wire.plain import as_array, as_object

NO_CONTENT = "No content returned from resource."


class Found(msgspec.Struct, frozen=True):
    """Whose resource is meant, and its URI."""

    server: Server
    uri: str


def find(servers: Mapping[str, Server], reference: str) -> Found | None:
    """What `server:uri` means, or a URI by itself that one server lists; None for nothing.

    Of a server that is named any URI may be read, listed or not: templates have many.
    """
    named = [name for name in servers if reference.startswith(f"{name}:")]
    name = max(named, key=len, default=None)
    uri = "" if name is None else reference[len(name) + 1 :].strip()
    of_named = Found(servers[name], uri) if name is not None and uri else None
    if of_named is not None and ":" in uri.partition("/")[0]:
        return of_named  # a server cannot list what stands for another's
    for server in servers.values():
        if any(each.uri == reference for each in server.offer.resources):
            return Found(server, reference)
    return of_named


def listed(servers: Iterable[Server]) -> list[tuple[Server, ListedResource]]:
    """All resources, by server."""
    return [(server, each) for server in servers for each in server.offer.resources]


async def read(found: Found) -> LlmContent | ToolFailure:
    """What a resource holds: text as it is, media that models take as parts of their own, of other
    data its type."""
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
