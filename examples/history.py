"""Keeps a conversation as JSON and goes on with it."""

from alhena import Agent
from alhena.testing import TestModel

first = Agent(TestModel("Hello, Ada."), isolated=True)
first.ask_sync("I am Ada.")
kept = first.history_json()

second = Agent(TestModel(lambda request: str(request["contents"][-3:])), history=kept)
print(second.ask_sync("Who am I?"))
