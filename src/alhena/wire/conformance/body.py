"""Reads a request body in plain JSON into typed values, by the wire types.

The reader returns plain values that fit the wire types: camelCase keys, no nulls, correct types.
Only `alhena wire check` and converters need it; sending does not.
"""

import math
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, assert_never, cast

import msgspec

from alhena.wire.conformance import ConformanceFindings
from alhena.wire.content import (
    Content,
    FunctionCall,
    FunctionResponse,
    ServerToolCall,
    ServerToolResponse,
)
from alhena.wire.json_values import as_array, as_object
from alhena.wire.request import (
    FunctionCallingConfig,
    FunctionDeclaration,
    GenerateContentConfig,
    GenerationConfig,
    ToolDeclarations,
)

if TYPE_CHECKING:
    from msgspec import inspect


class ValueKind(StrEnum):
    """A value without a table of its own."""

    STRING = "a string"
    NUMBER = "a number"
    BOOLEAN = "true or false"
    OBJECT = "an object"
    ARRAY = "an array"
    ANY = "any value"


class Many(msgspec.Struct, frozen=True):
    """An array of objects of one shape."""

    of: "Shape"


class FieldRule(msgspec.Struct, frozen=True):
    """A field: the type of its value, the rule that a wrong type breaks, and a default for a wrong
    or missing value so that other rules can check the rest (None: the field is left out)."""

    holds: "ValueKind | Shape | Many"
    rule: str = "C4"
    instead: Any = None
    required: bool = False


class Shape(msgspec.Struct, frozen=True):
    """The fields of an object by their wire names."""

    fields: dict[str, FieldRule]


def camel(name: str) -> str:
    """The camelCase form of a snake_case name; other names are unchanged."""
    head, *rest = name.split("_")
    return head + "".join(word[:1].upper() + word[1:] for word in rest)


_RULES: dict[tuple[type, str], str] = {
    (Content, "role"): "C1",
    (Content, "parts"): "C2",
    (FunctionCall, "args"): "F8",
    (FunctionResponse, "response"): "F8",
    (ServerToolCall, "args"): "F8",
    (ServerToolResponse, "response"): "F8",
    (FunctionDeclaration, "name"): "T1",
    (FunctionDeclaration, "parameters"): "T3",
    (FunctionDeclaration, "parametersJsonSchema"): "T3",
    (FunctionCallingConfig, "mode"): "T13",
    (FunctionCallingConfig, "allowedFunctionNames"): "T13",
    (GenerateContentConfig, "systemInstruction"): "C8",
}
"""The rule that a wrong type of a field breaks, if it is not C4."""
_UNTYPED: dict[type, tuple[str, ...]] = {
    GenerationConfig: ("responseFormat", "translationConfig", "audioTranscriptionConfig"),
    ToolDeclarations: ("mcpServers",),
}
"""Documented fields that our types do not have."""


@cache
def _shape(kind: type[msgspec.Struct]) -> Shape:
    """The shape of a wire type."""
    from msgspec import inspect

    def holds(value: Any) -> "ValueKind | Shape | Many":
        match value:
            case inspect.UnionType():
                return holds(value.types[0])
            case inspect.StructType():
                return _shape(value.cls)
            case inspect.VarTupleType(item_type=inspect.StructType(cls=cls)):
                return Many(_shape(cls))
            case inspect.StrType() | inspect.EnumType():
                return ValueKind.STRING
            case inspect.IntType() | inspect.FloatType():
                return ValueKind.NUMBER
            case inspect.BoolType():
                return ValueKind.BOOLEAN
            case inspect.DictType():
                return ValueKind.OBJECT
            case _:
                return ValueKind.ARRAY

    fields = {name: FieldRule(ValueKind.ANY) for name in _UNTYPED.get(kind, ())}
    for field in cast("inspect.StructType", inspect.type_info(kind)).fields:
        name = field.encode_name
        instead = "user" if name == "role" else "" if field.required else None
        rule = _RULES.get((kind, name), "C4")
        fields[name] = FieldRule(holds(field.type), rule, instead, required=field.required)
    return Shape(fields)


@cache
def _body_shape() -> Shape:
    content = _shape(Content).fields
    content = {name: field for name, field in content.items() if name != "signedBy"}
    contents = FieldRule(Many(Shape(content)), rule="C1")
    own = {"model": FieldRule(ValueKind.STRING), "contents": contents}
    config = _shape(GenerateContentConfig).fields
    config = {name: field for name, field in config.items() if name != "extra"}  # never sent
    return Shape(config | own)


