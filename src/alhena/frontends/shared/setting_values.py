"""Settings with plain values: their keys, types and texts, and the layer that decides one."""

from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import msgspec

from alhena.config.documents import value_at
from alhena.config.effective_settings import Place
from alhena.config.settings import Section, Settings
from alhena.display_text import one_line
from alhena.errors import InputError
from alhena.near_names import near_name


def list_settings() -> dict[str, Any]:
    """The settings with plain values, and the types of these."""
    return dict(_settable(Settings))


def setting_choices(key: str) -> tuple[str, ...]:
    """The values that a setting may have, where there are few."""
    return tuple(map(value_text, value_choices(list_settings().get(key))))


def _settable(kind: type[Section], above: str = "") -> Iterator[tuple[str, Any]]:
    """The keys with plain values, and their types."""
    for field in msgspec.structs.fields(kind):
        key = f"{above}{field.encode_name}"
        value: Any = field.type
        if isinstance(value, type) and issubclass(value, Section):
            yield from _settable(value, f"{key}.")
        elif value_choices(value) or _is_plain(value):
            yield key, value


def _is_plain(kind: Any) -> bool:
    kinds = {getattr(each, "__origin__", each) for each in (get_args(kind) or (kind,))}
    return bool(kinds & {str, int, float}) and kinds <= {str, int, float, type(None)}


def value_choices(kind: Any) -> tuple[Any, ...]:
    """The values of a type that has few."""
    if kind is bool:
        return (True, False)
    return get_args(kind) if get_origin(kind) is Literal else ()


def parse_setting(key: str, text: str) -> Any:
    """The value that a text means for a setting, as JSON or as it is. Raises InputError."""
    kind = list_settings()[key]
    try:
        return msgspec.convert(msgspec.json.decode(text), kind)
    except (msgspec.DecodeError, msgspec.ValidationError):
        pass
    try:
        return msgspec.convert(text, kind)
    except msgspec.ValidationError as error:
        cause, known = f"{one_line(text, 60)!r} is no value of {key}", setting_choices(key)
        if not known:
            expected = str(error).replace("`int`", "a whole number").replace("`float`", "a number")
            raise InputError(f"{cause}: {expected.partition(', got')[0]}.") from error
        near = near_name(text, known)
        remedy = f"Did you mean {near}?" if near else f"Its values: {', '.join(known)}."
        raise InputError(f"{cause}.", remedy=remedy) from error


def value_text(value: Any) -> str:
    """A value as `parse_setting` takes it."""
    if value is None:
        return "not set"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def setting_at(now: Settings, key: str) -> Any:
    """The effective value of a setting."""
    return value_at(msgspec.to_builtins(now), key)


def layer_of(place: Place, key: str) -> str:
    """The strongest layer that says something of a setting."""
    path = tuple(key.split("."))
    return next((each.kind for each in reversed(place.layers) if each.says(path)), "built-in")
