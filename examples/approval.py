"""Approves calls in code, one with other arguments."""

import asyncio

from alhena import Agent, Answer, ConfirmationRequest, tool
from alhena.testing import Call, TestModel


@tool(confirm=True)
def pay(amount: int, to: str) -> str:
    """Pays an amount."""
    return f"Paid {amount} to {to}."


async def approve(request: ConfirmationRequest) -> Answer:
    if request.args["to"] != "Ada":
        return Answer.no("Only Ada is paid.")
    return Answer.yes({**request.args, "amount": min(request.args["amount"], 100)})


async def main() -> None:
    model = TestModel([Call("pay", amount=500, to="Ada"), Call("pay", amount=5, to="Bob")], "Done.")
    async with Agent(model, tools=[pay], approve=approve) as agent:
        result = await agent.run("Pay them.")
    print(result.output, [(call.name, call.args, call.reason) for call in result.denied])


asyncio.run(main())
