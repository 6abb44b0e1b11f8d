"""What tools of servers were like when a person approved them for more than one call.

A server can say one thing when it is approved and another thing later. So name, description and
schema are kept, and a tool that is not as it was is asked about again, with the difference. So is
one of another program, or from another URL, under the name of a server that was approved.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import msgspec

from alhena.display_text import one_line
from alhena.mcp.connection import ListedTool
from alhena.mcp.source import UNKNOWN, Source
from alhena.system.errors import FileError
from alhena.system.private_files import PrivateFiles

FILE = "mcp_tool_pins.json"
MAX_KEPT = 20_000
"""Characters of a description or a schema that are kept to show the difference; the hash is of
all of it."""

NEW = "is new since the server was approved"
CHANGED = "is not as it was when it was approved"
OTHER = "is of another server than the one that was approved under this name"
MAX_DIFFERENCE = 2 * MAX_KEPT
"""Characters of a description or a schema that the difference is looked for in."""
MAX_PROPERTIES = 500
MAX_NAMED = 20
_SHORT = 16
"""Digits of the hash of a part: it says where a difference is, and not whether there is one."""


class Pin(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as it was approved. `parts` has the hashes of title, description and schema,
    `properties` of those of the schema; `source` is what the server was."""

    hash: str
    source: Source = UNKNOWN
    parts: dict[str, str] = {}
    properties: dict[str, str] = {}
    title: str = ""
    description: str = ""
    schema: str = ""


class _Server(msgspec.Struct, kw_only=True):
    """The tools of a server. `every`: all it had then were approved at once."""

    every: bool = False
    tools: dict[str, Pin] = {}


class _Document(msgspec.Struct, kw_only=True):
    version: int = 1
    servers: dict[str, _Server] = {}


class Pins:
    """The pins of all servers, in a file that only its owner may read. `warn` hears why they could
    not be read or kept; what could not be read counts as not approved."""

    def __init__(self, files: PrivateFiles, warn: Callable[[str], None]) -> None:
        self._files = files
        self._warn = warn
        self._document: _Document | None = None
        self._unreadable = False

    def objection(self, server: str, tool: ListedTool, source: Source = UNKNOWN) -> str:
        """Why an approval of an earlier day does not hold for this tool of a server that is
        `source`; "" when it does, or when there was none."""
        known = self._read().servers.get(server)
        if self._unreadable:
            return "cannot be compared with what was approved"
        if known is None:
            return ""
        pin = known.tools.get(tool.name)
        if pin is None:
            return NEW if known.every else ""
        if pin.source.hash != source.hash:
            return OTHER
        return "" if pin.hash == tool_hash(tool) else CHANGED

    def changes(self, server: str, tool: ListedTool, source: Source = UNKNOWN) -> str:
        """A unified diff from the tool as it was approved to the tool as it is, with what differs
        behind the part that was kept; "" for none."""
        known = self._read().servers.get(server)
        pin = None if known is None else known.tools.get(tool.name)
        if pin is None or (pin.hash == tool_hash(tool) and pin.source.hash == source.hash):
            return ""
        from difflib import unified_diff

        now = _pin(tool, source, MAX_DIFFERENCE)
        before, after = _lines(pin, pin), _lines(now, pin)
        told = [*unified_diff(before, after, "approved", "now", lineterm="", n=2)]
        told += _unseen(pin, tool, now)
        if pin.source.hash != source.hash and pin.source.words == source.words:
            told.append("! the server has other variables, headers, files or another directory")
        return "\n".join(told)

    def approve(
        self, server: str, tools: Iterable[ListedTool], source: Source = UNKNOWN, *, every: bool
    ) -> None:
        """These tools of a server that is `source` are approved as they are given. Blocks for a
        moment: the file is on the disk when this returns, or `warn` has heard why not."""
        document = self._read()
        known = document.servers.setdefault(server, _Server())
        known.every = known.every or every
        pins = {tool.name: _pin(tool, source, MAX_KEPT) for tool in tools}
        known.tools = {**known.tools, **pins}
        self._unreadable = False
        try:
            self._files.write(FILE, msgspec.json.format(msgspec.json.encode(document)))
        except FileError as error:
            self._warn(f"what was approved of MCP server '{server}' is not kept: {error}")

    def _read(self) -> _Document:
        if self._document is None:
            self._document = _Document()
            try:
                data = self._files.read(FILE)
                if data is not None:
                    self._document = msgspec.json.decode(data, type=_Document)
            except (FileError, msgspec.MsgspecError, UnicodeDecodeError) as error:
                self._unreadable = True
                path = self._files.path(FILE)
                self._warn(f"{path} cannot be read ({error}); tools of MCP servers are asked about")
        return self._document


