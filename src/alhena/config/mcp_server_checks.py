"""Problems of MCP servers in settings files, with file and line."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import msgspec

from alhena.config.layers import Layer
from alhena.config.mcp_servers import SERVERS, McpOAuth, McpServer, server_of
from alhena.near_names import near_name

_OTHERS = frozenset({"extension", "name"})
"""Members written by the reference itself."""


def server_problems(layers: Iterable[Layer]) -> dict[str, str]:
    """The problems of invalid servers, from the highest (last) layer: file, line, value and
    remedy."""
    found: dict[str, str] = {}
    for layer, name, entry in _entries(layers):
        found.pop(name, None)
        made = server_of(name, entry)
        if isinstance(made, str):
            place = _line(layer, (SERVERS, name))
            found[name] = f"{place}: {made.removeprefix('settings: ')}"
    return found


def odd_members(layers: Iterable[Layer]) -> Iterator[str]:
    """A line for each unknown member of an entry, with a suggestion."""
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
        near = near_name(each, known)
        hint = f" Did you mean {near}?" if near else " Remove it."
        place = _line(layer, (*path, each))
        yield f"{place}: {'.'.join((*path, each))} means nothing, and has no effect.{hint}"


def _members(kind: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(field.encode_name for field in msgspec.structs.fields(kind))


def _line(layer: Layer, path: tuple[str, ...]) -> str:
    line = layer.line(path)
    return f"{layer.path}" if line is None else f"{layer.path}:{line}"
