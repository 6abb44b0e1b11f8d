"""A type as JSON: its schema, and the function that reads a value of it."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

Schema = dict[str, Any]
Read = Callable[[Any, str], Any]
"""Reads a value from JSON at a path such as `orders[2].amount`. Raises ValueError."""


class JsonForm(NamedTuple):
    """A type as JSON. `fields`: the names of an object's fields, None for anything else. `strict`:
    it takes no other spellings of its values, such as "1" for 1."""

    schema: Schema
    read: Read
    fields: frozenset[str] | None = None
    strict: bool = False


JSON_TYPES: dict[type[object], str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
    list: "array",
    dict: "object",
}


_DEEP = 60


def inline_references(node: Any, definitions: Mapping[str, Any], depth: int = 0) -> Schema:
    """Replaces references in a schema by their targets, and drops generated titles. Raises
    RecursionError for a schema that contains itself."""
    if depth > _DEEP:
        raise RecursionError
    reference = node.get("$ref")
    if isinstance(reference, str):
        target = inline_references(
            definitions[reference.rpartition("/")[2]], definitions, depth + 1
        )
        return target | {key: value for key, value in node.items() if key != "$ref"}
    made: Schema = {}
    for key, value in node.items():
        if key == "properties":
            made[key] = {
                name: inline_references(child, definitions, depth + 1)
                for name, child in value.items()
            }
        elif key in {"items", "additionalProperties"} and isinstance(value, dict):
            made[key] = inline_references(value, definitions, depth + 1)
        elif key in {"anyOf", "oneOf", "allOf", "prefixItems"}:
            made[key] = [inline_references(child, definitions, depth + 1) for child in value]
        elif key not in {"title", "discriminator"}:
            made[key] = value
    return made


def describe_value(data: object) -> str:
    """A short value as it is, for others their JSON type."""
    if isinstance(data, bool):
        return str(data).lower()
    if isinstance(data, str | int | float):
        return f"{data!r:.60}"
    return JSON_TYPES.get(type(data), type(data).__name__)


def below(path: str, name: str) -> str:
    """The path of a field of the value at `path`."""
    return f"{path}.{name}" if path else name


def at_path(path: str, message: str) -> str:
    """A message about the value at `path`."""
    return f"{path}: {message}" if path else message
