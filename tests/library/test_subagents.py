"""Subagents in code."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from alhena import Agent, Limits, Rule, Subagent, tool
from alhena.events import ToolCallRequestEvent, ToolCallResponseEvent
from alhena.testing import Call, TestModel


@dataclass
class Price:
    amount: float
    currency: str


@tool
def look_up(item: str) -> str:
    """Looks up a price."""
    return f"{item} costs 5 EUR"


buyer = Subagent(
    name="buyer",
    description="Finds prices.",
    instructions="You find prices.",
    tools=[look_up],
    output=Price,
)
ASK = Call("delegate_to_agent", agent_name="buyer", objective="The price of tea.")
DONE = Call("complete_task", result={"amount": 5, "currency": "EUR"})


def declared(request: dict[str, Any]) -> list[str]:
    return [each["name"] for each in request.get("tools", [{}])[0].get("functionDeclarations", ())]


@pytest.mark.requirement("LIB-07")
async def test_the_model_gives_a_task_to_a_subagent_with_tools_and_a_typed_result(project: Path):
    model = TestModel(ASK, Call("look_up", item="tea"), DONE, "Tea costs 5 EUR.")
    events: list[Any] = []
    async with Agent(model, agents=[buyer], builtin_tools=(), cwd=project) as agent:
        run = agent.run("go")
        async for event in run:
            events.append(event)
        result = await run
    first, inside, _, last = model.requests
    assert declared(first) == ["delegate_to_agent"]
    assert "Finds prices." in str(first["tools"])
    assert "codebase_investigator" not in str(first["tools"])
    assert declared(inside) == ["look_up", "complete_task"]
    assert "You find prices." in str(inside["systemInstruction"])
    assert inside["contents"][-1]["parts"] == [{"text": "The price of tea."}]
    assert "Termination Reason: GOAL" in str(last["contents"][-1])
    assert result.output == "Tea costs 5 EUR."
    assert (result.usage.requests, result.usage.tool_calls) == (4, 3)
    parent = next(event for event in events if isinstance(event, ToolCallRequestEvent)).call_id
    inner = [
        event
        for event in events
        if isinstance(event, ToolCallResponseEvent) and event.name == "look_up"
    ]
    assert [event.parent_call_id for event in inner] == [parent]


@pytest.mark.requirement("LIB-07")
async def test_the_rules_of_the_agent_hold_inside(project: Path):
    model = TestModel(ASK, Call("look_up", item="tea"), DONE, "x")
    deny = [Rule.deny("look_up", message="No prices today.")]
    async with Agent(model, agents=[buyer], policy=deny, cwd=project) as agent:
        await agent.ask("go")
    assert "No prices today." in str(model.requests[2]["contents"][-1])
    assert "codebase_investigator" in str(model.requests[0]["tools"])


async def test_turns_of_a_subagent_are_limited(project: Path):
    short = Subagent(name="short", description="d", instructions="i", limits=Limits(turns=1))
    model = TestModel(
        Call("delegate_to_agent", agent_name="short", objective="x"),
        Call("no_such_tool"),
        Call("complete_task", result="that much"),
        "done",
    )
    async with Agent(model, agents=[short], builtin_tools=(), cwd=project) as agent:
        assert await agent.ask("go") == "done"
    assert "This is your last turn." in str(model.requests[2]["contents"][-1])
    assert "that much" in str(model.requests[3]["contents"][-1])
