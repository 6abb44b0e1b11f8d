"""Customers share a process and a model; each has conversations, deps and rules of its own."""

import sqlite3
from dataclasses import dataclass

from pydantic_ai.capabilities import PrepareTools
from scripted import call, scripted

from pydantic_ai import Agent, ModelMessagesTypeAdapter, RunContext, ToolDefinition


@dataclass
class Tenant:
    name: str
    invoices: dict[int, str]


async def only_invoices(
    context: RunContext[Tenant], tools: list[ToolDefinition]
) -> list[ToolDefinition]:
    return [tool for tool in tools if tool.name == "invoice"]


model = scripted(call("invoice", number=1), "One.", call("invoice", number=1), "Other.")
agent = Agent(model, deps_type=Tenant, capabilities=[PrepareTools(only_invoices)])


@agent.tool
def invoice(context: RunContext[Tenant], number: int) -> str:
    """Reads an invoice of the customer."""
    return context.deps.invoices[number]


for tenant in (Tenant("acme", {1: "5 EUR"}), Tenant("blue", {1: "9 EUR"})):
    database = sqlite3.connect(f"{tenant.name}.db")
    database.execute("CREATE TABLE IF NOT EXISTS messages (conversation TEXT, entries BLOB)")
    rows = database.execute("SELECT entries FROM messages WHERE conversation = 'support'")
    history = [each for (row,) in rows for each in ModelMessagesTypeAdapter.validate_json(row)]
    result = agent.run_sync("What is on invoice 1?", deps=tenant, message_history=history)
    with database:
        row = ("support", result.new_messages_json())
        database.execute("INSERT INTO messages VALUES (?, ?)", row)
    print(tenant.name, result.new_messages()[-2].parts[0].content)
