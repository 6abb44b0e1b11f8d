"""A server written with the official SDK: `python kitchen.py stdio|sse|streamable-http [PORT]`.

For the other two transports the port that was given is printed when it listens.
"""

import asyncio
import base64
import os
import sys
from typing import Any, Literal, cast

from mcp.server.mcpserver import Context, Image, MCPServer
from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from pydantic import BaseModel

SCAN = b"%PDF-1.7\nstartxref\n0\n%%EOF\n"
DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

kitchen = MCPServer("kitchen", instructions="Say please before you use the echo tool.")


class Point(BaseModel):
    """A place."""

    x: int
    y: int


@kitchen.tool()
def echo(text: str) -> str:
    """Says the text again."""
    return f"echo: {text}"


@kitchen.tool(name="a.b:c-d/e")
def odd_name(text: str) -> str:
    """A name that models cannot be told."""
    return f"odd: {text}"


@kitchen.tool(name="x" * 80)
def long_name() -> str:
    """A name that is too long."""
    return "long"


@kitchen.tool()
def norm(point: Point) -> int:
    """The sum of both."""
    return point.x + point.y


@kitchen.tool()
def anything(value: Any) -> str:
    """Takes what does not say its type."""
    return repr(value)


@kitchen.tool()
def fail(reason: str) -> str:
    """Fails."""
    raise ValueError(reason)


@kitchen.tool()
def environment(name: str) -> str:
    """The value of a variable."""
    return os.environ.get(name, "(not set)")


class Booking(BaseModel):
    """Details of a booking."""

    seats: int
    window: bool
    meal: Literal["fish", "beans"] = "beans"
    note: str = ""


@kitchen.tool()
async def book(ctx: Context) -> str:
    """Books a table, with details from a person."""
    found = await ctx.elicit("How do you want to sit?", Booking)
    data = found.data.model_dump_json() if found.action == "accept" else ""
    return f"{found.action} {data}".strip()


@kitchen.tool()
def here() -> str:
    """The directory the server runs in."""
    return os.getcwd()


@kitchen.tool()
async def roots(ctx: Context) -> str:
    """The directories of the workspace."""
    told = await ctx.session.list_roots()
    return "\n".join(str(root.uri) for root in told.roots)


@kitchen.tool()
async def slow(ctx: Context, steps: int) -> str:
    """Reports its progress."""
    for step in range(steps):
        await ctx.report_progress(step + 1, steps, f"step {step + 1}")
    return "done"


@kitchen.tool()
async def sleep(seconds: float) -> str:
    """Takes its time."""
    await asyncio.sleep(seconds)
    return "slept"


@kitchen.tool()
async def grow(ctx: Context) -> str:
    """Has one tool more from now on."""
    kitchen.add_tool(lambda: "grown", name="grown", description="New here.")
    await ctx.session.send_tool_list_changed()
    return "there is another tool"


@kitchen.tool(structured_output=False)
def plate() -> CallToolResult:
    """One block of each kind."""
    return CallToolResult(
        content=[
            TextContent(type="text", text="first"),
            Image(data=base64.b64decode(DOT), format="png").to_image_content(),
            AudioContent(
                type="audio",
                data=base64.b64encode(b"RIFF\x04\0\0\0WAVE").decode(),
                mime_type="audio/wav",
            ),
            EmbeddedResource(
                type="resource",
                resource=TextResourceContents(uri="kitchen://note", text="a note"),
            ),
            EmbeddedResource(
                type="resource",
                resource=BlobResourceContents(
                    uri="kitchen://scan",
                    blob=base64.b64encode(SCAN).decode(),
                    mime_type="application/pdf",
                ),
            ),
            ResourceLink(type="resource_link", name="menu", uri="kitchen://menu"),
        ]
    )


@kitchen.tool(structured_output=False)
def numbers() -> CallToolResult:
    """A result without content."""
    return CallToolResult(content=[], structured_content={"sum": 3})


@kitchen.prompt()
def review(file: str, focus: str = "everything") -> str:
    """Asks for a review."""
    return f'Review "{file}", above all {focus}.'


@kitchen.resource("kitchen://menu", mime_type="text/plain")
def menu() -> str:
    """The menu."""
    return "soup"


@kitchen.resource("kitchen://scan", mime_type="application/pdf")
def scan() -> bytes:
    """A scan."""
    return SCAN


@kitchen.resource("kitchen://dish/{name}")
def dish(name: str) -> str:
    """A dish."""
    return f"a plate of {name}"


def main() -> None:
    """Serves until it is ended."""
    how = sys.argv[1]
    if how == "stdio":
        kitchen.run("stdio")
        return
    port = int(sys.argv[2])
    transport = cast("Literal['sse', 'streamable-http']", how)
    if transport == "sse":
        kitchen.run("sse", port=port)
    else:
        kitchen.run("streamable-http", port=port)


if __name__ == "__main__":
    main()
