"""Python types as JSON Schemas, and JSON as values of them.

`Types` reads a type once into a `JsonForm`: its schema, and a function that reads a value. Types
with one plain meaning are left to msgspec; containers, classes, enums and unions are read here,
since msgspec sorts choices, drops the text of `Annotated` and refuses unions of classes. pydantic
is used only for its models, where the program has imported it.
"""

import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from enum import Enum
from pathlib import PurePath
from typing import Any, Literal, cast

import msgspec

from alhena.tools.value_types.hints import is_required, is_typed_dict, resolve_hints
from alhena.tools.value_types.json_form import (
    JSON_TYPES,
    JsonForm,
    Schema,
    at_path,
    below,
    describe_value,
    inline_references,
)

SUPPORTED = (
    "use str, int, float, bool, list, dict, Optional, Union, Literal, Enum, TypedDict, Path, a "
    "dataclass, a msgspec.Struct or a pydantic model"
)
_PLAIN: tuple[Any, ...] = (str, int, float, bool, None, type(None), bytes, bytearray)
_USUAL: Mapping[tuple[str, str], Schema] = {
    ("datetime", "datetime"): {"type": "string", "format": "date-time"},
    ("datetime", "time"): {"type": "string", "format": "time"},
    ("decimal", "Decimal"): {"anyOf": [{"type": "number"}, {"type": "string"}]},
}
"""Schemas of classes that are read in more forms than msgspec knows."""
_NUMBERS = {bool: 0, int: 1, float: 2}
"""The order in which a union tries these: an integer is no float, though it would do as one."""
_NUMBER_TYPES: Mapping[Any, type[int | float]] = {"integer": int, "number": float}
_LISTS: Mapping[Any, Callable[[list[Any]], Any]] = {
    **dict.fromkeys((list, Sequence, Iterable), list),
    **dict.fromkeys((set, AbstractSet), set),
    frozenset: frozenset,
}
_MAPPINGS = (dict, Mapping)
_MODIFIERS = ("NotRequired", "Required", "ReadOnly")


_known: dict[Any, JsonForm] = {}


def form_of(kind: Any) -> JsonForm:
    """The form of a type; classes that contain themselves stand in the schema's `$defs`. Raises
    TypeError for a type without a form."""
    try:
        return _known[kind]
    except (KeyError, TypeError):  # a type with unhashable metadata is not remembered
        pass
    reader = Types()
    form = reader.form(kind)
    if reader.definitions:
        name = str(form.schema.get("$ref", "")).rpartition("/")[2]
        schema = reader.definitions.get(name, form.schema)
        form = form._replace(schema=schema | {"$defs": reader.definitions})
    with suppress(TypeError):
        _known[kind] = form
    return form


def schema_of(kind: Any) -> Schema:
    """The JSON Schema of a type. Raises TypeError for a type without one."""
    return form_of(kind).schema


def value_from_json(kind: Any, data: Any, path: str = "") -> Any:
    """The value of a type from decoded JSON. Raises ValueError, which says where it does
    not fit."""
    return form_of(kind).read(data, path)


def value_to_json(value: Any) -> Any:
    """The value as JSON, decoded. Raises TypeError for a value without such a form."""
    return msgspec.to_builtins(value, enc_hook=_json)


def _json(value: Any) -> Any:
    if isinstance(value, PurePath):
        return str(value)
    if _is_model(type(value)):
        from alhena.tools.value_types.constraints import pydantic_to_json

        return pydantic_to_json(value)
    raise TypeError(f"a {type(value).__name__} has no form as JSON")


def _is_model(kind: Any) -> bool:
    """True for a class of pydantic, which the program has imported then: a model, a dataclass, or
    a type that says how it is read."""
    return (
        "pydantic" in sys.modules
        and isinstance(kind, type)
        and (
            hasattr(kind, "__get_pydantic_core_schema__")
            or "__pydantic_core_schema__" in vars(kind)
            or "__pydantic_config__" in vars(kind)
        )
    )


def _as_it_is(data: Any, _path: str) -> Any:
    return data


