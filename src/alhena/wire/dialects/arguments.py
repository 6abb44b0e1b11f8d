"""The arguments of a call as a JSON text, the way OpenAI and Anthropic's streams write them."""

from typing import Any

import msgspec

from alhena.wire.encoded import encode_value
from alhena.wire.plain import as_object

_MOST_OBJECTS = 4


def read_arguments(text: str) -> dict[str, Any] | None:
    """The object that a JSON text is; empty for an empty text, None when it is something else."""
    if not text.strip():
        return {}
    try:
        return as_object(msgspec.json.decode(text))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def answered_arguments(text: str) -> dict[str, Any] | None:
    """The same of a model's answer, as servers write it for tools without parameters (`null`), in a
    string once more, or twice: an empty object, or the same one, before the real one."""
    found = read_arguments(text)
    if found is not None:
        return found
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _last_of(text)
    if value is None:
        return {}
    return read_arguments(value) if isinstance(value, str) else None


def _last_of(text: str) -> dict[str, Any] | None:
    """The last of objects one behind the other of which all others are empty or the same."""
    from json import JSONDecoder

    decoder = JSONDecoder()
    found: list[dict[str, Any]] = []
    rest = text.strip()
    while rest.startswith("{") and len(found) < _MOST_OBJECTS:
        try:
            _, end = decoder.raw_decode(rest)
        except (ValueError, RecursionError):  # also for a number that is too long
            return None
        value = read_arguments(rest[:end])  # which takes no numbers that JSON does not have
        if value is None:
            return None
        found.append(value)
        rest = rest[end:].lstrip()
    if rest or not found or any(one not in ({}, found[-1]) for one in found):
        return None
    return found[-1]


def write_arguments(args: dict[str, Any] | None) -> str:
    """The JSON text of arguments."""
    return encode_value(args or {}).decode()
