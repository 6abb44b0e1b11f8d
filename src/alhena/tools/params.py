"""Converts parameters from a model to a tool's declared parameters.

`prepare` is the entry point: it renames accepted names, converts other spellings of a type and
checks the JSON Schema. It never guesses: anything without a table entry is left unchanged.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard, cast

import msgspec

from alhena.tools.contract import Kind, ToolFailure
from alhena.values import Value

if TYPE_CHECKING:
    from jsonschema_rs import Validator


MAX_DEPTH = 32
MAX_CACHED = 512
MAX_NUMBER = 2**63

_ANNOTATIONS = frozenset({"title", "description", "default", "examples", "format", "$schema"})
_validators: dict[int, tuple[object, "Validator"]] = {}


def types_of(schema: object) -> frozenset[str]:
    """The JSON types a schema allows, through `anyOf` and `oneOf`; empty when unspecified."""
    if not isinstance(schema, dict):
        return frozenset()
    node = cast("dict[str, Any]", schema)
    declared = node.get("type")
    if isinstance(declared, str):
        return frozenset({declared})
    if isinstance(declared, list):
        return frozenset(name for name in cast("list[object]", declared) if isinstance(name, str))
    found: frozenset[str] = frozenset()
    for keyword in ("anyOf", "oneOf"):
        branches: object = node.get(keyword)
        for branch in cast("list[object]", branches) if isinstance(branches, list) else []:
            if isinstance(branch, dict) and "type" in branch:
                found |= types_of(cast("object", branch))
    return found


def convert_spellings(schema: object, value: object, depth: int = 0) -> Any:
    """Converts other spellings of a value where `schema` requires a type that allows one reading
    only: "true", "1", "[1]" and "{}" in text, 3.0 for 3, and null for an optional property that
    cannot be null.

    Follows properties and items; unchanged values are returned as they are, not copied.
    """
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return value
    node = cast("dict[str, Any]", schema)
    match value:
        case str():
            types = types_of(node)
            if types and "string" not in types:
                return _read_text(node, types, value, depth)
        case float():
            types = types_of(node)
            if value.is_integer() and "integer" in types and "number" not in types:
                return int(value)
        case dict():
            return _respelled_object(node, cast("dict[str, Any]", value), depth)
        case list():
            return _respelled_array(node, cast("list[Any]", value), depth)
        case _:
            pass
    return value


_PYTHON_WORDS = {"True": True, "False": False}
_NUMBERS = frozenset({"integer", "number"})
_TYPES: dict[type, frozenset[str]] = {
    bool: frozenset({"boolean"}),
    int: _NUMBERS,
    float: _NUMBERS,
    list: frozenset({"array"}),
    dict: frozenset({"object"}),
    type(None): frozenset({"null"}),
}


def _read_text(node: dict[str, Any], types: frozenset[str], text: str, depth: int) -> Any:
    """The value of another type that a text spells as JSON; the text if that is none of `types`."""
    try:
        found = _PYTHON_WORDS.get(text)
        found = msgspec.json.decode(text) if found is None else found
    except (msgspec.DecodeError, RecursionError, ValueError):
        found = text
    if isinstance(found, str):
        return text
    if found is None:
        return None  # an optional parameter is left out, any other is refused as null
    if isinstance(found, float) and "number" not in types and not found.is_integer():
        return text
    return convert_spellings(node, found, depth + 1) if types & _TYPES[type(found)] else text


def _variant(node: dict[str, Any], name: str) -> dict[str, Any]:
    """The schema itself, or the only one of its variants that allows a type."""
    branches = [*node.get("anyOf", ()), *node.get("oneOf", ())] if "type" not in node else []
    found = [branch for branch in branches if name in types_of(branch)]
    return found[0] if len(found) == 1 else node


def _respelled_object(node: dict[str, Any], value: dict[str, Any], depth: int) -> dict[str, Any]:
    node = _variant(node, "object")
    properties: object = node.get("properties")
    if not isinstance(properties, dict):
        return value
    known = cast("dict[str, Any]", properties)
    required: object = node.get("required")
    changed: dict[str, Any] = {}
    for name, item in value.items():
        if name in known:
            new = convert_spellings(known[name], item, depth + 1)
            if new is not item:
                changed[name] = new
    kept = value if not changed else {**value, **changed}
    if None not in kept.values():
        return kept
    needed = frozenset(cast("list[str]", required) if isinstance(required, list) else ())
    return {
        name: item
        for name, item in kept.items()
        if item is not None or name in needed or not _refuses_null(known.get(name))
    }


def _refuses_null(schema: object) -> bool:
    types = types_of(schema)
    return bool(types) and "null" not in types


def _respelled_array(node: dict[str, Any], value: list[Any], depth: int) -> list[Any]:
    items: object = _variant(node, "array").get("items")
    if not isinstance(items, dict):
        return value
    new = [convert_spellings(cast("object", items), item, depth + 1) for item in value]
    return new if any(a is not b for a, b in zip(new, value, strict=True)) else value


def problem_with(
    schema: dict[str, Any],
    params: dict[str, Any],
    aliases: Mapping[str, Sequence[str]] | None = None,
) -> str | None:
    """The first problem of `params`: path, expected and actual value. None if valid.

    `aliases` maps a declared parameter to its other names. Invalid schemas and parameters that are
    not JSON are problems too; nothing is raised.
    """
    if plainly_valid(schema, params):
        return None
    from alhena.tools.schema_errors import ROOT, describe_violation, shorten_message

    reason = _not_json(params)
    if reason is not None:
        return f"{ROOT} must be plain JSON: {reason}"
    from jsonschema_rs import ValidationError

    try:
        validator = _validator(schema)
    except (ValidationError, ValueError) as error:
        return f"the tool's parameter schema cannot be used: {shorten_message(str(error))}"
    try:
        validator.validate(params)
    except ValidationError as error:
        return describe_violation(error, params, aliases or {})
    except ValueError as error:
        # The validator gave up, as at unlimited nesting.
        return f"{ROOT} cannot be checked: {shorten_message(str(error))}"
    return None


def schema_problem(schema: dict[str, Any]) -> str | None:
    """The reason why a value is no JSON schema that can be checked against."""
    from jsonschema_rs import ValidationError, validator_for

    from alhena.tools.schema_errors import shorten_message

    try:
        validator_for(schema, offline=True)
    except ValidationError as error:
        place = "/".join(map(str, error.instance_path))
        return f"no JSON schema{place and f' at {place}'}: {shorten_message(error.message)}"
    except ValueError as error:
        return f"no JSON schema: {shorten_message(str(error))}"
    return None


def _not_json(params: object) -> str | None:
    """The reason why `params` cannot be sent as JSON: cycles, depth, other types, lone
    surrogates."""
    try:
        msgspec.json.encode(params)
    except UnicodeEncodeError:
        return "a string contains half of a surrogate pair"
    except RecursionError:
        return "it is nested too deeply"
    except (TypeError, ValueError, OverflowError) as error:
        return " ".join(str(error).split())
    return None


def _validator(schema: dict[str, Any]) -> "Validator":
    """Caches one validator per schema object; keeping the schema keeps its id from being reused."""
    cached = _validators.get(id(schema))
    if cached is not None:
        return cached[1]
    from jsonschema_rs import validator_for

    validator = validator_for(schema, offline=True)
    if len(_validators) >= MAX_CACHED:
        _validators.clear()
    _validators[id(schema)] = (schema, validator)
    return validator


def plainly_valid(schema: object, value: object, depth: int = 0) -> bool:
    """True when a few comparisons prove that `value` satisfies `schema`.

    False means "unknown", never "invalid". Only the keywords handled here count; objects and arrays
    without such keywords are left to the validator.
    """
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return False
    node = cast("dict[str, Any]", schema)
    name = node.get("type")
    if not isinstance(name, str):
        return False
    check = _PLAIN.get(name)
    return check is not None and check(node, value, depth)


def _keywords(*names: str) -> frozenset[str]:
    return _ANNOTATIONS.union(names, ("type",))


def _plain_object(node: dict[str, Any], value: object, depth: int) -> bool:
    if not isinstance(value, dict) or not node.keys() <= _OF_OBJECT:
        return False
    members = cast("dict[object, object]", value)
    properties: object = node.get("properties", {})
    required: object = node.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        return False
    known = cast("dict[object, object]", properties)
    if any(name not in members for name in cast("list[object]", required)):
        return False
    for name, item in members.items():
        if name in known:
            if not plainly_valid(known[name], item, depth + 1):
                return False
        elif (
            node.get(_ADDITIONAL, True) is not True
            or not isinstance(name, str)
            or not (item is None or isinstance(item, str | int))
        ):
            return False
    return True


def _plain_array(node: dict[str, Any], value: object, depth: int) -> bool:
    if not isinstance(value, list) or not node.keys() <= _OF_ARRAY:
        return False
    elements = cast("list[object]", value)
    return _is_within(len(elements), node, "minItems", "maxItems") and all(
        plainly_valid(node.get("items"), element, depth + 1) for element in elements
    )


def _plain_string(node: dict[str, Any], value: object, _depth: int) -> bool:
    if not isinstance(value, str) or not node.keys() <= _OF_STRING:
        return False
    if "format" in node:
        return False
    choices: object = node.get("enum", [value])
    return (
        _is_within(len(value), node, "minLength", "maxLength")
        and isinstance(choices, list)
        and value in cast("list[object]", choices)
    )


def _plain_number(node: dict[str, Any], value: object, _depth: int) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) >= MAX_NUMBER:
        return False
    if isinstance(value, float) and (node["type"] == "integer" or value - value != 0):
        return False
    return node.keys() <= _OF_NUMBER and _is_within(value, node, "minimum", "maximum")


def _plain_boolean(node: dict[str, Any], value: object, _depth: int) -> bool:
    return isinstance(value, bool) and node.keys() <= _OF_BOOLEAN


def _is_within(size: float, node: dict[str, Any], least: str, most: str) -> bool:
    low, high = node.get(least, size), node.get(most, size)
    return isinstance(low, int | float) and isinstance(high, int | float) and low <= size <= high


_ADDITIONAL = "additionalProperties"
_OF_OBJECT = _keywords("properties", "required", _ADDITIONAL)
_OF_ARRAY = _keywords("items", "minItems", "maxItems")
_OF_STRING = _keywords("enum", "minLength", "maxLength")
_OF_NUMBER = _keywords("minimum", "maximum")
_OF_BOOLEAN = _keywords()
_PLAIN: dict[str, Callable[[dict[str, Any], object, int], bool]] = {
    "object": _plain_object,
    "array": _plain_array,
    "string": _plain_string,
    "integer": _plain_number,
    "number": _plain_number,
    "boolean": _plain_boolean,
}


_OBJECTIVE = ("objective", "query", "prompt")
BUILT_IN = Path(__file__).with_name("builtin")


class Declared(Value, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The content of a `NAME.json`. `parameters` is a JSON Schema. `aliases` are other accepted
    names of parameters, `accepted` the schemas of parameters that are accepted undeclared."""

    display_name: str
    kind: Kind
    parameters: dict[str, Any]
    is_output_markdown: bool = False
    can_update_output: bool = False
    aliases: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    accepted: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])


