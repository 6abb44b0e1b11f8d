"""Stores approved MCP tools in a file and compares them with the current ones.

A server can change a tool after its approval. So name, description and schema are stored, and a
changed tool is confirmed again, with a diff. So is a tool of a different program or URL under an
approved server name, and an approved tool without a stored pin.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from alhena.config.environment import has_secret_name, has_secret_value
from alhena.config.mcp_servers import McpServer, server_more, server_words
from alhena.mcp.connection import ListedTool
from alhena.system.errors import DamagedFileError, FileError, LockHeldError
from alhena.system.private_files import PrivateFiles

MAX_KEPT = 20_000
"""Maximum characters of a description or schema stored for the diff; the hash covers all of it."""
MAX_WORDS = 1_000


class ServerSource(msgspec.Struct, frozen=True, kw_only=True):
    """A hash that identifies a server, and a redacted description."""

    hash: str = ""
    words: str = ""


UNKNOWN = ServerSource()


def source_of(server: McpServer, directory: str) -> ServerSource:
    """Identifies a server started in `directory`. For a workspace's server the directory is
    included: the same command (`python -m server`, `make serve`) runs another program elsewhere.
    For a user's server it is included if the command has relative paths. Secret variables and
    headers count by name only, because their values are rotated."""
    from hashlib import sha256

    parts = (
        server.transport,
        server.address,
        server.command,
        server.args,
        server.cwd,
        _home(server, directory),
        _harmless({name: str(value) for name, value in server.env.items()}),
        _harmless(server.headers),
    )
    data = msgspec.json.encode(parts, order="deterministic")
    more = server_more(server)
    words = server_words(server) + (f" ({', '.join(more)})" if more else "")
    return ServerSource(hash=sha256(data).hexdigest(), words=words)


def _home(server: McpServer, directory: str) -> str:
    """The directory that is part of a server's identity; "" if it does not matter."""
    if server.of_workspace:
        return directory
    place = os.path.join(directory, server.cwd or "")
    return place if server.address is None and any(_files(server, place)) else ""


def _files(server: McpServer, place: str) -> Iterator[str]:
    """The words of a command line that are files relative to its directory."""
    if server.cwd is not None and not os.path.isabs(server.cwd):
        yield server.cwd
    command = server.command or ""
    if os.sep in command and not os.path.isabs(command):
        yield command
    for word in server.args:
        value = word.partition("=")[2] if word.startswith("-") else word
        if value and not os.path.isabs(value) and os.path.isfile(os.path.join(place, value)):
            yield word


def _harmless(values: Mapping[str, str]) -> list[tuple[str, str]]:
    return [
        (name, "" if has_secret_name(name) or has_secret_value(value) else value)
        for name, value in sorted(values.items())
    ]


class ToolPin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool as approved. `source` identifies the server. Each text is limited to MAX_KEPT
    characters."""

    hash: str
    source: ServerSource = UNKNOWN
    title: str = ""
    description: str = ""
    schema: str = ""

    @property
    def is_cut(self) -> bool:
        """True when a text may be longer than what is stored."""
        return MAX_KEPT in map(len, (self.title, self.description, self.schema))


def pin_of(tool: ListedTool, source: ServerSource) -> ToolPin:
    """Builds the pin of a tool from `source`."""
    return ToolPin(
        hash=tool_hash(tool),
        source=msgspec.structs.replace(source, words=source.words[:MAX_WORDS]),
        title=tool.title[:MAX_KEPT],
        description=tool.description[:MAX_KEPT],
        schema=_pretty(tool.schema)[:MAX_KEPT],
    )


def tool_hash(tool: ListedTool) -> str:
    """Hash of a tool's name, title, description and schema."""
    return _digest([tool.name, tool.title, tool.description, tool.schema])


def tools_hash(tools: Iterable[ListedTool]) -> str:
    """Hash of a set of tools."""
    return _digest([tool_hash(tool) for tool in tools])


def difference(pin: ToolPin, tool: ListedTool, source: ServerSource) -> str:
    """A unified diff from the approved to the current tool, with notes on changes beyond the stored
    text; "" if unchanged."""
    if pin.hash == tool_hash(tool) and pin.source.hash == source.hash:
        return ""
    from difflib import unified_diff

    # The description of the same server may have changed its format.
    same = pin.source.hash == source.hash
    now = pin_of(tool, pin.source if same else source)
    with_server = bool(pin.source.words or now.source.words)
    before, after = (_lines(each, with_server=with_server) for each in (pin, now))
    told = [*unified_diff(before, after, "approved", "now", lineterm="", n=2)]
    if pin.hash != now.hash and (pin.is_cut or now.is_cut):
        told.append(
            f"! only the first {MAX_KEPT:,} characters of each text are compared: the rest may "
            "have changed too"
        )
    if not same and pin.source.words == now.source.words:
        told.append("! the server has other variables, headers, files or another directory")
    return "\n".join(told)


def _lines(pin: ToolPin, *, with_server: bool) -> list[str]:
    told = [f"server: {pin.source.words}"] if with_server else []
    told += (f"title: {pin.title}", pin.description, pin.schema)
    return [line for each in told for line in each.split("\n")]


