"""An agent for a server: it reads and writes nothing of the person or the project."""

import asyncio

from alhena import Agent, Limits
from alhena.testing import TestModel


async def answer(prompt: str) -> str:
    agent = Agent(
        TestModel("I only know what you tell me."),
        instructions="Answer in one sentence.",
        builtin_tools=(),
        isolated=True,
        limits=Limits(turns=5, seconds=60),
    )
    result = await agent.run(prompt)
    return f"{result.output} ({result.usage.input_tokens} tokens in)"


print(asyncio.run(answer("What do you know of me?")))
