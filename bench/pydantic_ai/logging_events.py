"""Logs what an agent does by the logging of Python."""

import asyncio
import logging
import sys
from time import perf_counter

from scripted import call, scripted

from pydantic_ai import Agent, FunctionToolCallEvent, FunctionToolResultEvent

logging.basicConfig(level="INFO", stream=sys.stdout, format="%(name)s %(levelname)s %(message)s")
log = logging.getLogger("program")
agent = Agent(scripted(call("lookup", word="alhena"), "A star in Gemini."))


@agent.tool_plain
def lookup(word: str) -> str:
    """Looks a word up."""
    return f"{word}: a star"


async def main() -> None:
    started: dict[str, float] = {}
    async with agent.iter("What is alhena?") as run:
        async for node in run:
            if Agent.is_call_tools_node(node):
                response = node.model_response
                log.info("%s: %d tokens out", response.model_name, response.usage.output_tokens)
                async with node.stream(run.ctx) as events:
                    async for event in events:
                        match event:
                            case FunctionToolCallEvent():
                                started[event.part.tool_call_id] = perf_counter()
                            case FunctionToolResultEvent():
                                took = perf_counter() - started[event.part.tool_call_id]
                                log.info("%s: in %.0f ms", event.part.tool_name, took * 1000)
                            case _:
                                pass


asyncio.run(main())
