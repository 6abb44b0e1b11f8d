"""The arguments of a call as a JSON text, the way OpenAI and Anthropic's streams write them."""

from typing import Any

import msgspec

from alhena.wire.encoded import encode_value
from alhena.wire.plain import as_object


def read_arguments(text: str) -> dict[str, Any] | None:
    """The object that a JSON text is; empty for an empty text, None when it is something else."""
    if not text.strip():
        return {}
    try:
        return as_object(msgspec.json.decode(text))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def write_arguments(args: dict[str, Any] | None) -> str:
    """The JSON text of arguments."""
    return encode_value(args or {}).decode()
