"""What tools of servers were like when a person approved them for more than one call.

A server can say one thing when it is approved and another thing later. So name, description and
schema are kept, and a tool that is not as it was is asked about again, with the difference.
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from alhena.mcp.connection import ListedTool
from alhena.system.errors import FileError
from alhena.system.private_files import PrivateFiles

FILE = "mcp_tool_pins.json"
MAX_KEPT = 20_000
"""Characters of a description or a schema that are kept to show the difference; the hash is of
all of it."""

NEW = "is new since the server was approved"
CHANGED = "is not as it was when it was approved"


class Pin(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as it was approved."""

    hash: str
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

    def objection(self, server: str, tool: ListedTool) -> str:
        """Why an approval of an earlier day does not hold for this tool; "" when it does, or when
        there was none."""
        known = self._read().servers.get(server)
        if self._unreadable:
            return "cannot be compared with what was approved"
        if known is None:
            return ""
        pin = known.tools.get(tool.name)
        if pin is None:
            return NEW if known.every else ""
        return "" if pin.hash == _hash(tool) else CHANGED

    def changes(self, server: str, tool: ListedTool) -> str:
        """A unified diff from the tool as it was approved to the tool as it is; "" for none."""
        known = self._read().servers.get(server)
        pin = None if known is None else known.tools.get(tool.name)
        if pin is None or pin.hash == _hash(tool):
            return ""
        from difflib import unified_diff

        before, after = _lines(pin), _lines(_pin(tool))
        return "\n".join(unified_diff(before, after, "approved", "now", lineterm="", n=2))

    def approve(self, server: str, tools: Iterable[ListedTool], *, every: bool) -> None:
        """These tools are approved as they are. Blocks for a moment: the file is on the disk when
        this returns, or `warn` has heard why not."""
        document = self._read()
        known = document.servers.setdefault(server, _Server())
        known.every = known.every or every
        known.tools = {**known.tools, **{tool.name: _pin(tool) for tool in tools}}
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


def _pin(tool: ListedTool) -> Pin:
    return Pin(
        hash=_hash(tool),
        title=tool.title[:MAX_KEPT],
        description=tool.description[:MAX_KEPT],
        schema=_pretty(tool.schema)[:MAX_KEPT],
    )


def _hash(tool: ListedTool) -> str:
    from hashlib import sha256

    told: Any = [tool.name, tool.title, tool.description, tool.schema]
    return sha256(msgspec.json.encode(told, order="deterministic")).hexdigest()


def _lines(pin: Pin) -> list[str]:
    return [f"title: {pin.title}", *pin.description.split("\n"), *pin.schema.split("\n")]


def _pretty(schema: dict[str, Any]) -> str:
    encoded = msgspec.json.encode(schema, order="deterministic")
    return msgspec.json.format(encoded, indent=2).decode("utf-8")
