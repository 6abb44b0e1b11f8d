"""Converts parameters from a model to a tool's declared parameters.

`prepare` is the entry point: it renames accepted names, converts other spellings of a type and
checks the JSON Schema. It never guesses: anything without a table entry is left unchanged.
"""

from typing import Any, TypeGuard

from alhena.tools.contract import ToolFailure
from alhena.tools.schema import problem_with, respelled

PARAMETER_ALIASES: dict[str, dict[str, str]] = {
    "read_file": {"file_path": "absolute_path"},
    "write_file": {"absolute_path": "file_path"},
    "replace": {"absolute_path": "file_path"},
    "smart_edit": {"absolute_path": "file_path"},
    "list_directory": {"dir_path": "path", "directory": "path"},
    "glob": {"dir_path": "path", "directory": "path"},
    "search_file_content": {
        "dir_path": "path",
        "directory": "path",
        "include_pattern": "include",
    },
    "run_shell_command": {"dir_path": "directory"},
    "delegate_to_agent": {"prompt": "objective"},
}
"""Tool -> accepted name -> declared name."""
_OBJECTIVE = ("objective", "query", "prompt")

ACCEPTED_EXTRAS: dict[str, dict[str, Any]] = {
    "read_file": {
        "type": "object",
        "properties": {
            "start_line": {"type": "integer", "minimum": 1},
            "end_line": {"type": "integer", "minimum": 1},
        },
    },
    "replace": {
        "type": "object",
        "properties": {"allow_multiple": {"type": "boolean"}, "instruction": {"type": "string"}},
    },
    "smart_edit": {
        "type": "object",
        "properties": {
            "allow_multiple": {"type": "boolean"},
            "expected_replacements": {"type": "integer", "minimum": 1},
        },
    },
    "exit_plan_mode": {
        "type": "object",
        "properties": {"plan_filename": {"type": "string"}},
    },
    "search_file_content": {
        "type": "object",
        "properties": {
            "exclude_pattern": {"type": "string"},
            "names_only": {"type": "boolean"},
            "max_matches_per_file": {"type": "integer", "minimum": 1},
            "total_max_matches": {"type": "integer", "minimum": 1},
            "case_sensitive": {"type": "boolean"},
            "fixed_strings": {"type": "boolean"},
            "context": {"type": "integer", "minimum": 0},
            "before": {"type": "integer", "minimum": 0},
            "after": {"type": "integer", "minimum": 0},
            "no_ignore": {"type": "boolean"},
        },
    },
}
"""Tool -> schema of the parameters it accepts without declaring them."""


def prepare(
    tool_name: str, schema: dict[str, Any], params: dict[str, Any]
) -> dict[str, Any] | ToolFailure:
    """Renames and checks `params`, or returns why they are invalid.

    `tool_name` is the declared name, `schema` the declared parameters. `params` is not changed.
    """
    normal = normalise(tool_name, params, schema)
    extras = ACCEPTED_EXTRAS.get(tool_name)
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

    With `schema`, "true" and "false" become booleans and integral floats integers where it requires
    those. An invalid line range is left unchanged.
    """
    normal = dict(params)
    for accepted, declared in PARAMETER_ALIASES.get(tool_name, {}).items():
        if accepted in normal:
            value = normal.pop(accepted)
            normal.setdefault(declared, value)
    extras = ACCEPTED_EXTRAS.get(tool_name)
    if extras is not None:
        normal = respelled(extras, normal)
    if schema is not None:
        normal = respelled(schema, normal)
    if tool_name == "read_file":
        normal = _with_window(normal)
    if tool_name == "read_many_files" and "paths" not in normal and "include" in normal:
        normal["paths"] = normal.pop("include")
    return normal


def with_aliases(
    tool_name: str, params: dict[str, Any], schema: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Copies `params` with every accepted name added."""
    shown = dict(params)
    for accepted, declared in _aliases(tool_name, schema).items():
        if declared in params:
            shown[accepted] = params[declared]
    if tool_name == "read_file" and _is_index(shown.get("offset", 0)):
        offset, limit = shown.get("offset", 0), shown.get("limit")
        if "offset" in shown:
            shown["start_line"] = offset + 1
        if _counted(limit):
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
    for accepted, declared in _aliases(tool_name, schema).items():
        if accepted in changed:
            value = changed.pop(accepted)
            changed.setdefault(declared, value)
    lines = [key for key in ("start_line", "end_line") if key in changed]
    if tool_name == "read_file" and lines:
        whole = {key: told[key] for key in ("start_line", "end_line") if key in told}
        whole |= {key: changed.pop(key) for key in lines}
        changed = {**_with_window(whole), **changed}
    return changed


def _aliases(tool_name: str, schema: dict[str, Any] | None) -> dict[str, str]:
    """The accepted names of a tool. For another tool under a built-in name, only those of
    parameters that it has."""
    found = PARAMETER_ALIASES.get(tool_name, {})
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
    for accepted, declared in PARAMETER_ALIASES.get(tool_name, {}).items():
        aliases.setdefault(declared, []).append(accepted)
    problem = problem_with(schema, params, aliases)
    return None if problem is None else ToolFailure.of_params(problem)


def _with_window(params: dict[str, Any]) -> dict[str, Any]:
    """Converts 1-based inclusive `start_line`/`end_line` to 0-based `offset` and a line count."""
    start, end = params.get("start_line"), params.get("end_line")
    if not (_counted(start) or _counted(end)):
        return params
    window = {key: value for key, value in params.items() if key not in {"start_line", "end_line"}}
    if _counted(start):
        window.setdefault("offset", start - 1)
    elif start is not None:
        return params
    offset = window.get("offset", 0)
    if end is None or not isinstance(offset, int):
        return window
    if not _counted(end) or ("limit" not in window and end <= offset):
        return params
    window.setdefault("limit", end - offset)
    return window


def _is_index(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _counted(value: object) -> TypeGuard[int]:
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
