"""Plain JSON values and texts, safe to send and display."""

import re
from typing import Any, cast

import msgspec

from alhena.display_text import ELLIPSIS, escaped


def as_object(value: object) -> dict[str, Any] | None:
    """`value` if it is a JSON object, else None."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def as_array(value: object) -> list[Any] | None:
    """`value` if it is a JSON array, else None; tuples count as arrays."""
    if isinstance(value, tuple):
        return list(cast("tuple[Any, ...]", value))
    return cast("list[Any]", value) if isinstance(value, list) else None


def scrub(text: str) -> str:
    """`text` with each lone surrogate as U+FFFD, so that it encodes as UTF-8.

    Lone surrogates come from file names that are not UTF-8 (PEP 383) and from JSON escapes. Two
    that form a pair become the character they encode.
    """
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


_ESCAPE = (
    rb"(?s)\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)
"""An escape of a JSON text: a pair of surrogates, a lone one (in the group), or another."""


def scrub_json(data: bytes) -> bytes:
    """JSON text that strict readers take: lone surrogate escapes become U+FFFD. Services cut texts
    within an emoji."""
    return re.sub(_ESCAPE, lambda found: rb"\ufffd" if found[1] else found[0], data)


def decode_json(data: bytes | str) -> Any:
    """Decodes a JSON text of a service, scrubbed if need be. Raises msgspec.DecodeError,
    UnicodeError or RecursionError."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError):
        raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
        if (clean := scrub_json(raw)) == raw:
            raise
        return msgspec.json.decode(clean)


def excerpt(data: bytes | str, limit: int = 160) -> str:
    """The start of `data` on one line for an error message: at most `limit` characters.

    Runs of white space become one space, invisible characters are escaped, invalid UTF-8 becomes
    U+FFFD; an ellipsis marks a truncation.
    """
    window = data[: 4 * limit]
    text = window.decode("utf-8", "replace") if isinstance(window, bytes) else scrub(window)
    line = escaped(" ".join(text.split()))
    if len(window) == len(data) and len(line) <= limit:
        return line
    return line[: limit - 1].rstrip() + ELLIPSIS


def is_token(text: str) -> bool:
    """True when `text` can be sent as a credential in a header or a form: visible ASCII without
    blanks, not empty."""
    return bool(text) and text.isascii() and text.isprintable() and " " not in text


def carried_text(value: object) -> str:
    """A stripped text for a header or a form; "" for anything else."""
    if not isinstance(value, str) or not (value.isascii() and value.isprintable()):
        return ""
    return value.strip()
