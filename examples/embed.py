"""Embeds an agent with a tool of its own and an approval callback. Runs without a key."""

import asyncio
import sys
from pathlib import Path

from alhena import Agent, tool
from alhena.scheduler.question import ConfirmationRequest


@tool(confirm=True)  # without it, a function of the program runs unasked
def count_words(path: str) -> str:
    """Count the words of a text file, given its path."""
    return f"{len(Path(path).read_text(encoding='utf-8').split())} words in {path}"


def approve(request: ConfirmationRequest) -> bool:
    print(f"[approving {request.name} {request.args}: {request.decision.reason}]")
    return True


async def main(prompt: str) -> None:
    async with Agent(model="demo", tools=[count_words], approve=approve) as agent:
        print(await agent.ask(prompt))


asyncio.run(main(" ".join(sys.argv[1:]) or "call count_words with path=README.md"))
