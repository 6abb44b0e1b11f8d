"""Constraints in `Annotated` and in `pydantic.Field`: in the schema, and enforced on values.

Those of annotated_types are known by their attributes. Those of pydantic are left to pydantic,
which the program has imported where it uses them: validators that come after a value was read get
the value; anything else reads the JSON itself.
"""

import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from importlib import import_module
from typing import Any, cast
from uuid import UUID

import msgspec

from alhena.tools.value_types.json_form import (
    JSON_TYPES,
    JsonForm,
    Schema,
    at_path,
    describe_value,
    inline_references,
)


def _is_multiple(value: Any, limit: Any) -> bool:
    if isinstance(value, float) or isinstance(limit, float):
        parts = float(value) / float(limit)
        return abs(parts - round(parts)) < 1e-9
    return value % limit == 0


_Limit = tuple[str, str, Callable[[Any, Any], bool]]
_LIMITS: Mapping[str, _Limit] = {
    "gt": ("exclusiveMinimum", "more than", lambda value, limit: value > limit),
    "ge": ("minimum", "at least", lambda value, limit: value >= limit),
    "lt": ("exclusiveMaximum", "less than", lambda value, limit: value < limit),
    "le": ("maximum", "at most", lambda value, limit: value <= limit),
    "multiple_of": ("multipleOf", "a multiple of", _is_multiple),
}
_LENGTHS: Mapping[str, tuple[str, Callable[[int, int], bool]]] = {
    "min_length": ("at least", lambda size, limit: size >= limit),
    "max_length": ("at most", lambda size, limit: size <= limit),
}
_UNITS: Mapping[Any, str] = {str: "characters", bytes: "bytes"}
_SIZES = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}
_DIALECT = {"(?P<": "(?<", r"\A": "^", r"\Z": "$"}
"""Python's spelling of regular expressions -> JSON Schema's."""
_SCALARS = (str, int, float, bool, bytes, Decimal, date, datetime, time, timedelta, UUID)


class Constraint(msgspec.Struct, frozen=True):
    """One constraint: its name as annotated_types has it, and its value."""

    name: str
    value: Any


class Annotations(msgspec.Struct):
    """The metadata of a type. `texts` describe it; `extra` goes into the schema as it is. `after`:
    pydantic checks the value that was read; `whole`: pydantic reads the JSON itself."""

    texts: list[str] = msgspec.field(default_factory=list[str])
    extra: Schema = msgspec.field(default_factory=dict[str, Any])
    metas: list[msgspec.Meta] = msgspec.field(default_factory=list[msgspec.Meta])
    constraints: list[Constraint] = msgspec.field(default_factory=list[Constraint])
    after: bool = False
    whole: bool = False

    @property
    def text(self) -> str:
        """The description; "" without one."""
        return self.texts[0] if self.texts else ""


def read_annotations(metadata: Iterable[Any]) -> Annotations:
    """Reads the metadata of `Annotated`. Raises TypeError for a constraint that cannot be
    enforced; objects that are no constraints are the program's own and left alone."""
    found = Annotations()
    for item in metadata:
        _take(found, item)
    return found


def text_of(hint: Any) -> str:
    """The description that the metadata of a hint give; "" without one."""
    metadata: tuple[Any, ...] = getattr(hint, "__metadata__", ())
    return read_annotations(metadata).text


def is_field(value: object) -> bool:
    """True for what `pydantic.Field` returns."""
    return _is_of(value, "FieldInfo", "pydantic.fields")


def field_default(field: Any) -> tuple[Callable[[], Any] | None, Any]:
    """The function that makes the default of a `pydantic.Field`, None if it is required; and the
    default to show, None if it is made each time."""
    if field.is_required():
        return None, None
    if getattr(field, "default_factory_takes_validated_data", False):
        raise TypeError("a default_factory that takes data is not supported")
    shown = None if field.default_factory is not None else field.default
    return lambda: field.get_default(call_default_factory=True), shown


def constrain(form: JsonForm, kind: Any, metadata: tuple[Any, ...], found: Annotations) -> JsonForm:
    """A form with the constraints that were `found` in the metadata of a type, `kind` without them.
    Raises TypeError for a constraint that the type cannot have."""
    schema = form.schema
    for each in found.constraints:
        schema = _narrow(schema, each, kind)
    check = _pydantic_check(kind, metadata) if found.after else None

    def read(data: Any, path: str) -> Any:
        value = form.read(data, path)
        if check is not None:
            return check(value, path)
        if value is not None:
            for each in found.constraints:
                problem = _problem(each, value)
                if problem:
                    raise ValueError(at_path(path, problem))
        return value

    return JsonForm(schema, read, form.fields)


def pydantic_to_json(value: Any) -> Any:
    """The value of a class of pydantic as JSON, decoded."""
    return _adapter(type(value)).dump_python(value, mode="json")


