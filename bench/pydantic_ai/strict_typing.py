"""Types that hold for pyright and mypy in strict mode: dependencies, tools, outputs, hooks."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, assert_type

from annotated_types import Gt
from pydantic_ai.capabilities import Hooks
from scripted import call, scripted

from pydantic_ai import Agent, AgentRunResult, RunContext


@dataclass
class Shop:
    prices: dict[str, float]


model = scripted(
    call("price", item="tea"),
    call("final_result", response=3),
    call("final_result", response="yes"),
)
hooks = Hooks[Shop]()
agent = Agent(model, deps_type=Shop, capabilities=[hooks], tool_timeout=5)


@agent.tool
def price(context: RunContext[Shop], item: str) -> float:
    """The price of an item."""
    return assert_type(context.deps, Shop).prices[item]


@agent.instructions
def instructions(context: RunContext[Shop]) -> str:
    return f"You sell {', '.join(context.deps.prices)}."


@hooks.on.after_tool_execute
def round_down(context: RunContext[Shop], *, result: Any, **rest: Any) -> Any:
    return int(result)


shop = Shop({"tea": 3})
result = assert_type(
    agent.run_sync("How much is tea?", deps=shop, output_type=Annotated[int, Gt(0)]),
    AgentRunResult[int],
)
answer = agent.run_sync("Is it cheap?", deps=shop, output_type=Literal["yes", "no"])
print(result.output + 1, answer.output)
