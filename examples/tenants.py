"""Customers share a process and a model; each has conversations, deps and rules of its own."""

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
    return context.deps.invoices[number]


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


for tenant in (Tenant("acme", {1: "5 EUR"}), Tenant("blue", {1: "9 EUR"})):
    result = agent(tenant).run_sync("What is on invoice 1?")
    print(tenant.name, result.new_contents[-2].parts[0].function_response)
