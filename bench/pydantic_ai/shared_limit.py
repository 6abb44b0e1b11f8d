"""500 agents share one model, 50 requests at a time."""

import asyncio

from scripted import scripted

from pydantic_ai import Agent, ConcurrencyLimitedModel

model = ConcurrencyLimitedModel(scripted(*["Done."] * 500), limiter=50)


async def main() -> None:
    agents = [Agent(model) for _ in range(500)]
    results = await asyncio.gather(*(agent.run("Are you done?") for agent in agents))
    print(len(results), {result.output for result in results})


asyncio.run(main())
