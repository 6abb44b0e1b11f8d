"""Compares two prompts on three cases."""

import asyncio
from typing import Any

from alhena import Agent, Outcome, Task
from alhena.evals import evaluate
from alhena.testing import TestModel

CASES = [
    Task("2 + 2", id="sum", output=int, data=4),
    Task("3 * 3", id="product", output=int, data=9),
    Task("10 - 7", id="difference", output=int, data=3),
]


def correct(outcome: Outcome[int]) -> bool:
    return outcome.result is not None and outcome.result.output == outcome.task.data


def agent(instructions: str) -> Any:
    def make(task: Task[int]) -> Agent:  # in a real program one model for all
        answer = task.data if "step by step" in instructions else 4
        model = TestModel(f'{{"value": {answer}}}')
        return Agent(model, instructions=instructions, isolated=True, builtin_tools=())

    return make


async def main() -> None:
    plain = await evaluate(CASES, agent("Calculate."), [correct])
    careful = await evaluate(CASES, agent("Calculate step by step."), [correct])
    print(careful.table())
    print(careful.compare(plain)["correct"])


asyncio.run(main())
