"""Prints an answer while it comes."""

import asyncio

from alhena import Agent
from alhena.events import ContentEvent, ToolCallResponseEvent


async def main() -> None:
    async with Agent("demo") as agent:
        async for event in agent.run("list ."):
            match event:
                case ContentEvent(text=text):
                    print(text, end="", flush=True)
                case ToolCallResponseEvent(name=name, status=status):
                    print(f"[{name}: {status}]")
                case _:
                    pass
    print()


asyncio.run(main())
