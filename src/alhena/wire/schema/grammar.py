"""Reduces JSON Schemas to what the grammar engines of model servers take: llama.cpp's converter,
XGrammar and Outlines. What is left out is noted in the description: the schema becomes wider, and
the value is checked against the original one."""

from typing import Any

from alhena.wire.json_values import as_array, as_object
from alhena.wire.schema.adapt import local_schema
from alhena.wire.schema.keywords import append_notes, note, types_in
from alhena.wire.schema.openapi import without_all_of

_KEPT = frozenset(
    {
        *("type", "title", "description", "default", "enum", "properties", "required"),
        *("items", "prefixItems", "additionalProperties", "minItems", "maxItems", "anyOf"),
    }
)
_SILENT = frozenset(
    {"examples", "example", "deprecated", "readOnly", "writeOnly", "oneOf", "const"}
)
"""Keywords that are left out, or written otherwise, without a note."""
MOST_ITEMS = 100
"""Longer arrays have no bounds: a grammar repeats its rules for each item."""
_ANY = ("string", "number", "boolean", "object", "array", "null")


def grammar_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of an object without references, patterns, formats and the other keywords that
    some engine refuses. Raises SchemaError as `local_schema` does."""
    return _reduce(local_schema(schema))


def _reduce(value: object) -> dict[str, Any]:
    notes: list[str] = []
    node = without_all_of(as_object(value) or {}, notes)
    if "const" in node:
        node["enum"] = [node["const"]]
    branches = as_array(node.get("anyOf")) or as_array(node.get("oneOf"))
    made = {key: item for key, item in node.items() if key in _KEPT and key != "anyOf"}
    if _is_integer(node):  # of other numbers no engine bounds the digits
        made |= {key: node[key] for key in ("minimum", "maximum") if key in node}
    if max(node.get("minItems") or 0, node.get("maxItems") or 0) > MOST_ITEMS:
        for key in ("minItems", "maxItems"):
            made.pop(key, None)
    notes += [
        note(key, item)
        for key, item in node.items()
        if key not in made and key not in _SILENT and key != "anyOf"
    ]
    if branches:
        made["anyOf"] = [_reduce(each) for each in branches]
    _reduce_below(made)
    if not ("type" in made or "enum" in made or "anyOf" in made):
        made["anyOf"] = [{"type": name} for name in _ANY]
    return append_notes(made, notes)


def _reduce_below(made: dict[str, Any]) -> None:
    """Reduces the schemas inside a node in place."""
    properties = as_object(made.get("properties"))
    if properties is not None:
        made["properties"] = {name: _reduce(item) for name, item in properties.items()}
        made["required"] = [name for name in made.get("required") or () if name in properties]
    elif "required" in made:
        del made["required"]
    if not made.get("required"):
        made.pop("required", None)
    for key in ("items", "additionalProperties"):
        if as_object(made.get(key)) is not None:
            made[key] = _reduce(made[key])
    if "prefixItems" in made:
        made["prefixItems"] = [_reduce(each) for each in as_array(made["prefixItems"]) or ()]


def _is_integer(node: dict[str, Any]) -> bool:
    kinds = types_in(node.get("type"))
    return "integer" in kinds and "number" not in kinds
