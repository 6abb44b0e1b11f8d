"""Routes a question to one of three specialists, whose answer ends the run."""

from dataclasses import dataclass

from scripted import call, scripted

from pydantic_ai import Agent, RunContext


@dataclass
class Refund:
    order: int
    euros: float


model = scripted(
    call("final_result_refunds", objective="Order 7 came broken."),
    call("order", number=7),
    call("final_result", order=7, euros=39),
)
refunder = Agent(model, instructions="Refunds orders.", output_type=Refund)
shipper = Agent(model, instructions="Tracks parcels.")
seller = Agent(model, instructions="Makes offers.")


@refunder.tool_plain
def order(number: int) -> str:
    """Looks up an order."""
    return f"Order {number}: a kettle, 39 EUR, delivered broken."


async def refunds(context: RunContext, objective: str) -> Refund:
    """Refunds orders."""
    return (await refunder.run(objective, usage=context.usage)).output


async def shipping(context: RunContext, objective: str) -> str:
    """Tracks parcels."""
    return (await shipper.run(objective, usage=context.usage)).output


async def sales(context: RunContext, objective: str) -> str:
    """Makes offers."""
    return (await seller.run(objective, usage=context.usage)).output


router = Agent(model, output_type=[refunds, shipping, sales])
result = router.run_sync("My kettle of order 7 came broken.")
print(result.output, result.usage.requests, "requests")
