"""Keeps conversations in SQLite, continues one, and branches off."""

import sqlite3
from collections.abc import Sequence

from scripted import scripted

from pydantic_ai import Agent, ModelMessage, ModelMessagesTypeAdapter

database = sqlite3.connect("chats.db")
database.execute("CREATE TABLE IF NOT EXISTS messages (conversation TEXT, entries BLOB)")


def load(conversation: str) -> list[ModelMessage]:
    query = "SELECT entries FROM messages WHERE conversation = ? ORDER BY rowid"
    rows = database.execute(query, (conversation,))
    return [each for (row,) in rows for each in ModelMessagesTypeAdapter.validate_json(row)]


def append(conversation: str, messages: Sequence[ModelMessage]) -> None:
    entries = ModelMessagesTypeAdapter.dump_json(list(messages))
    with database:
        database.execute("INSERT INTO messages VALUES (?, ?)", (conversation, entries))


def ask(conversation: str, prompt: str, *answers: str) -> str:
    agent = Agent(scripted(*answers))
    result = agent.run_sync(prompt, message_history=load(conversation))
    append(conversation, result.new_messages())
    return result.output


ask("ada", "I am Ada.", "Hello Ada.")
append("ada-2", load("ada")[:2])
print(ask("ada", "Who am I?", "You are Ada."), len(load("ada")))
print("ada-2", len(load("ada-2")))
