"""Routes a question to one of three specialists, whose answer ends the run."""

import asyncio
from dataclasses import dataclass

from alhena import Agent, Subagent
from alhena.testing import Call, TestModel


@dataclass
class Refund:
    order: int
    euros: float


def order(number: int) -> str:
    """Looks up an order."""
    return f"Order {number}: a kettle, 39 EUR, delivered broken."


def specialist(name: str, work: str, output: type = str) -> Subagent:
    about = f"Handles {work}."
    return Subagent(
        name=name, description=about, instructions=about, tools=[order], output=output, handoff=True
    )


team = [
    specialist("refunds", "refunds", Refund),
    specialist("shipping", "deliveries"),
    specialist("sales", "offers"),
]
model = TestModel(
    Call("delegate_to_agent", agent_name="refunds", objective="Order 7 came broken."),
    Call("order", number=7),
    Call("complete_task", result={"order": 7, "euros": 39}),
)


async def main() -> None:
    async with Agent(model, agents=team, builtin_tools=()) as router:
        result = await router.run("My kettle of order 7 came broken.")
    print(result.handed_over, result.usage.requests, "requests")


asyncio.run(main())
