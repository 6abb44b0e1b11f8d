"""Python types as JSON Schemas, and JSON as values of them.

pydantic is used only for its models, where the program has imported it.
"""

import sys
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, cast

import msgspec

_JSON_TYPES: dict[type[object], str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
}
SUPPORTED = (
    "use str, int, float, bool, list, dict, Optional, Union, Literal, Enum, TypedDict, Path, a "
    "dataclass, a msgspec.Struct or a pydantic model"
)


def schema_of(kind: Any) -> dict[str, Any]:
    """The JSON Schema of a type. Raises TypeError for a type without one."""
    try:
        return schema_without_references(kind, str(kind))
    except TypeError:  # it contains itself, or has no schema, which is raised again
        whole = msgspec.json.schema(kind, schema_hook=_schema)
        definitions = whole.pop("$defs", {})
        root = whole.get("$ref")
        if isinstance(root, str):
            whole = dict(definitions[root.rpartition("/")[2]])
        return whole | {"$defs": definitions}


def schema_without_references(kind: Any, where: str) -> dict[str, Any]:
    """The schema of a type in one piece. Raises TypeError, which begins with `where`, for a type
    that contains itself."""
    whole = msgspec.json.schema(kind, schema_hook=_schema)
    return inlined(whole, whole.pop("$defs", {}), (), where)


def value_from_json(kind: Any, data: Any) -> Any:
    """The value of a type that decoded JSON stands for. Raises ValueError, which says where it does
    not fit."""
    return msgspec.convert(data, kind, dec_hook=_value)


def value_to_json(value: Any) -> Any:
    """The value as JSON, decoded. Raises TypeError for a value without such a form."""
    return msgspec.to_builtins(value, enc_hook=_json)


def _schema(kind: Any) -> dict[str, Any]:
    if issubclass(kind, PurePath):
        return {"type": "string", "description": "A path."}
    if _is_model(kind):
        whole: dict[str, Any] = kind.model_json_schema()
        return inlined(whole, whole.pop("$defs", {}), (), str(kind))
    raise NotImplementedError


def _value(kind: Any, data: Any) -> Any:
    if _is_model(kind):
        return kind.model_validate(data)
    if issubclass(kind, PurePath) and isinstance(data, str):
        return kind(data)
    raise TypeError(f"it is no {kind.__name__}")


def _json(value: Any) -> Any:
    if isinstance(value, PurePath):
        return str(value)
    if _is_model(type(value)):
        return value.model_dump(mode="json")
    raise TypeError(f"a {type(value).__name__} has no form as JSON")


def _is_model(kind: Any) -> bool:
    """True for a model of pydantic, which the program has imported then."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and issubclass(kind, pydantic.BaseModel)


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
