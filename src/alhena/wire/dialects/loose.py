"""Fields of an answer on which nothing hangs, read as far as they make sense.

An answer is not given up because a server counts its tokens in an array or numbers its chunks.
"""

import math

from alhena.wire.dialects.fields import Fields
from alhena.wire.plain import as_object
from alhena.wire.text import scrub

_MOST = 2**53
"""No count is larger."""


def word(fields: Fields, key: str) -> str | None:
    """The text in a field; None for anything else."""
    value = fields.value(key)
    return scrub(value) if isinstance(value, str) else None


def count(fields: Fields, key: str) -> int:
    """The number in a field, also as text, and cut to a whole one; 0 for anything else."""
    found = number(fields, key)
    return 0 if found is None else found


def number(fields: Fields, key: str) -> int | None:
    """The same, None for anything else."""
    value = fields.value(key)
    if isinstance(value, str):
        value = int(value) if value.isascii() and value.isdigit() and len(value) < 16 else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if math.isfinite(value) and abs(value) <= _MOST else None


def inner(fields: Fields, key: str) -> Fields:
    """The object in a field; an empty one for anything else."""
    return Fields(as_object(fields.value(key)) or {}, fields.place(key))
