"""Asks for a value with constraints, which grows as it is written; a wrong one is corrected."""

import asyncio
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from alhena import Agent
from alhena.testing import Call, TestModel


@dataclass
class City:
    name: str
    people: Annotated[int, Field(ge=100_000, description="The number of people.")]


def ask_a_person(question: str) -> str:
    """Hands over to a person, who is asked a question."""
    return f"A person will answer: {question}"


async def main() -> None:
    model = TestModel('{"name": "Chur", "people": 39000}', '{"name": "Bern", "people": 134000}')
    async with Agent(model, isolated=True, builtin_tools=()) as agent:
        async for city in agent.run("Name a large city of Switzerland.", output=City).partial():
            print(city)
    model = TestModel(Call("ask_a_person", question="Which country?"))
    async with Agent(model, isolated=True, builtin_tools=()) as agent:
        print(await agent.ask("Name a large city.", output=[City, ask_a_person]))


asyncio.run(main())
