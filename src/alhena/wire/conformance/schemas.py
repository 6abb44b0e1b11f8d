"""What a schema in the API's own form (`parameters`, `responseSchema`) must keep (T4-T10)."""

from collections.abc import Iterator
from typing import Any

from alhena.wire.conformance.rules import Findings
from alhena.wire.plain import as_array, as_object
from alhena.wire.violation import Level

MAX_NESTING = 32
"""Levels of OBJECT and ARRAY beyond which services refuse a schema."""

KEYWORDS = frozenset(
    {
        *("type", "format", "title", "description", "nullable", "default", "example"),
        *("items", "minItems", "maxItems", "enum", "properties", "propertyOrdering", "required"),
        *("minProperties", "maxProperties", "minimum", "maximum", "minLength", "maxLength"),
        *("pattern", "anyOf", "additionalProperties", "ref", "defs"),
    }
)
"""The fields of the API's Schema; the last three are known to newer services only."""

TYPES = frozenset({"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"})
STRING_FORMATS = frozenset({"enum", "date-time"})
_BESIDE_REF = frozenset({"ref", "defs", "description", "default"})
_MAX_DEPTH = 4 * MAX_NESTING
_Waiting = list[tuple[object, str, int]]


def check_schema(schema: object, path: str, findings: Findings) -> None:
    """Reports every node of `schema`, which stands at `path`, that the API would refuse."""
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
            findings.add("T4", f"{path}.{key}", "defs stands at the root only.")
    if "ref" in node:
        for key in node.keys() - _BESIDE_REF:
            findings.add("T9", f"{path}.{key}", f'"{key}" stands beside a ref.')
        return
    kind = _check_type(node, path, findings)
    _check_enum(node, kind, path, findings)
    _check_members(node, kind, path, findings)
    form = node.get("format")
    if kind == "STRING" and form is not None and form not in STRING_FORMATS:
        findings.add("T8", f"{path}.format", f'a STRING cannot have the format "{form}".')


def _check_type(node: dict[str, Any], path: str, findings: Findings) -> str | None:
    """The type of a node in upper case; None when it has none that can be used."""
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
        findings.add("T6", f"{path}.enum", "an empty text stands in enum.")
    if kind not in ("STRING", None):
        findings.add("T6", f"{path}.enum", f"enum stands on a node of type {kind}.")


def _check_members(node: dict[str, Any], kind: str | None, path: str, findings: Findings) -> None:
    properties = as_object(node.get("properties"))
    if "properties" in node and properties is None:
        findings.add("T7", f"{path}.properties", "properties is an object.")
    for key in ("properties", "required"):
        if node.get(key) and kind not in ("OBJECT", None):
            findings.add("T7", f"{path}.{key}", f"{key} stands on a node of type {kind}.")
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
