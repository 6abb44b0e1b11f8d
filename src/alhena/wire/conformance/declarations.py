"""What declarations and settings must keep (C8, T1-T3, T13)."""

from collections.abc import Sequence
from typing import Any

from alhena.wire.conformance.rules import Findings
from alhena.wire.content import DATA_FIELDS, Content
from alhena.wire.request import FunctionCallingMode, FunctionDeclaration, Tool
from alhena.wire.violation import Level

_MARKS = frozenset("_.:-")
_MODES = frozenset(FunctionCallingMode)


def check_system(system: Content, findings: Findings) -> None:
    """A system instruction holds text, and some."""
    if not system.parts:
        findings.add("C8", "systemInstruction", "the system instruction has no parts.")
    for index, part in enumerate(system.parts):
        path = f"systemInstruction.parts[{index}]"
        if any(getattr(part, name) is not None for name in DATA_FIELDS if name != "text"):
            findings.add("C8", path, "a system instruction holds text only.")
        elif not part.text:
            findings.add("C8", path, "this part of the system instruction holds no text.")


def check_tools(tools: Sequence[Tool], findings: Findings) -> None:
    """Names, their uniqueness, and the form of the schemas."""
    seen: set[str] = set()
    declaring = 0
    for index, tool in enumerate(tools):
        if tool.function_declarations is None:
            continue
        declaring += 1
        path = f"tools[{index}].functionDeclarations"
        if declaring == 2:
            message = "declarations stand in more than one element of tools."
            findings.add("T2", path, message)
        for position, declaration in enumerate(tool.function_declarations):
            name = declaration.name
            if name in seen:
                findings.add("T2", f"{path}[{position}].name", f'"{name}" is declared twice.')
            seen.add(name)
            _check_declaration(declaration, f"{path}[{position}]", findings)


def check_calling(
    mode: str | None, allowed: Sequence[str] | None, declared: Sequence[str], findings: Findings
) -> None:
    """The function calling mode and the names it allows."""
    path = "toolConfig.functionCallingConfig"
    if mode is not None and mode not in _MODES:
        message = f'"{mode}" is none of {", ".join(FunctionCallingMode)}.'
        findings.add("T13", f"{path}.mode", message)
    if not allowed:
        return
    path = f"{path}.allowedFunctionNames"
    if mode != FunctionCallingMode.ANY:
        findings.add("T13", path, "allowed names are given, but the mode is not ANY.")
    for index, name in enumerate(allowed):
        if name not in declared:
            findings.add("T13", f"{path}[{index}]", f'"{name}" is not declared.')


def _check_declaration(declaration: FunctionDeclaration, path: str, findings: Findings) -> None:
    name = declaration.name
    if not _is_name(name):
        message = f'"{name}" is no name for a function.' if name else "the function has no name."
        findings.add("T1", f"{path}.name", message)
    elif len(name) > 63 or ":" in name:
        message = f'"{name}" is longer than 63 or holds a colon; some services refuse it.'
        findings.add("T1", f"{path}.name", message, Level.WARNING)
    schemas = (
        ("parameters", declaration.parameters),
        ("parametersJsonSchema", declaration.parameters_json_schema),
    )
    given = [(key, schema) for key, schema in schemas if schema is not None]
    if len(given) > 1:
        findings.add("T3", path, "parameters and parametersJsonSchema are both given.")
    for key, schema in given:
        if not _is_object_schema(schema):
            findings.add("T3", f"{path}.{key}", "the type of the schema is not object.")


def _is_object_schema(schema: dict[str, Any]) -> bool:
    kind = schema.get("type")
    return isinstance(kind, str) and kind.lower() == "object"


def _is_name(name: str) -> bool:
    return (
        name.isascii()
        and 0 < len(name) <= 64
        and (name[0].isalpha() or name[0] == "_")
        and all(character.isalnum() or character in _MARKS for character in name)
    )
