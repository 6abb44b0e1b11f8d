"""Dependencies of the program: tools and instructions get them, typed."""

from dataclasses import dataclass

from scripted import call, scripted

from pydantic_ai import Agent, RunContext


@dataclass
class Customer:
    name: str
    orders: dict[int, str]


model = scripted(call("status", number=7), "It was sent.", call("status", number=1), "It waits.")
agent = Agent(model, deps_type=Customer)


@agent.tool
def status(context: RunContext[Customer], number: int) -> str:
    """The status of an order."""
    return context.deps.orders[number]


@agent.instructions
def instructions(context: RunContext[Customer]) -> str:
    return f"You help {context.deps.name}. Answer in one sentence."


first = agent.run_sync("Where is order 7?", deps=Customer("Ada", {7: "sent"}))
print(first.output)
second = agent.run_sync(
    "And order 1?",
    deps=Customer("Bo", {1: "waits"}),
    message_history=first.all_messages(),
)
print(second.output)
print([request[-1].instructions for request in model.requests[::2]])
