"""Two schemas as one: what `allOf` asks for, as far as one schema can say it."""

from collections.abc import Callable
from typing import Any

from alhena.wire.plain import as_array, as_object
from alhena.wire.schema.notes import note
from alhena.wire.schema.types import types_in

_TOLD = frozenset({"title", "description", "default", "examples", "example", "deprecated"})
_NOT_MERGED = object()


def both(one: dict[str, Any], other: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """A schema that accepts at least what both accept. What it cannot say goes to the notes."""
    merged = dict(one)
    for key, value in other.items():
        if key not in merged or merged[key] == value:
            merged[key] = value
        elif key in _TOLD:
            continue
        else:
            joined = _joined(key, merged[key], value)
            if joined is _NOT_MERGED:
                notes.append(note(key, value))
            else:
                merged[key] = joined
    return merged


def _joined(key: str, one: Any, other: Any) -> Any:
    if key in _BOUNDS:
        if _is_number(one) and _is_number(other):
            return _BOUNDS[key](one, other)
    elif key == "type":
        return _common_types(types_in(one), types_in(other)) or _NOT_MERGED
    elif key == "enum":
        return [value for value in as_array(one) or () if value in (as_array(other) or ())]
    elif key == "required":
        names = (*(as_array(one) or ()), *(as_array(other) or ()))
        return list(dict.fromkeys(name for name in names if isinstance(name, str)))
    elif key == "properties":
        return _properties(as_object(one) or {}, as_object(other) or {})
    elif key == "items" and as_object(one) is not None and as_object(other) is not None:
        return {"allOf": [one, other]}
    return _NOT_MERGED


def _properties(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    merged = dict(one)
    for name, schema in other.items():
        known = merged.get(name, schema)
        merged[name] = schema if known == schema else {"allOf": [known, schema]}
    return merged


def _common_types(one: tuple[str, ...], other: tuple[str, ...]) -> list[str]:
    """The types in both; an integer is a number."""
    found = [name for name in one if name in other]
    if "integer" not in found and (
        ("integer" in one and "number" in other) or ("integer" in other and "number" in one)
    ):
        found.append("integer")
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_BOUNDS: dict[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(("minimum", "minLength", "minItems", "minProperties", "exclusiveMinimum"), max),
    **dict.fromkeys(("maximum", "maxLength", "maxItems", "maxProperties", "exclusiveMaximum"), min),
}
