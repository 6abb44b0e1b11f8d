"""Converts values as people write them to the types that are meant: `"10"` where a number is due,
one text in place of a list, `null` or an empty list for an object.

A value is taken only where one reading of it is possible; any other is left for the type check.
"""

import re
import shlex
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, cast

import msgspec
from msgspec import inspect as types

from alhena.values import fold_name

_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_COMMAND_WORDS = frozenset({"args"})
"""Lists that one text gives as a shell writes them."""
_NAMES = frozenset(
    {
        *("tools", "excludeTools", "includeTools", "toolName", "core", "allowed", "exclude"),
        *("confirmationRequired", "excluded", "disabled", "blocked", "excludedEnvVars", "modes"),
    }
)
"""Lists of names, which one text gives with commas between. A number is none of them."""
_COMMA = re.compile(r",(?![^(]*\))")
"""A comma outside brackets."""


def coerce_value(value: Any, kind: Any, key: str = "") -> Any:
    """A plain value (as of JSON or TOML) in the form that the type `kind` takes, as far as that is
    certain; `value` is not changed. `key` is its name in its object."""
    return _coerce(value, _type_info(kind), key)


@lru_cache(maxsize=64)
def _type_info(kind: Any) -> types.Type:
    return types.type_info(kind)


def _coerce(value: Any, info: types.Type, key: str) -> Any:
    """`value` as the type `info`; `key` is the name it has in its object."""
    result = value
    match info:
        case types.Metadata():
            result = _coerce(value, info.type, key)
        case types.UnionType():
            result = _coerce_union(value, info.types, key)
        case types.StructType():
            result = _coerce_struct(value, info)
        case types.DictType():
            result = _coerce_members(value, info.value_type)
        case types.ListType() | types.VarTupleType() | types.SetType() | types.FrozenSetType():
            result = _coerce_array(value, info.item_type, key)
        case types.LiteralType():
            result = _choose(value, info.values)
        case types.EnumType():
            result = _choose(value, (each.value for each in info.cls))
        case types.StrType() if key and key not in _NAMES:
            result = _to_text(value)
        case _ if type(info) in _SCALARS:
            result = _SCALARS[type(info)](value)
        case _:
            pass
    return result


def _coerce_members(value: Any, item: types.Type) -> Any:
    found = _object(value)
    if not isinstance(found, dict):
        return found
    members = cast("dict[str, Any]", found)
    return {name: _coerce(each, item, name) for name, each in members.items()}


def _coerce_struct(value: Any, info: types.StructType) -> Any:
    fields = {field.encode_name: field for field in info.fields}
    if "enabled" in fields and isinstance(switch := _to_bool(value), bool):
        return {"enabled": switch}
    found = _object(value)
    if not isinstance(found, dict):
        return found
    members = dict(cast("dict[str, Any]", found))
    for name, field in fields.items():
        if name not in members:
            continue
        members[name] = _coerce(members[name], field.type, name)
        if members[name] is None and not field.required and not _takes(None, field.type):
            del members[name]
    return members


def _object(value: Any) -> Any:
    """An object: also of nothing, of an empty list, and of a text of JSON."""
    if value is None or value == []:
        return {}
    return _decode_text(value, "{", dict)


def _coerce_array(value: Any, item: types.Type, key: str) -> Any:
    value = _decode_text(value, "[", list)
    match value:
        case None | dict() if not value:
            entries: list[Any] = []
        case list():
            entries = cast("list[Any]", value)
        case str() if key in _COMMAND_WORDS:
            try:
                entries = shlex.split(value)
            except ValueError:  # an open quote
                return value
        case str() if key in _NAMES:
            entries = [each.strip() for each in _COMMA.split(value) if each.strip()]
        case _ if _takes(_coerce(value, item, key), item):
            entries = [value]
        case _:
            return value
    return [_coerce(each, item, key) for each in entries]


def _decode_text(value: Any, start: str, kind: type) -> Any:
    """A text of JSON as the value it is."""
    if not isinstance(value, str) or not value.lstrip().startswith(start):
        return value
    try:
        found = msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return value
    return found if isinstance(found, kind) else value


def _coerce_union(value: Any, members: Iterable[types.Type], key: str) -> Any:
    """The value as the member of its kind, else as the only other one that takes it."""
    candidates = [_without_metadata(each) for each in members]
    same = [each for each in candidates if _is_of_kind(value, each)]
    tagged = [each for each in same if isinstance(each, types.StructType)]
    if len(tagged) > 1:
        tags = cast("dict[str, Any]", value)
        same = [each for each in tagged if each.tag == tags.get(each.tag_field or "")]
    if same:
        found = (_coerce(value, each, key) for each in same)
        return next((each for each in found if any(_takes(each, one) for one in same)), value)
    results: list[Any] = []
    for each in candidates:
        result = value if isinstance(each, types.NoneType) else _coerce(value, each, key)
        if _takes(result, each) and result not in results:
            results.append(result)
    return results[0] if len(results) == 1 else value


def _without_metadata(info: types.Type) -> types.Type:
    return info.type if isinstance(info, types.Metadata) else info


def _takes(value: Any, info: types.Type) -> bool:
    """True when a value has the kind of a type, and is one of its words if it has some."""
    info = _without_metadata(info)
    match info:
        case types.AnyType():
            return True
        case types.UnionType():
            return any(_takes(value, each) for each in info.types)
        case types.LiteralType():
            return value in info.values
        case types.EnumType():
            return value in [each.value for each in info.cls]
        case _:
            return _is_of_kind(value, info)


def _is_of_kind(value: Any, info: types.Type) -> bool:
    """True when a value is of the JSON kind of a type."""
    match info:
        case types.NoneType():
            return value is None
        case types.BoolType():
            return isinstance(value, bool)
        case types.IntType():
            return isinstance(value, int) and not isinstance(value, bool)
        case types.FloatType():
            return isinstance(value, int | float) and not isinstance(value, bool)
        case types.StrType() | types.EnumType() | types.LiteralType():
            return isinstance(value, str)
        case types.StructType() | types.DictType():
            return isinstance(value, dict)
        case types.ListType() | types.VarTupleType() | types.SetType() | types.FrozenSetType():
            return isinstance(value, list)
        case _:
            return isinstance(info, types.AnyType)


def _choose(value: Any, words: Iterable[Any]) -> Any:
    """The word that is meant: in any case, with any separators."""
    if not isinstance(value, str):
        return value
    near = [each for each in words if isinstance(each, str) and fold_name(each) == fold_name(value)]
    return near[0] if len(near) == 1 else value


def _to_bool(value: Any) -> Any:
    if isinstance(value, str):
        word = value.strip().casefold()
        return True if word in _TRUE else False if word in _FALSE else value
    return bool(value) if type(value) is int and value in (0, 1) else value


def _to_text(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def _to_number(value: Any) -> Any:
    text = value.strip() if isinstance(value, str) else ""
    if not _NUMBER.fullmatch(text):
        return value
    number = float(text)
    return _to_int(number if number in (float("inf"), float("-inf")) else _exact(text, number))


def _exact(text: str, number: float) -> float | int:
    return int(text) if text.lstrip("+-").isdigit() else number


def _to_int(value: Any) -> Any:
    value = _to_number(value) if isinstance(value, str) else value
    return int(value) if isinstance(value, float) and value.is_integer() else value


_SCALARS: dict[type, Callable[[Any], Any]] = {
    types.BoolType: _to_bool,
    types.IntType: _to_int,
    types.FloatType: _to_number,
}
