"""Combines the checks, and the gate for every request before it is sent."""

from collections.abc import Collection, Iterator, Sequence
from operator import is_
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from alhena.wire.conformance import ConformanceFindings
from alhena.wire.conformance.history import HistoryWalk, read_content
from alhena.wire.content import DATA_FIELDS, Content, EncodedContent
from alhena.wire.errors import ConformanceError, Severity, Violation
from alhena.wire.json_values import as_array, as_object
from alhena.wire.request import (
    FunctionCallingMode,
    FunctionDeclaration,
    GenerateContentConfig,
    GenerateContentRequest,
    ToolDeclarations,
)

if TYPE_CHECKING:
    from alhena.wire.conformance.repair import Repair


_MARKS = str.maketrans("_.:-", "aaaa")
_MODES = frozenset(FunctionCallingMode)
_SERVER_TOOLS = {
    "google_search": "googleSearch",
    "url_context": "urlContext",
    "code_execution": "codeExecution",
}
_DEEPEST = 64  # levels of JSON objects and arrays; each schema level takes two


def check_system(system: Content, findings: ConformanceFindings) -> None:
    """Checks that a system instruction consists of text and is not empty."""
    if not system.parts:
        findings.add("C8", "systemInstruction", "the system instruction has no parts.")
    for index, part in enumerate(system.parts):
        path = f"systemInstruction.parts[{index}]"
        if any(getattr(part, name) is not None for name in DATA_FIELDS if name != "text"):
            findings.add("C8", path, "a system instruction contains only text.")
        elif not part.text:
            findings.add("C8", path, "this part of the system instruction contains no text.")


def check_tools(tools: Sequence[ToolDeclarations], findings: ConformanceFindings) -> None:
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


