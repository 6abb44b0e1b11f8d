"""A server written with the official SDK whose lists are odd, over any transport:
`python odd_shapes.py stdio|sse|streamable-http [PORT]`."""

import asyncio
import sys
from typing import Any

import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.sse import SseServerTransport
from mcp.server.stdio import stdio_server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)
from starlette.types import ASGIApp, Receive, Scope, Send


def tool(name: str, schema: dict[str, Any] | None = None) -> Tool:
    plain = {"type": "object", "properties": {"n": {"type": "integer"}}}
    return Tool(name=name, description=f"Does {name[:20]}.", input_schema=schema or plain)


def deep() -> dict[str, Any]:
    """Two levels of JSON each: nearly all that the SDK reads."""
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(90):
        schema = {"type": "object", "properties": {"d": schema}}
    return schema


CYCLIC = {
    "type": "object",
    "properties": {"tree": {"$ref": "#/$defs/node"}},
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "value": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            },
        }
    },
}
TYPELESS = {"type": "object", "properties": {"x": {"description": "anything"}}}
KEYWORDS = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "when": {"type": ["string", "null"], "format": "date-time"},
        "kind": {"const": "fixed", "type": "string"},
        "one": {"oneOf": [{"type": "string"}, {"type": "integer", "exclusiveMinimum": 3}]},
        "map": {"type": "object", "additionalProperties": {"type": "number"}},
    },
    "patternProperties": {"^x-": {"type": "string"}},
    "dependentRequired": {"one": ["kind"]},
    "unevaluatedProperties": False,
    "additionalProperties": False,
}
PAGES = {
    "": ([tool("first"), tool("cyclic", CYCLIC)], "two"),
    "two": ([tool("deep", deep()), tool("typeless", TYPELESS)], "three"),
    "three": ([tool("keywords", KEYWORDS), tool("lang/ер ✓"), tool("y" * 128)], "four"),
    "four": ([tool("storm"), tool("sleep")], "two"),
}


async def list_tools(
    _context: ServerRequestContext[Any], params: PaginatedRequestParams | None
) -> ListToolsResult:
    """A page; the last one leads back to the second."""
    tools, following = PAGES[(params and params.cursor) or ""]
    return ListToolsResult(tools=tools, next_cursor=following)


async def call_tool(
    context: ServerRequestContext[Any], params: CallToolRequestParams
) -> CallToolResult:
    if params.name == "sleep":
        await asyncio.sleep(3600)
    if params.name == "storm":
        for _ in range(100):
            await context.session.send_tool_list_changed()
    said = f"{params.name}: {sorted(params.arguments or {})}"
    return CallToolResult(content=[TextContent(type="text", text=said)])


server = Server("odd shapes", on_list_tools=list_tools, on_call_tool=call_tool)


async def over_stdio() -> None:
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


def over_sse() -> ASGIApp:
    transport = SseServerTransport("/messages/")

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] != "/sse":
            await transport.handle_post_message(scope, receive, send)
            return
        async with transport.connect_sse(scope, receive, send) as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())

    return app


def main() -> None:
    """Serves until it is ended."""
    if sys.argv[1] == "stdio":
        asyncio.run(over_stdio())
        return
    port = int(sys.argv[2])
    if sys.argv[1] == "sse":
        uvicorn.run(over_sse(), port=port, lifespan="off")
    else:
        uvicorn.run(server.streamable_http_app(), port=port)


if __name__ == "__main__":
    main()
