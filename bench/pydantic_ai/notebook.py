"""Cells of a notebook: a cell awaits, and passes the conversation on."""

# %%
import asyncio

from scripted import scripted

from pydantic_ai import Agent

agent = Agent(scripted("Hello.", "You said hello."))


# %%
async def cell() -> None:
    """Stands for a cell: a loop runs while it is executed."""
    first = await agent.run("Hello!")
    print(first.output)
    second = await agent.run("What did I say?", message_history=first.all_messages())
    print(second.output)
    for message in second.all_messages():
        print(message.kind, message.parts[0].content)


asyncio.run(cell())