def pydantic_form(kind: Any, definitions: dict[str, Schema]) -> JsonForm:
    """A type as pydantic reads it from JSON. Raises TypeError for a type it does not know."""
    adapter = _adapter(kind)
    try:
        whole: Schema = adapter.json_schema()
    except _pydantic().errors.PydanticUserError as error:
        raise TypeError(f"it has no JSON schema: {str(error).splitlines()[0]}") from error
    named = whole.pop("$defs", {})
    try:
        schema = inline_references(whole, named)
    except RecursionError:
        schema = whole
        definitions |= named

    def read(data: Any, path: str) -> Any:
        try:
            return adapter.validate_json(msgspec.json.encode(data))
        except _pydantic().ValidationError as error:
            raise ValueError(_errors(error, path)) from error

    fields = frozenset(whole["properties"]) if "properties" in whole else None
    return JsonForm(schema, read, fields, strict=_is_strict(adapter.core_schema))


def _is_strict(node: Any) -> bool:
    """True for a schema of pydantic's core in which something takes no other spelling of its
    values."""
    if isinstance(node, dict):
        found = cast("dict[str, Any]", node)
        return found.get("strict") is True or any(map(_is_strict, found.values()))
    return isinstance(node, list | tuple) and any(map(_is_strict, cast("list[Any]", node)))


def _pydantic_check(kind: Any, metadata: tuple[Any, ...]) -> Callable[[Any, str], Any]:
    # Values of classes were read and checked already: only their outermost constraints are left.
    base = kind if _is_scalar(kind) else Any
    adapter = _adapter(cast("Any", typing.Annotated)[(base, *_flatten(metadata))])

    def check(value: Any, path: str) -> Any:
        if value is None and base is Any:
            return None
        try:
            return adapter.validate_python(value)
        except _pydantic().ValidationError as error:
            raise ValueError(_errors(error, path)) from error

    return check


def _pydantic() -> Any:
    """pydantic, which the program has: a type is made with it."""
    return import_module("pydantic")


def _adapter(kind: Any) -> Any:
    pydantic = _pydantic()
    errors = (pydantic.errors.PydanticUserError, pydantic.errors.PydanticUndefinedAnnotation)
    try:
        return pydantic.TypeAdapter(kind)
    except (
        *errors,
        import_module("pydantic_core").SchemaError,
        ImportError,
        RuntimeError,
    ) as error:
        reason = " ".join(str(error).split())
        raise TypeError(f"pydantic cannot read it: {reason:.200}") from error


def _flatten(metadata: Iterable[Any]) -> list[Any]:
    """The metadata without their descriptions, those in `pydantic.Field` one by one."""
    found: list[Any] = []
    for item in metadata:
        found += item.metadata if is_field(item) else () if isinstance(item, str) else (item,)
    return found


def _is_scalar(kind: Any) -> bool:
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return all(map(_is_scalar, typing.get_args(kind)))
    return kind is type(None) or kind in _SCALARS


def _errors(error: Any, path: str) -> str:
    return "; ".join(
        at_path("".join([path, *map(_step, each["loc"])]).removeprefix("."), each["msg"])
        for each in error.errors(include_url=False)
    )


def _step(key: str | int) -> str:
    return f"[{key}]" if isinstance(key, int) else f".{key}"


def _take(found: Annotations, item: Any) -> None:
    text = getattr(item, "documentation", None)
    if isinstance(item, str):
        found.texts.append(item)
    elif isinstance(
        text, str
    ):  # Doc of typing_extensions and annotated_doc, doc of annotated_types
        found.texts.append(text)
    elif isinstance(item, msgspec.Meta):
        found.metas.append(item)
    elif is_field(item):
        _take_field(found, item)
    elif _is_grouped(item):
        for each in cast("Iterable[Any]", item):
            _take(found, each)
    else:
        _take_constraint(found, item)


def _take_field(found: Annotations, field: Any) -> None:
    if field.alias is not None or field.validation_alias is not None:
        raise TypeError("an alias in Field is not supported; name it as the model shall see it")
    if field.description:
        found.texts.append(str(field.description))
    if field.examples:
        found.extra["examples"] = list(field.examples)
    extra: Any = field.json_schema_extra
    if isinstance(extra, dict):
        found.extra |= cast("Schema", extra)
    elif callable(extra):
        raise TypeError("a function as json_schema_extra is not supported; give a dict")
    found.whole = found.whole or field.discriminator is not None
    for each in field.metadata:
        _take(found, each)


def _take_constraint(found: Annotations, item: Any) -> None:
    known = [
        Constraint(name, value)
        for name in (*_LIMITS, *_LENGTHS)
        if (value := getattr(item, name, None)) is not None
    ]
    if isinstance(item, types.FunctionType | types.BuiltinFunctionType):
        raise TypeError(
            "a function in Annotated checks nothing; use annotated_types.Predicate or "
            "pydantic.AfterValidator"
        )
    if _is_of(item, "Strict", "pydantic"):
        found.whole = True
    elif _is_of(item, "PydanticMetadata"):
        found.after = True
        pattern: object = getattr(item, "pattern", None)
        found.constraints += () if pattern is None else (Constraint("pattern", pattern),)
    elif _is_of(item, "AfterValidator", "pydantic"):
        found.after = True
    elif hasattr(item, "__get_pydantic_core_schema__") or _is_of(item, "", "pydantic"):
        found.whole = True
    elif known:
        found.constraints += known
    elif _is_of(item, "", "annotated_types"):
        _take_annotated_type(found, item)


