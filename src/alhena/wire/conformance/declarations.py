"""The rules for declarations, their schemas and settings (C8, T1-T17)."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, cast

from alhena.wire.conformance.rules import Findings
from alhena.wire.content import DATA_FIELDS, Content
from alhena.wire.errors import Level
from alhena.wire.json_values import as_array, as_object
from alhena.wire.request import FunctionCallingMode, FunctionDeclaration, Tool

_MARKS = str.maketrans("_.:-", "aaaa")
_MODES = frozenset(FunctionCallingMode)
_SERVER_TOOLS = {
    "google_search": "googleSearch",
    "url_context": "urlContext",
    "code_execution": "codeExecution",
}
_DEEPEST = 64  # levels of JSON objects and arrays; each schema level takes two


def check_system(system: Content, findings: Findings) -> None:
    """Checks that a system instruction consists of text and is not empty."""
    if not system.parts:
        findings.add("C8", "systemInstruction", "the system instruction has no parts.")
    for index, part in enumerate(system.parts):
        path = f"systemInstruction.parts[{index}]"
        if any(getattr(part, name) is not None for name in DATA_FIELDS if name != "text"):
            findings.add("C8", path, "a system instruction contains only text.")
        elif not part.text:
            findings.add("C8", path, "this part of the system instruction contains no text.")


def check_tools(tools: Sequence[Tool], findings: Findings) -> None:
    """Checks names, their uniqueness, and the form of the schemas."""
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
    """Checks the schema of an answer, in the API's own form."""

    check_schema(schema, "generationConfig.responseSchema", findings)


def check_calling(
    mode: str | None, allowed: Sequence[str] | None, declared: Collection[str], findings: Findings
) -> None:
    """Checks the function calling mode and the names it allows. Not called without these
    settings."""
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
    """Checks T15: a JSON answer together with functions."""
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
        message = f'"{name}" is longer than 63 or contains a colon; some services refuse it.'
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
        check_schema(declaration.parameters, f"{path}.parameters", findings)
    if declaration.parameters_json_schema is not None:
        _check_json_schema(
            declaration.parameters_json_schema, f"{path}.parametersJsonSchema", findings
        )


def _check_json_schema(schema: dict[str, Any], path: str, findings: Findings) -> None:
    """Checks T10: the depth of plain JSON Schema, and recursion."""
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
        from alhena.wire.schema.keywords import refers_to_itself

        if refers_to_itself(schema):
            findings.add("T10", path, "the schema refers to itself; some services refuse that.")


def _is_object_schema(schema: dict[str, Any]) -> bool:
    kind = schema.get("type")
    return isinstance(kind, str) and kind.lower() == "object"


def _is_name(name: str) -> bool:
    if not (name.isascii() and 0 < len(name) <= 64 and (name[0].isalpha() or name[0] == "_")):
        return False
    return name.translate(_MARKS).isalnum()


MAX_NESTING = 32
"""Maximum levels of OBJECT and ARRAY accepted by services."""

KEYWORDS = frozenset(
    {
        *("type", "format", "title", "description", "nullable", "default", "example"),
        *("items", "minItems", "maxItems", "enum", "properties", "propertyOrdering", "required"),
        *("minProperties", "maxProperties", "minimum", "maximum", "minLength", "maxLength"),
        *("pattern", "anyOf", "additionalProperties", "ref", "defs"),
    }
)
"""The fields of the API's Schema; only newer services know the last three."""

TYPES = frozenset({"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"})
STRING_FORMATS = frozenset({"enum", "date-time"})
_BESIDE_REF = frozenset({"ref", "defs", "description", "default"})
_MAX_DEPTH = 4 * MAX_NESTING
_Waiting = list[tuple[object, str, int]]


def check_schema(schema: object, path: str, findings: Findings) -> None:
    """Reports every node of `schema`, located at `path`, that the API would reject."""
    waiting: _Waiting = [(schema, path, 0)]
    deepest = 0
    while waiting:
        value, place, depth = waiting.pop()
        node = as_object(value)
        if node is None:
            findings.add("T4", place, "a schema is an object.")
            continue
        deepest = max(deepest, depth)
        _check_node(node, place, findings, root=value is schema)
        if depth < _MAX_DEPTH:
            waiting.extend(reversed(list(_below(node, place, depth))))
    if deepest >= MAX_NESTING:
        findings.add("T10", path, f"the schema is nested deeper than {MAX_NESTING} levels.")


