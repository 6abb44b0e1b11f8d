"""One rule of the grammar: a pattern over a whole clause and what it means."""

import re
from collections.abc import Callable

import msgspec

from alhena.models.rehearsal.intents import Intent

Meaning = Callable[[re.Match[str], str], tuple[Intent, ...] | None]


class Rule(msgspec.Struct, frozen=True):
    """`meaning(match, last)` gives the intents, or None when the rule does not apply after all;
    `last` is the file named most recently, for "it". A `free` rule ends in free text, which may
    itself contain "and" and commas."""

    pattern: str
    meaning: Meaning
    free: bool = False


class Reading(msgspec.Struct, frozen=True):
    """What one clause was read as."""

    intents: tuple[Intent, ...]
    free: bool


def read_clause(rules: tuple[Rule, ...], clause: str, trimmed: str, last: str) -> Reading | None:
    """The reading by the first rule that applies. Free rules see `clause`, others the `trimmed`
    one, without courtesies at its end."""
    for rule in rules:
        match = re.fullmatch(
            rule.pattern, clause if rule.free else trimmed, re.IGNORECASE | re.DOTALL
        )
        if match is None:
            continue
        intents = rule.meaning(match, last)
        if intents is not None:
            return Reading(intents, rule.free)
    return None
