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

SUPPORTED = (
    "use str, int, float, bool, list, dict, Optional, Union, Literal, Enum, TypedDict, Path, a "
    "dataclass, a msgspec.Struct or a pydantic model"
)
Schema = dict[str, Any]
Read = Callable[[Any, str], Any]
"""Reads a value from JSON at a path such as `orders[2].amount`. Raises ValueError."""

_JSON_TYPES: dict[type[object], str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
    list: "array",
    dict: "object",
}
_PLAIN: tuple[Any, ...] = (str, int, float, bool, None, type(None), bytes, bytearray)
_NUMBERS = {bool: 0, int: 1, float: 2}
"""The order in which a union tries these: an integer is no float, though it would do as one."""
_LISTS: Mapping[Any, Callable[[list[Any]], Any]] = {
    **dict.fromkeys((list, Sequence, Iterable), list),
    **dict.fromkeys((set, AbstractSet), set),
    frozenset: frozenset,
}
_MAPPINGS = (dict, Mapping)
_MODIFIERS = ("NotRequired", "Required", "ReadOnly")


class JsonForm(typing.NamedTuple):
    """A type as JSON. `fields`: the names of an object's fields, None for anything else."""

    schema: Schema
    read: Read
    fields: frozenset[str] | None = None


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
        return value.model_dump(mode="json")
    raise TypeError(f"a {type(value).__name__} has no form as JSON")