def _below(node: dict[str, Any], path: str, depth: int) -> Iterator[tuple[object, str, int]]:
    properties = as_object(node.get("properties")) or {}
    for name, value in properties.items():
        yield value, f"{path}.properties.{name}", depth + 1
    if "items" in node:
        yield node["items"], f"{path}.items", depth + 1
    for index, value in enumerate(as_array(node.get("anyOf")) or ()):
        yield value, f"{path}.anyOf[{index}]", depth
    if as_object(node.get("additionalProperties")) is not None:
        yield node["additionalProperties"], f"{path}.additionalProperties", depth + 1
    for name, value in (as_object(node.get("defs")) or {}).items():
        yield value, f"{path}.defs.{name}", depth + 1


def _check_node(node: dict[str, Any], path: str, findings: Findings, *, root: bool) -> None:
    for key in node:
        if key not in KEYWORDS:
            findings.add("T4", f"{path}.{key}", f'the Schema of the API has no "{key}".')
        elif key == "additionalProperties":
            message = "some services refuse additionalProperties."
            findings.add("T4", f"{path}.{key}", message, Level.WARNING)
        elif key == "defs" and not root:
            findings.add("T4", f"{path}.{key}", "defs appears at the root only.")
    if "ref" in node:
        for key in node.keys() - _BESIDE_REF:
            findings.add("T9", f"{path}.{key}", f'"{key}" is next to a ref.')
        return
    kind = _check_type(node, path, findings)
    _check_enum(node, kind, path, findings)
    _check_members(node, kind, path, findings)
    form = node.get("format")
    if kind == "STRING" and form is not None and form not in STRING_FORMATS:
        findings.add("T8", f"{path}.format", f'a STRING cannot have the format "{form}".')


def _check_type(node: dict[str, Any], path: str, findings: Findings) -> str | None:
    """The type of a node in upper case; None without a valid one."""
    given = node.get("type")
    if given is None:
        if "anyOf" not in node:
            findings.add("T5", path, "the schema does not say its type.")
        return None
    if not isinstance(given, str):
        findings.add("T5", f"{path}.type", "type is one name, not a list; use nullable.")
        return None
    if given.upper() not in TYPES:
        findings.add("T5", f"{path}.type", f'"{given}" is no type.')
        return None
    return given.upper()


def _check_enum(node: dict[str, Any], kind: str | None, path: str, findings: Findings) -> None:
    if "enum" not in node:
        return
    values = as_array(node["enum"])
    if values is None or not all(isinstance(value, str) for value in values):
        findings.add("T6", f"{path}.enum", "the values of enum are texts.")
    elif "" in values:
        findings.add("T6", f"{path}.enum", "enum contains an empty text.")
    if kind not in ("STRING", None):
        findings.add("T6", f"{path}.enum", f"enum appears on a node of type {kind}.")


def _check_members(node: dict[str, Any], kind: str | None, path: str, findings: Findings) -> None:
    properties = as_object(node.get("properties"))
    if "properties" in node and properties is None:
        findings.add("T7", f"{path}.properties", "properties is an object.")
    for key in ("properties", "required"):
        if node.get(key) and kind not in ("OBJECT", None):
            findings.add("T7", f"{path}.{key}", f"{key} appears on a node of type {kind}.")
    if kind == "OBJECT" and properties == {}:
        message = "some services refuse an OBJECT without any properties."
        findings.add("T7", f"{path}.properties", message, Level.WARNING)
    required = as_array(node.get("required"))
    if "required" in node and required is None:
        findings.add("T7", f"{path}.required", "required is a list of names.")
    for name in required or ():
        if not isinstance(name, str) or name not in (properties or {}):
            findings.add("T7", f"{path}.required", f'"{name}" is required but no property.')
    if kind == "ARRAY" and "items" not in node:
        findings.add("T7", path, "an ARRAY does not say what its items are.")
