"""Ids for calls and answers that the service gave none."""

import secrets
from collections.abc import Callable
from itertools import count


def call_ids(prefix: str) -> Callable[[str], str]:
    """Gives ids to the calls of one answer: different from each other and from those of others."""
    token = secrets.token_hex(8)
    numbers = count(1)
    return lambda _name: f"{prefix}_{token}_{next(numbers)}"


def answer_id() -> str:
    """An id for an answer."""
    return secrets.token_hex(12)
