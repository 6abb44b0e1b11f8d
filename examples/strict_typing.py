"""Types that hold for pyright and mypy in strict mode: dependencies, tools, outputs, hooks."""

from dataclasses import dataclass
from typing import Annotated, Literal, assert_type

from annotated_types import Gt

from alhena import Agent, Result, RunContext, ToolContext, tool
from alhena.hooks import AfterTool
from alhena.testing import Call, TestModel


@dataclass
class Shop:
    prices: dict[str, float]


@tool(timeout=5)
def price(item: str, context: ToolContext[Shop]) -> float:
    """The price of an item."""
    return assert_type(context.deps, Shop).prices[item]


def instructions(context: RunContext[Shop]) -> str:
    return f"You sell {', '.join(context.deps.prices)}."


def round_down(call: AfterTool) -> AfterTool:
    return call.replace(int(float(call.text)))


model = TestModel(
    Call("price", item="tea"), Call("final_answer", value=3), Call("final_answer", value="yes")
)
hooks = {"AfterTool": round_down}
agent = Agent(model, instructions=instructions, tools=[price], deps=Shop({"tea": 3}), hooks=hooks)
result = assert_type(agent.run_sync("How much is tea?", output=Annotated[int, Gt(0)]), Result[int])
answer = agent.ask_sync("Is it cheap?", output=Literal["yes", "no"])
print(result.output + 1, answer)
