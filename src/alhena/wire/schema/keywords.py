"""One node of a JSON Schema: its keywords, types, references and notes.

Older drafts use other keywords, and servers write invalid ones. Meaningless values are dropped,
which accepts more.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import Any
from urllib.parse import unquote

from alhena.wire.json_values import as_array, as_object, excerpt

LIMIT = 240
"""Maximum characters of a note."""


def append_notes(node: dict[str, Any], notes: Sequence[str]) -> dict[str, Any]:
    """`node` with the notes appended to its description."""
    if not notes:
        return node
    given = node.get("description")
    said = f"({'; '.join(dict.fromkeys(notes))})"
    text = f"{given} {said}" if isinstance(given, str) and given else said
    return node | {"description": text}


def note(keyword: str, value: object) -> str:
    """Formats a keyword and its value as a note. Numbers outside JSON are written NaN and
    Infinity."""
    import json

    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        text = _format_value(value)
    return f"{keyword}: {excerpt(text, LIMIT)}"


def _format_value(value: object) -> str:
    """Formats a value without a JSON form. Python refuses to format numbers of thousands of
    digits."""
    try:
        return ascii(value)
    except ValueError:
        return "a number of thousands of digits"


class _Missing:
    """The target of a dangling pointer."""


MISSING = _Missing()


def target(root: object, reference: object) -> object:
    """The target of a local reference ("#", "#/a/b") in `root`; MISSING if it does not exist or is
    not local."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return MISSING
    pointer = unquote(reference[1:])
    if pointer and not pointer.startswith("/"):
        return MISSING
    value = root
    for token in pointer.split("/")[1:]:
        value = _member(value, token.replace("~1", "/").replace("~0", "~"))
    return value


def _member(value: object, token: str) -> object:
    if (fields := as_object(value)) is not None:
        return fields.get(token, MISSING)
    items = as_array(value)
    if items is not None and token.isascii() and token.isdigit() and len(token) < 10:
        return items[int(token)] if int(token) < len(items) else MISSING
    return MISSING


def refers_to_itself(schema: dict[str, Any]) -> bool:
    """True when a reference leads to a schema that contains it."""
    above: set[int] = set()
    done: set[int] = set()
    waiting: list[tuple[object, bool]] = [(schema, False)]
    while waiting:
        value, leaving = waiting.pop()
        if leaving:
            above.discard(id(value))
            done.add(id(value))
            continue
        if id(value) in above:
            return True
        below = _below_references(value, schema)
        if not below or id(value) in done:
            continue
        above.add(id(value))
        waiting.append((value, True))
        waiting.extend((item, False) for item in below)
    return False


def _below_references(value: object, root: object) -> list[object]:
    """The children of a value, and the target of its reference."""
    fields = as_object(value)
    if fields is None:
        return [] if isinstance(value, tuple) else list(as_array(value) or ())
    found = list(fields.values())
    if "$ref" in fields and (meant := target(root, fields["$ref"])) is not MISSING:
        found.append(meant)
    return found


_COMBINERS = ("anyOf", "allOf", "oneOf")
_MAX_DEPTH = 64


def untyped_at(schema: object) -> str | None:
    """Path of the first untyped schema in a tool's parameters, None if all have a type.

    A schema without a type counts as typed if it has a combiner and each of its branches is typed;
    properties of objects, items of arrays and targets of references are checked. A recursive
    reference has no type, but is no fault either.
    """
    waiting: list[tuple[object, str, int]] = [(schema, "$", 0)]
    followed: set[str] = set()
    while waiting:
        value, path, depth = waiting.pop()
        node = as_object(value)
        if node is None:
            return path
        reference = node.get("$ref")
        if isinstance(reference, str) and not node.get("type"):
            if reference not in followed:
                followed.add(reference)
                waiting.append((target(schema, reference), path, depth))
            continue
        if depth > _MAX_DEPTH:
            continue
        below = _below(node, path)
        if below is None:
            return path
        waiting.extend((item, place, depth + 1) for item, place in reversed(below))
    return None


def _below(node: dict[str, Any], path: str) -> list[tuple[object, str]] | None:
    """The schemas to check below a node; None when it has no type."""
    kind = node.get("type")
    if not kind:
        combined = [
            (branch, f"{path}.{keyword}[{index}]")
            for keyword in _COMBINERS
            for index, branch in enumerate(as_array(node.get(keyword)) or ())
        ]
        return combined or None
    if kind == "object":
        properties = as_object(node.get("properties")) or {}
        return [(item, f"{path}.properties.{name}") for name, item in properties.items()]
    if kind == "array" and "items" in node:
        return [(node["items"], f"{path}.items")]
    return []


