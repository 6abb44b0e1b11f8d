"""The form of an answer, as far as Anthropic's service takes a schema for it."""

from typing import Any

from alhena.wire.plain import as_array, as_object
from alhena.wire.schema.notes import described, note

_DEEPEST = 32
_SAID = frozenset(
    {
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minLength", "maxLength", "maxItems", "uniqueItems", "minProperties", "maxProperties"),
    }
)
"""What the service refuses, and what a description can say."""
_OPEN = frozenset({"patternProperties", "propertyNames", "not", "if", "prefixItems", "contains"})
"""What it refuses, and what leaves another schema behind when it is gone."""
_FORMATS = frozenset(
    {
        *("date-time", "time", "date", "duration", "email", "hostname", "uri", "uuid"),
        *("ipv4", "ipv6"),
    }
)
"""Those that it knows."""
_DEFINED = ("$defs", "definitions")
_NAMED = frozenset({"properties", "$defs", "definitions"})
_LISTED = frozenset({"anyOf", "allOf"})


class _NotTakenError(Exception):
    pass


def answer_form(schema: dict[str, Any]) -> dict[str, Any] | None:
    """The schema as the service takes it: objects have no properties but those that are named, and
    bounds stand in descriptions. None where it has no such form."""
    try:
        made = _node(schema, _DEEPEST)
        _require_ends(made)
    except _NotTakenError:
        return None
    return made


def _require_ends(schema: dict[str, Any]) -> None:
    """Raises _NotTakenError for references that lead back to where they came from, or to something
    else than a definition of the schema."""
    below = {
        f"#/{group}/{name}": _references(node)
        for group in _DEFINED
        for name, node in (as_object(schema.get(group)) or {}).items()
    }
    if not _references(schema) <= below.keys():
        raise _NotTakenError
    while below:
        ended = {name for name, names in below.items() if names.isdisjoint(below)}
        if not ended:
            raise _NotTakenError
        below = {name: names for name, names in below.items() if name not in ended}


def _references(node: object) -> set[str]:
    """What is referred to in a schema and in all below it."""
    found: set[str] = set()
    waiting = [node]
    while waiting:
        value = waiting.pop()
        fields = as_object(value)
        if fields is None:
            waiting += as_array(value) or ()
            continue
        if isinstance(name := fields.get("$ref"), str):
            found.add(name)
        waiting += fields.values()
    return found


def _node(node: dict[str, Any], depth: int) -> dict[str, Any]:
    if not depth or not _OPEN.isdisjoint(node):
        raise _NotTakenError
    made: dict[str, Any] = {}
    notes: list[str] = []
    for key, value in node.items():
        name = "anyOf" if key == "oneOf" and "anyOf" not in node else key
        if _is_compound(key, value):
            raise _NotTakenError
        unknown = key == "format" and value not in _FORMATS
        if key in _SAID or unknown or (key == "minItems" and value not in (0, 1)):
            notes.append(note(key, value))
        else:
            made[name] = _below(name, value, depth)
    if "properties" in made or "object" in (as_array(made.get("type")) or [made.get("type")]):
        if made.get("additionalProperties", not made.get("properties")):
            raise _NotTakenError  # closed, it would allow other answers
        made["additionalProperties"] = False
    return described(made, notes)


def _is_compound(key: str, value: object) -> bool:
    """Whether a keyword allows whole objects or arrays, of which the service takes none."""
    values = as_array(value) or [] if key == "enum" else [value] if key == "const" else []
    return any(isinstance(one, (dict, list)) for one in values)


def _below(key: str, value: object, depth: int) -> Any:
    fields, items = as_object(value), as_array(value)
    if key in _NAMED and fields is not None:
        return {name: _inner(inner, depth) for name, inner in fields.items()}
    if key in _LISTED and items is not None:
        return [_inner(inner, depth) for inner in items]
    return _inner(value, depth) if key == "items" else value


def _inner(value: object, depth: int) -> Any:
    fields = as_object(value)
    return value if fields is None else _node(fields, depth - 1)