@cache
def read_declaration(folder: Path, name: str) -> Declared:
    """Reads a tool's `NAME.json`."""
    return msgspec.json.decode((folder / f"{name}.json").read_bytes(), type=Declared)


@cache
def _read_accepted(tool_name: str) -> tuple[dict[str, str], dict[str, Any] | None]:
    """Accepted -> declared names of a built-in tool, and the schema of what it accepts beside
    them."""
    if not (BUILT_IN / f"{tool_name}.json").is_file():
        return {}, None
    data = read_declaration(BUILT_IN, tool_name)
    schema = {"type": "object", "properties": data.accepted} if data.accepted else None
    return data.aliases, schema


def prepare(
    tool_name: str, schema: dict[str, Any], params: dict[str, Any], *, defaults: bool = False
) -> dict[str, Any] | ToolFailure:
    """Renames and checks `params`, or returns why they are invalid.

    `tool_name` is the declared name, `schema` the declared parameters. `params` is not changed.
    With `defaults`, those of the schema are filled in.
    """
    normal = normalise(tool_name, params, schema)
    if defaults:
        from alhena.wire.schema.keywords import with_defaults

        filled = with_defaults(schema, normal)
        if validate(schema, filled, tool_name) is None:  # else a default excludes what is given
            normal = filled
    extras = _read_accepted(tool_name)[1]
    problem = problem_with(extras, normal) if extras is not None else None
    if problem is None and tool_name == "read_file" and "end_line" in normal:
        problem = "start_line cannot be greater than end_line"
    if problem is not None:
        return ToolFailure.of_params(problem)
    return validate(schema, normal, tool_name) or normal


