"""Tools of MCP servers by three transports: in this process, by stdio and by HTTP."""

import socket
import sys
import threading

import uvicorn
from mcp.server.mcpserver import MCPServer

from alhena import Agent, HttpServer, InProcessServer, Rule, Server, StdioServer
from alhena.testing import Call, TestModel

server = MCPServer("library", log_level="ERROR")


@server.tool()
def title(number: int) -> str:
    """The title of a book."""
    return {1: "Frankenstein"}.get(number, "unknown")


if sys.argv[1:] == ["stdio"]:
    server.run("stdio")
    sys.exit()

listener = socket.create_server(("127.0.0.1", 0))
web = uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="error"))
threading.Thread(target=web.run, args=[[listener]], daemon=True).start()
servers: dict[str, Server] = {
    "inner": InProcessServer(server),
    "child": StdioServer(sys.executable, [__file__, "stdio"]),
    "web": HttpServer(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"),
}
rules = [Rule.allow(f"{name}__*") for name in servers]
calls = [Call(f"{name}__title", number=1) for name in servers]
model = TestModel(calls, "It is Frankenstein.")
agent = Agent(model, servers=servers, policy=rules, isolated=True)
print(agent.ask_sync("Which book is number 1?"))
for part in model.requests[1]["contents"][-1]["parts"]:
    print(part["functionResponse"]["name"], part["functionResponse"]["response"])
