"""Tools that are found by search: what is declared, and that a call is the tool's own call."""

import json
from pathlib import Path
from typing import Any

import pytest

from alhena import Agent, Answer, Result, Rule, Subagent, events
from alhena import tool as own_tool
from alhena.agent.toolset.mcp import MAX_DECLARED
from alhena.testing import Call, TestModel
from alhena.wire.content import FunctionCall, meant_call
from tests.mcp.kit import odd, tool
from tests.support.command import alhena, keyed
from tests.support.server import ScriptedServer, call, chunk, sse, text

pytestmark = pytest.mark.requirement("COST-03")
PAIR = {"search_tools", "call_tool"}


def make_tools(count: int) -> list[dict[str, Any]]:
    """Tools of a server: item_0, item_1, …, and one that only its words find."""
    number = {"type": "integer", "description": "How many."}
    listed = [tool(f"item_{index}", amount=number) for index in range(count - 1)]
    special = tool("shoot", scale={"type": "number", "description": "Zoom of the picture."})
    return [*listed, {**special, "description": "Takes a screenshot of the page."}]


def write_settings(home: Path, project: Path, count: int, mcp: Any = None, **entry: Any) -> None:
    """Settings with one trusted server of so many tools, each of which echoes its arguments."""
    home.mkdir(exist_ok=True)
    project.mkdir(exist_ok=True)
    listed = make_tools(count)
    does = {each["name"]: {"do": "echo"} for each in listed}
    served = odd(project, {"tools": listed, "does": does})
    servers = {"shop": {**served, "trust": True, "description": "A shop.", **entry}}
    document = {"mcpServers": servers, **({} if mcp is None else {"mcp": mcp})}
    (home / ".gemini").mkdir(exist_ok=True)
    (home / ".gemini" / "settings.json").write_text(json.dumps(document), encoding="utf-8")


async def ask(model: TestModel, project: Path, **given: Any) -> tuple[Result[str], list[Any]]:
    """The result of a prompt, and all events."""
    seen: list[Any] = []
    async with Agent(model, cwd=project, **{"approve": "always", **given}) as agent:
        run = agent.run("go")
        async for event in run:
            seen.append(event)
        return await run, seen


def declared_names(request: Any) -> set[str]:
    """The names that a request declares."""
    return {each["name"] for each in request["tools"][0]["functionDeclarations"]}


def read_system(request: Any) -> str:
    """The system instruction of a request."""
    return request["systemInstruction"]["parts"][0]["text"]


def last_response(request: Any) -> dict[str, Any]:
    """The function response that a request ends with."""
    return request["contents"][-1]["parts"][0]["functionResponse"]


async def test_three_hundred_tools_are_found_and_called(home: Path, project: Path):
    write_settings(home, project, 300)
    model = TestModel(
        Call("search_tools", query="screenshot"),
        Call("call_tool", name="shoot", args={"scale": 2}),
        Call("shoot", scale=3),
        "done",
    )
    result, seen = await ask(model, project)
    first, second, third, fourth = model.requests
    assert len(json.dumps(first)) <= 40_000
    assert declared_names(first) >= PAIR
    assert not declared_names(first) & {"item_0", "shoot"}
    assert "- shop: A shop. (300 tools)" in read_system(first)
    found = last_response(second)["response"]["output"]
    assert "shoot" in found
    assert "Zoom of the picture." in found
    assert "item_0" not in found
    assert last_response(third)["name"] == "call_tool"
    assert "2" in last_response(third)["response"]["output"]
    assert last_response(fourth)["name"] == "shoot"
    for request in (second, third, fourth):
        assert request["tools"] == first["tools"]
        assert request["systemInstruction"] == first["systemInstruction"]
    asked = [each for each in seen if isinstance(each, events.ToolCallRequestEvent)]
    assert [(each.name, each.args) for each in asked[1:]] == [
        ("shoot", {"scale": 2}),
        ("shoot", {"scale": 3}),
    ]
    ended = [each for each in seen if isinstance(each, events.ToolCallResponseEvent)]
    assert [(each.name, each.mcp_server_name) for each in ended[1:]] == [("shoot", "shop")] * 2
    assert result.text == "done"


