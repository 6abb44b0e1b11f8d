"""Tools that fail: what the model reads, what the log and the result have, what ends a run."""

import logging
import sys

from alhena import Agent, FailedCall, ToolError
from alhena.testing import Call, TestModel

logging.basicConfig(stream=sys.stdout, format="%(name)s %(levelname)s %(message)s")


def find(number: int) -> str:
    """Finds an order."""
    if number > 100:
        raise ToolError("Numbers end at 100. Ask the customer.")  # for the model: not logged
    raise ConnectionError("the database is away")


def tell(call: FailedCall) -> str | None:
    if isinstance(call.exception, MemoryError):
        raise call.exception  # ends the run
    return f"{call.name} does not work at the moment."


model = TestModel([Call("find", number=7), Call("find", number=700)], "Please call us.")
agent = Agent(model, tools=[find], on_tool_error=tell, isolated=True, builtin_tools=())
result = agent.run_sync("Where are orders 7 and 700?")
for part in model.requests[1]["contents"][-1]["parts"]:
    print(part["functionResponse"]["response"])
print(result.text, [(call.name, call.args, call.exception) for call in result.failed])
