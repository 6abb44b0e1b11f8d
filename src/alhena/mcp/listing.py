"""Validates the lists of servers (MCP-03) and assigns the declared names of tools (MCP-02).

A tool keeps its bare name if that is free, else gets `server__tool`, else a name with a hash. The
order of the settings decides, not the order of connection; a name declared to a model is never
given to another tool in the same session.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, cast

import msgspec

from alhena.display_text import exact, one_line
from alhena.mcp.connection import ListedPrompt, ListedResource, ListedTool, PromptArgument
from alhena.tools.registry import MAX_NAME_LENGTH, qualified_names
from alhena.wire.json_values import as_object
from alhena.wire.schema.keywords import untyped_at, with_implied_types

MAX_NAME = 300
MAX_DESCRIPTION = 10_000
"""Maximum characters of a tool's description for the model."""

_EMPTY: dict[str, Any] = {"type": "object", "properties": {}}

T = TypeVar("T")


class UsableTools(msgspec.Struct, frozen=True):
    """The usable tools, and the others with the reasons."""

    tools: tuple[ListedTool, ...] = ()
    left_out: dict[str, str] = {}


def parse_tools(
    entries: Iterable[object], wanted: Callable[[str], bool], *, skip_untyped: bool = False
) -> UsableTools:
    """Selects the tools of a list that are `wanted` by name; with `skip_untyped`, those whose
    schemas say all types."""
    tools: dict[str, ListedTool] = {}
    left_out: dict[str, str] = {}
    for place, entry in enumerate(entries, 1):
        fields = _object(entry)
        name = fields.get("name")
        if not isinstance(name, str) or not name.strip() or len(name) > MAX_NAME:
            left_out[f"entry {place}"] = "it has no name that can be used"
        elif not wanted(name):
            continue
        elif name in tools:
            left_out[name] = "the server lists it twice; the first one is used"
        else:
            made = _tool(name, fields, skip_untyped=skip_untyped)
            if isinstance(made, str):
                left_out[name] = made
            else:
                tools[name] = made
    return UsableTools(tuple(tools.values()), left_out)


def _tool(name: str, fields: dict[str, Any], *, skip_untyped: bool) -> ListedTool | str:
    given: object = fields.get("inputSchema")
    schema = _EMPTY if given is None else as_object(given)
    if schema is None:
        return "its parameters are described by something that is no schema"
    place = untyped_at(schema) if skip_untyped else None
    if place is not None:
        return f"its schema does not say the type of {_place(place)} (mcp.skipUntyped)"
    annotations = _object(fields.get("annotations"))
    description = _text(fields.get("description"))
    if len(description) > MAX_DESCRIPTION:
        description = description[:MAX_DESCRIPTION] + " […]"
    return ListedTool(
        name=name,
        title=_text(fields.get("title")) or _text(annotations.get("title")),
        description=description,
        schema=with_implied_types(schema),
    )


def parse_prompts(entries: Iterable[object]) -> tuple[ListedPrompt, ...]:
    """The prompts of a list, without those that lack a name."""

    def parse_prompt(fields: dict[str, Any]) -> ListedPrompt | None:
        name = _text(fields.get("name"))
        if not name.strip() or len(name) > MAX_NAME:
            return None
        given: object = fields.get("arguments")
        items = cast("list[object]", given) if isinstance(given, list) else []
        arguments = (_object(each) for each in items)
        return ListedPrompt(
            name=name,
            title=_text(fields.get("title")),
            description=_text(fields.get("description")),
            arguments=tuple(
                PromptArgument(
                    name=_text(each.get("name")),
                    description=_text(each.get("description")),
                    required=each.get("required") is True,
                )
                for each in arguments
                if _text(each.get("name"))
            ),
        )

    return _unique(entries, parse_prompt, lambda prompt: prompt.name)


def parse_resources(entries: Iterable[object], key: str = "uri") -> tuple[ListedResource, ...]:
    """The resources of a list, without those that lack a URI, which is at `key`."""

    def parse_resource(fields: dict[str, Any]) -> ListedResource | None:
        uri = _text(fields.get(key))
        if not uri:
            return None
        return ListedResource(
            uri=uri,
            name=_text(fields.get("name")),
            title=_text(fields.get("title")),
            description=_text(fields.get("description")),
            mime_type=_text(fields.get("mimeType")),
        )

    return _unique(entries, parse_resource, lambda resource: resource.uri)


def parse_templates(entries: Iterable[object]) -> tuple[ListedResource, ...]:
    """The templates of a list, with their patterns as URIs."""
    return parse_resources(entries, "uriTemplate")


