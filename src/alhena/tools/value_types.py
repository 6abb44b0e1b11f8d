"""Python types as JSON Schemas, and JSON as values of them.

pydantic is used only for types that are, or hold, its models.
"""

import sys
from collections.abc import Mapping
from typing import Any, cast, get_args

import msgspec

_JSON_TYPES: dict[type[object], str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
}
SUPPORTED = (
    "use str, int, float, bool, list, dict, Optional, Union, Literal, Enum, TypedDict, a dataclass "
    "or a msgspec.Struct"
)


def schema_of(kind: Any) -> dict[str, Any]:
    """The JSON Schema of a type. Raises TypeError for a type without one."""
    adapter = _adapter(kind)
    whole = msgspec.json.schema(kind) if adapter is None else adapter.json_schema()
    definitions = whole.pop("$defs", {})
    try:
        return inlined(whole, definitions, (), str(kind))
    except TypeError:  # it contains itself
        root = whole.get("$ref")
        if isinstance(root, str):
            whole = dict(definitions[root.rpartition("/")[2]])
        return whole | {"$defs": definitions}


def value_from_json(kind: Any, data: Any) -> Any:
    """The value of a type that decoded JSON stands for. Raises ValueError, which says where it does
    not fit."""
    adapter = _adapter(kind)
    if adapter is None:
        return msgspec.convert(data, kind)
    return adapter.validate_python(data)


def _adapter(kind: Any) -> Any:
    """pydantic's reader of a type that holds one of its models; None for any other type."""
    pydantic = sys.modules.get("pydantic")
    if pydantic is None or not _holds_model(kind, pydantic.BaseModel):
        return None
    return pydantic.TypeAdapter(kind)


def _holds_model(kind: Any, model: type) -> bool:
    if isinstance(kind, type) and issubclass(kind, model):
        return True
    return any(_holds_model(each, model) for each in get_args(kind))


def inlined(
    node: Any, definitions: Mapping[str, Any], path: tuple[str, ...], where: str
) -> dict[str, Any]:
    """Replaces references in a schema node by their targets and adds a type to every enum."""
    reference = node.get("$ref")
    if isinstance(reference, str):
        name = reference.rpartition("/")[2]
        if name in path:
            raise TypeError(f"{where}, which contains itself ({name}); {SUPPORTED}")
        return inlined(definitions[name], definitions, (*path, name), where)
    made: dict[str, Any] = {}
    for key, value in node.items():
        if key == "title" or (key == "description" and _is_generated(node, value)):
            continue
        if key == "properties":
            made[key] = {
                name: inlined(child, definitions, path, where) for name, child in value.items()
            }
        elif key in {"items", "additionalProperties"} and isinstance(value, dict):
            made[key] = inlined(value, definitions, path, where)
        elif key in {"anyOf", "prefixItems"}:
            made[key] = [inlined(child, definitions, path, where) for child in value]
        elif not (key == "required" and not value):
            made[key] = value
    return _typed_enum(made, where) if "enum" in made and "type" not in made else made


def _typed_enum(node: dict[str, Any], where: str) -> dict[str, Any]:
    choices = cast("list[object]", node["enum"])
    values = [choice for choice in choices if choice is not None]
    names = {_JSON_TYPES.get(type(value)) for value in values}
    name = names.pop() if len(names) == 1 else None
    if name is None:
        raise TypeError(f"{where}, whose choices are not all of one type; {SUPPORTED}")
    typed = {**node, "type": name, "enum": values}
    return typed if len(values) == len(choices) else {"anyOf": [typed, {"type": "null"}]}


def _is_generated(node: Mapping[str, Any], description: str) -> bool:
    """True when Python generated this docstring, as for dataclasses: "Name(a: int)"."""
    return description.startswith(f"{node.get('title')}(")