@pytest.mark.parametrize(
    ("count", "mcp", "entry", "searched"),
    [
        (MAX_DECLARED, None, {}, False),
        (MAX_DECLARED + 1, None, {}, True),
        (3, {"toolSearch": "on"}, {}, True),
        (60, {"toolSearch": "off"}, {}, False),
        (60, None, {"alwaysDeclare": True}, False),
        (60, None, {"alwaysDeclare": ["shoot"]}, True),
    ],
)
async def test_the_settings_say_what_is_declared(
    home: Path, project: Path, count: int, mcp: Any, entry: dict[str, Any], searched: bool
):
    write_settings(home, project, count, mcp, **entry)
    model = TestModel("done")
    await ask(model, project)
    declared = declared_names(model.requests[0])
    assert (declared >= PAIR) is searched
    assert ("item_0" in declared) is not searched
    assert ("shoot" in declared) is (not searched or "alwaysDeclare" in entry)


async def test_few_tools_with_long_schemas_are_found_by_search(home: Path, project: Path):
    write_settings(home, project, 2)
    path = home / ".gemini" / "settings.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    document["model"] = {"contextWindow": 1_000}
    path.write_text(json.dumps(document), encoding="utf-8")
    model = TestModel("done")
    await ask(model, project)
    assert declared_names(model.requests[0]) >= PAIR


async def test_rules_hooks_and_approvals_see_the_tool_itself(home: Path, project: Path):
    write_settings(home, project, 50, trust=False)
    heard: list[Any] = []
    asked: list[Any] = []

    def hear(given: dict[str, Any]) -> None:
        heard.append((given["tool_name"], given["tool_input"]))

    def approve(request: Any) -> bool:
        asked.append((request.tool_name, request.args))
        return True

    model = TestModel(
        Call("call_tool", name="item_1", args={"amount": 1}),
        Call("call_tool", name="shop__item_2", args={}),
        "done",
    )
    result, _ = await ask(
        model,
        project,
        approve=approve,
        hooks={"BeforeTool": hear},
        policy=[Rule.deny("item_2", message="Not this one.")],
    )
    assert asked == [("item_1", {"amount": 1})]
    assert heard == [("item_1", {"amount": 1})]
    assert [each.name for each in result.denied] in (["shop__item_2"], ["item_2"])


async def test_wrong_calls_are_answered_with_what_is_right(home: Path, project: Path):
    write_settings(home, project, 50)
    model = TestModel(
        Call("call_tool", name="item_1", args={"amount": "many"}),
        Call("call_tool", name="item_1", args=json.dumps({"amount": 1})),
        Call("call_tool", name="itm_1", args={}),
        Call("call_tool", tool="item_1"),
        Call("call_tool", name="call_tool", args={"name": "item_1", "args": {}}),
        Call("call_tool", name="item_1", arguments={"amount": 2}),
        Call("search_tools", query="zebra"),
        "done",
    )
    await ask(model, project)
    wrong, parsed, unknown, odd_shape, nested, as_mcp, nothing = (
        last_response(request)["response"] for request in model.requests[1:]
    )
    assert '"amount"' in wrong["error"]
    assert "schema" in wrong["error"]
    assert "output" in parsed
    assert "not found" in unknown["error"]
    assert '"item_1"' in unknown["error"]
    assert "error" in odd_shape
    assert "cannot be called" in nested["error"]
    assert as_mcp == {"output": '{"amount": 2}'}
    assert "shop: " in nothing["output"]


async def test_own_functions_are_found_by_search_when_the_program_says_so(project: Path):
    @own_tool
    def price(item: str) -> str:
        """Price of an item in the shop."""
        return f"{item}: 3"

    model = TestModel(
        Call("search_tools", query="how much does it cost, price of item"),
        Call("call_tool", name="price", args={"item": "tea"}),
        "done",
    )
    async with Agent(model, tools=[price], search_tools=True, isolated=True, cwd=project) as agent:
        await agent.ask("go")
    assert "price" not in declared_names(model.requests[0])
    assert "tools of this program" in read_system(model.requests[0])
    assert last_response(model.requests[2])["response"] == {"output": "tea: 3"}


