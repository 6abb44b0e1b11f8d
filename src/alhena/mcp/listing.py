"""The lists of servers: which entries are taken (MCP-03), and the names their tools are declared
under (MCP-02).

The bare name where nothing else has it, else `server__tool`, else that with a hash. The order of
the settings decides, not who connected first; a name that a model has been told is never given to
another tool for the rest of the session.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, cast

import msgspec

from alhena.display_text import exact, one_line
from alhena.mcp.connection import ListedPrompt, ListedResource, ListedTool, PromptArgument
from alhena.tools.names import MAX_NAME_LENGTH, qualified_names
from alhena.wire.plain import as_object
from alhena.wire.schema.keywords import untyped_at

MAX_NAME = 300
MAX_DESCRIPTION = 10_000
"""Characters of a tool's description that a model is told."""

_EMPTY: dict[str, Any] = {"type": "object", "properties": {}}

T = TypeVar("T")


class Taken(msgspec.Struct, frozen=True):
    """The tools that can be used, and the others with the reasons."""

    tools: tuple[ListedTool, ...] = ()
    left_out: dict[str, str] = {}


def taken_tools(entries: Iterable[object], wanted: Callable[[str], bool]) -> Taken:
    """The tools of a list that are `wanted` by name."""
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
            made = _tool(name, fields)
            if isinstance(made, str):
                left_out[name] = made
            else:
                tools[name] = made
    return Taken(tuple(tools.values()), left_out)


def _tool(name: str, fields: dict[str, Any]) -> ListedTool | str:
    given: object = fields.get("inputSchema")
    schema = _EMPTY if given is None else as_object(given)
    if schema is None:
        return "its parameters are described by something that is no schema"
    place = untyped_at(schema)
    if place is not None:
        return f"its schema does not say the type of {_place(place)}"
    annotations = _object(fields.get("annotations"))
    description = _text(fields.get("description"))
    if len(description) > MAX_DESCRIPTION:
        description = description[:MAX_DESCRIPTION] + " […]"
    return ListedTool(
        name=name,
        title=_text(fields.get("title")) or _text(annotations.get("title")),
        description=description,
        schema=schema,
    )


def taken_prompts(entries: Iterable[object]) -> tuple[ListedPrompt, ...]:
    """The prompts of a list; those without a name are none."""

    def made(fields: dict[str, Any]) -> ListedPrompt | None:
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

    return _unique(entries, made, lambda prompt: prompt.name)


def taken_resources(entries: Iterable[object]) -> tuple[ListedResource, ...]:
    """The resources of a list; those without a URI are none."""

    def made(fields: dict[str, Any]) -> ListedResource | None:
        uri = _text(fields.get("uri"))
        if not uri:
            return None
        return ListedResource(
            uri=uri,
            name=_text(fields.get("name")),
            title=_text(fields.get("title")),
            description=_text(fields.get("description")),
            mime_type=_text(fields.get("mimeType")),
        )

    return _unique(entries, made, lambda resource: resource.uri)


def shown_to_models(tool: ListedTool) -> str:
    """The description with nothing in it that people do not see: a server must not tell a model
    what it hides from them."""
    return exact(tool.description)


def _unique(
    entries: Iterable[object],
    made: Callable[[dict[str, Any]], T | None],
    name: Callable[[T], str],
) -> tuple[T, ...]:
    items = [item for entry in entries if (item := made(_object(entry))) is not None]
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
"""A server and the name it has for a tool."""


def valid_name(name: str) -> str:
    """`name` in letters, digits, `_`, `.` and `-`, at most 63 of them: the first 28, `___` and the
    last 32 of a longer one. One that begins otherwise leaves room for a leading underscore."""
    valid = _INVALID.sub("_", name)
    room = MAX_NAME_LENGTH - (not valid[:1].isalpha() and valid[:1] != "_")
    if len(valid) <= room:
        return valid
    return valid[:_HEAD] + _GAP + valid[len(valid) - (room - _HEAD - len(_GAP)) :]


def hashed_name(name: str, key: Key) -> str:
    """`name` with a few letters behind it that no other tool has."""
    from hashlib import sha256

    mark = sha256("\0".join(key).encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]
    return f"{name[: MAX_NAME_LENGTH - _HASH - 2]}_{mark}"


def accepted_names(server: str, tool: str, *, alone: bool = True) -> tuple[str, ...]:
    """The ways to say "this tool of this server", as configured and, where it is `alone` with
    that, in valid letters."""
    tools = (tool, _INVALID.sub("_", tool)) if alone else (tool,)
    names = (
        name
        for known in dict.fromkeys((server, _INVALID.sub("_", server)))
        for each in dict.fromkeys(tools)
        for name in qualified_names(known, each)
    )
    return tuple(dict.fromkeys(names))


def claimed_names(key: Key) -> frozenset[str]:
    """All ways to say "this tool of this server", whichever name it is declared under."""
    server, tool = key
    return frozenset((*accepted_names(server, tool), *qualified_names(server, valid_name(tool))))


def ambiguous_names(keys: Iterable[Key]) -> frozenset[str]:
    """The ways to say "this tool of this server" that could be said of two of these: `mcp_a_b_c` is
    a tool of `a` and one of `a_b`."""
    owners: dict[str, Key] = {}
    found: set[str] = set()
    for key in keys:
        for name in claimed_names(key):
            if owners.setdefault(name, key) != key:
                found.add(name)
    return frozenset(found)


class Names:
    """The names of one session. `taken` says whether a tool that is no server's has a name."""

    def __init__(self, servers: Iterable[str], taken: Callable[[str], bool]) -> None:
        self._taken = taken
        known = (name for server in servers for name in (server, _INVALID.sub("_", server)))
        self._prefixes = tuple(prefix for name in known for prefix in (f"{name}__", f"mcp_{name}_"))
        self._told: dict[Key, str] = {}

    def assign(self, keys: Sequence[Key]) -> dict[Key, str]:
        """A name for each tool, in their order."""
        owners = {name: key for key, name in self._told.items()}
        given: dict[Key, str] = {}
        for key in dict.fromkeys(keys):
            name = self._told.get(key) or self._free(key, owners)
            owners[name] = key
            given[key] = name
        return given

    def tell(self, given: dict[Key, str]) -> None:
        """These names stay with their tools from now on."""
        self._told.update(given)

    def _free(self, key: Key, owners: dict[str, Key]) -> str:
        bare = valid_name(key[1])
        qualified = valid_name(f"{key[0]}__{key[1]}")
        # A name that reads like another server's tool would be taken for that.
        names = (qualified,) if bare.startswith(self._prefixes) else (bare, qualified)
        rival = owners.get(bare)
        if rival is not None and rival[0] == key[0]:
            names = ()  # `server__tool` means that one, also in what was approved of it
        for name in names:
            if name not in owners and not self._taken(name):
                return name
        return hashed_name(qualified, key)
