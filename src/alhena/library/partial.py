"""Values that grow while the model writes them: the beginning of a JSON document, closed, as a
value of a type."""

import dataclasses
import typing
from collections.abc import AsyncIterator, Mapping
from types import UnionType
from typing import Any, cast

import msgspec

from alhena.agent.run import LastTurn
from alhena.library.outputs import output_types
from alhena.tools.value_types import schema_of, value_from_json

_GROWING = "\ue000"
"""Marks the end of a text that has not ended."""
_SETS = (tuple, set, frozenset)
_NOTHING: Any = object()


async def grow(run: Any, output: Any) -> AsyncIterator[Any]:
    """The values of a run's output while it grows, then the output itself. Raises what the run
    raises."""
    last, document, shown = LastTurn(), GrowingDocument(), _NOTHING
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
                value = _NOTHING if data is _NOTHING else _value(kind, data)
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


def _value(kind: Any, data: Any) -> Any:
    """The data as a value of a type, in which what is missing or not whole is None."""
    kind = _plain_kind(kind)
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, UnionType):
        return _of_union(args, data)
    if isinstance(data, dict):
        fields = _fields(kind)
        found = cast("dict[str, Any]", data)
        if fields is not None:
            return _of_fields(kind, fields, found)
        inner = args[1] if len(args) == 2 else Any
        return {name: _value(inner, each) for name, each in found.items()}
    if isinstance(data, list):
        return _of_list(kind, origin, args, cast("list[Any]", data))
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


def _of_union(kinds: tuple[Any, ...], data: Any) -> Any:
    """The value of the member whose fields the data have most of."""
    if data is None:
        return None
    if isinstance(data, dict):
        given = set(cast("dict[str, Any]", data))
        kinds = tuple(
            sorted(kinds, key=lambda kind: len(given - (_fields(_plain_kind(kind)) or {}).keys()))
        )
    values = (_value(each, data) for each in kinds if each is not type(None))
    return next((value for value in values if value is not None), None)


def _of_list(kind: Any, origin: Any, args: tuple[Any, ...], data: list[Any]) -> Any:
    names = getattr(kind, "_fields", None)
    if names is not None:  # a NamedTuple
        hints = list(typing.get_type_hints(kind, include_extras=True).values())
        values = [_value(*each) for each in zip(hints, data, strict=False)]
        return kind(*values, *[None] * (len(names) - len(values)))
    kinds = [args[0] if args else Any] * len(data)
    if origin is tuple and ... not in args:
        kinds = [*args, *[Any] * len(data)][: len(data)]
    values = [_value(*each) for each in zip(kinds, data, strict=True)]
    if values and values[-1] is None:
        values.pop()
    base = origin or kind
    try:
        return cast("object", base(values)) if base in _SETS else values
    except TypeError:  # not hashable
        return values


def _fields(kind: Any) -> Mapping[str, Any] | None:
    """The types of the fields of a class by their names in JSON; None for any other type."""
    if not isinstance(kind, type):
        return None
    kind = cast("Any", kind)
    if issubclass(kind, msgspec.Struct):
        return {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    pydantic: Any = getattr(kind, "model_fields", None)
    if pydantic is not None:
        return {field.alias or name: field.annotation for name, field in pydantic.items()}
    if typing.is_typeddict(kind) or dataclasses.is_dataclass(kind):
        return typing.get_type_hints(kind, include_extras=True)
    return None


def _of_fields(kind: Any, fields: Mapping[str, Any], data: dict[str, Any]) -> Any:
    """A value of a class with these data, made without its checks: it is not whole."""
    values = {name: _value(fields[name], each) for name, each in data.items() if name in fields}
    if typing.is_typeddict(kind):
        return {name: each for name, each in values.items() if each is not None}
    whole: dict[str, Any] = {**dict.fromkeys(fields), **values}
    if hasattr(kind, "model_construct"):
        names = {field.alias or name: name for name, field in kind.model_fields.items()}
        return kind.model_construct(**{names[name]: each for name, each in whole.items()})
    if issubclass(kind, msgspec.Struct):
        names = {each.encode_name: each.name for each in msgspec.structs.fields(kind)}
        return _struct(kind, {names[name]: each for name, each in whole.items()})
    made = object.__new__(kind)
    for name, each in whole.items():
        object.__setattr__(made, name, each)
    return made


def _do_nothing(_made: object) -> None:
    """Checks nothing."""


def _struct(kind: type[msgspec.Struct], values: dict[str, Any]) -> Any:
    """A Struct with these values, whose `__post_init__` did not run."""
    if hasattr(kind, "__post_init__"):
        kind = type(kind.__name__, (kind,), {"__post_init__": _do_nothing})
    return kind(**values)