class Types:
    """Reads types into forms. `definitions`: the schemas of classes that contain themselves.
    `loose`: only the reader of a type knows what it takes: more than its schema says, as with a
    BeforeValidator, or exactly that, as with StrictInt."""

    def __init__(self) -> None:
        self.definitions: dict[str, Schema] = {}
        self._open: dict[Any, list[JsonForm]] = {}
        self._recursive: set[Any] = set()
        self.loose = False

    def form(self, kind: Any) -> JsonForm:
        """The form of a type. Raises TypeError for a type without one."""
        if kind is Any:
            return JsonForm({}, _as_it_is)
        if kind in _PLAIN:
            return _msgspec_form(kind)
        usual = _USUAL.get((getattr(kind, "__module__", ""), getattr(kind, "__name__", "")))
        if usual is not None:
            return _usual_form(kind, usual)
        if hasattr(kind, "__metadata__"):
            return self._annotated_form(kind)
        for alias in ("__value__", "__supertype__"):  # type X = …, NewType
            if hasattr(kind, alias):
                return self.form(getattr(kind, alias))
        return self._special(kind) or self._container(kind) or self._class(kind)

    def _special(self, kind: Any) -> JsonForm | None:
        origin, args = typing.get_origin(kind), typing.get_args(kind)
        if origin is Literal:
            return _choices(args)
        if origin in (typing.Union, types.UnionType):
            return self._union([self.form(each) for each in _by_width(args)])
        if getattr(origin, "_name", "") in _MODIFIERS:
            return self.form(args[0])
        return None

    def _container(self, kind: Any) -> JsonForm | None:
        origin, args = typing.get_origin(kind) or kind, typing.get_args(kind)
        if origin in _LISTS:
            return self._list(_LISTS[origin], args[0] if args else Any)
        if origin is tuple:
            return self._tuple(args or (Any, ...))
        if origin in _MAPPINGS:
            return self._mapping(*(args or (str, Any)))
        return None

    def _annotated_form(self, kind: Any) -> JsonForm:
        inner, metadata = kind.__origin__, kind.__metadata__
        if len(metadata) == 1 and isinstance(metadata[0], str):
            form = self.form(inner)
            return form._replace(schema=form.schema | {"description": metadata[0]})
        from alhena.tools.value_types.constraints import constrain, pydantic_form, read_annotations

        found = read_annotations(metadata)
        if found.whole:
            self.loose = True
            form = pydantic_form(kind, self.definitions)
        else:
            form = self.form(inner)
        if found.metas:
            form = _limit_form(form, inner, tuple(found.metas))
        if not found.whole and (found.constraints or found.after):
            form = constrain(form, inner, metadata, found)
        text = {"description": found.text} if found.text else {}
        return form._replace(schema=form.schema | found.extra | text)

    def _list(self, make: Callable[[list[Any]], Any], item: Any) -> JsonForm:
        inner = self.form(item)
        schema: Schema = {"type": "array"}
        if inner.schema:
            schema["items"] = inner.schema
        if make in (set, frozenset):
            schema["uniqueItems"] = True

        def read(data: Any, path: str) -> Any:
            items = _require_type(list, data, path)
            values = [inner.read(each, f"{path}[{index}]") for index, each in enumerate(items)]
            try:
                return cast("object", make(values))
            except TypeError:
                raise ValueError(at_path(path, "its items cannot be in a set")) from None

        return JsonForm(schema, read)

    def _tuple(
        self, args: tuple[Any, ...], names: tuple[str, ...] = (), optional: int = 0
    ) -> JsonForm:
        if len(args) == 2 and args[1] is ...:
            return self._list(tuple, args[0])
        forms = [self.form(each) for each in args if each != ()]
        least = len(forms) - optional
        items = [dict(form.schema) for form in forms]
        for name, item in zip(names, items, strict=False):
            item.setdefault("description", name)

        def read(data: Any, path: str) -> Any:
            found = _require_type(list, data, path)
            if not least <= len(found) <= len(forms):
                raise ValueError(at_path(path, f"expected {len(forms)} items, got {len(found)}"))
            pairs = enumerate(zip(forms, found, strict=False))
            return tuple(form.read(each, f"{path}[{index}]") for index, (form, each) in pairs)

        schema = {"type": "array", "prefixItems": items, "minItems": least, "maxItems": len(items)}
        return JsonForm(schema, read)

    def _mapping(self, key: Any, value: Any) -> JsonForm:
        inner, keys = self.form(value), self.form(key)
        schema: Schema = {"type": "object"}
        if inner.schema:
            schema["additionalProperties"] = inner.schema
        if "enum" in keys.schema:
            schema["propertyNames"] = {"enum": [str(each) for each in keys.schema["enum"]]}

        def read(data: Any, path: str) -> Any:
            items = _require_type(dict, data, path).items()
            return {
                _key(keys, name, path): inner.read(each, below(path, name)) for name, each in items
            }

        return JsonForm(schema, read)

    def _union(self, forms: list[JsonForm]) -> JsonForm:
        if len(forms) == 1:
            return forms[0]

        def read(data: Any, path: str) -> Any:
            order = forms
            if isinstance(data, dict):
                given = set(cast("dict[str, Any]", data))
                order = sorted(forms, key=lambda form: len(given - (form.fields or given)))
            problems: list[str] = []
            for form in order:
                try:
                    return form.read(data, path)
                except ValueError as error:
                    problems.append(str(error))
            raise ValueError("; or ".join(dict.fromkeys(problems)))

        return JsonForm({"anyOf": [form.schema for form in forms]}, read)

    def _class(self, kind: Any) -> JsonForm:
        if not isinstance(kind, type):
            return _msgspec_form(kind)
        if issubclass(kind, Enum):
            return _choices(tuple(member.value for member in kind), kind)
        if issubclass(kind, PurePath):
            return _path_form(kind)
        if _is_model(kind):
            from alhena.tools.value_types.constraints import pydantic_form

            form = pydantic_form(kind, self.definitions)
            self.loose = self.loose or form.strict
            return form
        reference = {"$ref": f"#/$defs/{kind.__name__}"}
        if kind in self._open:
            made = self._open[kind]
            self._recursive.add(kind)

            def read_again(data: Any, path: str) -> Any:
                return made[0].read(data, path)

            return JsonForm(reference, read_again)
        self._open[kind] = []
        form = self._fields(kind)
        self._open.pop(kind).append(form)
        if kind not in self._recursive:
            return form
        self.definitions[kind.__name__] = form.schema
        return form._replace(schema=reference)

    def _fields(self, kind: Any) -> JsonForm:
        if is_typed_dict(kind):
            hints = resolve_hints(kind).items()
            return self._object(
                kind, [Field(name, hint, is_required(kind, name, hint)) for name, hint in hints]
            )
        names: tuple[str, ...] | None = getattr(kind, "_fields", None)
        if names is not None and tuple in kind.__mro__:
            return self._named_tuple(kind, names)
        if hasattr(kind, "__dataclass_fields__"):
            return self._dataclass(kind)
        if issubclass(kind, msgspec.Struct) and not kind.__struct_config__.array_like:
            return self._struct(kind)
        return _msgspec_form(kind)

    def _named_tuple(self, kind: Any, names: tuple[str, ...]) -> JsonForm:
        hints, defaults = resolve_hints(kind), kind._field_defaults
        fields = [
            Field(name, hints.get(name, Any), name not in defaults, defaults.get(name))
            for name in names
        ]
        fields = [field.resolve_default() for field in fields]
        optional = sum(not field.required for field in fields)
        inner = self._tuple(tuple(field.hint for field in fields), names, optional)

        def read(data: Any, path: str) -> Any:
            values = inner.read(data, path)
            left = [field.supply for field in fields[len(values) :]]
            return kind(*values, *(supply() for supply in left if supply is not None))

        return inner._replace(read=read)

    def _dataclass(self, kind: Any) -> JsonForm:
        import dataclasses

        hints, missing = resolve_hints(kind), dataclasses.MISSING
        return self._object(
            kind,
            [
                Field(
                    field.name,
                    hints[field.name],
                    required=field.default is missing and field.default_factory is missing,
                    default=None if field.default is missing else field.default,
                )
                for field in dataclasses.fields(kind)
                if field.init
            ],
        )

    def _struct(self, kind: type[msgspec.Struct]) -> JsonForm:
        config = kind.__struct_config__
        absent = msgspec.NODEFAULT
        fields = [
            Field(
                field.encode_name,
                field.type,
                required=field.required,
                default=None if field.default is absent else field.default,
                attribute=field.name,
            )
            for field in msgspec.structs.fields(kind)
        ]
        form = self._object(kind, fields)
        tag: Schema = {}
        if config.tag is not None:
            tag = {str(config.tag_field): {"enum": [config.tag], "type": _type_of(config.tag)}}
            form.schema["properties"] = tag | form.schema["properties"]
            form.schema["required"] = [*tag, *form.schema.get("required", ())]
        known = (form.fields or frozenset()) | tag.keys()
        if config.forbid_unknown_fields:
            form.schema["additionalProperties"] = False

        def read(data: Any, path: str) -> Any:
            found: dict[str, Any] = _require_type(dict, data, path)
            for name in tag:
                if found.get(name) != config.tag:
                    given = describe_value(found.get(name))
                    raise ValueError(
                        at_path(below(path, name), f"expected {config.tag!r}, got {given}")
                    )
            unknown = next((name for name in found if name not in known), None)
            if config.forbid_unknown_fields and unknown is not None:
                raise ValueError(at_path(path, f"there is no field {unknown!r:.60}"))
            return form.read(data, path)

        return form._replace(read=read, fields=known)

    def _object(self, kind: type[Any], fields: "list[Field]") -> JsonForm:
        """The form of a class with named fields."""
        fields = [field.resolve_default() for field in fields]
        forms = {field.name: self.form(field.hint) for field in fields}
        attributes = {field.name: field.attribute or field.name for field in fields}
        supplied = {field.attribute or field.name: field.supply for field in fields if field.supply}
        properties = {
            field.name: forms[field.name].schema | default_of(field.default) for field in fields
        }
        required = [field.name for field in fields if field.required]
        schema: Schema = {"type": "object", "properties": properties}
        if required:
            schema["required"] = required
        text = (kind.__doc__ or "").strip()
        if text and not text.startswith((f"{kind.__name__}(", "dict(")):
            schema["description"] = " ".join(text.split())

        def read(data: Any, path: str) -> Any:
            found = _require_type(dict, data, path)
            for name in required:
                if name not in found:
                    raise ValueError(at_path(path, f"required field {name!r} is missing"))
            values = {
                attributes[name]: forms[name].read(each, below(path, name))
                for name, each in found.items()
                if name in forms
            }
            for name, supply in supplied.items():
                if name not in values:
                    values[name] = supply()
            try:
                return kind(**values)
            except (ValueError, TypeError) as error:  # from __post_init__
                raise ValueError(at_path(path, str(error))) from error

        return JsonForm(schema, read, frozenset(forms))


