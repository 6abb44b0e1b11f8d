"""Pays after an approval that comes in another process: run it twice."""

from pathlib import Path

from alhena import Agent, Answer, tool
from alhena.testing import Call, TestModel

STATE = Path("waiting.json")


@tool(confirm=True)
def pay(amount: int, to: str) -> str:
    """Pays an amount."""
    return f"Paid {amount} to {to}."


if not STATE.exists():
    agent = Agent(TestModel(Call("pay", amount=5, to="Ada")), tools=[pay], approve="defer")
    result = agent.run_sync("Pay Ada.")
    STATE.write_bytes(result.state())
    for request in result.pending:
        print("waits:", request.call_id, request.tool_name, request.args)
    Path("call").write_text(result.pending[0].call_id)
else:
    agent = Agent(TestModel("Ada has her money."), tools=[pay], approve="defer")
    answers = {Path("call").read_text(): Answer.yes()}
    print(agent.resume_sync(STATE.read_bytes(), answers).output)
