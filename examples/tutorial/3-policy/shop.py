"""The shop: a database of orders, and an agent that answers questions and pays refunds."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

from alhena import Agent, Approver, Model, Rule, ToolContext, tool

ORDERS = [
    (1, "Ada", "kettle", 39.0, "sent"),
    (2, "Bo", "lamp", 65.0, "waiting"),
    (3, "Ada", "sofa", 890.0, "returned"),
    (4, "Cleo", "cup", 9.0, "returned"),
]
INSTRUCTIONS = """You answer questions about the orders of a shop, and pay refunds with `refund`.
Look everything up with `query`; the table is
orders(id, customer, item, euros, status), status is waiting, sent, returned or refunded.
Answer in one or two sentences."""


RULES = [
    Rule.deny("refund", when=lambda args: args["euros"] > 500, message="Ask the owner."),
    Rule.allow("refund", when=lambda args: args["euros"] <= 50),
]


def open_shop(path: Path) -> Path:
    """Makes the database unless it is there."""
    if not path.exists():
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("CREATE TABLE orders (id, customer, item, euros, status)")
            database.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", ORDERS)
    return path


def query(sql: str, context: ToolContext[Path]) -> list[dict[str, Any]]:
    """Reads from the shop's database.

    Args:
        sql: one SELECT statement of SQLite.
    """
    with closing(sqlite3.connect(f"{context.deps.as_uri()}?mode=ro", uri=True)) as database:
        database.row_factory = sqlite3.Row
        return [dict(row) for row in database.execute(sql).fetchmany(50)]


@tool(confirm=True)
def refund(order: int, euros: float, reason: str, context: ToolContext[Path]) -> str:
    """Pays back an order.

    Args:
        order: id of the order.
        euros: how much.
        reason: for the books, in a few words.
    """
    with closing(sqlite3.connect(context.deps)) as database, database:
        changed = database.execute(
            "UPDATE orders SET status = 'refunded' WHERE id = ? AND status = 'returned'", (order,)
        )
        if changed.rowcount != 1:
            raise ValueError(f"Order {order} was not returned.")
    return f"Paid back {euros:.2f} EUR for order {order} ({reason})."


def make_agent(
    path: Path, approve: Approver | Literal["never"], model: Model | str = "gemini-3.8-flash"
) -> Agent[Path]:
    """The agent of the shop whose database is at `path`; `approve` answers for the person."""
    return Agent(
        model,
        instructions=INSTRUCTIONS,
        tools=[query, refund],
        approve=approve,
        policy=RULES,
        builtin_tools=(),
        isolated=True,
        deps=path,
    )
