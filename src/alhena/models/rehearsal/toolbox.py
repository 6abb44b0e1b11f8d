"""The tools a request declares, and calls written to fit their declarations."""

from typing import Any, cast

import msgspec

from alhena.wire.request import FunctionCallingMode, FunctionDeclaration, GenerateContentConfig

_OTHER_NAMES = {
    "absolute_path": ("file_path", "path"),
    "path": ("dir_path", "directory"),
    "directory": ("dir_path",),
    "include": ("include_pattern",),
}


class Call(msgspec.Struct, frozen=True):
    """A tool call to make."""

    name: str
    args: dict[str, Any]


class Outcome(msgspec.Struct, frozen=True):
    """How a call ended: `output` on success, else `error`; `missing` when the tool is not declared
    and the call was never made."""

    call: Call
    output: str = ""
    error: str | None = None
    missing: bool = False

    @property
    def ok(self) -> bool:
        """Whether there is an output to use."""
        return self.error is None and not self.missing


class Toolbox:
    """The functions that may be called, by name."""

    def __init__(self, config: GenerateContentConfig) -> None:
        self._declared: dict[str, dict[str, Any]] = {}
        calling = config.tool_config.function_calling_config if config.tool_config else None
        if calling and calling.mode is FunctionCallingMode.NONE:
            return
        allowed = calling.allowed_function_names if calling else None
        for tool in config.tools or ():
            for declaration in tool.function_declarations or ():
                if not allowed or declaration.name in allowed:
                    self._declared[declaration.name] = _schema(declaration)

    def __contains__(self, name: str) -> bool:
        return name in self._declared

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the declared tools, in order."""
        return tuple(self._declared)

    def parameters(self, name: str) -> tuple[str, ...]:
        """A tool's parameter names: the required ones, or all when none is required."""
        schema = self._declared.get(name, {})
        required = schema.get("required")
        if isinstance(required, list | tuple) and required:
            return tuple(str(item) for item in cast("list[object]", required))
        return tuple(_properties(schema))

    def parameter_type(self, name: str, parameter: str) -> str:
        """The JSON type a parameter is declared with, "" when the schema names none."""
        return str(self.property_schema(name, parameter).get("type", "")).lower()

    def property_schema(self, name: str, parameter: str) -> dict[str, Any]:
        """The schema a parameter is declared with, empty when there is none."""
        described = _properties(self._declared.get(name, {})).get(parameter)
        return cast("dict[str, Any]", described) if isinstance(described, dict) else {}

    def fitted(self, call: Call) -> Call:
        """The call with the parameter names of the declaration; what it does not know is left out.
        A declaration without properties takes the call as it is."""
        properties = _properties(self._declared.get(call.name, {}))
        if not properties:
            return call
        args: dict[str, Any] = {}
        for key, value in call.args.items():
            known = (key, *_OTHER_NAMES.get(key, ()))
            name = next((candidate for candidate in known if candidate in properties), None)
            if name is not None:
                args[name] = value
        return Call(call.name, args)


def _schema(declaration: FunctionDeclaration) -> dict[str, Any]:
    return declaration.parameters_json_schema or declaration.parameters or {}


def _properties(schema: dict[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    return cast("dict[str, Any]", properties) if isinstance(properties, dict) else {}
