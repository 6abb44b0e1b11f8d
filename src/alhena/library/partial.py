"""Values that grow while the model writes them: the beginning of a JSON document, closed, as a
value of a type."""

import dataclasses
import typing
from collections.abc import AsyncIterator, Mapping
from functools import lru_cache
from types import UnionType
from typing import Any, cast

import msgspec

from alhena.agent.run import LastTurn
from alhena.library.outputs import output_types
from alhena.tools.value_types import schema_of, value_from_json
from alhena.tools.value_types.hints import is_typed_dict

_GROWING = "\ue000"
"""Marks the end of a text that has not ended."""
_SETS = (tuple, set, frozenset)
_NOTHING: Any = object()
_ROOT = object()
"""The key of the place below a root model."""


async def grow(run: Any, output: Any) -> AsyncIterator[Any]:
    """The values of a run's output while it grows, then the output itself. Raises what the run
    raises."""
    last, document, root, shown = LastTurn(), GrowingDocument(), _Place(), _NOTHING
    kind = output_types(output)
    given = cast("Mapping[str, Any]", output) if isinstance(output, Mapping) else schema_of(kind)
    wrapped = given.get("type") != "object"
    async with run:
        async for event in run:
            last.feed(event)
            if output is str:
                value: Any = last.text
            else:
                data = document.read(last.text)
                if wrapped and isinstance(data, dict):
                    data = cast("dict[str, Any]", data).get("value", _NOTHING)
                value = _NOTHING if data is _NOTHING else _value(kind, data, root)
            if value is not _NOTHING and value not in ("", None) and value != shown:
                shown = value
                yield value
        result = await run
    if type(result.output) is not type(shown) or result.output != shown:
        yield result.output


class GrowingDocument:
    """The beginning of a JSON document. Reading a longer beginning looks at the new part only."""

    def __init__(self) -> None:
        self._begin("")

    def _begin(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._open: list[str] = []
        self._closed: tuple[int, str] = (0, "")
        self._string = -1
        self._escape = 0
        self._wants_key = False
        self._key = False

    def read(self, text: str) -> Any:
        """The document closed where it can be, as JSON; `_NOTHING` while there is none."""
        if not text.startswith(self._text):
            self._begin("")
        self._text = text
        while self._at < len(text):
            self._take(text[self._at])
            self._at += 1
        end, closers = self._closed
        whole = text[:end] + closers
        if self._string >= 0 and not self._key:
            whole = text[: self._whole_end()] + _GROWING + '"' + "".join(reversed(self._open))
        try:
            return msgspec.json.decode(whole)
        except msgspec.DecodeError:
            return _NOTHING

    def _whole_end(self) -> int:
        """The end of the open string without an escape that has not ended."""
        return self._at if not self._escape else self._escape_start

    def _take(self, character: str) -> None:
        if self._string >= 0:
            self._take_in_string(character)
        elif character == '"':
            self._string, self._key = self._at, self._wants_key
        elif character in "{[":
            self._open.append("}" if character == "{" else "]")
            self._wants_key = character == "{"
            self._close(self._at + 1)
        elif character in "}]" and self._open:
            self._open.pop()
            self._wants_key = False
            self._close(self._at + 1)
        elif character == ",":
            self._close(self._at)
            self._wants_key = self._open[-1:] == ["}"]
        elif character == ":":
            self._wants_key = False

    def _take_in_string(self, character: str) -> None:
        if self._escape:
            self._escape = 4 if character == "u" and self._escape == 5 else self._escape - 1
            if self._escape == 4 and character != "u":
                self._escape = 0
        elif character == "\\":
            self._escape, self._escape_start = 5, self._at
        elif character == '"':
            self._string = -1
            if not self._key:
                self._close(self._at + 1)

    def _close(self, end: int) -> None:
        """Notes that the document can be closed here."""
        self._closed = end, "".join(reversed(self._open))


class _Place:
    """A place in the document: what was read there last, its value, and the places below."""

    __slots__ = ("below", "data", "value")

    def __init__(self) -> None:
        self.data: Any = _NOTHING
        self.value: Any = _NOTHING
        self.below: dict[Any, _Place] = {}

    def find(self, key: Any) -> "_Place":
        """The place below with this key."""
        found = self.below.get(key)
        if found is None:
            found = self.below[key] = _Place()
        return found


def _value(kind: Any, data: Any, place: _Place) -> Any:
    """The data as a value of a type, in which what is missing or not whole is None. What has not
    changed at its place keeps its value: a document grows at its end alone."""
    if place.data is _NOTHING or place.data != data:
        place.value = _read_value(_plain_kind(kind), data, place)
        place.data = data
    return place.value


def _read_value(kind: Any, data: Any, place: _Place) -> Any:
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, UnionType):
        return _of_union(args, data, place)
    if getattr(kind, "__pydantic_root_model__", False):
        root = _value(kind.__pydantic_fields__["root"].annotation, data, place.find(_ROOT))
        return None if root is None else kind.model_construct(root)
    if isinstance(data, dict):
        fields = _fields(kind)
        found = cast("dict[str, Any]", data)
        if fields is not None:
            return _of_fields(kind, fields, found, place)
        inner = args[1] if len(args) == 2 else Any
        return {name: _value(inner, each, place.find(name)) for name, each in found.items()}
    if isinstance(data, list):
        return _of_list(kind, args, cast("list[Any]", data), place)
    if isinstance(data, str) and data.endswith(_GROWING):
        return data.removesuffix(_GROWING) if kind in (str, Any) else None
    try:
        return data if kind is Any else value_from_json(kind, data)
    except ValueError:
        return None


