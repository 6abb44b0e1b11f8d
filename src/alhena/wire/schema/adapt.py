"""Declarations in the form of a service, including the older form."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, assert_never

import msgspec
from msgspec import UNSET, DecodeError, json

from alhena.wire.json_values import as_array, as_object
from alhena.wire.request import FunctionDeclaration, GenerateContentConfig, Tool
from alhena.wire.schema.keywords import has_json_form
from alhena.wire.schema.local import local_schema
from alhena.wire.schema.openapi import SchemaError, to_parameters


class SchemaForm(StrEnum):
    """The form of parameters: plain JSON Schema for current services, or the API's own Schema for
    those without `parametersJsonSchema`."""

    JSON_SCHEMA = "parametersJsonSchema"
    OPENAPI = "parameters"


class LeftOut(msgspec.Struct, frozen=True):
    """A tool that cannot be declared, with the reason."""

    name: str
    reason: str


class Adapted(msgspec.Struct, frozen=True):
    """The declarations, and the tools that cannot be declared."""

    declarations: tuple[FunctionDeclaration, ...]
    left_out: tuple[LeftOut, ...]


def adapted(
    declaration: FunctionDeclaration, form: SchemaForm = SchemaForm.JSON_SCHEMA
) -> FunctionDeclaration:
    """A declaration in this form; the same object if unchanged. Raises SchemaError.

    A schema in the API's own form is kept, whatever form is requested.
    """
    for name in ("parameters", "response", "response_json_schema"):
        if not has_json_form(getattr(declaration, name)):
            raise SchemaError(
                f"its {name} contains a number that JSON lacks: NaN, or an infinite one."
            )
    given = declaration.parameters_json_schema
    if given is None:
        return declaration
    schema = local_schema(given)
    match form:
        case SchemaForm.JSON_SCHEMA:
            if schema == given:
                return declaration
            return msgspec.structs.replace(declaration, parameters_json_schema=schema)
        case SchemaForm.OPENAPI:
            return msgspec.structs.replace(
                declaration, parameters_json_schema=None, parameters=to_parameters(schema)
            )
        case _:
            assert_never(form)


def adapt(
    declarations: Iterable[FunctionDeclaration], form: SchemaForm = SchemaForm.JSON_SCHEMA
) -> Adapted:
    """Converts all declarations to this form. Inconvertible ones are left out."""
    kept: list[FunctionDeclaration] = []
    left_out: list[LeftOut] = []
    for declaration in declarations:
        try:
            kept.append(adapted(declaration, form))
        except SchemaError as error:
            left_out.append(LeftOut(declaration.name, error.message))
    return Adapted(tuple(kept), tuple(left_out))


def with_form(
    config: GenerateContentConfig, form: SchemaForm
) -> tuple[GenerateContentConfig, tuple[LeftOut, ...]]:
    """The config with its declarations in this form, and the tools lost by that."""
    left_out: list[LeftOut] = []
    tools: list[Tool] = []
    for tool in config.tools or ():
        if tool.function_declarations is not None:
            done = adapt(tool.function_declarations, form)
            left_out.extend(done.left_out)
            tool = msgspec.structs.replace(tool, function_declarations=done.declarations or None)
        if tool != Tool():
            tools.append(tool)
    return msgspec.structs.replace(config, tools=tuple(tools) or None), tuple(left_out)


_OWN_FORMATS = frozenset({"enum", "int32", "int64", "float", "double"})
"""Formats without meaning beyond the type."""
_RENAMED = {"defs": "$defs", "ref": "$ref"}
_LEFT_OUT = frozenset({"nullable", "propertyOrdering", "example"})
_COUNTS = frozenset(
    {
        *("minItems", "maxItems", "minLength", "maxLength"),
        *("minProperties", "maxProperties"),
    }
)
"""64-bit integers, which may be text."""
_PLAIN: dict[str, tuple[type, ...]] = {
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}
"""Types with non-string values."""
_NAMED = frozenset({"properties", "$defs"})
_LISTED = frozenset({"anyOf", "prefixItems"})


def to_json_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with types in lower case, and null added to `nullable` types. The meaning of JSON
    Schema is unchanged."""
    made: dict[str, Any] = {}
    for key, value in schema.items():
        name = _RENAMED.get(key, key)
        if name in _LEFT_OUT or (name == "format" and value in _OWN_FORMATS):
            continue
        fields, items = as_object(value), as_array(value)
        if name in _NAMED and fields is not None:
            value = dict(fields)
            for each, inner in fields.items():
                value[each] = _node(inner)
        elif name in _LISTED and items is not None:
            value = list(items)
            for at, inner in enumerate(items):
                value[at] = _node(inner)
        elif name in {"items", "additionalProperties"}:
            value = _node(value)
        elif name in _COUNTS and isinstance(value, str) and value.isdigit():
            value = int(value)
        made[name] = value
    _with_type(made, schema.get("type"), nullable=schema.get("nullable") is True)
    _with_order(made, schema.get("propertyOrdering"))
    if "example" in schema and "examples" not in made:
        made["examples"] = [schema["example"]]
    return made


def _node(value: object) -> Any:
    fields = as_object(value)
    return value if fields is None else to_json_schema(fields)


def _with_type(made: dict[str, Any], kind: object, *, nullable: bool) -> None:
    kinds = as_array(kind)
    if isinstance(kind, str):
        made["type"] = kind.lower()
        if kind.upper() == "TYPE_UNSPECIFIED":
            del made["type"]
        _with_values(made, kind.lower())
    elif kinds is not None:
        made["type"] = [one.lower() if isinstance(one, str) else one for one in kinds]
    if not nullable:
        return
    if isinstance(made.get("type"), str) and made["type"] != "null":
        made["type"] = [made["type"], "null"]
    elif kinds and "null" not in made["type"]:
        made["type"] = [*made["type"], "null"]
    choices = as_array(made.get("anyOf"))
    if choices is not None and {"type": "null"} not in choices:
        made["anyOf"] = [*choices, {"type": "null"}]
    values = as_array(made.get("enum"))
    if values is not None and None not in values:
        made["enum"] = [*values, None]


def _with_values(made: dict[str, Any], kind: str) -> None:
    """Converts allowed and default values, which the older form writes as strings, to the type.
    Inconvertible values are dropped."""
    if kind not in _PLAIN:
        return
    values = as_array(made.get("enum"))
    if values is not None:
        read = [_value(one, kind) for one in values]
        made["enum"] = read
        if UNSET in read:
            del made["enum"]
    if "default" in made:
        made["default"] = _value(made["default"], kind)
        if made["default"] is UNSET:
            del made["default"]


def _value(value: object, kind: str) -> object:
    """Converts a string to a value of a type; UNSET if impossible. Other values are unchanged."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    try:
        found = json.decode(text.lower() if kind == "boolean" else text)
    except (DecodeError, UnicodeError, RecursionError):
        return UNSET
    if isinstance(found, bool):
        return found if kind == "boolean" else UNSET
    return found if isinstance(found, _PLAIN[kind]) else UNSET


def _with_order(made: dict[str, Any], order: object) -> None:
    """Puts properties in the requested order, which JSON Schema cannot express."""
    properties, names = as_object(made.get("properties")), as_array(order)
    if not properties or not names:
        return
    first = [name for name in names if isinstance(name, str) and name in properties]
    made["properties"] = {name: properties[name] for name in dict.fromkeys((*first, *properties))}