def with_implied_types(value: object, depth: int = 0) -> Any:
    """A schema in which `enum`, `const`, properties and items imply the types that it does not
    name; the same object if it names all. What implies none stays any JSON value."""
    node = as_object(value)
    if node is None or depth > _MAX_DEPTH:
        return value
    made: dict[str, Any] = dict(node)
    for key in (*_COMBINERS, "prefixItems"):
        branches = as_array(node.get(key))
        if branches is not None:
            made[key] = [with_implied_types(branch, depth + 1) for branch in branches]
    for key in ("properties", "$defs", "definitions", "patternProperties"):
        named = as_object(node.get(key))
        if named is not None:
            made[key] = {name: with_implied_types(item, depth + 1) for name, item in named.items()}
    for key in ("items", "additionalProperties"):
        if as_object(node.get(key)) is not None:
            made[key] = with_implied_types(node[key], depth + 1)
    if not node.get("type") and "$ref" not in node and (kind := _implied_type(node)):
        made["type"] = kind
    return value if made == node else made


def _implied_type(node: dict[str, Any]) -> str | None:
    values = [node["const"]] if "const" in node else list(as_array(node.get("enum")) or ())
    kinds = {type_of(each) for each in values}
    if len(kinds) == 1:
        return kinds.pop()
    if kinds or any(node.get(key) for key in _COMBINERS):
        return None
    if any(key in node for key in ("properties", "additionalProperties", "required")):
        return "object"
    return "array" if "items" in node or "prefixItems" in node else None


