"""Plain JSON values and texts, fit to be sent and shown."""

from typing import Any, cast

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

    Lone surrogates come from file names that are no UTF-8 (PEP 383) and from JSON escapes. Two
    that form a pair become the character they stand for.
    """
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def excerpt(data: bytes | str, limit: int = 160) -> str:
    """The start of `data` on one line for an error message: at most `limit` characters.

    Runs of white space become one space, what cannot be seen is escaped, bytes that are no
    UTF-8 become U+FFFD; a cut is marked by an ellipsis.
    """
    window = data[: 4 * limit]
    text = window.decode("utf-8", "replace") if isinstance(window, bytes) else scrub(window)
    line = escaped(" ".join(text.split()))
    if len(window) == len(data) and len(line) <= limit:
        return line
    return line[: limit - 1].rstrip() + ELLIPSIS


def is_token(text: str) -> bool:
    """True when a header or a form can carry `text` as a credential: visible ASCII without a blank,
    and not empty."""
    return bool(text) and text.isascii() and text.isprintable() and " " not in text


def carried_text(value: object) -> str:
    """A text that a header or a form can carry, without the blanks around it; "" for anything
    else."""
    if not isinstance(value, str) or not (value.isascii() and value.isprintable()):
        return ""
    return value.strip()
