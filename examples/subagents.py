"""A subagent with a tool of its own hands over a typed result."""

import asyncio
from dataclasses import dataclass

from alhena import Agent, Subagent
from alhena.testing import Call, TestModel


@dataclass
class Price:
    euros: float


def look_up(item: str) -> str:
    """Looks up the price of an item."""
    return f"{item}: 5 EUR"


buyer = Subagent(
    name="buyer",
    description="Finds out what things cost.",
    instructions="You find prices.",
    tools=[look_up],
    output=Price,
)
model = TestModel(  # in a real program the name of a model
    Call("delegate_to_agent", agent_name="buyer", objective="The price of tea"),
    Call("look_up", item="tea"),
    Call("complete_task", result={"euros": 5}),
    "Tea costs 5 euros.",
)


async def main() -> None:
    async with Agent(model, agents=[buyer], builtin_tools=()) as agent:
        print(await agent.ask("What does tea cost?"))


asyncio.run(main())
