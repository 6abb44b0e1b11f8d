"""Values in plain documents, by their keys from the top. No document is changed."""

from typing import Any, cast


def value_at(document: Any, key: str) -> Any:
    """The value of a dotted key; None where there is none."""
    return value_on(document, tuple(key.split(".")))


def value_on(document: Any, path: tuple[str, ...]) -> Any:
    """The value at a path, whose names may hold dots; None where there is none."""
    for name in path:
        if not isinstance(document, dict):
            return None
        document = cast("dict[str, Any]", document).get(name)
    return document


def with_value(document: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """`document` with a value at a path; what stands in the way of an object is replaced."""
    name, *rest = path
    if rest:
        inner = document.get(name)
        below = cast("dict[str, Any]", inner) if isinstance(inner, dict) else {}
        value = with_value(below, tuple(rest), value)
    return {**document, name: value}


def without_value(document: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """`document` without what is at a path; the same where nothing is."""
    name, *rest = path
    if name not in document:
        return document
    if not rest:
        return {key: value for key, value in document.items() if key != name}
    inner = document[name]
    if not isinstance(inner, dict):
        return document
    below = without_value(cast("dict[str, Any]", inner), tuple(rest))
    return {**document, name: below}
