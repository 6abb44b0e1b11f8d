"""Asks for a value of a type; a wrong one is corrected."""

from dataclasses import dataclass

from alhena import Agent
from alhena.testing import TestModel


@dataclass
class City:
    name: str
    people: int


def large(city: City) -> City:
    if city.people < 100_000:
        raise ValueError("That is no large city.")
    return city


model = TestModel('{"name": "Chur", "people": 39000}', '{"name": "Bern", "people": 134000}')
agent = Agent(model, builtin_tools=())
city = agent.ask_sync("Name a large city of Switzerland.", output=City, check=large)
print(city.name, city.people + 1, agent.usage.requests)
