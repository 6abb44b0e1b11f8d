"""Asks for a value with constraints, which grows as it is written; a wrong one is corrected."""

import asyncio
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field
from scripted import call, scripted

from pydantic_ai import Agent


@dataclass
class City:
    name: str
    people: Annotated[int, Field(ge=100_000, description="The number of people.")]


def ask_a_person(question: str) -> str:
    """Hands over to a person, who is asked a question."""
    return f"A person will answer: {question}"


async def main() -> None:
    chur = call("final_result", name="Chur", people=39000)
    bern = call("final_result", name="Bern", people=134000)
    agent = Agent(scripted(bern, chur, bern), output_type=City)
    async with agent.run_stream("Name a large city of Switzerland.") as stream:
        async for city in stream.stream_output():
            print(city)
    result = await agent.run("Name a large city of Switzerland.")  # streams cannot correct
    print(result.output)
    model = scripted(call("final_result_ask_a_person", question="Which country?"))
    handed = await Agent(model, output_type=[City, ask_a_person]).run("Name a large city.")
    print(handed.output)


asyncio.run(main())
