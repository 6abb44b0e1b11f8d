"""`Value`, the base of value classes that callers construct, and the limits of a run."""

from enum import Enum
from functools import lru_cache, reduce

# `inspect.currentframe` is this; `inspect` takes 4 ms to import.
from sys import _getframe as current_frame  # pyright: ignore[reportPrivateUsage]
from types import FrameType, NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, cast, get_args, get_origin

import msgspec
from msgspec.structs import force_setattr

if TYPE_CHECKING:
    from collections.abc import Iterable

_SCALARS = frozenset({str, int, float, bool, bytes, NoneType})
_ARRAYS = (tuple, frozenset)
_Types = frozenset[type]
_Field = tuple[str, _Types, _Types, _Types, Any]
"""A name; valid types of the value; array types that are valid if they contain only the next; the
target type of other values."""
_fields: dict[type, tuple[_Field, ...]] = {}


class FieldError(TypeError, ValueError):
    """A value class got an invalid value for a field; the text names both."""


class Value(msgspec.Struct, frozen=True):
    """A Struct that converts the values of its fields, or raises FieldError.

    Text becomes the enum it names, a list becomes the declared tuple; a text in place of a tuple,
    and a number, text or bool of another type or out of range, is rejected. Fields of other types
    (functions, mappings, other classes, quoted annotations) are not checked. Decoded values and
    changed copies (`msgspec.structs.replace`) are checked too. Values that alhena's own
    modules make are not: a type checker has done that. The modules in `_PASSING_ON` make them of
    what a program gave, which is checked.
    """

    def __post_init__(self) -> None:
        frame: FrameType | None = current_frame()
        while frame is not None and frame.f_code.co_name == "__post_init__":
            frame = frame.f_back
        if frame is not None and _is_our_own(frame.f_globals.get("__name__")):
            return
        cls = type(self)
        fields = _fields.get(cls)
        for name, settled, arrays, elements, wanted in _read(cls) if fields is None else fields:
            value: object = getattr(self, name)
            kind = type(value)
            if kind in settled or (
                kind in arrays and elements.issuperset(map(type, cast("Iterable[object]", value)))
            ):
                continue
            try:
                force_setattr(self, name, msgspec.convert(value, wanted))
            except msgspec.ValidationError as error:
                field = f"{cls.__name__.removesuffix('Arguments')}.{name}"
                raise FieldError(_refusal(field, value, wanted, error)) from None


_PASSING_ON = (
    *("alhena.library.", "alhena.models.providers.objects", "alhena.policy.model"),
    *("alhena.tools.function", "alhena.tools.media"),
)
"""Modules of alhena that make values of what programs give them."""


@lru_cache(maxsize=1024)
def _is_our_own(name: str | None) -> bool:
    """True for a module of alhena whose values a type checker has checked."""
    return isinstance(name, str) and name.startswith("alhena.") and not name.startswith(_PASSING_ON)


def _refusal(field: str, value: object, wanted: Any, error: Exception) -> str:
    """The reason for rejecting a value, and the remedy for common mistakes."""
    kinds = _kinds(wanted)
    said = f"{field} cannot be {value!r:.100}"
    if isinstance(value, str) and any(get_origin(kind) in _ARRAYS for kind in kinds):
        return f"{said}: it takes a tuple, such as ({value!r:.100},)."
    words = [str(each) for kind in kinds if _is_enum(kind) for each in kind]
    if isinstance(value, str):
        literals = (get_args(kind) for kind in kinds if get_origin(kind) is Literal)
        words += [str(each) for found in literals for each in found]
    named = ", ".join(map(repr, words))
    return f"{said}: it is one of {named}." if named else f"{said}: {error}."


def _read(cls: type) -> tuple[_Field, ...]:
    """The fields of a class with checkable types."""
    from inspect import get_annotations

    annotations: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        annotations |= get_annotations(base)
    wanted = {name: _checkable(each) for name, each in annotations.items()}
    _fields[cls] = tuple(_field(name, each) for name, each in wanted.items() if each is not Any)
    return _fields[cls]


def _field(name: str, wanted: Any) -> _Field:
    settled: _Types = frozenset()
    arrays, elements = settled, settled
    for kind in _kinds(wanted):
        origin, args = get_origin(kind), get_args(kind)
        if _is_plain(kind):
            settled |= {kind}
        elif origin in _ARRAYS and args[1:] in ((), (...,)):
            inner = _kinds(args[0])
            if inner == (Any,):
                settled |= {origin}
            elif all(map(_is_plain, inner)):
                arrays, elements = arrays | {origin}, elements | set(inner)
    return name, settled, arrays, elements, wanted


