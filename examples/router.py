"""Routes a question to one of three specialists, whose answer ends the run."""

from dataclasses import dataclass
from typing import Any

from alhena import Agent, Subagent
from alhena.testing import Call, TestModel


@dataclass
class Refund:
    order: int
    euros: float


def order(number: int) -> str:
    """Looks up an order."""
    return f"Order {number}: a kettle, 39 EUR, delivered broken."


def specialist(name: str, about: str, **more: Any) -> Subagent:
    return Subagent(name=name, description=about, instructions=about, handoff=True, **more)


refunds = specialist("refunds", "Refunds orders.", tools=[order], output=Refund)
team = [refunds, specialist("shipping", "Tracks parcels."), specialist("sales", "Makes offers.")]
model = TestModel(
    Call("delegate_to_agent", agent_name="refunds", objective="Order 7 came broken."),
    Call("order", number=7),
    Call("complete_task", result={"order": 7, "euros": 39}),
)


router = Agent(model, agents=team, builtin_tools=())
result = router.run_sync("My kettle of order 7 came broken.")
print(result.handed_over, result.usage.requests, "requests")