def _digest(value: Any) -> str:
    from hashlib import sha256

    return sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()


def _pretty(schema: dict[str, Any]) -> str:
    encoded = msgspec.json.encode(schema, order="deterministic")
    return msgspec.json.format(encoded, indent=2).decode("utf-8")


FILE = "mcp_tool_pins.json"
VERSION = 1
MAX_FILE = 32 * 1024 * 1024
PATIENCE_S = 2.0
"""Seconds to wait for another process to write the file, which takes milliseconds."""


class ServerPins(msgspec.Struct, kw_only=True):
    """The pins of a server's tools, latest approvals last. `every`: all its tools were approved at
    once."""

    every: bool = False
    tools: dict[str, ToolPin] = {}

    def and_then(self, later: "ServerPins") -> "ServerPins":
        """Merges later approvals."""
        older = {name: pin for name, pin in self.tools.items() if name not in later.tools}
        return ServerPins(every=self.every or later.every, tools=older | later.tools)


class PinDocument(msgspec.Struct, kw_only=True):
    """The pins of all servers by name."""

    version: int = VERSION
    servers: dict[str, ServerPins] = {}

    def and_then(self, later: Mapping[str, ServerPins]) -> "PinDocument":
        """Merges later approvals."""
        servers = dict(self.servers)
        for name, pins in later.items():
            servers[name] = servers.get(name, ServerPins()).and_then(pins)
        return PinDocument(servers=servers)


NEW = "is new since the server was approved"
CHANGED = "is not as it was when it was approved"
OTHER = "is of another server than the one that was approved under this name"
UNREADABLE = "cannot be compared with what was approved"
UNKNOWN_THEN = "was approved, but what it was like then is not known"


class Pins:
    """The pins of all servers, in a file readable only by its owner. `warn` receives read and write
    errors; unreadable pins count as not approved. Approvals of this process stay valid even if the
    file is lost."""

    def __init__(
        self, files: PrivateFiles, warn: Callable[[str], None], patience_s: float = PATIENCE_S
    ) -> None:
        self._files = files
        self._patience_s = patience_s
        self._warn = warn
        self._document: PinDocument | None = None
        self._own: dict[str, ServerPins] = {}
        self._readable = True

    def objection(
        self,
        server: str,
        tool: ListedTool,
        source: ServerSource = UNKNOWN,
        *,
        approved: bool = False,
    ) -> str:
        """The reason why an earlier approval does not cover this tool of `source`; "" if it does,
        or if there was none. `approved`: a person approved the tool."""
        known = self._read().servers.get(server)
        pin = None if known is None else known.tools.get(tool.name)
        if pin is None:
            if not self._readable:
                return UNREADABLE
            if known is not None and known.every:
                return NEW
            return UNKNOWN_THEN if approved else ""
        if pin.source.hash != source.hash:
            return OTHER
        return "" if pin.hash == tool_hash(tool) else CHANGED

    def changes(self, server: str, tool: ListedTool, source: ServerSource = UNKNOWN) -> str:
        """A unified diff from the approved to the current tool, with notes on changes beyond the
        stored text; "" if unchanged."""
        known = self._read().servers.get(server)
        pin = None if known is None else known.tools.get(tool.name)
        return "" if pin is None else difference(pin, tool, source)

    def approve(
        self,
        server: str,
        tools: Iterable[ListedTool],
        source: ServerSource = UNKNOWN,
        *,
        every: bool,
    ) -> None:
        """Records the approval of these tools of `source`. Blocks briefly until the file is saved
        or `warn` has received the error."""
        known = self._read()
        given = {tool.name: pin_of(tool, source) for tool in tools}
        own = self._own.get(server, ServerPins())
        self._own[server] = own.and_then(ServerPins(every=every, tools=given))
        try:
            self._document = self._save_document()
        except FileError as error:
            self._document = known.and_then(self._own)
            self._warn(f"what was approved of MCP server '{server}' is not kept: {error}")
            return
        self._own.clear()
        self._readable = True

    def _save_document(self) -> PinDocument:
        with self._files.hold(FILE, self._patience_s) as held:
            if not held:
                path = self._files.path(FILE)
                raise LockHeldError(f"another program holds {path} for too long.")
            document = self._load_document().and_then(self._own)
            data = msgspec.json.format(msgspec.json.encode(document))
            self._files.write(FILE, data, MAX_FILE)
        return document

    def _load_document(self) -> PinDocument:
        data = self._files.read(FILE, MAX_FILE)
        if data is None:
            return PinDocument()
        try:
            document = msgspec.json.decode(data, type=PinDocument)
            if document.version == VERSION:
                return document
            why = f"its version is {document.version}"
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            why = str(error)
        path = self._files.path(FILE)
        raise DamagedFileError(f"{path} cannot be used: {why}.", remedy="Move it away.")

    def _read(self) -> PinDocument:
        if self._document is None:
            try:
                self._document = self._load_document()
            except FileError as error:
                self._document, self._readable = PinDocument(), False
                self._warn(
                    "what was approved of MCP servers is not known, and their tools are asked "
                    f"about: {error}"
                )
        return self._document
