"""The shop: a database of orders, and an agent that answers questions about it."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from alhena import Agent, Model, ToolContext

ORDERS = [
    (1, "Ada", "kettle", 39.0, "sent"),
    (2, "Bo", "lamp", 65.0, "waiting"),
    (3, "Ada", "sofa", 890.0, "returned"),
    (4, "Cleo", "cup", 9.0, "returned"),
]
INSTRUCTIONS = """You answer questions about the orders of a shop.
Look everything up with `query`; the table is
orders(id, customer, item, euros, status), status is waiting, sent, returned or refunded.
Answer in one or two sentences."""


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


def make_agent(path: Path, model: Model | str = "gemini-3.8-flash") -> Agent[Path]:
    """The agent of the shop whose database is at `path`."""
    return Agent(
        model,
        instructions=INSTRUCTIONS,
        tools=[query],
        builtin_tools=(),
        isolated=True,
        deps=path,
    )
