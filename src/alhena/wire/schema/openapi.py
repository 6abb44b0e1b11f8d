"""Converts JSON Schema to the API's older Schema, with allOf intersected.

Inexpressible parts are widened, never narrowed, and noted in the description: the tool itself
checks its parameters against its original schema.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from alhena.wire.errors import WireError
from alhena.wire.json_values import as_array, as_object
from alhena.wire.schema.keywords import described, note, type_of, types_in

_TOLD = frozenset({"title", "description", "default", "examples", "example", "deprecated"})
_NOT_MERGED = object()


def both(one: dict[str, Any], other: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """A schema that accepts at least everything accepted by both. Inexpressible parts are noted."""
    merged = dict(one)
    for key, value in other.items():
        if key not in merged or merged[key] == value:
            merged[key] = value
        elif key in _TOLD:
            continue
        else:
            joined = _joined(key, merged[key], value)
            if joined is _NOT_MERGED:
                notes.append(note(key, value))
            else:
                merged[key] = joined
    return merged


def _joined(key: str, one: Any, other: Any) -> Any:
    if key in _BOUNDS:
        if _is_number(one) and _is_number(other):
            return _BOUNDS[key](one, other)
    elif key == "type":
        return _common_types(types_in(one), types_in(other)) or _NOT_MERGED
    elif key == "enum":
        return [value for value in as_array(one) or () if value in (as_array(other) or ())]
    elif key == "required":
        names = (*(as_array(one) or ()), *(as_array(other) or ()))
        return list(dict.fromkeys(name for name in names if isinstance(name, str)))
    elif key == "properties":
        return _properties(as_object(one) or {}, as_object(other) or {})
    elif key == "items" and as_object(one) is not None and as_object(other) is not None:
        return {"allOf": [one, other]}
    return _NOT_MERGED


def _properties(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    merged = dict(one)
    for name, schema in other.items():
        known = merged.get(name, schema)
        merged[name] = schema if known == schema else {"allOf": [known, schema]}
    return merged


def _common_types(one: tuple[str, ...], other: tuple[str, ...]) -> list[str]:
    """The common types; an integer is a number."""
    found = [name for name in one if name in other]
    if "integer" not in found and (
        ("integer" in one and "number" in other) or ("integer" in other and "number" in one)
    ):
        found.append("integer")
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_BOUNDS: dict[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(("minimum", "minLength", "minItems", "minProperties", "exclusiveMinimum"), max),
    **dict.fromkeys(("maximum", "maxLength", "maxItems", "maxProperties", "exclusiveMaximum"), min),
}


class SchemaError(WireError):
    """The schema does not describe parameters, or is too large. Its tool is left out."""

    kind = "schema"


MAX_NODES = 8000
_KNOWN = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
_FORMATS = {
    "string": ("enum", "date-time"),
    "number": ("float", "double"),
    "integer": ("int32", "int64"),
}
_SAID = frozenset(
    {
        *("type", "title", "description", "default", "example", "examples", "nullable", "enum"),
        *("const", "deprecated", "readOnly", "writeOnly", "propertyOrdering", "$ref"),
    }
)
"""Keywords handled for every type, or without effect on values."""
_SIZES = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}
_OF_TYPE: dict[str, set[str]] = {
    "string": {"minLength", "maxLength", "pattern", "format", "contentEncoding"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
    "array": {"items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"},
    "object": {
        *("properties", "required", "minProperties", "maxProperties", "additionalProperties"),
        *("patternProperties", "propertyNames", "dependentRequired", "dependentSchemas"),
    },
}
_OF_TYPE["integer"] = _OF_TYPE["number"] | {"format"}
_OF_TYPE["number"] |= {"format"}
_ALL_TYPED = frozenset(name for names in _OF_TYPE.values() for name in names)


def to_parameters(schema: dict[str, Any]) -> dict[str, Any] | None:
    """A `local_schema` in the older form; None for an unrestricted object, which older services
    want left out. Raises SchemaError when it would be too large."""
    converter = _Converter()
    made = converter.node(_plain_object(schema))
    if "properties" not in made:
        return None
    return made


def _plain_object(schema: dict[str, Any]) -> dict[str, Any]:
    """The root without alternatives, because it must be an OBJECT: it has all their properties, and
    the requirements common to them."""
    notes: list[str] = []
    root = _without_all_of(schema, notes)
    for keyword in ("anyOf", "oneOf"):
        branches = [as_object(item) for item in as_array(root.pop(keyword, None)) or ()]
        objects = [_without_all_of(item, notes) for item in branches if item is not None]
        if not objects:
            continue
        notes.append(note("exactly one of" if keyword == "oneOf" else "any of", branches))
        properties = dict(as_object(root.get("properties")) or {})
        for branch in objects:
            for name, value in (as_object(branch.get("properties")) or {}).items():
                known = properties.get(name, value)
                properties[name] = value if known == value else {"anyOf": [known, value]}
        common = set[str].intersection(*(set(_names(item.get("required"))) for item in objects))
        root["properties"] = properties
        root["required"] = list(dict.fromkeys((*_names(root.get("required")), *sorted(common))))
    return described(root | {"type": "object"}, notes)


def _without_all_of(node: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    merged = {key: value for key, value in node.items() if key != "allOf"}
    for item in as_array(node.get("allOf")) or ():
        branch = as_object(item)
        if branch is not None:
            merged = both(merged, _without_all_of(branch, notes), notes)
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
        node = _with_enum(_without_all_of(as_object(given) or {}, notes))
        for keyword in ("anyOf", "oneOf"):
            if as_array(node.get(keyword)):
                rest = {key: value for key, value in node.items() if key != keyword}
                branches = [as_object(item) or {} for item in as_array(node[keyword]) or ()]
                merged = [both(item, rest, notes) for item in branches]
                return self._alternatives(merged, described({}, notes), nullable=nullable)
        types = _types(node)
        if types is None:
            told = [node["description"]] if isinstance(node.get("description"), str) else []
            return _anything([*told, *notes])
        nullable = nullable or "null" in types or node.get("nullable") is True
        names = [name for name in dict.fromkeys(types) if name != "null"]
        if not names:
            return described({"type": "STRING", "nullable": True}, [*notes, "always null"])
        if len(names) == 1:
            return self._typed(node, names[0], notes, nullable=nullable)
        branches = [_of_type(node, name) for name in names]
        return self._alternatives(branches, described({}, notes), nullable=nullable)

    def _alternatives(
        self, branches: Sequence[dict[str, Any]], told: dict[str, Any], *, nullable: bool
    ) -> dict[str, Any]:
        """Converts alternatives: no keyword may be beside anyOf, so common ones are repeated in
        each branch, null in the first."""
        rest = [branch for branch in branches if not _only_null(branch)]
        nullable = nullable or len(rest) < len(branches)
        made: list[dict[str, Any]] = []
        for branch in rest:
            one = self.node(branch)
            made.extend(one.get("anyOf", [one]))
        if not made:
            return described({"type": "STRING", "nullable": True}, ["always null"])
        if nullable:
            made[0] = made[0] | {"nullable": True}
        if told:
            made[0] = described(made[0], [str(told["description"])])
        return made[0] if len(made) == 1 else {"anyOf": made}

    def _typed(
        self, node: dict[str, Any], kind: str, notes: list[str], *, nullable: bool
    ) -> dict[str, Any]:
        made = {"type": kind.upper(), **_annotations(node, nullable=nullable)}
        said = set(_SAID)
        _say_enum(node, kind, made, notes)
        _say_sizes(node, kind, made, said)
        match kind:
            case "number" | "integer":
                _say_bounds(node, kind, made, said, notes)
            case "array":
                self._say_items(node, made, said)
            case "object":
                self._say_properties(node, made, said, notes)
            case "string":
                _say_pattern(node, made, said)
            case _:
                pass
        if node.get("format") in _FORMATS.get(kind, ()):
            made["format"] = node["format"]
            said.add("format")
        mine = _OF_TYPE.get(kind, set())
        notes.extend(
            note(key, value)
            for key, value in node.items()
            if key not in said
            and (key in mine or key not in _ALL_TYPED)
            and value not in (None, {}, [])
            and not (key == "additionalProperties" and value is True)
        )
        return described(made, notes)

    def _say_items(self, node: dict[str, Any], made: dict[str, Any], said: set[str]) -> None:
        said |= {"items", "prefixItems", "additionalItems"}
        tuple_form = as_array(node.get("prefixItems")) or as_array(node.get("items")) or []
        further = as_object(node.get("additionalItems" if as_array(node.get("items")) else "items"))
        choices = [*tuple_form, *([further] if further is not None or not tuple_form else ())]
        if tuple_form and further is None and len(tuple_form) < _longest(node, tuple_form):
            choices.append({})
        made["items"] = self.node(choices[0] if len(choices) == 1 else {"anyOf": choices})
        if tuple_form:
            made["items"] = described(made["items"], [note("in this order", tuple_form)])

    def _say_properties(
        self, node: dict[str, Any], made: dict[str, Any], said: set[str], notes: list[str]
    ) -> None:
        said |= {"properties", "required"}
        if node.get("additionalProperties") is False:
            said.add("additionalProperties")
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
        order = _names(node.get("propertyOrdering"))
        if order and set(order) == set(properties):
            made["propertyOrdering"] = order


def _anything(notes: Sequence[str]) -> dict[str, Any]:
    """Any value; the API requires a type for array items."""
    text = described({"type": "STRING", "nullable": True}, notes)
    others = [{"type": name} for name in ("NUMBER", "BOOLEAN", "OBJECT")]
    inner = [{"type": "STRING", "nullable": True}, *others]
    return {"anyOf": [text, *others, {"type": "ARRAY", "items": {"anyOf": inner}}]}


def _annotations(node: dict[str, Any], *, nullable: bool) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key in ("title", "description"):
        if isinstance(node.get(key), str) and node[key]:
            made[key] = node[key]
    if nullable:
        made["nullable"] = True
    if "default" in node and (node["default"] is not None or nullable):
        made["default"] = node["default"]
    examples = [node["example"]] if "example" in node else as_array(node.get("examples")) or []
    if examples:
        made["example"] = examples[0]
    return made


def _say_pattern(node: dict[str, Any], made: dict[str, Any], said: set[str]) -> None:
    if isinstance(node.get("pattern"), str):
        made["pattern"] = node["pattern"]
        said.add("pattern")


def _longest(node: dict[str, Any], tuple_form: Sequence[object]) -> float:
    """Maximum number of items: unlimited beyond the tuple, unless it is closed."""
    if node.get("items") is False or node.get("additionalItems") is False:
        return len(tuple_form)
    most = node.get("maxItems")
    return most if isinstance(most, int) else math.inf


def _with_enum(node: dict[str, Any]) -> dict[str, Any]:
    """Converts a constant to an enum with one value."""
    return node | {"enum": [node["const"]]} if "const" in node else node


def _types(node: dict[str, Any]) -> tuple[str, ...] | None:
    """The types of a node: explicit ones, else those its keywords imply; None for any."""
    given = tuple(name for name in types_in(node.get("type")) if name in _KNOWN)
    if given:
        return given
    values = as_array(node.get("enum"))
    if values:
        return tuple(dict.fromkeys(type_of(value) for value in values))
    meant = tuple(
        name
        for name in ("object", "array", "string", "number")
        if _OF_TYPE[name] - {"format"} & node.keys()
    )
    return meant or None


def _of_type(node: dict[str, Any], name: str) -> dict[str, Any]:
    """The keywords of a node with several types that apply to one of them."""
    mine = _OF_TYPE.get(name, set())
    kept = {key: value for key, value in node.items() if key in mine or key not in _ALL_TYPED}
    values = as_array(node.get("enum"))
    if values is not None:
        kept["enum"] = [value for value in values if _is_of(value, name)]
        if not kept["enum"]:
            return {"type": "null"}
    return kept | {"type": name}


def _is_of(value: object, name: str) -> bool:
    kind = type_of(value)
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return kind == name or (name == "number" and kind == "integer")


def _only_null(node: dict[str, Any]) -> bool:
    if types_in(node.get("type")) == ("null",):
        return True
    return "type" not in node and (node.get("enum") == [None] or node.get("const", "") is None)


def _say_enum(node: dict[str, Any], kind: str, made: dict[str, Any], notes: list[str]) -> None:
    values = as_array(node.get("enum"))
    if values is None:
        return
    fitting = [value for value in values if _is_of(value, kind)]
    if kind == "string" and fitting and all(isinstance(item, str) and item for item in fitting):
        made["enum"] = list(dict.fromkeys(fitting))
    else:
        notes.append(note("one of", fitting))


def _say_sizes(node: dict[str, Any], kind: str, made: dict[str, Any], said: set[str]) -> None:
    for key in _SIZES.get(kind, ()):
        value = node.get(key)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63:
            made[key] = value
            said.add(key)


def _say_bounds(
    node: dict[str, Any], kind: str, made: dict[str, Any], said: set[str], notes: list[str]
) -> None:
    for key, exclusive, step in (
        ("minimum", "exclusiveMinimum", 1),
        ("maximum", "exclusiveMaximum", -1),
    ):
        bounds: list[Any] = []
        if _is_finite(node.get(key)):
            bounds.append(node[key])
            said.add(key)
        edge: Any = node.get(exclusive)
        if _is_finite(edge):
            whole = kind == "integer" and float(edge).is_integer()
            bounds.append(int(edge) + step if whole else edge)
            said.add(exclusive)
            if not whole:
                notes.append(note(exclusive, edge))
        elif edge is True and bounds:
            notes.append(f"not {bounds[0]} itself")
        if bounds:
            made[key] = max(bounds) if step > 0 else min(bounds)


def _is_finite(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 2**63