def visible_description(tool: ListedTool) -> str:
    """The description with hidden characters made visible: a server must not give a model
    instructions that people cannot see."""
    return exact(tool.description)


def _unique(
    entries: Iterable[object],
    parse: Callable[[dict[str, Any]], T | None],
    name: Callable[[T], str],
) -> tuple[T, ...]:
    items = [item for entry in entries if (item := parse(_object(entry))) is not None]
    return tuple({name(item): item for item in reversed(items)}.values())[::-1]


def _place(path: str) -> str:
    return "the parameters" if path == "$" else one_line(path.removeprefix("$."), 200)


def _object(value: object) -> dict[str, Any]:
    return as_object(value) or {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


_INVALID = re.compile(r"[^A-Za-z0-9_.-]")
_HEAD, _GAP, _HASH = 28, "___", 8

Key = tuple[str, str]
"""A server and its own name for a tool."""


def valid_name(name: str) -> str:
    """Converts `name` to at most 63 letters, digits, `_`, `.` and `-`: a longer one keeps its first
    28 and last 32 characters around `___`. Leaves room for a leading underscore if one is needed.
    """
    valid = _INVALID.sub("_", name)
    room = MAX_NAME_LENGTH - (not valid[:1].isalpha() and valid[:1] != "_")
    if len(valid) <= room:
        return valid
    return valid[:_HEAD] + _GAP + valid[len(valid) - (room - _HEAD - len(_GAP)) :]


def add_name_hash(name: str, key: Key) -> str:
    """`name` with a unique hash suffix."""
    from hashlib import sha256

    mark = sha256("\0".join(key).encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]
    return f"{name[: MAX_NAME_LENGTH - _HASH - 2]}_{mark}"


def accepted_names(server: str, tool: str, *, alone: bool = True) -> tuple[str, ...]:
    """The accepted names of a tool, as configured and, if `alone` in that, in valid letters."""
    tools = (tool, _INVALID.sub("_", tool)) if alone else (tool,)
    names = (
        name
        for known in dict.fromkeys((server, _INVALID.sub("_", server)))
        for each in dict.fromkeys(tools)
        for name in qualified_names(known, each)
    )
    return tuple(dict.fromkeys(names))


def claimed_names(key: Key) -> frozenset[str]:
    """All accepted names of a tool, whatever its declared name."""
    server, tool = key
    return frozenset((*accepted_names(server, tool), *qualified_names(server, valid_name(tool))))


def names_to_refuse(key: Key) -> frozenset[str]:
    """All names by which a tool may come to be called."""
    bare, qualified = valid_name(key[1]), valid_name(f"{key[0]}__{key[1]}")
    declared = (bare, f"_{bare}", qualified, add_name_hash(qualified, key))
    return claimed_names(key) | frozenset(declared)


def ambiguous_names(keys: Iterable[Key]) -> frozenset[str]:
    """The accepted names that fit more than one tool: `mcp_a_b_c` may belong to `a` or to `a_b`."""
    owners: dict[str, Key] = {}
    found: set[str] = set()
    for key in keys:
        for name in claimed_names(key):
            if owners.setdefault(name, key) != key:
                found.add(name)
    return frozenset(found)


class Names:
    """The declared names of one session. `taken` returns True for names of tools that are not from
    servers."""

    def __init__(self, servers: Iterable[str], taken: Callable[[str], bool]) -> None:
        self._taken = taken
        known = (name for server in servers for name in (server, _INVALID.sub("_", server)))
        self._prefixes = tuple(prefix for name in known for prefix in (f"{name}__", f"mcp_{name}_"))
        self._told: dict[Key, str] = {}

    def assign(self, keys: Sequence[Key]) -> dict[Key, str]:
        """Assigns a name to each tool, in their order."""
        owners = {name: key for key, name in self._told.items()}
        given: dict[Key, str] = {}
        for key in dict.fromkeys(keys):
            name = self._told.get(key) or self._free(key, owners)
            owners[name] = key
            given[key] = name
        return given

    def tell(self, given: dict[Key, str]) -> None:
        """Reserves these names for their tools from now on."""
        self._told.update(given)

    def _free(self, key: Key, owners: dict[str, Key]) -> str:
        bare = valid_name(key[1])
        qualified = valid_name(f"{key[0]}__{key[1]}")
        # A name that looks like another server's tool would be mistaken for it.
        names = (qualified,) if bare.startswith(self._prefixes) else (bare, qualified)
        rival = owners.get(bare)
        if rival is not None and rival[0] == key[0]:
            names = ()  # `server__tool` belongs to that tool, also in saved approvals
        for name in names:
            if name not in owners and not self._taken(name):
                return name
        return add_name_hash(qualified, key)
