"""Threads and cancellation: agents in a thread pool over one model, and a run that is given up."""

import threading
from concurrent.futures import ThreadPoolExecutor

from alhena import Agent, ToolContext
from alhena.errors import InterruptedRunError
from alhena.testing import Call, TestModel

model = TestModel(*["fine"] * 8)  # or one Gemini(…) for all


def work(number: int) -> str:
    return Agent(model, isolated=True, builtin_tools=()).ask_sync(f"Job {number}")


with ThreadPoolExecutor(4) as pool:
    print(list(pool.map(work, range(8))))


def crunch(context: ToolContext) -> str:
    """Works until it is cancelled."""
    while not context.cancelled:
        threading.Event().wait(0.01)
    return "given up"


agent = Agent(TestModel(Call("crunch")), tools=[crunch], isolated=True, builtin_tools=())
threading.Timer(0.2, agent.interrupt).start()
try:
    agent.ask_sync("Crunch.")
except InterruptedRunError as error:
    print("interrupted:", error.result.usage.tool_calls, "call")
