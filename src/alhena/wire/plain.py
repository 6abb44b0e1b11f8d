"""Plain JSON values (what a JSON decoder gives), told apart with their types."""

from typing import Any, cast


def as_object(value: object) -> dict[str, Any] | None:
    """`value` if it is a JSON object, else None."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def as_array(value: object) -> list[Any] | None:
    """`value` if it is a JSON array, else None; tuples count as arrays."""
    if isinstance(value, tuple):
        return list(cast("tuple[Any, ...]", value))
    return cast("list[Any]", value) if isinstance(value, list) else None
