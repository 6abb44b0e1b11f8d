"""Tools of MCP servers: here one that runs in this process."""

from mcp.server.mcpserver import MCPServer

from alhena import Agent, InProcessServer, Rule
from alhena.testing import Call, TestModel

server = MCPServer("library")


@server.tool()
def title(number: int) -> str:
    """The title of a book."""
    return {1: "Frankenstein"}.get(number, "unknown")


model = TestModel(Call("title", number=1), "It is Frankenstein.")
agent = Agent(
    model,
    servers={"library": InProcessServer(server)},  # or StdioServer(command, args), HttpServer(url)
    policy=[Rule.allow("library__*")],
)
print(agent.ask_sync("Which book is number 1?"))
