"""Type hints of classes, resolved, and the keys of a TypedDict."""

import typing
from typing import Any


def is_typed_dict(kind: Any) -> bool:
    """True for a TypedDict of typing, and of typing_extensions, which pydantic wants below Python
    3.12."""
    return isinstance(kind, type) and dict in kind.__mro__ and hasattr(kind, "__required_keys__")


def resolve_hints(kind: type[Any]) -> dict[str, Any]:
    """The hints of a class by name. Raises TypeError for a name that is not there."""
    try:
        return typing.get_type_hints(kind, include_extras=True)
    except NameError as error:
        raise TypeError(f"a type hint of {kind.__name__} cannot be resolved: {error}") from error


def is_required(kind: Any, name: str, hint: Any) -> bool:
    """True for a key that a TypedDict requires. The class does not know of modifiers that were
    written as texts, as they are with `from __future__ import annotations`."""
    while True:
        modifier = getattr(typing.get_origin(hint), "_name", "")
        if modifier in ("Required", "NotRequired"):
            return modifier == "Required"
        if modifier == "ReadOnly":
            (hint,) = typing.get_args(hint)
        elif hasattr(hint, "__metadata__"):
            hint = hint.__origin__
        else:
            return name in kind.__required_keys__
