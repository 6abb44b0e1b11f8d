"""Stops a run: by leaving it, and in good order from elsewhere."""

import asyncio

from alhena import Agent
from alhena.errors import InterruptedRunError
from alhena.events import ToolCallUpdateEvent
from alhena.testing import Call, TestModel


async def wait() -> str:
    """Waits for a long time."""
    await asyncio.sleep(3600)
    return "done"


async def main() -> None:
    async with Agent(TestModel(Call("wait"), Call("wait")), tools=[wait]) as agent:
        async with agent.run("Wait.") as run:
            async for event in run:
                if isinstance(event, ToolCallUpdateEvent) and event.status == "executing":
                    break
        print("left:", (await run).stop_reason)
        asyncio.get_running_loop().call_later(0.1, agent.interrupt)
        try:
            await agent.run("Wait again.")
        except InterruptedRunError as error:
            print("interrupted:", error.result.usage.tool_calls, "call ended")


asyncio.run(main())
