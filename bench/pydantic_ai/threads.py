"""Threads and cancellation: agents in a thread pool over one model, and a run that is given up."""

import threading
from concurrent.futures import ThreadPoolExecutor

from scripted import call, scripted

from pydantic_ai import Agent, CancellationToken, RunCancelled

model = scripted(*["fine"] * 8)


def work(number: int) -> str:
    return Agent(model).run_sync(f"Job {number}").output


with ThreadPoolExecutor(4) as pool:
    print(list(pool.map(work, range(8))))

token = CancellationToken()


def crunch() -> str:
    """Works until it is cancelled."""
    while not token.cancelled:
        threading.Event().wait(0.01)
    return "given up"


agent = Agent(scripted(call("crunch")), tools=[crunch])
threading.Timer(0.2, token.cancel).start()
try:
    agent.run_sync("Crunch.", cancellation_token=token)
except RunCancelled as error:
    print("interrupted:", error)
