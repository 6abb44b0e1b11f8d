"""Records a conversation with the real model, and replays it: python recorded.py"""

from pathlib import Path

from alhena.testing import record, replay

from shop import make_agent, open_shop

path = open_shop(Path("shop.db").resolve())

with record("waiting.jsonl"):  # asks the service, and writes requests and answers
    first = make_agent(path, "never").ask_sync("Which orders wait?")

with replay("waiting.jsonl"):  # no network; raises at the first request that differs
    again = make_agent(path, "never").ask_sync("Which orders wait?")

print(first == again, first)
