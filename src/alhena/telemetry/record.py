"""A log record before it has a time, an origin and a form."""

from typing import Any

import msgspec

PREFIX = "gemini_cli."
"""What names of events and metrics begin with: the reference's, which dashboards look for."""


def first_word(name: str) -> str:
    """The program of a hook that is named by its command."""
    return (name.split() or [""])[0]


class Record(msgspec.Struct, frozen=True):
    """One thing that happened: `name` without its prefix, a sentence, the attributes of its own."""

    name: str
    body: str
    attributes: dict[str, Any]
