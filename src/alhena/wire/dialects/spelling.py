"""Other spellings in which Gemini's API takes a body: snake_case names, and bytes in the alphabet
of base64 that is made for URLs. Google's own clients use them here and there."""

import re
from typing import Any

from alhena.wire.conformance.shape import camel
from alhena.wire.content import SIGNATURE_SENTINEL
from alhena.wire.plain import as_array, as_object

_OPAQUE = frozenset(
    {
        *("args", "response", "parametersJsonSchema", "responseJsonSchema", "labels", "enum"),
        *("partMetadata", "default", "example", "required", "propertyOrdering"),
    }
)
"""Fields whose content belongs to somebody else, names and all."""
_NAMED = frozenset({"properties", "defs", "$defs"})
"""Objects whose names are somebody's, and whose values are not."""
_NO_BYTES = frozenset({SIGNATURE_SENTINEL, "context_engineering_is_the_way_to_go"})
_STANDARD = str.maketrans("-_", "+/")
_LETTERS = re.compile(r"[A-Za-z0-9+/]+")


def plainly_spelt(body: object) -> Any:
    """The same body with its names in camelCase and its bytes in the standard alphabet."""
    if (items := as_array(body)) is not None:
        return [plainly_spelt(item) for item in items]
    fields = as_object(body)
    if fields is None:
        return body
    read: dict[str, Any] = {}
    for key, value in fields.items():
        name = camel(key) if "_" in key[1:] else key
        # What is said in both spellings stays as it is, so that neither is lost unseen.
        name = key if name != key and name in fields else name
        read[name] = _value(name, value)
    return read


def _value(name: str, value: Any) -> Any:
    if name in _OPAQUE:
        return value
    if name in _NAMED and (fields := as_object(value)) is not None:
        return {key: plainly_spelt(item) for key, item in fields.items()}
    if isinstance(value, str) and name in {"data", "thoughtSignature"}:
        return value if value in _NO_BYTES else _standard(value)
    return plainly_spelt(value)


def _standard(text: str) -> str:
    """The text in the standard alphabet, and filled up to its length, if it is base64 at all."""
    made = text.translate(_STANDARD) if "-" in text or "_" in text else text
    missing = -len(made) % 4
    return f"{made}{'=' * missing}" if missing in (1, 2) and _LETTERS.fullmatch(made) else made
