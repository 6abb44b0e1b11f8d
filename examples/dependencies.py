"""Dependencies of the program: tools and instructions get them, typed."""

from dataclasses import dataclass

from alhena import Agent, RunContext, ToolContext
from alhena.testing import Call, TestModel


@dataclass
class Customer:
    name: str
    orders: dict[int, str]


def status(number: int, context: ToolContext[Customer]) -> str:
    """The status of an order."""
    return context.deps.orders[number]


def instructions(context: RunContext[Customer]) -> str:
    return f"You help {context.deps.name}. Answer in one sentence."


model = TestModel(Call("status", number=7), "It was sent.", Call("status", number=1), "It waits.")
agent = Agent(
    model,
    instructions=instructions,
    tools=[status],
    deps=Customer("Ada", {7: "sent"}),
    isolated=True,
    builtin_tools=(),
)
print(agent.ask_sync("Where is order 7?"))
print(agent.ask_sync("And order 1?", deps=Customer("Bo", {1: "waits"})))
print([request["systemInstruction"]["parts"][0]["text"] for request in model.requests[::2]])