def _take_annotated_type(found: Annotations, item: Any) -> None:
    for name in ("tz", "func", "unit"):
        if hasattr(item, name):
            found.constraints.append(Constraint(name, getattr(item, name)))
            return
    if not any(hasattr(item, name) for name in (*_LIMITS, *_LENGTHS)):
        raise TypeError(f"the constraint {item!r:.80} is not known")


def _is_grouped(item: Any) -> bool:
    return (
        not isinstance(item, type) and getattr(item, "__is_annotated_types_grouped_metadata__", 0)
    ) is True


def _is_of(item: Any, name: str, module: str = "") -> bool:
    """True for an object of a class of this name and module, or of one derived from it."""
    return any(
        each.__name__ == (name or each.__name__)
        and (each.__module__ == module or each.__module__.startswith(module and f"{module}."))
        for each in (item if isinstance(item, type) else type(item)).__mro__
        if module or each.__name__ == name
    )


def _narrow(schema: Schema, constraint: Constraint, kind: Any) -> Schema:
    """The schema with a constraint, in those of its variants that can have it. Raises TypeError
    if none can, and values cannot be compared either."""
    name, limit = constraint.name, constraint.value
    if name == "unit":
        return {**schema, "description": f"{schema.get('description', '')} Unit: {limit}.".strip()}
    if name in ("tz", "func"):
        return schema
    variants = list(_variants(schema))
    made = [_narrow_variant(each, name, limit) for each in variants]
    if all(new is old for new, old in zip(made, variants, strict=True)) and not _may_have(
        schema, kind, constraint
    ):
        shown = getattr(kind, "__name__", str(kind))
        raise TypeError(f"{name}={limit!r:.40} cannot constrain {shown}")
    return {**schema, "anyOf": made} if "anyOf" in schema else made[0]


def _variants(schema: Schema) -> Iterator[Schema]:
    yield from schema.get("anyOf", (schema,))


def _narrow_variant(schema: Schema, name: str, limit: Any) -> Schema:
    kind = schema.get("type")
    if name in _LIMITS:
        number = float(limit) if isinstance(limit, Decimal) else limit
        fits = kind in ("integer", "number") and isinstance(number, int | float)
        return {**schema, _LIMITS[name][0]: number} if fits else schema
    if name in _LENGTHS:
        if kind not in _SIZES or "contentEncoding" in schema or "format" in schema:
            return schema
        return {**schema, _SIZES[kind][name == "max_length"]: limit}
    text = str(getattr(limit, "pattern", limit))
    for ours, theirs in _DIALECT.items():
        text = text.replace(ours, theirs)
    return {**schema, "pattern": text} if kind == "string" else schema


def _may_have(schema: Schema, kind: Any, constraint: Constraint) -> bool:
    """True if values can be compared although the schema cannot say so: a date, bytes, any
    value."""
    if kind is Any or not schema or "$ref" in schema:
        return True
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return any(_may_have(schema, each, constraint) for each in typing.get_args(kind))
    if constraint.name in _LENGTHS:
        return hasattr(kind, "__len__")
    if constraint.name == "multiple_of" or not isinstance(kind, type):
        return False
    return isinstance(constraint.value, kind) and not isinstance(constraint.value, str | bool)


def _problem(constraint: Constraint, value: Any) -> str:
    """The reason why a value does not satisfy a constraint; "" if it does."""
    name, limit = constraint.name, constraint.value
    shown = describe_value(value) if type(value) in JSON_TYPES else str(value)[:60]
    try:
        if name in _LIMITS:
            _, words, holds = _LIMITS[name]
            return "" if holds(value, limit) else f"expected {words} {limit}, got {shown}"
        if name in _LENGTHS:
            words, fits = _LENGTHS[name]
            unit = _UNITS.get(cast("Any", type(value)), "items")
            if fits(len(value), limit):
                return ""
            return f"expected {words} {limit} {unit}, got {len(value)}"
        if name == "tz":
            return _zone_problem(limit, value)
        if name == "func" and not limit(value):
            return f"{shown} does not satisfy {getattr(limit, '__name__', limit)!s:.60}"
    except (TypeError, ValueError) as error:
        return f"{shown} cannot be checked: {error}"
    return ""


def _zone_problem(wanted: Any, value: Any) -> str:
    """The reason why a time has not the zone that annotated_types.Timezone wants: any (...), none,
    or that one."""
    if wanted is None:
        return "" if value.tzinfo is None else "expected a time without a time zone"
    if value.tzinfo is None:
        return "expected a time with a time zone"
    if wanted is ...:
        return ""
    from zoneinfo import ZoneInfo

    zone = wanted if isinstance(wanted, tzinfo) else ZoneInfo(str(wanted))
    same = zone.utcoffset(value) == value.utcoffset()
    return "" if same else f"expected a time in the zone {wanted}"