def check_calling(
    mode: str | None,
    allowed: Sequence[str] | None,
    declared: Collection[str],
    findings: ConformanceFindings,
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


def check_answer_form(
    mime_type: str | None, declared: Collection[str], findings: ConformanceFindings
) -> None:
    """Checks T15: a JSON answer together with functions."""
    if mime_type == "application/json" and declared:
        path = "generationConfig.responseMimeType"
        message = "models before the 3 series refuse functions where the answer has to be JSON."
        findings.add("T15", path, message)


def _check_server_tools(tools: Sequence[ToolDeclarations], findings: ConformanceFindings) -> None:
    for index, tool in enumerate(tools):
        for name, key in _SERVER_TOOLS.items():
            if getattr(tool, name) is not None:
                message = "models before the 3 series refuse a tool of the server beside functions."
                findings.add("T12", f"tools[{index}].{key}", message)


def _check_declaration(
    declaration: FunctionDeclaration, path: str, findings: ConformanceFindings
) -> None:
    name = declaration.name
    if not _is_name(name):
        message = f'"{name}" is no name for a function.' if name else "the function has no name."
        findings.add("T1", f"{path}.name", message)
    elif len(name) > 63 or ":" in name:
        message = f'"{name}" is longer than 63 or contains a colon; some services refuse it.'
        findings.add("T1", f"{path}.name", message, Severity.WARNING)
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


def _check_json_schema(schema: dict[str, Any], path: str, findings: ConformanceFindings) -> None:
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


def check_schema(schema: object, path: str, findings: ConformanceFindings) -> None:
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


def _check_node(
    node: dict[str, Any], path: str, findings: ConformanceFindings, *, root: bool
) -> None:
    for key in node:
        if key not in KEYWORDS:
            findings.add("T4", f"{path}.{key}", f'the Schema of the API has no "{key}".')
        elif key == "additionalProperties":
            message = "some services refuse additionalProperties."
            findings.add("T4", f"{path}.{key}", message, Severity.WARNING)
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


def _check_type(node: dict[str, Any], path: str, findings: ConformanceFindings) -> str | None:
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


def _check_enum(
    node: dict[str, Any], kind: str | None, path: str, findings: ConformanceFindings
) -> None:
    if "enum" not in node:
        return
    values = as_array(node["enum"])
    if values is None or not all(isinstance(value, str) for value in values):
        findings.add("T6", f"{path}.enum", "the values of enum are texts.")
    elif "" in values:
        findings.add("T6", f"{path}.enum", "enum contains an empty text.")
    if kind not in ("STRING", None):
        findings.add("T6", f"{path}.enum", f"enum appears on a node of type {kind}.")


def _check_members(
    node: dict[str, Any], kind: str | None, path: str, findings: ConformanceFindings
) -> None:
    properties = as_object(node.get("properties"))
    if "properties" in node and properties is None:
        findings.add("T7", f"{path}.properties", "properties is an object.")
    for key in ("properties", "required"):
        if node.get(key) and kind not in ("OBJECT", None):
            findings.add("T7", f"{path}.{key}", f"{key} appears on a node of type {kind}.")
    if kind == "OBJECT" and properties == {}:
        message = "some services refuse an OBJECT without any properties."
        findings.add("T7", f"{path}.properties", message, Severity.WARNING)
    required = as_array(node.get("required"))
    if "required" in node and required is None:
        findings.add("T7", f"{path}.required", "required is a list of names.")
    for name in required or ():
        if not isinstance(name, str) or name not in (properties or {}):
            findings.add("T7", f"{path}.required", f'"{name}" is required but no property.')
    if kind == "ARRAY" and "items" not in node:
        findings.add("T7", path, "an ARRAY does not say what its items are.")


_VERBATIM = frozenset({"S3"})


class RequestChecker:
    """Checks the requests of one conversation, each from the end of the previous one.

    Contents shared with the previous request are not checked again, nor is a config that is the
    same object; everything else is checked in full.

    The form of a signature (S3) is at most a warning: it came from the service, is returned
    verbatim, and the service is the authority. Without `forms` it is not checked.
    """

    def __init__(self, *, forms: bool = False) -> None:
        self._forms = forms
        self._walk = HistoryWalk()
        self._seen: tuple[EncodedContent, ...] = ()
        self._found = ConformanceFindings(_VERBATIM)
        self._config: GenerateContentConfig | None = None
        self._config_found: tuple[Violation, ...] = ()
        self._declared: frozenset[str] = frozenset()

    def check(
        self,
        request: GenerateContentRequest,
        *,
        needs_signatures: bool = False,
        takes_signatures: bool = True,
    ) -> tuple[Violation, ...]:
        """Every broken rule of a request. The model `needs_signatures` on calls (S1), or takes no
        thoughts and signatures at all (S6)."""
        found = self.learn(request.contents)
        if request.config is not self._config:
            self._read_config(request.config)
        ends = ConformanceFindings(_VERBATIM)
        self._walk.finish(
            ends, needs_signatures=needs_signatures, takes_signatures=takes_signatures
        )
        if self._declared:
            self._walk.check_names(self._declared, ends)
        return (*found, *ends.violations, *self._config_found)

    def learn(self, contents: tuple[EncodedContent, ...]) -> Sequence[Violation]:
        """The broken rules in these contents, independent of later ones; requests that begin with
        them do not check them again."""
        known = len(self._seen)
        if len(contents) < known or not all(map(is_, contents, self._seen)):
            self._walk, self._found, known = HistoryWalk(), ConformanceFindings(_VERBATIM), 0
        feed, found = self._walk.feed, self._found
        for index in range(known, len(contents)):
            content = contents[index].content
            feed(read_content(index, content, found, forms=self._forms), found)
        self._seen = contents
        return self._found.violations

    def _read_config(self, config: GenerateContentConfig) -> None:
        findings = ConformanceFindings(_VERBATIM)
        check_config(config, findings)
        self._config = config
        self._config_found = tuple(findings.violations)
        self._declared = frozenset(config.function_names())


def check_request(
    request: GenerateContentRequest,
    *,
    needs_signatures: bool = False,
    takes_signatures: bool = True,
) -> tuple[Violation, ...]:
    """Every broken rule of a single request."""
    return RequestChecker(forms=True).check(
        request, needs_signatures=needs_signatures, takes_signatures=takes_signatures
    )


def require_conformance(
    request: GenerateContentRequest,
    *,
    needs_signatures: bool = False,
    takes_signatures: bool = True,
) -> tuple[Violation, ...]:
    """The warnings of a request. Raises ConformanceError for a broken error-level rule."""
    found = check_request(
        request, needs_signatures=needs_signatures, takes_signatures=takes_signatures
    )
    refuse_errors(found)
    return found


def refuse_errors(violations: Sequence[Violation]) -> None:
    """Raises ConformanceError if one of them is an error."""
    errors = tuple(item for item in violations if item.level == Severity.ERROR)
    if errors:
        raise ConformanceError(errors)


def check_config(config: GenerateContentConfig, findings: ConformanceFindings) -> None:
    """Checks system instruction, tools, calling mode, and the answer schema."""
    if config.system_instruction is not None:
        check_system(config.system_instruction, findings)
    check_tools(config.tools or (), findings)
    calling = config.tool_config.function_calling_config if config.tool_config else None
    if calling is not None:
        allowed: Sequence[str] | None = calling.allowed_function_names
        check_calling(calling.mode, allowed, config.function_names(), findings)
    settings = config.generation_config
    if settings is not None:
        check_answer_form(settings.response_mime_type, config.function_names(), findings)
        if settings.response_schema is not None:
            check_schema(settings.response_schema, "generationConfig.responseSchema", findings)


_MENDED = frozenset({"C6", "F7", "F12", "S4", "S5"})
"""Repairable rules of level warning; others are not changed."""


class RequestGate:
    """Passes requests of one conversation that keep all rules, or that can be repaired.

    The check continues from the previous request (`RequestChecker`), so that it costs next to
    nothing; only a request that breaks a rule costs more.
    """

    def __init__(self, checker: RequestChecker | None = None) -> None:
        """`checker` may have seen the conversation before."""
        self._checker = checker or RequestChecker()

    def admit(
        self,
        request: GenerateContentRequest,
        *,
        needs_signatures: bool = False,
        takes_signatures: bool = True,
    ) -> "tuple[GenerateContentRequest, tuple[Repair, ...]]":
        """The request to send, and its repairs. The original history is unchanged. Raises
        ConformanceError for an irreparable request."""
        violations = self._checker.check(
            request, needs_signatures=needs_signatures, takes_signatures=takes_signatures
        )
        if not any(map(calls_for_repair, violations)):
            return request, ()
        from alhena.wire.conformance.repair import (
            NO_FUNCTIONS,
            PLACE,
            REPAIRED,
            Repair,
            repair_entries,
            without_idle_calling,
        )

        config = without_idle_calling(request.config)
        if config is not request.config:
            admitted, repairs = self.admit(
                replace(request, config=config),
                needs_signatures=needs_signatures,
                takes_signatures=takes_signatures,
            )
            return admitted, (Repair("T13", PLACE, NO_FUNCTIONS), *repairs)
        if not any(item.rule in REPAIRED for item in violations):
            refuse_errors(violations)
            return request, ()
        contents, repairs = repair_entries(
            request.contents, needs_signatures=needs_signatures, takes_signatures=takes_signatures
        )
        repaired = replace(request, contents=contents)
        require_conformance(
            repaired, needs_signatures=needs_signatures, takes_signatures=takes_signatures
        )
        return repaired, repairs


def calls_for_repair(violation: Violation) -> bool:
    """True when a violation prevents sending, or requires a repair."""
    return violation.level == Severity.ERROR or violation.rule in _MENDED