class Field(typing.NamedTuple):
    """A field of a class. `attribute`: its name in Python, where that differs; `supply` makes its
    default where the class itself would not."""

    name: str
    hint: Any
    required: bool
    default: Any = None
    attribute: str = ""
    supply: Callable[[], Any] | None = None

    def resolve_default(self) -> "Field":
        """The field with the constraints and the default of a `pydantic.Field` as its default."""
        given = self.default
        if given is None or "pydantic" not in sys.modules:
            return self
        from alhena.tools.value_types.constraints import field_default, is_field

        if not is_field(given):
            return self
        supply, shown = field_default(given)
        hint = typing.Annotated[self.hint, given]
        return self._replace(hint=hint, required=supply is None, default=shown, supply=supply)


def default_of(value: object) -> Schema:
    """The `default` keyword of a schema; empty for None and for values without a JSON form."""
    if value is None:
        return {}
    try:
        return {"default": value_to_json(value)}
    except (TypeError, ValueError, RecursionError):
        return {}


def _by_width(args: tuple[Any, ...]) -> list[Any]:
    """The members of a union, in the order to try: numbers from the narrowest."""
    numbers = iter(sorted((each for each in args if each in _NUMBERS), key=_NUMBERS.__getitem__))
    return [next(numbers) if each in _NUMBERS else each for each in args]