def with_defaults(schema: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    """`value` with the defaults of `schema` for what is missing, also in objects and lists within
    it. A default that does not fit its own schema is left out. `value` is not changed."""
    return as_object(_fill_value(schema, value, schema, 0)) or value


def _fill_value(node: object, value: Any, root: dict[str, Any], depth: int) -> Any:
    if depth > _MAX_DEPTH:
        return value
    if (fields := as_object(value)) is not None:
        made = dict(fields)
        for name, given in _properties_of(node, root, 0).items():
            if name not in made:
                default = _default_of(given, root, 0)
                if default is MISSING:
                    continue
                made[name] = default
            made[name] = _fill_value(given, made[name], root, depth + 1)
        return made
    items = as_array(value)
    if items is None:
        return value
    given = next((each["items"] for each in _nodes(node, root, 0) if "items" in each), None)
    return [_fill_value(given, item, root, depth + 1) for item in items]


def _properties_of(node: object, root: dict[str, Any], depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in _nodes(node, root, depth):
        found |= as_object(each.get("properties")) or {}
    return found


def _nodes(node: object, root: dict[str, Any], depth: int) -> Iterator[dict[str, Any]]:
    """A schema with those that hold for the same value: of its reference, all of `allOf`, and the
    only variant that is not null."""
    fields = as_object(node)
    if fields is None or depth > _MAX_DEPTH:
        return
    yield fields
    others = list(as_array(fields.get("allOf")) or ())
    if "$ref" in fields:
        others.append(target(root, fields["$ref"]))
    for key in ("anyOf", "oneOf"):
        variants = [each for each in as_array(fields.get(key)) or () if each != {"type": "null"}]
        others += variants if len(variants) == 1 else []
    for other in others:
        yield from _nodes(other, root, depth + 1)


def _default_of(node: object, root: dict[str, Any], depth: int) -> Any:
    """A copy of the default of a schema; MISSING without a fitting one."""
    nodes = list(_nodes(node, root, depth))
    default = next((each["default"] for each in nodes if "default" in each), MISSING)
    if default is MISSING:
        return MISSING
    kinds = {type_of(default), "number" if type_of(default) == "integer" else ""}
    nullable = default is None and any("anyOf" in each or "oneOf" in each for each in nodes)
    for each in nodes:
        types = types_in(each.get("type"))
        choices = as_array(each.get("enum"))
        fits = not types or bool(kinds.intersection(types))
        if not nullable and not (fits and (choices is None or default in choices)):
            return MISSING
    return deepcopy(default)


def types_in(value: object) -> tuple[str, ...]:
    """The names in a `type` keyword."""
    if isinstance(value, str):
        return (value,)
    return tuple(name for name in as_array(value) or () if isinstance(name, str))


def type_of(value: object) -> str:
    """The JSON type of a plain value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list() | tuple():
            return "array"
        case _:
            return "object"


MAX_VALUES = 100_000
"""Maximum number of values checked; larger schemas cannot be sent."""

TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})


def present(node: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """`node` with valid keywords, without its subschemas; the same object if unchanged."""
    made = {key: item for key, item in node.items() if is_meant(key, item)}
    notes += [note(key, node[key]) for key in node if key in _TOLD and key not in made]
    _bound(node, made, "minimum", "exclusiveMinimum")
    _bound(node, made, "maximum", "exclusiveMaximum")
    if as_array(node.get("items")) is not None:
        made["prefixItems"] = made.pop("items")
        if "additionalItems" in made:
            made["items"] = made.pop("additionalItems")
    if made.pop("nullable", False) is True and "type" in made:
        made["type"] = list(dict.fromkeys((*types_in(made["type"]), "null")))
        if "enum" in made and None not in made["enum"]:
            made["enum"] = [*made["enum"], None]
    return node if made == node else made


def has_json_form(value: object) -> bool:
    """True when all numbers in a plain value are finite: JSON has no others, and very large
    integers count as infinite."""
    if not isinstance(value, (int, float, dict, list, tuple)):
        return True
    waiting: list[Any] = [value]
    for _ in range(MAX_VALUES):
        if not waiting:
            return True
        item: object = waiting.pop()
        if isinstance(item, (int, float)):
            if not _is_finite(item):
                return False
        elif (fields := as_object(item)) is not None:
            waiting.extend(fields.values())
        elif (array := as_array(item)) is not None:
            waiting.extend(array)
    return True


def is_meant(key: str, value: object) -> bool:
    """True when a keyword has a value of the right kind. Unknown keywords accept anything."""
    takes = _TAKES.get(key)
    return takes is None or takes(value)


def _bound(node: dict[str, Any], made: dict[str, Any], bound: str, exclusive: str) -> None:
    """Converts draft 4's boolean form of exclusive bounds."""
    if node.get(exclusive) is True and bound in made:
        made[exclusive] = made.pop(bound)


def _is_number(value: object) -> bool:
    """True for finite numbers: JSON has no others."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and _is_finite(value)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # too large for a float
        return False


def _is_positive(value: object) -> bool:
    return isinstance(value, (int, float)) and _is_number(value) and value > 0


def _is_size(value: object) -> bool:
    if isinstance(value, float):
        return value.is_integer() and value >= 0
    return isinstance(value, int) and _is_number(value) and value >= 0


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_list(value: object) -> bool:
    return as_array(value) is not None and has_json_form(value)


def _is_choice(value: object) -> bool:
    return bool(as_array(value)) and has_json_form(value)


def _are_types(value: object) -> bool:
    if isinstance(value, str):
        return value in TYPES
    names = as_array(value)
    if not names or not all(isinstance(name, str) and name in TYPES for name in names):
        return False
    return len(set(names)) == len(names)


def _are_names(value: object) -> bool:
    names = as_array(value)
    if names is None or not all(isinstance(name, str) for name in names):
        return False
    return len(set(names)) == len(names)


def _are_demands(value: object) -> bool:
    fields = as_object(value)
    return fields is not None and all(map(_are_names, fields.values()))


_TOLD = frozenset({"type", "default", "example", "examples", "enum", "const"})
"""Keywords whose invalid values are noted."""

_TAKES: dict[str, Callable[[object], bool]] = {
    **dict.fromkeys(("default", "example", "const"), has_json_form),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _is_size),
    **dict.fromkeys(("minProperties", "maxProperties", "minContains", "maxContains"), _is_size),
    **dict.fromkeys(("title", "description", "format", "pattern", "contentEncoding"), _is_text),
    **dict.fromkeys(("contentMediaType",), _is_text),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly", "nullable"), _is_flag),
    "multipleOf": _is_positive,
    "examples": _is_list,
    "enum": _is_choice,
    "type": _are_types,
    "required": _are_names,
    "dependentRequired": _are_demands,
}


MAX_DEPTH = 12
MAX_NODES = 400
_VALUES = frozenset(
    {
        *("type", "title", "description", "default", "examples", "enum", "const", "required"),
        *("minLength", "maxLength", "pattern", "format", "minimum", "maximum", "minItems"),
        *("maxItems", "exclusiveMinimum", "exclusiveMaximum", "uniqueItems"),
    }
)


def is_plain(given: object) -> bool:
    """True when `local.local_schema` would not change `given`, as far as a quick check can tell;
    False means "perhaps"."""
    root = as_object(given)
    if root is None or root.get("type") != "object":
        return False
    waiting: list[tuple[object, int]] = [(root, 0)]
    seen = 0
    while waiting:
        value, depth = waiting.pop()
        node = as_object(value)
        seen += 1
        if node is None or depth > MAX_DEPTH or seen > MAX_NODES:
            return False
        for key, item in node.items():
            if key in _VALUES:
                if not is_meant(key, item):
                    return False
                continue
            if key == "properties" and (below := as_object(item)) is not None:
                waiting.extend((schema, depth + 1) for schema in below.values())
            elif key == "items" or (key == "additionalProperties" and not isinstance(item, bool)):
                waiting.append((item, depth + 1))
            elif key == "anyOf" and (branches := as_array(item)):
                waiting.extend((branch, depth + 1) for branch in branches)
            elif key != "additionalProperties":
                return False
    return True
