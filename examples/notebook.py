"""Cells of a notebook: the sync calls work although the notebook's loop is running."""

# %%
import asyncio

from alhena import Agent
from alhena.testing import TestModel

agent = Agent(TestModel("Hello.", "You said hello."), isolated=True, builtin_tools=())


# %%
async def cell() -> None:
    """Stands for a cell: a loop runs while it is executed."""
    print(agent.ask_sync("Hello!"))
    print(agent.ask_sync("What did I say?"))


asyncio.run(cell())

# %%
for content in agent.history[-4:]:
    print(content.role, content.parts[0].text)