class ShapeReader:
    """Reads plain values by a shape; deviations are added to the findings."""

    def __init__(self, findings: ConformanceFindings) -> None:
        self._findings = findings

    def read_object(self, value: object, shape: Shape, path: str, rule: str = "C4") -> Any:
        """The fields of `value` that fit `shape`; None when it is not an object."""
        given = as_object(value)
        if given is None:
            self._wrong(rule, path, "an object", value)
            return None
        read: dict[str, Any] = {}
        for key, item in given.items():
            name = key if key in shape.fields else camel(key)
            field = shape.fields.get(name)
            place = f"{path}.{key}" if path else key
            if field is None:
                self._findings.add("C4", place, f'the API knows no field "{key}" here.')
            elif item is not None and (fitting := self._field(item, field, place)) is not None:
                read[name] = fitting
        for name, field in shape.fields.items():
            if field.required and name not in read:
                self._findings.add(field.rule, path, f'the field "{name}" is missing.')
                read[name] = field.instead
        return read

    def _field(self, value: object, field: FieldRule, path: str) -> Any:
        read = self._value(value, field, path)
        return field.instead if read is None else read

    def _value(self, value: object, field: FieldRule, path: str) -> Any:
        holds = field.holds
        if isinstance(holds, Shape):
            return self.read_object(value, holds, path, field.rule)
        if isinstance(holds, ValueKind):
            if not _is_of_kind(value, holds):
                self._wrong(field.rule, path, holds, value)
                return None
            self._check_free(value, path)
            return value
        items = as_array(value)
        if items is None:
            self._wrong(field.rule, path, "an array", value)
            return None
        read = (
            self.read_object(item, holds.of, f"{path}[{index}]", field.rule)
            for index, item in enumerate(items)
        )
        # Replace invalid items by empty objects, so that indexes in paths stay right.
        empty = {name: part.instead for name, part in holds.of.fields.items() if part.required}
        return [empty if item is None else item for item in read]

    def _wrong(self, rule: str, path: str, wanted: str, value: object) -> None:
        self._findings.add(rule, path or "$", f"{wanted} is expected here, not {_kind_of(value)}.")

    def _check_free(self, value: object, path: str) -> None:
        """Checks F8 for all nested values."""
        waiting: list[Any] = [value]
        while waiting:
            item: object = waiting.pop()
            if isinstance(item, float) and not math.isfinite(item):
                self._findings.add("F8", path, f"the number {item} has no form in JSON.")
                return
            if isinstance(item, str) and not _is_unicode(item):
                self._findings.add("F8", path, "a string contains half of a surrogate pair.")
                return
            if (fields := as_object(item)) is not None:
                waiting.extend(fields)
                waiting.extend(fields.values())
            else:
                waiting.extend(as_array(item) or ())


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _is_of_kind(value: object, kind: ValueKind) -> bool:
    match kind:
        case ValueKind.STRING:
            return isinstance(value, str)
        case ValueKind.NUMBER:
            return isinstance(value, (int, float)) and not isinstance(value, bool)
        case ValueKind.BOOLEAN:
            return isinstance(value, bool)
        case ValueKind.OBJECT:
            return isinstance(value, dict)
        case ValueKind.ARRAY:
            return isinstance(value, (list, tuple))
        case ValueKind.ANY:
            return True
        case _:
            assert_never(kind)


def _kind_of(value: object) -> str:
    if value is None:
        return "null"
    kinds = (
        ValueKind.BOOLEAN,
        ValueKind.NUMBER,
        ValueKind.STRING,
        ValueKind.OBJECT,
        ValueKind.ARRAY,
    )
    return next((kind for kind in kinds if _is_of_kind(value, kind)), type(value).__name__)


_ENVELOPE_KEYS = frozenset(
    {"model", "project", "userPromptId", "request", "enabledCreditTypes", "requestId", "userAgent"}
)
_CLIENT_ONLY = (
    "abortSignal",
    "httpOptions",
    "automaticFunctionCalling",
    "modelArmorConfig",
    "continuationToken",
    "automaticContinuation",
)
"""Settings of client libraries beside those of the API."""


