"""Which types a schema speaks of."""

from typing import Any

from alhena.wire.plain import as_array, as_object
from alhena.wire.schema.references import target

_COMBINERS = ("anyOf", "allOf", "oneOf")
_MAX_DEPTH = 64


def untyped_at(schema: object) -> str | None:
    """Where a schema of a tool's parameters fails to say a type, None when it says them all.

    Without a type of its own a schema counts as typed when it has a combiner and each of its
    branches is typed; properties of objects and items of arrays are looked into, and so is what a
    reference means. One that leads back to where it stands says no type, but is no fault either.
    """
    waiting: list[tuple[object, str, int]] = [(schema, "$", 0)]
    followed: set[str] = set()
    while waiting:
        value, path, depth = waiting.pop()
        node = as_object(value)
        if node is None:
            return path
        reference = node.get("$ref")
        if isinstance(reference, str) and not node.get("type"):
            if reference not in followed:
                followed.add(reference)
                waiting.append((target(schema, reference), path, depth))
            continue
        if depth > _MAX_DEPTH:
            continue
        below = _below(node, path)
        if below is None:
            return path
        waiting.extend((item, place, depth + 1) for item, place in reversed(below))
    return None


def _below(node: dict[str, Any], path: str) -> list[tuple[object, str]] | None:
    """The schemas to look at below a node; None when it has no type."""
    kind = node.get("type")
    if not kind:
        combined = [
            (branch, f"{path}.{keyword}[{index}]")
            for keyword in _COMBINERS
            for index, branch in enumerate(as_array(node.get(keyword)) or ())
        ]
        return combined or None
    if kind == "object":
        properties = as_object(node.get("properties")) or {}
        return [(item, f"{path}.properties.{name}") for name, item in properties.items()]
    if kind == "array" and "items" in node:
        return [(node["items"], f"{path}.items")]
    return []


def types_in(value: object) -> tuple[str, ...]:
    """The names that a `type` keyword holds."""
    if isinstance(value, str):
        return (value,)
    return tuple(name for name in as_array(value) or () if isinstance(name, str))


def type_of(value: object) -> str:
    """The JSON type of a plain value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list() | tuple():
            return "array"
        case _:
            return "object"
