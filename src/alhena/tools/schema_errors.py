"""Sentences about parameters that break the JSON Schema of a tool."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec

from alhena.display_text import escaped

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

ROOT = "params"
EXCERPT = 80

_LIMITS = {
    "minimum": "must be >= {}",
    "maximum": "must be <= {}",
    "exclusiveMinimum": "must be > {}",
    "exclusiveMaximum": "must be < {}",
    "multipleOf": "must be a multiple of {}",
    "minItems": "must NOT have fewer than {} items",
    "maxItems": "must NOT have more than {} items",
    "minLength": "must NOT have fewer than {} characters",
    "maxLength": "must NOT have more than {} characters",
    "minProperties": "must NOT have fewer than {} properties",
    "maxProperties": "must NOT have more than {} properties",
    "pattern": "must match pattern {!r}",
}


def describe_violation(
    error: "ValidationError", params: dict[str, Any], aliases: Mapping[str, Sequence[str]]
) -> str:
    """A sentence about a value that breaks the schema. `aliases` as in `problem_with`."""
    where = "/".join([ROOT, *map(str, error.instance_path)])
    keyword = error.kind.name
    if keyword == "required":
        return f"{where} {_missing(error, params, aliases)}"
    if keyword in _LIMITS:
        expected = _LIMITS[keyword].format(error.kind.value)
    elif keyword == "type":
        expected = f"must be {' or '.join(error.kind.value)}"
    elif keyword == "enum":
        choices = ", ".join(_json(choice) for choice in error.kind.value)
        expected = f"must be equal to one of the allowed values: {choices}"
    elif keyword == "const":
        expected = f"must be equal to {_json(error.kind.value)}"
    elif keyword == "additionalProperties":
        names = ", ".join(f"'{name}'" for name in error.kind.value)
        return f"{where} must NOT have additional properties: {names}"
    elif keyword in {"anyOf", "oneOf"}:
        expected = _alternatives(error)
    elif keyword == "falseSchema":
        expected = "must NOT have further members"
    else:
        return f"{where}: {shorten_message(error.message)}"
    return f"{where} {expected}, got {excerpt(error.instance)}"


def _missing(
    error: "ValidationError", params: dict[str, Any], aliases: Mapping[str, Sequence[str]]
) -> str:
    name = str(error.kind.value)
    accepted = aliases.get(name, ()) if not error.instance_path else ()
    also = ", ".join(f"'{alias}'" for alias in accepted)
    found = cast("dict[str, Any]", error.instance) if error.instance_path else params
    given = ", ".join(f"'{key[:EXCERPT]}'" for key in list(found)[:10]) or "nothing"
    return (
        f"must have required property '{name}'"
        + (f" (also accepted: {also})" if also else "")
        + f", got {given}"
    )


def _alternatives(error: "ValidationError") -> str:
    """Lists the types when every branch only rejects the type, else the messages of the
    branches."""
    branches: list[list[ValidationError]] = error.kind.value or []
    first = [branch[0] for branch in branches if branch]
    if first and all(item.kind.name == "type" for item in first):
        names = dict.fromkeys(name for item in first for name in item.kind.value)
        return f"must be {' or '.join(names)}"
    reasons = "; or ".join(shorten_message(item.message) for item in first)
    return f"must match one of the allowed forms ({reasons})"


def excerpt(value: object) -> str:
    """A value's JSON type and enough of it to recognise it."""
    match value:
        case None:
            return "null"
        case bool():
            return f"boolean {str(value).lower()}"
        case int():
            return f"integer {value}" if abs(value) < 10**EXCERPT else "a huge integer"
        case float():
            return f"number {value}"
        case str():
            shown = value if len(value) <= EXCERPT else value[:EXCERPT] + "…"
            return f"string {escaped(_json(shown))}"
        case list() | tuple():
            return f"array of {len(cast('list[object]', value))} items"
        case dict():
            return f"object with {len(cast('dict[str, object]', value))} properties"
        case _:
            return type(value).__name__


def _json(value: object) -> str:
    try:
        return msgspec.json.encode(value).decode("utf-8")
    except (UnicodeEncodeError, TypeError, ValueError, RecursionError):
        return shorten_message(ascii(value))


def shorten_message(text: str) -> str:
    """A message of other software on one line."""
    line = escaped(" ".join(text.split()))
    return line if len(line) <= 4 * EXCERPT else line[: 4 * EXCERPT] + "…"
