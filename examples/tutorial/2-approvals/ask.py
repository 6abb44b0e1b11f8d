"""Answers a question, and asks before it pays: python ask.py "Refund order 4" """

import sys
from pathlib import Path

from alhena import Answer, ConfirmationRequest

from shop import make_agent, open_shop


def approve(request: ConfirmationRequest) -> Answer:
    """Asks the person at the terminal."""
    print(f"{request.tool_name} {request.args}")
    said = input("Run it? [y/N or a reason] ").strip()
    if said in ("y", "yes"):
        return Answer.yes()
    return Answer.no(said) if said not in ("", "n", "no") else Answer.no()


path = open_shop(Path("shop.db").resolve())
result = make_agent(path, approve).run_sync(sys.argv[1])
print(result.output or f"Stopped: {result.stop_reason}")
for call in result.denied:
    print("denied:", call.name, call.reason)
