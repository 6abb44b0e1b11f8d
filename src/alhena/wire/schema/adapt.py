"""Declarations in the form of a service, including the older form."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Any, assert_never

import msgspec

from alhena.wire.content import encode_value, mend
from alhena.wire.errors import EncodeError
from alhena.wire.json_values import as_array, as_object
from alhena.wire.request import FunctionDeclaration, GenerateContentConfig, ToolDeclarations
from alhena.wire.schema.keywords import (
    MISSING,
    append_notes,
    has_json_form,
    is_meant,
    note,
    present,
    target,
)
from alhena.wire.schema.openapi import SchemaError, to_parameters

MAX_DEPTH = 24
"""Maximum nesting of schemas. Deeper levels keep only types."""
MAX_NODES = 4000
MAX_BYTES = 200_000

ONE = frozenset(
    {
        *("items", "additionalProperties", "additionalItems", "not", "contains", "propertyNames"),
        *("if", "then", "else", "unevaluatedItems", "unevaluatedProperties"),
    }
)
SEVERAL = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
NAMED = frozenset({"properties", "patternProperties", "dependentSchemas"})
_GONE = frozenset(
    {
        *("$schema", "$id", "$anchor", "$comment", "$vocabulary", "$defs", "definitions"),
        *("$ref", "$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor"),
    }
)
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_ANNOTATIONS = frozenset({"title", "description", "default", "example", "examples", "deprecated"})
_TURNED = frozenset({"not", "if"})
"""Keywords under which accepting more means that the whole accepts less."""


def local_schema(schema: object) -> dict[str, Any]:
    """The schema of an object, without references, of bounded depth, as plain JSON.

    Raises SchemaError when it does not describe an object, or would be too large.
    """
    made = _Localizer(schema).root()
    try:
        size = len(encode_value(made))
    except UnicodeEncodeError:
        made = mend(made)
        size = len(encode_value(made))
    except EncodeError as error:
        raise SchemaError(f"the schema has no JSON form: {error}") from error
    if size > MAX_BYTES:
        raise SchemaError(f"the schema takes {size} bytes; {MAX_BYTES} are the limit.")
    return made


class _Localizer:
    def __init__(self, schema: object) -> None:
        self._root = schema
        self._left = MAX_NODES
        self._cuts = 0

    def root(self) -> dict[str, Any]:
        """The whole schema, of type "object"."""
        if as_object(self._root) is None:
            raise SchemaError("the schema is not a JSON object.")
        made = self._node(self._root, 0, ("#",))
        kinds = made.get("type", "object")
        kinds = as_array(kinds) or [kinds]
        if "object" not in kinds:
            raise SchemaError(f"the parameters are not an object but {kinds!r:.80}.")
        return {"type": "object", **made} if "type" not in made else made | {"type": "object"}

    def _node(self, value: object, depth: int, within: tuple[str, ...]) -> dict[str, Any]:
        """Converts one schema. `within` are the references followed so far."""
        self._left -= 1
        if self._left < 0:
            raise SchemaError(f"the schema has more than {MAX_NODES} nodes.")
        if value is True:
            return {}
        if value is False:
            return {"not": {}}
        node = as_object(value)
        if node is None:
            return self._cut({}, "what may stand here is not described")
        for keyword in _REFERENCES:
            if keyword in node:
                return self._resolve_reference(node, keyword, depth, within)
        if depth >= MAX_DEPTH:
            return self._cut(node, "deeper levels are not described")
        return self._keywords(node, depth, within)

    def _keywords(
        self, node: dict[str, Any], depth: int, within: tuple[str, ...]
    ) -> dict[str, Any]:
        made: dict[str, Any] = {}
        lost: list[str] = []
        meant = present(node, lost)
        if meant is not node and any(
            key not in _ANNOTATIONS and not is_meant(key, item) for key, item in node.items()
        ):
            self._cuts += 1
        for key, item in meant.items():
            if key in _GONE:
                continue
            before = self._cuts
            below = self._below(key, item, depth + 1, within)
            if self._cuts > before and (key in _TURNED or (key == "oneOf" and "anyOf" in node)):
                lost.append(f"{key}: not described")
            elif self._cuts > before and key == "oneOf":
                made["anyOf"] = below
            elif below is not MISSING:
                made[key] = below
            elif key not in SEVERAL:
                lost.append(note(key, item))
        return append_notes(made, lost)

    def _resolve_reference(
        self, node: dict[str, Any], keyword: str, depth: int, within: tuple[str, ...]
    ) -> dict[str, Any]:
        """Resolves a reference, combined with its sibling keywords."""
        name = node[keyword]
        beside = {key: item for key, item in node.items() if key not in _REFERENCES}
        if not isinstance(name, str):
            return self._cut(beside, "a reference that is no text is not followed")
        meant = target(self._root, name)
        if meant is MISSING:
            return self._cut(beside, f"{name} is not described here")
        fields = as_object(meant)
        if name in within:
            reason = f"{name} again, in itself; not described again"
            return self._cut((fields or {}) | beside, reason)
        within = (*within, name)
        if fields is None or not beside:
            return self._node(meant, depth, within)
        if fields.keys() & beside.keys() <= _ANNOTATIONS and "$ref" not in fields:
            return self._node({**fields, **beside}, depth, within)
        told = {key: item for key, item in beside.items() if key in _ANNOTATIONS}
        rest = {key: item for key, item in beside.items() if key not in _ANNOTATIONS}
        return self._node({"allOf": [meant, *([rest] if rest else ())], **told}, depth, within)

    def _below(self, key: str, value: object, depth: int, within: tuple[str, ...]) -> Any:
        items = as_array(value)
        if key in SEVERAL:
            return [self._node(item, depth, within) for item in items or ()] or MISSING
        if key in ONE:
            if isinstance(value, bool):
                return value
            return self._node(value, depth, within)
        if key in NAMED:
            fields = as_object(value) or {}
            return {str(name): self._node(item, depth, within) for name, item in fields.items()}
        return value if has_json_form(value) else MISSING

    def _cut(self, node: dict[str, Any], reason: str) -> dict[str, Any]:
        """The top level of a schema: its type and description."""
        self._cuts += 1
        kept = {
            key: node[key] for key in ("title", "description") if isinstance(node.get(key), str)
        }
        if is_meant("type", node.get("type")):
            kept["type"] = node["type"]
        return append_notes(kept, [reason])


class SchemaForm(StrEnum):
    """The form of parameters: plain JSON Schema for current services, or the API's own Schema for
    those without `parametersJsonSchema`."""

    JSON_SCHEMA = "parametersJsonSchema"
    OPENAPI = "parameters"


class UndeclarableTool(msgspec.Struct, frozen=True):
    """A tool that cannot be declared, with the reason."""

    name: str
    reason: str


class Adapted(msgspec.Struct, frozen=True):
    """The declarations, and the tools that cannot be declared."""

    declarations: tuple[FunctionDeclaration, ...]
    left_out: tuple[UndeclarableTool, ...]


def adapt_declaration(
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
    left_out: list[UndeclarableTool] = []
    for declaration in declarations:
        try:
            kept.append(adapt_declaration(declaration, form))
        except SchemaError as error:
            left_out.append(UndeclarableTool(declaration.name, error.message))
    return Adapted(tuple(kept), tuple(left_out))


def with_form(
    config: GenerateContentConfig, form: SchemaForm
) -> tuple[GenerateContentConfig, tuple[UndeclarableTool, ...]]:
    """The config with its declarations in this form, and the tools lost by that."""
    left_out: list[UndeclarableTool] = []
    tools: list[ToolDeclarations] = []
    for tool in config.tools or ():
        if tool.function_declarations is not None:
            done = adapt(tool.function_declarations, form)
            left_out.extend(done.left_out)
            tool = msgspec.structs.replace(tool, function_declarations=done.declarations or None)
        if tool != ToolDeclarations():
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
        if kind.lower() != "string" and any(isinstance(one, str) for one in made.get("enum") or ()):
            del made["enum"]  # texts, as the API's own form writes numbers
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