def _checkable(annotation: Any) -> Any:
    """The checkable part of an annotation: scalars, enums and literals, also in tuples and unions.
    Any replaces the rest."""
    if _is_plain(annotation):
        return annotation
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Literal or (origin is Annotated and args[0] in _SCALARS):
        return annotation
    inner = tuple(each if each is ... else _checkable(each) for each in args)
    if origin in (Union, UnionType):
        return Any if Any in inner else reduce(lambda one, other: one | other, inner)
    return _array(origin, inner) if origin in _ARRAYS else Any


def _array(origin: Any, inner: tuple[Any, ...]) -> Any:
    return origin[inner]


def _kinds(wanted: Any) -> tuple[Any, ...]:
    return get_args(wanted) if get_origin(wanted) in (Union, UnionType) else (wanted,)


def _is_enum(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Enum)


def _is_plain(kind: Any) -> bool:
    return isinstance(kind, type) and (kind in _SCALARS or issubclass(kind, Enum))


@lru_cache(maxsize=4096)
def fold_name(name: str) -> str:
    """The name of a tool without case, blanks and separators: `Write File` is `write_file`."""
    return "".join(filter(str.isalnum, name.casefold()))


@lru_cache(maxsize=1024)
def fold_names(names: tuple[str, ...]) -> frozenset[str]:
    """These names in the form in which those of built-in tools are compared."""
    return frozenset(map(fold_name, names))


_OTHER_PROGRAMS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("bash", "runterminalcmd", "runcommand", "execute"), ("run_shell_command",)),
    **dict.fromkeys(("read", "view"), ("read_file", "read_many_files")),
    **dict.fromkeys(("task", "agent"), ("delegate_to_agent",)),
    **dict.fromkeys(("notebookedit", "notebookread", "killshell", "slashcommand", "todoread"), ()),
    "write": ("write_file",),
    "multiedit": ("replace",),
    "search": ("search_file_content",),
    "fetch": ("web_fetch",),
    "todowrite": ("write_todos",),
    "bashoutput": ("read_background_output",),
    "askuserquestion": ("ask_user",),
    "skill": ("activate_skill",),
}
"""Names of other programs' tools, as `fold_name` makes them -> the built-in tools that do it."""


def meant_names(name: str) -> tuple[str, ...] | None:
    """The names here of a tool of another program: `Read`, `mcp__server__tool`; () for one that
    has no counterpart, None for a name that is not known as another program's."""
    if name.startswith("mcp__"):
        server, _, tool = name.removeprefix("mcp__").partition("__")
        return (f"{server}__{tool or '*'}",) if server else None
    return None if "*" in name else _OTHER_PROGRAMS.get(fold_name(name))


class FailedCall(Value, frozen=True, kw_only=True):
    """A call whose function raised: a tool, its `confirm`, a rule's `when`, or a hook, which has
    the name of its event and no `call_id` where it is not about a call. `exception` is what it
    raised; pickled, one that cannot be read again becomes a RuntimeError with its words."""

    call_id: str
    name: str
    args: dict[str, Any]
    exception: Exception

    def __reduce__(self) -> "tuple[Any, ...]":
        """Pickles the call. Many exceptions cannot be made of their `args`, as pickle wants."""
        return _rebuild_failed, (self.call_id, self.name, self.args, _portable(self.exception))


def _portable(error: Exception) -> Exception:
    import pickle

    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301  what was pickled here
    except Exception as problem:  # noqa: BLE001  its class is the program's
        del problem
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _rebuild_failed(call_id: str, name: str, args: dict[str, Any], error: Exception) -> FailedCall:
    return FailedCall(call_id=call_id, name=name, args=args, exception=error)


class Limits(Value, frozen=True, kw_only=True):
    """Limits of an agent: model `turns` per prompt, `seconds` per run, `tokens` and `cost` (US
    dollars) per session. None: no limit but that of the settings; -1 turns: not even that."""

    turns: Annotated[int, msgspec.Meta(ge=-1)] | None = None
    tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    seconds: Annotated[float, msgspec.Meta(gt=0)] | None = None
    cost: Annotated[float, msgspec.Meta(gt=0)] | None = None

    def fill(self, others: "Limits") -> "Limits":
        """These limits, and where there is none the other one."""
        return Limits(
            turns=others.turns if self.turns is None else self.turns,
            tokens=others.tokens if self.tokens is None else self.tokens,
            seconds=others.seconds if self.seconds is None else self.seconds,
            cost=others.cost if self.cost is None else self.cost,
        )
