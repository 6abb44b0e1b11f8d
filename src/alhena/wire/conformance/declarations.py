"""What declarations and settings must keep (C8, T1-T15)."""

from collections.abc import Collection, Sequence
from typing import Any, cast

from alhena.wire.conformance.rules import Findings
from alhena.wire.content import DATA_FIELDS, Content
from alhena.wire.request import FunctionCallingMode, FunctionDeclaration, Tool
from alhena.wire.violation import Level

_MARKS = str.maketrans("_.:-", "aaaa")
_MODES = frozenset(FunctionCallingMode)
_SERVER_TOOLS = {
    "google_search": "googleSearch",
    "url_context": "urlContext",
    "code_execution": "codeExecution",
}
_DEEPEST = 64  # levels of objects and arrays in JSON; a level of a schema takes two


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
    if declaring:
        _check_server_tools(tools, findings)


def check_response_schema(schema: dict[str, Any], findings: Findings) -> None:
    """The schema of an answer, in the API's own form."""
    from alhena.wire.conformance.schemas import check_schema

    check_schema(schema, "generationConfig.responseSchema", findings)


def check_calling(
    mode: str | None, allowed: Sequence[str] | None, declared: Collection[str], findings: Findings
) -> None:
    """The function calling mode and the names it allows. Not called where nothing is said of it."""
    path = "toolConfig.functionCallingConfig"
    if not declared:
        findings.add("T13", path, "a calling mode is set, but no function is declared.")
    if mode is not None and mode not in _MODES:
        message = f'"{mode}" is none of {", ".join(FunctionCallingMode)}.'
        findings.add("T13", f"{path}.mode", message)
    if not allowed:
        return
    path = f"{path}.allowedFunctionNames"
    if mode != FunctionCallingMode.ANY:
        findings.add("T13", path, "allowed names are given, but the mode is not ANY.")
    known = frozenset(declared)
    for index, name in enumerate(allowed):
        if name not in known:
            findings.add("T13", f"{path}[{index}]", f'"{name}" is not declared.')


def check_answer_form(mime_type: str | None, declared: Collection[str], findings: Findings) -> None:
    """T15: an answer of JSON, and functions."""
    if mime_type == "application/json" and declared:
        path = "generationConfig.responseMimeType"
        message = "models before the 3 series refuse functions where the answer has to be JSON."
        findings.add("T15", path, message)


def _check_server_tools(tools: Sequence[Tool], findings: Findings) -> None:
    for index, tool in enumerate(tools):
        for name, key in _SERVER_TOOLS.items():
            if getattr(tool, name) is not None:
                message = "models before the 3 series refuse a tool of the server beside functions."
                findings.add("T12", f"tools[{index}].{key}", message)


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
    if declaration.parameters is not None:
        from alhena.wire.conformance.schemas import check_schema

        check_schema(declaration.parameters, f"{path}.parameters", findings)
    if declaration.parameters_json_schema is not None:
        _check_json_schema(
            declaration.parameters_json_schema, f"{path}.parametersJsonSchema", findings
        )


def _check_json_schema(schema: dict[str, Any], path: str, findings: Findings) -> None:
    """T10: how deep plain JSON Schema is, and whether it refers to itself."""
    level: list[Any] = [schema]
    depth = 0
    refers = False
    while level and depth <= _DEEPEST:
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                refers = refers or "$ref" in value
                below += cast("dict[str, Any]", value).values()
            elif isinstance(value, list):
                below += cast("list[Any]", value)
        level = below
        depth += 1
    if level:
        findings.add("T10", path, "the schema is nested too deeply.")
    elif refers:
        from alhena.wire.schema.references import refers_to_itself

        if refers_to_itself(schema):
            findings.add("T10", path, "the schema refers to itself; some services refuse that.")


def _is_object_schema(schema: dict[str, Any]) -> bool:
    kind = schema.get("type")
    return isinstance(kind, str) and kind.lower() == "object"


def _is_name(name: str) -> bool:
    if not (name.isascii() and 0 < len(name) <= 64 and (name[0].isalpha() or name[0] == "_")):
        return False
    return name.translate(_MARKS).isalnum()