class Body(msgspec.Struct, kw_only=True):
    """The readable parts of a body. `mode` and `allowed` are unchecked, as given; `calls` is True
    if they were present. `config` has only the answer format of the generation settings.
    `contents_at` and `settings_at` are prefixes of paths.
    """

    contents: tuple[Content, ...] = ()
    config: GenerateContentConfig = GenerateContentConfig()
    calls: bool = False
    mode: str | None = None
    allowed: tuple[str, ...] | None = None
    contents_at: str = ""
    settings_at: str = ""

    def place(self, path: str) -> str:
        """The path of a violation in the given value."""
        start = self.contents_at if path.startswith("contents") else self.settings_at
        return start + path


def read_body(value: object, findings: ConformanceFindings) -> Body | None:
    """The body in `value`; None when it is not an object. Reports deviations from the shape."""
    given = as_object(value)
    if given is None:
        findings.add("C4", "$", "a request is a JSON object.")
        return None
    reader = ShapeReader(findings)
    if "request" in given:
        _check_envelope(given, findings)
        shape = Shape(_body_shape().fields | {"sessionId": FieldRule(ValueKind.STRING)})
        fields = reader.read_object(given["request"], shape, "request")
        return _body(fields, fields, "request.", "request.")
    if "config" in given:
        return _read_client_form(given, reader, findings)
    fields = reader.read_object(given, _body_shape(), "")
    return _body(fields, fields, "", "")


def _check_envelope(given: dict[str, Any], findings: ConformanceFindings) -> None:
    for key in given:
        name = camel(key)
        if name in _body_shape().fields and name != "model":
            findings.add("C8", key, f'"{key}" belongs inside "request".')
        elif name not in _ENVELOPE_KEYS:
            findings.add("C4", key, f'the API knows no field "{key}" here.')


def _read_client_form(
    given: dict[str, Any], reader: ShapeReader, findings: ConformanceFindings
) -> Body:
    for key in given.keys() - {"model", "contents", "config"}:
        findings.add("C4", key, f'"{key}" is no field of a {{model, contents, config}} request.')
    outer = reader.read_object({"contents": _contents(given.get("contents"))}, _body_shape(), "")
    config: dict[str, Any] = dict(as_object(given["config"]) or {})
    if not isinstance(given["config"], (dict, type(None))):
        findings.add("C4", "config", "an object is expected here.")
    for key in ("systemInstruction", "system_instruction"):
        if config.get(key) is not None:
            config[key] = next(iter(_contents(config[key])), config[key])
    shape = Shape(  # client libraries mix settings and generation settings
        _shape(GenerationConfig).fields
        | _shape(GenerateContentConfig).fields
        | {name: FieldRule(ValueKind.ANY) for name in _CLIENT_ONLY}
    )
    settings = reader.read_object(config, shape, "config")
    return _body(outer, settings, "", "config.")


def _contents(value: Any) -> Any:
    """Normalises contents of client libraries: a string, a part, a list of parts, or contents."""
    items = as_array(value)
    if items is None:
        items = [] if value is None else [value]
    if items and all(isinstance(item, str) or _is_part(item) for item in items):
        parts = [{"text": item} if isinstance(item, str) else item for item in items]
        return [{"role": "user", "parts": parts}]
    return items


def _is_part(value: object) -> bool:
    fields = as_object(value)
    return fields is not None and "parts" not in fields and "role" not in fields


def _body(
    outer: dict[str, Any] | None,
    settings: dict[str, Any] | None,
    contents_at: str,
    settings_at: str,
) -> Body:
    outer = outer or {}
    settings = settings or {}
    given: dict[str, Any] | None = settings.get("toolConfig", {}).get("functionCallingConfig")
    calling = given or {}
    allowed = calling.get("allowedFunctionNames")
    generation = settings.get("generationConfig", {}) | settings
    return Body(
        contents=msgspec.convert(outer.get("contents", ()), tuple[Content, ...]),
        config=GenerateContentConfig(
            system_instruction=msgspec.convert(settings.get("systemInstruction"), Content | None),
            tools=msgspec.convert(settings.get("tools", ()), tuple[ToolDeclarations, ...]),
            generation_config=GenerationConfig(
                response_schema=generation.get("responseSchema"),
                response_mime_type=generation.get("responseMimeType"),
            ),
        ),
        calls=given is not None,
        mode=calling.get("mode"),
        allowed=None if allowed is None else tuple(map(str, allowed)),
        contents_at=contents_at,
        settings_at=settings_at,
    )
