"""One node of a schema in the keywords of JSON Schema as it is now.

Older generations said some things in another way, and servers write what no generation has. What
cannot be meant is left out, which accepts more.
"""

import math
from collections.abc import Callable
from typing import Any

from alhena.wire.plain import as_array, as_object
from alhena.wire.schema.types import types_in

MAX_VALUES = 100_000
"""So many values are looked at; more are no schema that could be sent."""

TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})


def present(node: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """`node` without its subschemas being looked at; the same object when nothing had to change."""
    made = {key: item for key, item in node.items() if is_meant(key, item)}
    if "type" in node and "type" not in made:
        known = [name for name in types_in(node["type"]) if name in TYPES]
        if known:
            made["type"] = list(dict.fromkeys(known))
        if lost := [name for name in types_in(node["type"]) if name not in TYPES]:
            notes.append(f"type: {', '.join(lost)}")
    if "required" in node and "required" not in made:
        names = [name for name in as_array(node["required"]) or () if isinstance(name, str)]
        if names:
            made["required"] = list(dict.fromkeys(names))
    for key in _SPEAKING_OF_VALUES & node.keys():
        if not has_json_form(node[key]):
            _without_numbers_that_json_lacks(key, node[key], made, notes)
    _bound(node, made, "minimum", "exclusiveMinimum")
    _bound(node, made, "maximum", "exclusiveMaximum")
    if as_array(node.get("items")) is not None:
        made["prefixItems"] = made.pop("items")
        if "additionalItems" in made:
            made["items"] = made.pop("additionalItems")
    if made.pop("nullable", False) is True and "type" in made:
        made["type"] = list(dict.fromkeys((*types_in(made["type"]), "null")))
        if "enum" in made and None not in made["enum"]:
            made["enum"] = [*made["enum"], None]
    return node if made == node else made


def has_json_form(value: object) -> bool:
    """Whether no number in a plain value is NaN or infinite: JSON has no such numbers, and takes
    whole ones that are larger than any other for infinite."""
    if not isinstance(value, (int, float, dict, list, tuple)):
        return True
    waiting: list[Any] = [value]
    for _ in range(MAX_VALUES):
        if not waiting:
            return True
        item: object = waiting.pop()
        if isinstance(item, (int, float)):
            if not _is_finite(item):
                return False
        elif (fields := as_object(item)) is not None:
            waiting.extend(fields.values())
        elif (array := as_array(item)) is not None:
            waiting.extend(array)
    return True


def _without_numbers_that_json_lacks(
    key: str, value: object, made: dict[str, Any], notes: list[str]
) -> None:
    """Says in words which values are left out. The others of a choice stay: what is left out
    cannot come in JSON either."""
    from alhena.wire.schema.notes import note

    values = as_array(value) if key in ("enum", "examples") else None
    if values is None:
        notes.append(note(key, value))
        return
    kept = [item for item in values if has_json_form(item)]
    notes.append(note(key, [item for item in values if not has_json_form(item)]))
    if kept:
        made[key] = kept


def is_meant(key: str, value: object) -> bool:
    """Whether a keyword has a value of the kind that it takes. Keywords that are not known take
    anything."""
    takes = _TAKES.get(key)
    return takes is None or takes(value)


def _bound(node: dict[str, Any], made: dict[str, Any], bound: str, exclusive: str) -> None:
    """Draft 4 said with true that the bound itself is not meant."""
    if node.get(exclusive) is True and bound in made:
        made[exclusive] = made.pop(bound)


def _is_number(value: object) -> bool:
    """A finite one: JSON has no other."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and _is_finite(value)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # no floating-point number is as large
        return False


def _is_positive(value: object) -> bool:
    return isinstance(value, (int, float)) and _is_number(value) and value > 0


def _is_size(value: object) -> bool:
    if isinstance(value, float):
        return value.is_integer() and value >= 0
    return isinstance(value, int) and _is_number(value) and value >= 0


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_list(value: object) -> bool:
    return as_array(value) is not None and has_json_form(value)


def _is_choice(value: object) -> bool:
    return bool(as_array(value)) and has_json_form(value)


def _are_types(value: object) -> bool:
    if isinstance(value, str):
        return value in TYPES
    names = as_array(value)
    if not names or not all(isinstance(name, str) and name in TYPES for name in names):
        return False
    return len(set(names)) == len(names)


def _are_names(value: object) -> bool:
    names = as_array(value)
    if names is None or not all(isinstance(name, str) for name in names):
        return False
    return len(set(names)) == len(names)


def _are_demands(value: object) -> bool:
    fields = as_object(value)
    return fields is not None and all(map(_are_names, fields.values()))


_SPEAKING_OF_VALUES = frozenset({"default", "example", "examples", "enum", "const"})

_TAKES: dict[str, Callable[[object], bool]] = {
    **dict.fromkeys(("default", "example", "const"), has_json_form),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _is_size),
    **dict.fromkeys(("minProperties", "maxProperties", "minContains", "maxContains"), _is_size),
    **dict.fromkeys(("title", "description", "format", "pattern", "contentEncoding"), _is_text),
    **dict.fromkeys(("contentMediaType",), _is_text),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly", "nullable"), _is_flag),
    "multipleOf": _is_positive,
    "examples": _is_list,
    "enum": _is_choice,
    "type": _are_types,
    "required": _are_names,
    "dependentRequired": _are_demands,
}
