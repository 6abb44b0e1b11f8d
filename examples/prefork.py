"""Workers that are forked, as Celery's are, with a model and a store made before."""

import os

from alhena import Agent, SQLiteStore
from alhena.testing import TestModel

model = TestModel("Hello.")
store = SQLiteStore("chats.db")
Agent(TestModel("Warm."), store=store, conversation="parent").ask_sync("Warm up.")


def work(number: int) -> None:
    agent = Agent(model, store=store, conversation=f"worker-{number}", isolated=True)
    print(number, agent.ask_sync("Hello?"), flush=True)


children: list[int] = []
for number in range(3):
    child = os.fork()
    if child == 0:
        try:
            work(number)
        finally:
            os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
