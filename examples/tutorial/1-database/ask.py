"""Answers a question: python ask.py "Which orders wait?" """

import sys
from pathlib import Path

from shop import make_agent, open_shop

path = open_shop(Path("shop.db").resolve())
result = make_agent(path).run_sync(sys.argv[1])
print(result.output)
print("tool calls:", result.usage.tool_calls, "requests:", result.usage.requests)