def tool_hash(tool: ListedTool) -> str:
    """What tells this tool from any that is not as it is."""
    return _digest([tool.name, tool.title, tool.description, tool.schema])


def tools_hash(tools: Iterable[ListedTool]) -> str:
    """What tells these tools from any others."""
    return _digest([tool_hash(tool) for tool in tools])


def _pin(tool: ListedTool, source: Source, most: int) -> Pin:
    parts = {"title": tool.title, "description": tool.description, "schema": tool.schema}
    return Pin(
        hash=tool_hash(tool),
        source=source,
        title=tool.title[:most],
        description=tool.description[:most],
        schema=_pretty(tool.schema)[:most],
        parts={name: _digest(part)[:_SHORT] for name, part in parts.items()},
        properties=_properties(tool.schema),
    )


def _properties(schema: dict[str, Any]) -> dict[str, str]:
    """The hashes of the properties of a schema, of so many of them."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return {}
    named = sorted(cast("dict[str, Any]", properties).items())
    return {name: _digest(each)[:_SHORT] for name, each in named[:MAX_PROPERTIES]}


def _unseen(pin: Pin, tool: ListedTool, now: Pin) -> Iterator[str]:
    """Lines on what the diff cannot show: it lies behind what was kept, or what is looked at."""
    lengths = {
        "title": len(tool.title),
        "description": len(tool.description),
        "schema": len(_pretty(tool.schema)),
    }
    kept = {"title": pin.title, "description": pin.description, "schema": pin.schema}
    for part, length in lengths.items():
        if pin.parts.get(part) == now.parts[part]:
            continue
        cut = len(kept[part]) >= MAX_KEPT
        if not cut and length <= MAX_DIFFERENCE:
            continue
        seen = MAX_KEPT if cut else MAX_DIFFERENCE
        yield (
            f"! its {part} is another, and may differ behind the first {seen:,} characters, which "
            f"are all that is compared here; now it has {length:,}"
        )
        if part == "schema":
            yield from _other_properties(pin.properties, now.properties)


def _other_properties(before: dict[str, str], now: dict[str, str]) -> Iterator[str]:
    found = {
        "are new": [name for name in now if name not in before],
        "are gone": [name for name in before if name not in now],
        "are not as they were": [name for name in now if before.get(name, now[name]) != now[name]],
    }
    for what, names in found.items():
        if names:
            more = len(names) - MAX_NAMED
            named = ", ".join(one_line(name, 60) for name in names[:MAX_NAMED])
            yield f"! properties that {what}: {named}" + (f" and {more} more" if more > 0 else "")


def _digest(value: Any) -> str:
    from hashlib import sha256

    return sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()


def _lines(pin: Pin, kept: Pin) -> list[str]:
    """What a pin says, no more of it than was kept of what was approved."""
    server = [f"server: {pin.source.words}"] if pin.source.words or kept.source.words else []
    pairs = ((pin.description, kept.description), (pin.schema, kept.schema))
    texts = (text[:MAX_KEPT] if len(old) >= MAX_KEPT else text for text, old in pairs)
    return [*server, f"title: {pin.title}", *(line for each in texts for line in each.split("\n"))]


def _pretty(schema: dict[str, Any]) -> str:
    encoded = msgspec.json.encode(schema, order="deterministic")
    return msgspec.json.format(encoded, indent=2).decode("utf-8")
