"""Sorts two hundred messages of customers: python complaints.py [--rehearse]

Started again, it continues where it was: what is done is in the folder `complaints.run`.
"""

import asyncio
import json
import sys
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

from alhena import Agent, Limits, Model, Task, run_many
from alhena.models import Gemini
from alhena.testing import TestModel

TEXTS = (
    "Order {0} came broken. I want my money back!",
    "When does order {0} arrive? It is two weeks late.",
    "Order {0} is lovely. Thank you.",
    "Please send the invoice for order {0} once more.",
)
MESSAGES = [TEXTS[number % len(TEXTS)].format(number) for number in range(200)]


@dataclass
class Complaint:
    """The subject of a message."""

    kind: Literal["refund", "delivery", "praise", "other"]
    order: int


def rehearse(request: dict[str, Any]) -> str:
    """Answers by fixed rules, in place of a model."""
    text = request["contents"][-1]["parts"][0]["text"]
    words = {"broken": "refund", "late": "delivery", "lovely": "praise"}
    kind = next((kind for word, kind in words.items() if word in text), "other")
    order = next(int(word) for word in text.replace(".", " ").split() if word.isdigit())
    return json.dumps({"kind": kind, "order": order})


async def main(model: Model) -> None:
    def make_agent() -> Agent:
        return Agent(
            model,
            instructions="Sort the message of a customer.",
            builtin_tools=(),
            isolated=True,
            limits=Limits(turns=3),
        )

    tasks = [
        Task(text, id=f"message-{number}", output=Complaint) for number, text in enumerate(MESSAGES)
    ]
    kinds, failed = Counter[str](), list[str]()
    async for outcome in run_many(tasks, agent=make_agent, run_dir="complaints.run"):
        if outcome.result is None:
            failed.append(f"{outcome.id}: {outcome.error}")
        else:
            kinds[outcome.result.output.kind] += 1
    print(*(f"{count:4} {kind}" for kind, count in sorted(kinds.items())), sep="\n")
    print(f"{len(failed):4} failed", *failed, sep="\n")


if __name__ == "__main__":
    rehearsal = "--rehearse" in sys.argv
    asyncio.run(main(TestModel(*[rehearse] * 200) if rehearsal else Gemini("gemini-3.8-flash")))