def _plain_kind(kind: Any) -> Any:
    """A type without its metadata and names."""
    while True:
        if hasattr(kind, "__metadata__"):
            kind = kind.__origin__
        elif hasattr(kind, "__value__"):
            kind = kind.__value__
        elif hasattr(kind, "__supertype__"):
            kind = kind.__supertype__
        elif getattr(typing.get_origin(kind), "_name", "") in ("NotRequired", "Required"):
            (kind,) = typing.get_args(kind)
        else:
            return kind


def _of_union(kinds: tuple[Any, ...], data: Any, place: _Place) -> Any:
    """The value of the member that the data fit best."""
    if data is None:
        return None
    members = list(enumerate(kinds))
    if isinstance(data, dict):
        found = cast("dict[str, Any]", data)
        members.sort(key=lambda member: _count_misfits(_plain_kind(member[1]), found))
    for at, kind in members:
        value = None if kind is type(None) else _value(kind, data, place.find(at))
        if value is not None:
            return value
    return None


def _count_misfits(kind: Any, data: dict[str, Any]) -> int:
    """The number of items of an object that a class does not have, or has with other values: of
    those that are whole and plain."""
    fields = dict(_fields(kind) or {})
    config = getattr(kind, "__struct_config__", None)
    if config is not None and config.tag is not None:
        fields[config.tag_field] = typing.Literal[config.tag]
    return sum(
        name not in fields or (_is_plain(each) and _value(fields[name], each, _Place()) is None)
        for name, each in data.items()
        if not (isinstance(each, str) and each.endswith(_GROWING))
    )


def _is_plain(data: Any) -> bool:
    return data is not None and not isinstance(data, dict | list)


def _unchanged_values(place: _Place, data: list[Any]) -> list[Any]:
    """The values at the beginning of a list that are as they were: all but the last, mostly."""
    before, values = place.data, place.value
    if not isinstance(before, list) or not isinstance(values, list):
        return []
    before, values = cast("list[Any]", before), cast("list[Any]", values)
    kept = min(len(before) - 1, len(values))
    return values[:kept] if kept > 0 and before[:kept] == data[:kept] else []


