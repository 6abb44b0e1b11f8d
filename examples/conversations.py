"""Keeps conversations in SQLite, continues one, and branches off."""

from alhena import Agent, SQLiteStore
from alhena.testing import TestModel

store = SQLiteStore("chats.db")


def agent(*answers: str) -> Agent:
    return Agent(TestModel(*answers), store=store, conversation="ada")


agent("Hello Ada.").ask_sync("I am Ada.")
ada = agent("You are Ada.")
branch = ada.fork(at=4, conversation="ada-2")
print(ada.ask_sync("Who am I?"), len(ada.history))
print(branch.session_id or "not open yet", len(branch.history))