async def test_a_call_that_waits_for_an_answer_is_that_of_the_tool_when_it_has_one(project: Path):
    paid: list[int] = []

    @own_tool(confirm=True)
    def pay(amount: int) -> str:
        """Pays an amount."""
        paid.append(amount)
        return "paid"

    def make(model: TestModel) -> Agent:
        given: Any = {"search_tools": True, "approve": "defer", "isolated": True, "cwd": project}
        clerk = Subagent(name="clerk", description="pays", instructions="Pay.", tools=["*"])
        return Agent(model, tools=[pay], agents=[clerk], **given)

    pays = Call("call_tool", name="pay", args={"amount": 5})
    for turns, rest in (
        ((pays,), ()),
        ((Call("delegate_to_agent", agent_name="clerk", objective="pay"), pays), ("clerk", "done")),
    ):
        waiting = await make(TestModel(*turns)).run("go")
        (question,) = waiting.pending
        assert question.tool_name == "pay"
        later = TestModel(*rest, "done")
        await make(later).resume(waiting.state(), {question.call_id: Answer.yes()})
        assert last_response(later.requests[0])["response"] == {"output": "paid"}
    assert paid == [5, 5]


@pytest.mark.parametrize("trusted", [True, False])
def test_the_two_tools_are_there_where_something_can_be_found(
    home: Path, project: Path, trusted: bool
):
    """They belong to the servers, so `tools.core` does not leave them out."""
    write_settings(home, project, 50, trust=trusted)
    file = home / ".gemini" / "settings.json"
    document = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps(document | {"tools": {"core": ["read_file"]}}), encoding="utf-8")
    with ScriptedServer() as server:
        server.reply(sse(text("done")))
        ran = alhena("-p", "go", "--skip-trust", **keyed(server))
        (request,) = (each.json for each in server.requests)
    assert ran.code == 0, ran.err
    # Nobody can be asked about the tools of a server that is not trusted.
    assert declared_names(request) == {"read_file", *(PAIR if trusted else ())}
    assert ("`search_tools`" in read_system(request)) is trusted


def test_what_is_shown_of_a_session_later_names_the_tool(home: Path, project: Path):
    write_settings(home, project, 50)
    args = {"name": "item_1", "args": {"amount": 7}}
    with ScriptedServer() as server:
        server.reply(sse(chunk(call("call_tool", args, id="c"), finish="STOP")), sse(text("done")))
        ran = alhena("-p", "go", "--skip-trust", **keyed(server))
    assert ran.code == 0, ran.err
    shown = alhena("sessions", "show", "latest")
    assert "item_1" in shown.out
    assert "Result of item_1" in shown.out
    traced = alhena("trace", "latest", "--json")
    for output in (shown.out, traced.out):
        assert '"amount": 7' in output.replace('"amount":7', '"amount": 7')
        assert "call_tool" not in output


async def test_a_subagent_finds_its_tools_as_the_session_does(home: Path, project: Path):
    write_settings(home, project, 50)
    helper = Subagent(
        name="helper", description="Helps.", instructions="Help.", tools=["shop__*", "read_file"]
    )
    named = Subagent(
        name="named", description="Helps.", instructions="Help.", tools=["shop__shoot"]
    )
    model = TestModel(
        Call("helper", query="x"),
        Call("search_tools", query="screenshot"),
        Call("call_tool", name="shoot", args={}),
        Call("complete_task", result="Seen."),
        Call("named", query="x"),
        Call("complete_task", result="Seen."),
        "done",
    )
    await ask(model, project, agents=[helper, named])
    of_helper, of_named = declared_names(model.requests[1]), declared_names(model.requests[5])
    assert of_helper >= {*PAIR, "read_file"}
    assert "shoot" not in of_helper
    assert "shoot" in of_named
    assert not of_named & PAIR
    assert "shop: A shop. (50 tools)" in read_system(model.requests[1])
    assert "output" in last_response(model.requests[3])["response"]


def test_only_a_well_formed_call_is_that_of_another_tool():
    right = FunctionCall(name="call_tool", args={"name": " x ", "args": {"a": 1}})
    assert meant_call(right) == FunctionCall(name="x", args={"a": 1})
    for args in ({}, {"name": 1, "args": {}}, {"name": "x", "args": [1]}, {"name": "x", "b": 1}):
        call = FunctionCall(name="call_tool", args=args)
        assert meant_call(call) is call