def _of_list(kind: Any, args: tuple[Any, ...], data: list[Any], place: _Place) -> Any:
    names = getattr(kind, "_fields", None)
    base = typing.get_origin(kind) or kind
    if names is not None:  # a NamedTuple
        kinds = list(typing.get_type_hints(kind, include_extras=True).values())
    elif base is tuple and ... not in args:
        kinds = [*args, *[Any] * len(data)]
    else:
        kinds = [args[0] if args else Any] * len(data)
    values = _unchanged_values(place, data)
    kept = len(values)
    pairs = enumerate(zip(kinds[kept:], data[kept:], strict=False), kept)
    values += [_value(inner, each, place.find(at)) for at, (inner, each) in pairs]
    if names is not None:
        return kind(*values, *[None] * (len(names) - len(values)))
    if values and values[-1] is None:
        values.pop()
    try:
        return cast("object", base(values)) if base in _SETS else values
    except TypeError:  # not hashable
        return values


@lru_cache(maxsize=256)
def _fields_of_class(kind: Any) -> Mapping[str, Any] | None:
    if issubclass(kind, msgspec.Struct):
        return {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    names = _pydantic_names(kind)
    if names is not None:
        return {name: kind.__pydantic_fields__[own].annotation for name, own in names.items()}
    if is_typed_dict(kind) or dataclasses.is_dataclass(kind):
        return typing.get_type_hints(kind, include_extras=True)
    return None


def _fields(kind: Any) -> Mapping[str, Any] | None:
    """The types of the fields of a class by their names in JSON; None for any other type."""
    return _fields_of_class(kind) if isinstance(kind, type) else None


def _pydantic_names(kind: Any) -> dict[str, str] | None:
    """The fields of a pydantic class by the names under which it takes them; None for any other
    class."""
    fields: Mapping[str, Any] | None = getattr(kind, "__pydantic_fields__", None)
    if fields is None:
        return None
    found = {name: name for name in fields}
    for name, field in fields.items():
        given: Any = field.validation_alias or field.alias
        for each in getattr(given, "choices", (given,)):
            if isinstance(each, str):
                found[each] = name
    return found


def _construct(kind: Any, values: dict[str, Any]) -> Any:
    """A value of a pydantic class, made without its checks."""
    names = _pydantic_names(kind) or {}
    own = dict.fromkeys(kind.__pydantic_fields__) | {names[name]: v for name, v in values.items()}
    if hasattr(kind, "model_construct"):
        return kind.model_construct(**own)
    return _fill(kind, own)


def _fill(kind: Any, values: dict[str, Any]) -> Any:
    """A value of a class with these attributes, whose `__init__` did not run."""
    made = object.__new__(kind)
    for name, each in values.items():
        object.__setattr__(made, name, each)
    return made


def _of_fields(kind: Any, fields: Mapping[str, Any], data: dict[str, Any], place: _Place) -> Any:
    """A value of a class with these data, made without its checks: it is not whole."""
    known = ((name, each) for name, each in data.items() if name in fields)
    values = {name: _value(fields[name], each, place.find(name)) for name, each in known}
    if is_typed_dict(kind):
        return {name: each for name, each in values.items() if each is not None}
    whole: dict[str, Any] = {**dict.fromkeys(fields), **values}
    if hasattr(kind, "__pydantic_fields__"):
        return _construct(kind, values)
    if issubclass(kind, msgspec.Struct):
        names = {each.encode_name: each.name for each in msgspec.structs.fields(kind)}
        return _struct(kind, {names[name]: each for name, each in whole.items()})
    return _fill(kind, whole)


def _do_nothing(_made: object) -> None:
    """Checks nothing."""


def _struct(kind: type[msgspec.Struct], values: dict[str, Any]) -> Any:
    """A Struct with these values, whose `__post_init__` did not run."""
    if hasattr(kind, "__post_init__"):
        kind = type(kind.__name__, (kind,), {"__post_init__": _do_nothing})
    return kind(**values)
