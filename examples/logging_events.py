"""Logs what an agent does by the logging of Python; warnings come there by themselves."""

import asyncio
import logging
import sys

from alhena import Agent
from alhena.events import ApiResponseEvent, ErrorEvent, ToolCallResponseEvent
from alhena.testing import Call, TestModel

logging.basicConfig(level="INFO", stream=sys.stdout, format="%(name)s %(levelname)s %(message)s")
log = logging.getLogger("program")


def lookup(word: str) -> str:
    """Looks a word up."""
    return f"{word}: a star"


async def main() -> None:
    model = TestModel(Call("lookup", word="alhena"), "A star in Gemini.")
    async with Agent(model, tools=[lookup], isolated=True) as agent:
        async for event in agent.run("What is alhena?"):
            match event:
                case ApiResponseEvent():
                    log.info("%s: %d tokens out", event.model, event.output_tokens)
                case ToolCallResponseEvent():
                    log.info("%s: %s in %.0f ms", event.name, event.status, event.duration_ms)
                case ErrorEvent():
                    log.error(event.message)
                case _:
                    pass


asyncio.run(main())
