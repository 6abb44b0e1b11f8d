"""`make soak`: many more generated conversations than the suite tries, from seeds that are printed.

python -m tests.soak [--histories N] [--seed S]
"""

import argparse
import random
import time

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.chat.test_generated_histories import converse

HISTORIES = 20_000
BATCH = 1000
"""Conversations a seed: what a failure names is short enough to be run again."""


def main() -> None:
    """Prints a line for each seed; a failure ends the run with the conversation, made small."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--histories", type=int, default=HISTORIES, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=None, help="of the first thousand; random")
    given_options = parser.parse_args()
    first: int = given_options.seed
    if first is None:
        first = random.SystemRandom().randrange(2**32)
    start, done, requests = time.monotonic(), 0, 0
    while done < given_options.histories:
        count = min(BATCH, given_options.histories - done)
        number = first + done // BATCH
        print(f"seed {number}: ", end="", flush=True)
        tried, sent = batch(number, count)
        done, requests = done + tried, requests + sent
        print(f"{tried} conversations, {sent} requests, no rule broken", flush=True)
    print(f"{done} conversations, {requests} requests, {time.monotonic() - start:.0f} s")


def batch(number: int, count: int) -> tuple[int, int]:
    """So many conversations from a seed: how many there were, and how many requests they sent."""
    sent: list[int] = []

    def conversation(data: st.DataObject) -> None:
        sent.append(converse(data))

    run = settings(
        max_examples=count,
        deadline=None,
        database=None,
        print_blob=True,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    seed(number)(run(given(st.data())(conversation)))()
    return len(sent), sum(sent)


if __name__ == "__main__":
    main()
