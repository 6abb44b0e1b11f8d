"""Converts JSON Schema to the API's older Schema.

Inexpressible parts are widened, never narrowed, and noted in the description: the tool itself
checks its parameters against its original schema.
"""

from collections.abc import Sequence
from typing import Any, TypeGuard

from alhena.wire.errors import WireError
from alhena.wire.json_values import as_array, as_object
from alhena.wire.schema.keywords import append_notes, note, type_of, types_in


class SchemaError(WireError):
    """The schema does not describe parameters, or is too large. Its tool is left out."""

    kind = "schema"


MAX_NODES = 8000
_FORMATS = {
    "string": ("enum", "date-time"),
    "number": ("float", "double"),
    "integer": ("int32", "int64"),
}
_BOUNDS = {
    "string": ("minLength", "maxLength"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}
_EXCLUSIVE = {"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"}
_HANDLED = frozenset(
    {
        *("type", "title", "description", "default", "example", "examples", "nullable", "enum"),
        *("const", "deprecated", "readOnly", "writeOnly", "propertyOrdering"),
    }
)
"""Keywords handled for every type, or without effect on values."""
_OF_TYPE = {
    "string": {"pattern"},
    "array": {"items"},
    "object": {"properties", "required"},
}


def to_parameters(schema: dict[str, Any]) -> dict[str, Any] | None:
    """A `local_schema` in the older form; None for an unrestricted object, which older services
    want left out. Raises SchemaError when it would be too large."""
    made = _Converter().node(_plain_object(schema))
    return made if "properties" in made else None


def _plain_object(schema: dict[str, Any]) -> dict[str, Any]:
    """The root without alternatives, because it must be an OBJECT: it has all their properties."""
    notes: list[str] = []
    root = without_all_of(schema, notes)
    for keyword in ("anyOf", "oneOf"):
        branches = [as_object(item) or {} for item in as_array(root.pop(keyword, None)) or ()]
        if branches:
            notes.append(note("exactly one of" if keyword == "oneOf" else "any of", branches))
        properties = dict(as_object(root.get("properties")) or {})
        for branch in branches:
            own = as_object(without_all_of(branch, notes).get("properties")) or {}
            for name, value in own.items():
                known = properties.get(name, value)
                properties[name] = value if known == value else {"anyOf": [known, value]}
        root["properties"] = properties
    return append_notes(root | {"type": "object"}, notes)


def _both(one: dict[str, Any], other: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """A schema that accepts at least everything accepted by both: of two different keywords the
    first one holds, and the second one is noted."""
    merged = {**other, **one}
    for key in one.keys() & other.keys():
        properties = as_object(one[key]), as_object(other[key])
        if key == "required":
            merged[key] = list(dict.fromkeys((*_names(one[key]), *_names(other[key]))))
        elif key == "properties" and properties[0] is not None and properties[1] is not None:
            merged[key] = {**properties[1], **properties[0]}
        elif one[key] != other[key] and key not in _HANDLED - {"type", "enum", "const"}:
            notes.append(note(key, other[key]))
    return merged


def without_all_of(node: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """The node with its `allOf` merged into it; `notes` gets what could not be."""
    merged = {key: value for key, value in node.items() if key != "allOf"}
    for item in as_array(node.get("allOf")) or ():
        branch = as_object(item)
        if branch is not None:
            merged = _both(merged, without_all_of(branch, notes), notes)
    return merged


def _names(value: object) -> list[str]:
    return [name for name in as_array(value) or () if isinstance(name, str)]


class _Converter:
    def __init__(self) -> None:
        self._left = MAX_NODES

    def node(self, given: object, *, nullable: bool = False) -> dict[str, Any]:
        """Converts one schema. `nullable`: null is accepted too."""
        self._left -= 1
        if self._left < 0:
            raise SchemaError(f"the schema has more than {MAX_NODES} nodes in the older form.")
        notes: list[str] = []
        node = without_all_of(as_object(given) or {}, notes)
        if "const" in node:
            node["enum"] = [node["const"]]
        for keyword in ("anyOf", "oneOf"):
            if branches := as_array(node.get(keyword)):
                rest = {key: value for key, value in node.items() if key != keyword}
                merged = [_both(as_object(item) or {}, rest, notes) for item in branches]
                return self._alternatives(merged, notes, nullable=nullable)
        types = _types(node)
        if types is None:
            told = [node["description"]] if isinstance(node.get("description"), str) else []
            return _anything([*told, *notes])
        nullable = nullable or "null" in types or node.get("nullable") is True
        names = [name for name in types if name != "null"]
        if len(names) == 1:
            return self._convert_typed(node, names[0], notes, nullable=nullable)
        branches = [node | {"type": name} for name in names]
        return self._alternatives(branches, notes, nullable=nullable)

    def _alternatives(
        self, branches: Sequence[dict[str, Any]], notes: list[str], *, nullable: bool
    ) -> dict[str, Any]:
        """Converts alternatives: no keyword may be beside anyOf, so common ones are repeated in
        each branch, null in the first."""
        rest = [branch for branch in branches if _types(branch) != ("null",)]
        made: list[dict[str, Any]] = []
        for branch in rest:
            one = self.node(branch)
            made.extend(one.get("anyOf", [one]))
        if not made:
            return append_notes({"type": "STRING", "nullable": True}, [*notes, "always null"])
        if nullable or len(rest) < len(branches):
            made[0] = made[0] | {"nullable": True}
        made[0] = append_notes(made[0], notes)
        return made[0] if len(made) == 1 else {"anyOf": made}

    def _convert_typed(
        self, node: dict[str, Any], kind: str, notes: list[str], *, nullable: bool
    ) -> dict[str, Any]:
        made: dict[str, Any] = {"type": kind.upper(), **({"nullable": True} if nullable else {})}
        said = {*_HANDLED, *_OF_TYPE.get(kind, ())}
        made |= {key: node[key] for key in ("title", "description") if node.get(key)}
        if "default" in node and (node["default"] is not None or nullable):
            made["default"] = node["default"]
        values = as_array(node.get("enum"))
        if values is not None:
            fitting = [value for value in values if _is_of(value, kind)]
            if kind == "string" and fitting and all(fitting):
                made["enum"] = list(dict.fromkeys(fitting))
            else:
                notes.append(note("one of", fitting))
        for key in _BOUNDS.get(kind, ()):
            value = node.get(key, node.get(_EXCLUSIVE.get(key, "")))
            if _is_sendable(value):
                made[key] = value if key in _EXCLUSIVE else int(value)
                said.add(key)
        if kind == "string" and isinstance(node.get("pattern"), str):
            made["pattern"] = node["pattern"]
        if node.get("format") in _FORMATS.get(kind, ()):
            made["format"] = node["format"]
            said.add("format")
        if kind == "array":
            # The positions of a tuple are not expressible.
            made["items"] = self.node({} if "prefixItems" in node else node.get("items"))
        if kind == "object":
            self._say_properties(node, made, notes)
            if node.get("additionalProperties") in (True, False):
                said.add("additionalProperties")
        notes.extend(
            note(key, value)
            for key, value in node.items()
            if key not in said and value not in (None, {}, [])
        )
        return append_notes(made, notes)

    def _say_properties(self, node: dict[str, Any], made: dict[str, Any], notes: list[str]) -> None:
        properties = {
            name: self.node(value)
            for name, value in (as_object(node.get("properties")) or {}).items()
            if value != {"not": {}}
        }
        names = list(dict.fromkeys(_names(node.get("required"))))
        if properties:
            made["properties"] = properties
        if required := [name for name in names if name in properties]:
            made["required"] = required
        if undeclared := [name for name in names if name not in properties]:
            notes.append(note("required too", undeclared))


def _anything(notes: Sequence[str]) -> dict[str, Any]:
    """Any value; the API requires a type for array items."""
    text = append_notes({"type": "STRING", "nullable": True}, notes)
    others = [{"type": name} for name in ("NUMBER", "BOOLEAN", "OBJECT")]
    inner = [{"type": "STRING", "nullable": True}, *others]
    return {"anyOf": [text, *others, {"type": "ARRAY", "items": {"anyOf": inner}}]}


def _types(node: dict[str, Any]) -> tuple[str, ...] | None:
    """The types of a node: explicit ones, else those of its values or of what it contains; None for
    any."""
    values = as_array(node.get("enum", [node["const"]] if "const" in node else None))
    given = types_in(node.get("type"))
    if values:
        fitting = given or tuple(dict.fromkeys(map(type_of, values)))
        return tuple(name for name in fitting if any(_is_of(value, name) for value in values))
    if given or not {"properties", "items"} & node.keys():
        return given or None
    return ("object",) if "properties" in node else ("array",)


def _is_of(value: object, name: str) -> bool:
    kind = type_of(value)
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return kind == name or (name == "number" and kind == "integer")


def _is_sendable(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 2**63
