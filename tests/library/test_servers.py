"""MCP servers that a program gives to an agent."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel

from alhena import Agent, AgentOptions, HttpServer, InProcessServer, Rule, Server, StdioServer
from alhena.testing import Call, TestModel
from alhena.tools.contract import Question

HERE = MCPServer("here")


class Seats(BaseModel):
    """Seats at a table."""

    seats: int


@HERE.tool()
def shout(text: str) -> str:
    """Says it loudly."""
    return text.upper()


KITCHEN = Path(__file__).parents[1] / "mcp/served/kitchen.py"


@pytest.mark.parametrize(
    ("server", "call", "said"),
    [
        (InProcessServer(HERE), Call("shout", text="hi"), "HI"),
        (StdioServer(sys.executable, (str(KITCHEN), "stdio")), Call("echo", text="hi"), "echo: hi"),
    ],
    ids=["in process", "stdio"],
)
@pytest.mark.requirement("LIB-07")
async def test_tools_of_servers_run_as_rules_say(
    project: Path, server: Server, call: Call, said: str
):
    model = TestModel(call, "done")
    rule = Rule.allow("s__*")
    async with Agent(model, servers={"s": server}, policy=[rule], cwd=project) as agent:
        result = await agent.run("go")
    assert said in str(model.requests[1]["contents"][-1])
    assert result.denied == ()


async def test_the_names_of_tools_do_not_depend_on_which_server_is_there_first(project: Path):
    for slow in ("a", "b"):
        first_is_there = asyncio.Event()

        def serve(name: str, slow: str = slow, ready: asyncio.Event = first_is_there) -> MCPServer:
            @asynccontextmanager
            async def life(_server: object) -> AsyncIterator[None]:
                if name == slow:
                    await ready.wait()
                ready.set()
                yield

            made = MCPServer(name, lifespan=life)
            made.tool(description=f"Of {name}.")(shout)
            return made

        model = TestModel("done")
        servers = {name: InProcessServer(serve(name)) for name in ("a", "b")}
        await Agent(model, servers=servers, approve="never", cwd=project).ask("go")
        (declared,) = model.requests[0]["tools"]
        told = {each["name"]: each["description"] for each in declared["functionDeclarations"]}
        assert (told["shout"], told["b__shout"]) == ("Of a.", "Of b.")


@pytest.mark.requirement("LIB-07")
async def test_without_approval_they_do_not_run(project: Path):
    model = TestModel(Call("shout", text="hi"), "done")
    servers = {"s": InProcessServer(HERE)}
    async with Agent(model, servers=servers, approve="never", cwd=project) as agent:
        result = await agent.run("go")
    assert [each.name for each in result.denied] == ["shout"]


def test_headers_are_not_shown():
    assert "secret" not in repr(HttpServer("https://a.test", {"Authorization": "secret"}))


@HERE.tool()
async def book(ctx: Context) -> str:
    """Asks the person."""
    found = await ctx.elicit("How many seats?", Seats)
    return f"{found.action} {found.data.seats if found.action == 'accept' else 0}"


async def test_what_servers_ask_goes_to_ask(project: Path):
    asked: list[str] = []

    async def ask(questions: tuple[Question, ...]) -> dict[int, str]:
        asked.extend(each.question for each in questions)
        return {0: "3"}

    for given, said in ((ask, "accept 3"), (None, "asked the user: “How many seats?”")):
        model = TestModel(Call("book"), "done")
        servers = {"s": InProcessServer(HERE)}
        rule = Rule.allow("s__*")
        async with Agent(
            model, servers=servers, policy=[rule], options=AgentOptions(ask=given), cwd=project
        ) as agent:
            await agent.run("go")
        assert said in str(model.requests[1]["contents"][-1])
    assert len(asked) == 1
    assert "The MCP server 's' asks: How many seats?" in asked[0]
