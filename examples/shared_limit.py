"""500 agents share one model, 50 requests at a time and 10,000 a minute."""

import asyncio

from alhena import Agent, models
from alhena.testing import TestModel

model = models.Limited(TestModel(*["Done."] * 500), rpm=10_000, concurrency=50)


async def main() -> None:
    agents = [Agent(model, isolated=True, builtin_tools=()) for _ in range(500)]
    answers = await asyncio.gather(*(agent.ask("Are you done?") for agent in agents))
    print(len(answers), set(answers))


asyncio.run(main())