def _choices(values: tuple[Any, ...], make: Callable[[Any], Any] | None = None) -> JsonForm:
    """One of some values, in the order they are written in."""
    by_type: dict[str, list[Any]] = {}
    for value in values:
        if isinstance(value, Enum):  # Literal[Color.RED]
            return _choices(tuple(each.value for each in values), type(value))
        by_type.setdefault(_type_of(value), []).append(value)
    schemas: list[Schema] = [
        {"type": "null"} if name == "null" else {"type": name, "enum": found}
        for name, found in by_type.items()
    ]

    def read(data: Any, path: str) -> Any:
        for value in values:
            if value == data and isinstance(data, bool) == isinstance(value, bool):
                return value if make is None else make(value)
        shown = ", ".join(repr(value) for value in values)
        raise ValueError(at_path(path, f"expected one of {shown}, got {describe_value(data)}"))

    return JsonForm(schemas[0] if len(schemas) == 1 else {"anyOf": schemas}, read)


def _type_of(value: object) -> str:
    name = JSON_TYPES.get(type(value))
    if name is None:
        raise TypeError(f"a choice cannot be a {type(value).__name__}")
    return name


def _msgspec_form(kind: Any, *, describe: bool = True) -> JsonForm:
    """A type as msgspec reads it. Raises TypeError for a type it does not know."""
    schema: Schema = {}
    if describe:
        whole = msgspec.json.schema(kind, schema_hook=_hook)
        schema = inline_references(whole, whole.pop("$defs", {}))

    def read(data: Any, path: str) -> Any:
        try:
            return msgspec.convert(data, kind, dec_hook=_value)
        except msgspec.ValidationError as error:
            raise ValueError(_plain(str(error), path)) from error

    return JsonForm(schema, read)


