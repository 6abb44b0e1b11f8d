"""What a call came to, as an MCP client is told it."""

from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    TextContent,
)

from alhena.scheduler.states import CompletedToolCall, SuccessfulToolCall
from alhena.wire.content import Blob, Part

INLINE = "alhena:inline"
"""The address of a document that a result holds, for MCP wants one."""


def call_result(done: CompletedToolCall) -> CallToolResult:
    """The text the model would get, then media in their order. A call that did not succeed is an
    error, and the text says why."""
    blocks: list[ContentBlock] = []
    for part in done.response.response_parts:
        blocks += _blocks(part)
    return CallToolResult(content=blocks, is_error=not isinstance(done, SuccessfulToolCall))


def _blocks(part: Part) -> list[ContentBlock]:
    if part.function_response is not None:
        values = part.function_response.response
        text = str(values.get("output", values.get("error", "")))
        blocks: list[ContentBlock] = [TextContent(type="text", text=text)]
        inner = (each.inline_data for each in part.function_response.parts or ())
        return [*blocks, *(_media(blob) for blob in inner if blob is not None)]
    if part.inline_data is not None:
        return [_media(part.inline_data)]
    return [] if part.text is None else [TextContent(type="text", text=part.text)]


def _media(blob: Blob) -> ContentBlock:
    data = blob.data
    kind = blob.mime_type.partition("/")[0]
    if kind == "image":
        return ImageContent(type="image", data=data, mime_type=blob.mime_type)
    if kind == "audio":
        return AudioContent(type="audio", data=data, mime_type=blob.mime_type)
    resource = BlobResourceContents(uri=INLINE, mime_type=blob.mime_type, blob=data)
    return EmbeddedResource(type="resource", resource=resource)
