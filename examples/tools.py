"""Functions as tools: their type hints are the schema, their docstring the description."""

from dataclasses import dataclass
from typing import Literal

from alhena import Agent
from alhena.testing import Call, TestModel


@dataclass
class Item:
    name: str
    price: float


def order(items: list[Item], speed: Literal["slow", "fast"] = "slow") -> dict[str, float]:
    """Orders items.

    Args:
        items: what to order.
        speed: how fast it has to come.
    """
    return {"total": sum(item.price for item in items) + (5 if speed == "fast" else 0)}


model = TestModel(
    Call("order", items=[{"name": "pen", "price": 2}, {"name": "ink", "price": 3}], speed="fast"),
    "That is 10 euros.",
)
print(Agent(model, tools=[order]).ask_sync("Order a pen and ink, quickly."))
print(model.requests[1]["contents"][-1]["parts"][0]["functionResponse"]["response"])
