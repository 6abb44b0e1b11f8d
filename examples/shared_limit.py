"""500 agents share one model, 50 requests at a time and 10,000 a minute."""

import asyncio

from alhena import Agent
from alhena.models import Limited
from alhena.testing import TestModel

model = Limited(TestModel(*["Done."] * 500), rpm=10_000, concurrency=50)


async def ask(number: int) -> str:
    agent = Agent(model, isolated=True, builtin_tools=())
    return await agent.ask(f"Task {number}")


async def main() -> None:
    answers = await asyncio.gather(*map(ask, range(500)))
    print(len(answers), set(answers))


asyncio.run(main())
