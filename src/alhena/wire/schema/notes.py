"""What a schema can no longer say, said in its description."""

from collections.abc import Sequence
from typing import Any

from alhena.wire.text import excerpt

LIMIT = 240
"""Characters of one note."""


def described(node: dict[str, Any], notes: Sequence[str]) -> dict[str, Any]:
    """`node` with the notes at the end of its description."""
    if not notes:
        return node
    given = node.get("description")
    said = f"({'; '.join(dict.fromkeys(notes))})"
    text = f"{given} {said}" if isinstance(given, str) and given else said
    return node | {"description": text}


def note(keyword: str, value: object) -> str:
    """A keyword and its value as a note. Numbers that JSON lacks are NaN and Infinity there."""
    import json

    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        text = _said(value)
    return f"{keyword}: {excerpt(text, LIMIT)}"


def _said(value: object) -> str:
    """What JSON has no form for. Python does not spell out numbers of thousands of digits."""
    try:
        return ascii(value)
    except ValueError:
        return "a number of thousands of digits"