def _usual_form(kind: Any, schema: Schema) -> JsonForm:
    read_text = getattr(kind, "fromisoformat", kind)
    exact = _msgspec_form(kind, describe=False).read

    def read(data: Any, path: str) -> Any:
        try:
            return exact(data, path)
        except ValueError:
            if isinstance(data, str) and len(data) > 1:
                with suppress(ValueError):
                    return read_text(data)
            raise

    return JsonForm(schema, read)


def _limit_form(form: JsonForm, kind: Any, metas: tuple[msgspec.Meta, ...]) -> JsonForm:
    """A form with the limits of `msgspec.Meta`."""
    origin = typing.get_origin(kind) or kind
    plain = list if origin in _LISTS or origin is tuple else dict if origin in _MAPPINGS else kind
    limits = _msgspec_form(typing.Annotated[plain, *metas])

    def read(data: Any, path: str) -> Any:
        limits.read(data, path)
        return form.read(data, path)

    return JsonForm(limits.schema | form.schema, read, form.fields)


def _path_form(kind: Callable[[str], Any]) -> JsonForm:
    text = _msgspec_form(str)

    def read(data: Any, path: str) -> Any:
        return kind(text.read(data, path))

    return JsonForm({"type": "string", "description": "A path."}, read)


def _hook(kind: Any) -> Schema:
    if _has_hook(kind):
        return dict(form_of(kind).schema)
    raise NotImplementedError  # msgspec names the type


def _value(kind: Any, data: Any) -> Any:
    if _has_hook(kind):
        return value_from_json(kind, data)
    raise TypeError(f"it is no {kind.__name__}")


def _has_hook(kind: Any) -> bool:
    return _is_model(kind) or (isinstance(kind, type) and issubclass(kind, PurePath))


def _key(keys: JsonForm, name: str, path: str) -> Any:
    """The key of a mapping; JSON has only texts, so a number is one that is spelled."""
    number = _NUMBER_TYPES.get(keys.schema.get("type"))
    if number is None:
        return keys.read(name, below(path, name))
    try:
        key = number(name)
    except ValueError:
        what = f"the key {name!r} is no {JSON_TYPES[number]}"
        raise ValueError(at_path(path, what)) from None
    return keys.read(key, below(path, name))


def _require_type(kind: type[Any], data: Any, path: str) -> Any:
    if not isinstance(data, kind):
        what = f"expected {JSON_TYPES[kind]}, got {describe_value(data)}"
        raise ValueError(at_path(path, what))  # noqa: TRY004  the value is wrong, not the program
    return data


def _plain(message: str, path: str) -> str:
    """msgspec's message: "Expected `int`, got `str` - at `$.a[0]`"."""
    what, _, where = message.partition(" - at `$")
    for kind, name in JSON_TYPES.items():
        what = what.replace(f"`{kind.__name__}`", name).replace(f"`{name}`", name)
    what = what[:1].lower() + what[1:].replace("`", "'")
    return at_path(f"{path}{where.rstrip('`')}".removeprefix("."), what)
