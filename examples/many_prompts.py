"""Two hundred prompts, eight at a time; outcomes come as they are ready."""

import asyncio
from typing import Any

from alhena import Agent, run_many
from alhena.testing import TestModel


def repeat(request: dict[str, Any]) -> str:
    return str(request["contents"][-1]["parts"][0]["text"])


async def main() -> None:
    model = TestModel(*[repeat] * 200)
    prompts = [f"Prompt {number}" for number in range(200)]
    good = 0
    async for outcome in run_many(
        prompts, agent=lambda: Agent(model, isolated=True), concurrency=8
    ):
        good += outcome.result is not None and outcome.result.output == outcome.task
    print(good, "of", len(prompts), "answered")


asyncio.run(main())
