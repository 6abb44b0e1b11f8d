"""Customers share a process and a model; each has conversations, deps and rules of its own."""

import asyncio
from dataclasses import dataclass

from alhena import Agent, Rule, SQLiteStore, ToolContext, tool
from alhena.testing import Call, TestModel


@dataclass
class Tenant:
    name: str
    invoices: dict[int, str]


@tool
def invoice(number: int, context: ToolContext[Tenant]) -> str:
    """Reads an invoice of the customer."""
    return context.deps.invoices.get(number, "There is none.")


model = TestModel(Call("invoice", number=1), "One.", Call("invoice", number=1), "Other.")


def agent(tenant: Tenant) -> Agent[Tenant]:
    return Agent(
        model,
        tools=[invoice],
        deps=tenant,
        policy=[Rule.allow("invoice"), Rule.deny("*")],
        store=SQLiteStore(f"{tenant.name}.db"),
        conversation="support",
        isolated=True,
    )


async def main() -> None:
    for tenant in (Tenant("acme", {1: "5 EUR"}), Tenant("blue", {1: "9 EUR"})):
        async with agent(tenant) as own:
            await own.run("What is on invoice 1?")
            print(tenant.name, own.history[-2].parts[0].function_response)


asyncio.run(main())
