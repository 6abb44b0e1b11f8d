"""A hundred agents in one loop over one model object, which they share."""

import asyncio

from alhena import Agent
from alhena.testing import TestModel


async def main() -> None:
    model = TestModel(*["Hello."] * 100)
    agents = [Agent(model, isolated=True, builtin_tools=()) for _ in range(100)]
    answers = await asyncio.gather(*(agent.ask("Hello?") for agent in agents))
    print(len(answers), "answers,", len(model.requests), "requests")


asyncio.run(main())
