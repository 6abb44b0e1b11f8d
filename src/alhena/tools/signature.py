"""A function's signature as a JSON Schema, and JSON arguments as values of the hinted types."""

import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec

from alhena.tools.contract import ExecutionContext, ToolFailure

_JSON_TYPES: dict[type[object], str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
}
_SUPPORTED = (
    "use str, int, float, bool, list, dict, Optional, Union, Literal, Enum, TypedDict, a dataclass "
    "or a msgspec.Struct"
)


class Signature:
    """What a function takes. Raises TypeError for what cannot be put to a model."""

    def __init__(self, function: Callable[..., Any], descriptions: Mapping[str, str]) -> None:
        self._name = str(getattr(function, "__name__", function))
        self._signature = inspect.signature(function)
        self._hints = self._resolved(function)
        self.context_parameter: str | None = None
        properties: dict[str, Any] = {}
        required: list[str] = []
        for parameter in self._signature.parameters.values():
            hint = self._hint(parameter)
            if hint is ExecutionContext:
                self.context_parameter = parameter.name
                continue
            node = self._schema(parameter.name, hint)
            description = _annotated_text(hint) or descriptions.get(parameter.name)
            if description:
                node = {**node, "description": description}
            if parameter.default is parameter.empty:
                required.append(parameter.name)
            else:
                node |= _default(parameter.default)
            properties[parameter.name] = node
        self.schema: dict[str, Any] = {"type": "object", "properties": properties}
        if required:
            self.schema["required"] = required

    def arguments(self, params: Mapping[str, Any]) -> dict[str, Any] | ToolFailure:
        """`params` as values of the hinted types, by parameter name."""
        known: Mapping[str, Any] = self.schema["properties"]
        unknown = [name for name in params if name not in known]
        if unknown:
            return ToolFailure.of_params(
                f"params must NOT have additional properties: {', '.join(map(repr, unknown[:10]))}"
            )
        values: dict[str, Any] = {}
        for name, value in params.items():
            try:
                values[name] = msgspec.convert(value, self._hints[name])
            except (msgspec.ValidationError, ValueError, RecursionError) as error:
                return ToolFailure.of_params(f"params/{name}: {' '.join(str(error).split())}")
        return values

    def bind(
        self, values: Mapping[str, Any], context: ExecutionContext
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments for the function; the context where it is asked for."""
        bound = self._signature.bind_partial()
        for name in self._signature.parameters:
            if name in values:
                bound.arguments[name] = values[name]
            elif name == self.context_parameter:
                bound.arguments[name] = context
        bound.apply_defaults()
        return bound.args, bound.kwargs

    def _resolved(self, function: Callable[..., Any]) -> dict[str, Any]:
        target = function if inspect.isroutine(function) else type(function).__call__
        try:
            return typing.get_type_hints(target, include_extras=True)
        except NameError as error:
            raise TypeError(
                f"{self._name}(): a type hint cannot be resolved: {error}; use names that are "
                "defined at the top of the module"
            ) from error

    def _hint(self, parameter: inspect.Parameter) -> Any:
        where = f"{self._name}(): parameter '{parameter.name}'"
        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
            raise TypeError(f"{where} has no fixed name; a tool takes named parameters only")
        hint = self._hints.get(parameter.name)
        if hint is None:
            raise TypeError(f"{where} has no type hint; {_SUPPORTED}")
        return hint

    def _schema(self, name: str, hint: Any) -> dict[str, Any]:
        where = f"{self._name}(): parameter '{name}' has the hint {_shown(hint)}"
        try:
            root = msgspec.json.schema(hint)
        except TypeError as error:
            reason = str(error).splitlines()[-1]
            raise TypeError(
                f"{where}, which cannot be put to a model ({reason}); {_SUPPORTED}"
            ) from error
        definitions = cast("dict[str, Any]", root.pop("$defs", {}))
        node = _inlined(root, definitions, (), where)
        if not node:
            raise TypeError(f"{where}, which says nothing about the value; {_SUPPORTED}")
        return node


def _inlined(
    node: Any, definitions: Mapping[str, Any], path: tuple[str, ...], where: str
) -> dict[str, Any]:
    """A schema node with references replaced by what they name, and a type on every enum."""
    reference = node.get("$ref")
    if isinstance(reference, str):
        name = reference.rpartition("/")[2]
        if name in path:
            raise TypeError(f"{where}, which contains itself ({name}); {_SUPPORTED}")
        return _inlined(definitions[name], definitions, (*path, name), where)
    made: dict[str, Any] = {}
    for key, value in node.items():
        if key == "title" or (key == "description" and _is_generated(node, value)):
            continue
        if key == "properties":
            made[key] = {
                name: _inlined(child, definitions, path, where) for name, child in value.items()
            }
        elif key in {"items", "additionalProperties"} and isinstance(value, dict):
            made[key] = _inlined(value, definitions, path, where)
        elif key in {"anyOf", "prefixItems"}:
            made[key] = [_inlined(child, definitions, path, where) for child in value]
        elif not (key == "required" and not value):
            made[key] = value
    return _typed_enum(made, where) if "enum" in made and "type" not in made else made


def _typed_enum(node: dict[str, Any], where: str) -> dict[str, Any]:
    choices = cast("list[object]", node["enum"])
    values = [choice for choice in choices if choice is not None]
    names = {_JSON_TYPES.get(type(value)) for value in values}
    name = names.pop() if len(names) == 1 else None
    if name is None:
        raise TypeError(f"{where}, whose choices are not all of one type; {_SUPPORTED}")
    typed = {**node, "type": name, "enum": values}
    return typed if len(values) == len(choices) else {"anyOf": [typed, {"type": "null"}]}


def _is_generated(node: Mapping[str, Any], description: str) -> bool:
    """Whether Python wrote this docstring itself, as it does for dataclasses: "Name(a: int)"."""
    return description.startswith(f"{node.get('title')}(")


def _annotated_text(hint: Any) -> str | None:
    metadata: tuple[object, ...] = getattr(hint, "__metadata__", ())
    return next((item for item in metadata if isinstance(item, str)), None)


def _default(value: object) -> dict[str, Any]:
    """The default as a schema says it; nothing for one that has no JSON form, or is None."""
    if value is None:
        return {}
    try:
        return {"default": msgspec.to_builtins(value)}
    except (TypeError, ValueError, RecursionError):
        return {}


def _shown(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")
