"""What is wrong or odd in the entries of `mcpServers`, with file and line."""

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, cast

import msgspec

from alhena.config.layers import Layer
from alhena.config.mcp_servers import McpOAuth, McpServer, server_of

SERVERS = "mcpServers"
_OTHERS = frozenset({"extension", "name"})
"""Members that the reference writes itself."""


def server_problems(layers: Iterable[Layer]) -> dict[str, str]:
    """What is wrong with each server that cannot be used, as the strongest layer has it (the last
    of them): file, line, the value and the remedy."""
    found: dict[str, str] = {}
    for layer, name, entry in _entries(layers):
        found.pop(name, None)
        made = server_of(name, entry)
        if isinstance(made, str):
            found[name] = _placed(layer, _path_in(made, name, entry), made)
    return found


def odd_members(layers: Iterable[Layer]) -> Iterator[str]:
    """A line for each member of an entry that means nothing, and for what was perhaps meant."""
    members = _members(McpServer) | _OTHERS
    for layer, name, entry in _entries(layers):
        if not isinstance(entry, dict):
            continue
        fields = cast("dict[str, Any]", entry)
        yield from _odd(layer, (SERVERS, name), fields, members)
        oauth = fields.get("oauth")
        if isinstance(oauth, dict):
            inner = cast("dict[str, Any]", oauth)
            yield from _odd(layer, (SERVERS, name, "oauth"), inner, _members(McpOAuth))


def _entries(layers: Iterable[Layer]) -> Iterator[tuple[Layer, str, object]]:
    for layer in layers:
        servers = layer.document.get(SERVERS)
        if isinstance(servers, dict):
            for name, entry in cast("dict[str, object]", servers).items():
                yield layer, name, entry


def _odd(
    layer: Layer, path: tuple[str, ...], fields: Mapping[str, Any], known: frozenset[str]
) -> Iterator[str]:
    for each in fields:
        if each in known:
            continue
        near = get_close_matches(each, sorted(known), n=1)
        hint = f" Did you mean {near[0]}?" if near else " Remove it."
        place = _line(layer, (*path, each))
        yield f"{place}: {'.'.join((*path, each))} means nothing, and has no effect.{hint}"


def _members(kind: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(field.encode_name for field in msgspec.structs.fields(kind))


def _path_in(problem: str, name: str, entry: object) -> tuple[str, ...]:
    """The member that a problem of an entry speaks of."""
    said = problem.partition(f"{SERVERS}.{name}.")[2].partition(":")[0].partition("[")[0]
    parts = tuple(said.split("."))
    there = isinstance(entry, dict) and parts[0] in entry
    return (SERVERS, name, *parts) if there else (SERVERS, name)


def _placed(layer: Layer, path: tuple[str, ...], problem: str) -> str:
    return f"{_line(layer, path)}: {problem.removeprefix('settings: ')}"


def _line(layer: Layer, path: tuple[str, ...]) -> str:
    line = layer.line(path)
    return f"{layer.path}" if line is None else f"{layer.path}:{line}"
