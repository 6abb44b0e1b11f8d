"""Tools of MCP servers by three transports: in this process, by stdio and by HTTP."""

import socket
import sys
import threading

import uvicorn
from fastmcp import FastMCP
from fastmcp.client.transports import StdioTransport
from pydantic_ai.mcp import MCPToolset
from scripted import call, scripted

from pydantic_ai import Agent

server = FastMCP("library")


@server.tool
def title(number: int) -> str:
    """The title of a book."""
    return {1: "Frankenstein"}.get(number, "unknown")


if sys.argv[1:] == ["stdio"]:
    server.run("stdio", show_banner=False)
    sys.exit()

listener = socket.create_server(("127.0.0.1", 0))
web = uvicorn.Server(uvicorn.Config(server.http_app(), log_level="error"))
threading.Thread(target=web.run, args=[[listener]], daemon=True).start()
url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
toolsets = [
    MCPToolset(server).prefixed("inner"),
    MCPToolset(StdioTransport(sys.executable, [__file__, "stdio"])).prefixed("child"),
    MCPToolset(url).prefixed("web"),
]
model = scripted(
    [call(f"{name}_title", number=1) for name in ("inner", "child", "web")], "It is Frankenstein."
)
result = Agent(model, toolsets=toolsets).run_sync("Which book is number 1?")
print(result.output)
for part in model.requests[1][-1].parts:
    print(part.tool_name, part.content)