def normalise(
    tool_name: str, params: dict[str, Any], schema: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Copies `params` to declared names; a declared name takes precedence over its aliases.

    With `schema`, values are converted as by `convert_spellings`. An invalid line range is left
    unchanged. An object as the content of a JSON file becomes its text.
    """
    normal = dict(params)
    aliases, extras = _read_accepted(tool_name)
    for accepted, name in aliases.items():
        if accepted in normal:
            value = normal.pop(accepted)
            if normal.get(name) is None:
                normal[name] = value
    if extras is not None:
        normal = convert_spellings(extras, normal)
    if schema is not None:
        normal = convert_spellings(schema, normal)
    if tool_name == "read_file":
        normal = _with_window(normal)
    if tool_name == "read_many_files" and "paths" not in normal and "include" in normal:
        normal["paths"] = normal.pop("include")
    if tool_name == "write_file":
        normal = _with_json_text(normal)
    return normal


def _with_json_text(params: dict[str, Any]) -> dict[str, Any]:
    """The parameters of write_file with text in place of the object that a JSON file shall hold."""
    path, content = params.get("file_path"), params.get("content")
    if not isinstance(content, dict | list) or not str(path).lower().endswith(_JSON_FILES):
        return params
    if _not_json(cast("object", content)) is not None:
        return params
    text = msgspec.json.format(msgspec.json.encode(content), indent=2).decode("utf-8")
    return params | {"content": f"{text}\n"}


_JSON_FILES = (".json", ".ipynb", ".geojson", ".webmanifest", ".jsonc", ".json5")


def with_aliases(
    tool_name: str, params: dict[str, Any], schema: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Copies `params` with every accepted name added."""
    shown = dict(params)
    for accepted, name in _aliases(tool_name, schema).items():
        if name in params:
            shown[accepted] = params[name]
    if tool_name == "read_file" and _is_index(shown.get("offset", 0)):
        offset, limit = shown.get("offset", 0), shown.get("limit")
        if "offset" in shown:
            shown["start_line"] = offset + 1
        if _is_line_number(limit):
            shown["end_line"] = offset + limit
    return shown


def under_given_names(
    tool_name: str, params: dict[str, Any], given: dict[str, Any], schema: dict[str, Any]
) -> dict[str, Any]:
    """Renames `params` from declared names to those used in `given`."""
    known = with_aliases(tool_name, params, schema)
    named = {key: known[key] for key in given if key in known}
    said = normalise(tool_name, named, schema)
    return named | {key: value for key, value in params.items() if key not in said}


def changes(
    tool_name: str,
    told: dict[str, Any],
    given: dict[str, Any],
    schema: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The changes from `told` to `given`, under declared names; a value returned unchanged under
    another accepted name is no change. A declared name takes precedence over its aliases."""
    changed = {key: value for key, value in given.items() if not _same(told, key, value)}
    for accepted, name in _aliases(tool_name, schema).items():
        if accepted in changed:
            value = changed.pop(accepted)
            changed.setdefault(name, value)
    lines = [key for key in ("start_line", "end_line") if key in changed]
    if tool_name == "read_file" and lines:
        whole = {key: told[key] for key in ("start_line", "end_line") if key in told}
        whole |= {key: changed.pop(key) for key in lines}
        changed = {**_with_window(whole), **changed}
    return changed


def _aliases(tool_name: str, schema: dict[str, Any] | None) -> dict[str, str]:
    """The accepted names of a tool. For another tool under a built-in name, only those of
    parameters that it has."""
    found = _read_accepted(tool_name)[0]
    if schema is None:
        return found
    own: dict[str, Any] = schema.get("properties") or {}
    return {key: name for key, name in found.items() if key not in own and name in own}


def _same(told: dict[str, Any], key: str, value: Any) -> bool:
    """True when a value is unchanged; `true` is not 1."""
    return (
        key in told
        and told[key] == value
        and isinstance(told[key], bool) is isinstance(value, bool)
    )


def validate(
    schema: dict[str, Any], params: dict[str, Any], tool_name: str = ""
) -> ToolFailure | None:
    """The first problem of `params` as the failure of the call; None if valid.

    `tool_name` adds the aliases of a missing parameter to the message.
    """
    aliases: dict[str, list[str]] = {}
    for accepted, name in _read_accepted(tool_name)[0].items():
        aliases.setdefault(name, []).append(accepted)
    problem = problem_with(schema, params, aliases)
    return None if problem is None else ToolFailure.of_params(problem)


def _with_window(params: dict[str, Any]) -> dict[str, Any]:
    """Converts 1-based inclusive `start_line`/`end_line` to 0-based `offset` and a line count."""
    start, end = params.get("start_line"), params.get("end_line")
    if not (_is_line_number(start) or _is_line_number(end)):
        return params
    window = {key: value for key, value in params.items() if key not in {"start_line", "end_line"}}
    if _is_line_number(start):
        window.setdefault("offset", start - 1)
    elif start is not None:
        return params
    offset = window.get("offset", 0)
    if end is None or not isinstance(offset, int):
        return window
    if not _is_line_number(end) or ("limit" not in window and end <= offset):
        return params
    window.setdefault("limit", end - offset)
    return window


def _is_index(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_line_number(value: object) -> TypeGuard[int]:
    """True when `value` is a valid line number."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def task_by_name(name: str, args: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any] | None:
    """Converts the arguments of a call by the name of an agent (`objective`, `query` or `prompt`)
    to those of delegate_to_agent, whose `schema` lists the agents. None when there is no such
    agent."""
    named = schema.get("properties", {}).get("agent_name", {})
    if name not in named.get("enum", ()):
        return None
    task = {key: value for key, value in args.items() if key not in _OBJECTIVE}
    objective = next((args[key] for key in _OBJECTIVE if key in args), None)
    return task | {"agent_name": name} | ({} if objective is None else {"objective": objective})