def _is_model(kind: Any) -> bool:
    """True for a model of pydantic, which the program has imported then."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)


def _as_it_is(data: Any, _path: str) -> Any:
    return data


class Types:
    """Reads types into forms. `definitions`: the schemas of classes that contain themselves."""

    def __init__(self) -> None:
        self.definitions: dict[str, Schema] = {}
        self._open: dict[Any, list[JsonForm]] = {}
        self._recursive: set[Any] = set()

    def form(self, kind: Any) -> JsonForm:
        """The form of a type. Raises TypeError for a type without one."""
        if kind is Any:
            return JsonForm({}, _as_it_is)
        if kind in _PLAIN:
            return _msgspec_form(kind)
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
        inner, extra = kind.__origin__, kind.__metadata__
        text = next((item for item in extra if isinstance(item, str)), None)
        form = self.form(inner)
        metas = tuple(item for item in extra if isinstance(item, msgspec.Meta))
        if metas:
            form = _limit_form(form, inner, metas)
        if text:
            form = form._replace(schema=form.schema | {"description": text})
        return form

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
                raise ValueError(_at(path, "its items cannot be in a set")) from None

        return JsonForm(schema, read)

    def _tuple(self, args: tuple[Any, ...], names: tuple[str, ...] = ()) -> JsonForm:
        if len(args) == 2 and args[1] is ...:
            return self._list(tuple, args[0])
        forms = [self.form(each) for each in args if each != ()]
        items = [dict(form.schema) for form in forms]
        for name, item in zip(names, items, strict=False):
            item.setdefault("description", name)

        def read(data: Any, path: str) -> Any:
            found = _require_type(list, data, path)
            if len(found) != len(forms):
                raise ValueError(_at(path, f"expected {len(forms)} items, got {len(found)}"))
            pairs = enumerate(zip(forms, found, strict=True))
            return tuple(form.read(each, f"{path}[{index}]") for index, (form, each) in pairs)

        size = len(items)
        return JsonForm(
            {"type": "array", "prefixItems": items, "minItems": size, "maxItems": size}, read
        )

    def _mapping(self, key: Any, value: Any) -> JsonForm:
        inner, keys = self.form(value), self.form(key)
        schema: Schema = {"type": "object"}
        if inner.schema:
            schema["additionalProperties"] = inner.schema
        if "enum" in keys.schema:
            schema["propertyNames"] = keys.schema

        def read(data: Any, path: str) -> Any:
            items = _require_type(dict, data, path).items()
            return {
                _key(key, keys, name, path): inner.read(each, _below(path, name))
                for name, each in items
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
            return _pydantic_form(kind, self.definitions)
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
        if typing.is_typeddict(kind):
            required: frozenset[str] = kind.__required_keys__
            hints = _hints(kind).items()
            return self._object(kind, {name: (hint, name in required) for name, hint in hints})
        names: tuple[str, ...] | None = getattr(kind, "_fields", None)
        if names is not None and tuple in kind.__mro__:
            return self._named_tuple(kind, names)
        if hasattr(kind, "__dataclass_fields__"):
            import dataclasses

            hints = _hints(kind)
            fields = [field for field in dataclasses.fields(kind) if field.init]
            missing = dataclasses.MISSING
            return self._object(
                kind,
                {
                    field.name: (
                        hints[field.name],
                        field.default is missing and field.default_factory is missing,
                    )
                    for field in fields
                },
                {field.name: field.default for field in fields if field.default is not missing},
            )
        if issubclass(kind, msgspec.Struct) and not kind.__struct_config__.array_like:
            return self._struct(kind)
        return _msgspec_form(kind)

    def _named_tuple(self, kind: Any, names: tuple[str, ...]) -> JsonForm:
        hints = _hints(kind)
        inner = self._tuple(tuple(hints.get(name, Any) for name in names), names)

        def read(data: Any, path: str) -> Any:
            return kind(*inner.read(data, path))

        return inner._replace(read=read)

    def _struct(self, kind: type[msgspec.Struct]) -> JsonForm:
        fields = msgspec.structs.fields(kind)
        config = kind.__struct_config__
        form = self._object(
            kind,
            {field.encode_name: (field.type, field.required) for field in fields},
            {
                field.encode_name: field.default
                for field in fields
                if field.default is not msgspec.NODEFAULT
            },
        )
        if config.tag is not None:
            tag = {str(config.tag_field): {"enum": [config.tag], "type": _type_of(config.tag)}}
            form.schema["properties"] = tag | form.schema["properties"]
            form.schema["required"] = [*tag, *form.schema.get("required", ())]
            form = form._replace(fields=(form.fields or frozenset()) | tag.keys())
        if config.forbid_unknown_fields:
            form.schema["additionalProperties"] = False
        read = _msgspec_form(kind, describe=False).read
        return form._replace(read=read)

    def _object(
        self,
        kind: type[Any],
        fields: Mapping[str, tuple[Any, bool]],
        defaults: Mapping[str, Any] = types.MappingProxyType({}),
    ) -> JsonForm:
        """The form of a class with named fields: their types, and whether they are required."""
        forms = {name: self.form(hint) for name, (hint, _required) in fields.items()}
        properties = {
            name: form.schema | (default_of(defaults[name]) if name in defaults else {})
            for name, form in forms.items()
        }
        required = [name for name, (_hint, needed) in fields.items() if needed]
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
                    raise ValueError(_at(path, f"required field {name!r} is missing"))
            values = {
                name: forms[name].read(each, _below(path, name))
                for name, each in found.items()
                if name in forms
            }
            try:
                return kind(**values)
            except (ValueError, TypeError) as error:  # from __post_init__
                raise ValueError(_at(path, str(error))) from error

        return JsonForm(schema, read, frozenset(forms))


def default_of(value: object) -> Schema:
    """The `default` keyword of a schema; empty for None and for values without a JSON form."""
    if value is None:
        return {}
    try:
        return {"default": value_to_json(value)}
    except (TypeError, ValueError, RecursionError):
        return {}


def _hints(kind: type[Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(kind, include_extras=True)
    except NameError as error:
        raise TypeError(f"a type hint of {kind.__name__} cannot be resolved: {error}") from error


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
        raise ValueError(_at(path, f"expected one of {shown}, got {_describe_value(data)}"))

    return JsonForm(schemas[0] if len(schemas) == 1 else {"anyOf": schemas}, read)


def _type_of(value: object) -> str:
    name = _JSON_TYPES.get(type(value))
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


def _pydantic_form(kind: Any, definitions: dict[str, Schema]) -> JsonForm:
    whole: Schema = kind.model_json_schema()
    named = whole.pop("$defs", {})
    try:
        schema = inline_references(whole, named)
    except RecursionError:
        schema = whole
        definitions |= named

    def read(data: Any, path: str) -> Any:
        try:
            return kind.model_validate(data)
        except ValueError as error:
            found: Any = error
            problems = [
                _at("".join([path, *map(_step, each["loc"])]).removeprefix("."), each["msg"])
                for each in found.errors()
            ]
            raise ValueError("; ".join(problems)) from error

    return JsonForm(schema, read, frozenset(whole.get("properties", ())))


def inline_references(node: Any, definitions: Mapping[str, Any], depth: int = 0) -> Schema:
    """Replaces references in a schema by their targets, and drops generated titles. Raises
    RecursionError for a schema that contains itself."""
    if depth > _DEEP:
        raise RecursionError
    reference = node.get("$ref")
    if isinstance(reference, str):
        target = inline_references(
            definitions[reference.rpartition("/")[2]], definitions, depth + 1
        )
        return target | {key: value for key, value in node.items() if key != "$ref"}
    made: Schema = {}
    for key, value in node.items():
        if key == "properties":
            made[key] = {
                name: inline_references(child, definitions, depth + 1)
                for name, child in value.items()
            }
        elif key in {"items", "additionalProperties"} and isinstance(value, dict):
            made[key] = inline_references(value, definitions, depth + 1)
        elif key in {"anyOf", "oneOf", "allOf", "prefixItems"}:
            made[key] = [inline_references(child, definitions, depth + 1) for child in value]
        elif key not in {"title", "discriminator"}:
            made[key] = value
    return made


_DEEP = 60


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


def _key(kind: Any, keys: JsonForm, name: str, path: str) -> Any:
    if kind in (int, float):
        try:
            return kind(name)
        except ValueError:
            what = f"the key {name!r} is no {_JSON_TYPES[kind]}"
            raise ValueError(_at(path, what)) from None
    return keys.read(name, _below(path, name))


def _require_type(kind: type[Any], data: Any, path: str) -> Any:
    if not isinstance(data, kind):
        what = f"expected {_JSON_TYPES[kind]}, got {_describe_value(data)}"
        raise ValueError(_at(path, what))  # noqa: TRY004  the value is wrong, not the program
    return data


def _describe_value(data: object) -> str:
    """A short value as it is, for others their JSON type."""
    if isinstance(data, bool):
        return str(data).lower()
    if isinstance(data, str | int | float):
        return f"{data!r:.60}"
    return _JSON_TYPES.get(type(data), type(data).__name__)


def _plain(message: str, path: str) -> str:
    """msgspec's message: "Expected `int`, got `str` - at `$.a[0]`"."""
    what, _, where = message.partition(" - at `$")
    for kind, name in _JSON_TYPES.items():
        what = what.replace(f"`{kind.__name__}`", name).replace(f"`{name}`", name)
    what = what[:1].lower() + what[1:].replace("`", "'")
    return _at(f"{path}{where.rstrip('`')}".removeprefix("."), what)


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _step(key: str | int) -> str:
    return f"[{key}]" if isinstance(key, int) else f".{key}"


def _at(path: str, message: str) -> str:
    return f"{path}: {message}" if path else message
