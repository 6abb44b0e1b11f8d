"""Tools as they were when a person approved them, kept in a file, and how one differs now.

A server can say one thing when it is approved and another thing later. So name, description and
schema are kept, and a tool that is not as it was is asked about again, with the difference. So is
one of another program, or from another URL, under the name of a server that was approved; and one
that was approved, but of which nothing is kept.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from alhena.display_text import one_line
from alhena.mcp.connection import ListedTool
from alhena.mcp.shown import UNKNOWN, Source
from alhena.system.errors import (
    DamagedFileError,
    DirectoryTargetError,
    FileError,
    FileTooLargeError,
    LockHeldError,
    NotRegularFileError,
)
from alhena.system.private_files import PrivateFiles

MAX_KEPT = 20_000
"""Characters of a description or a schema that are kept to show the difference; the hash is of
all of it."""
MAX_DIFFERENCE = 2 * MAX_KEPT
"""Characters of a description or a schema that the difference is looked for in."""
MAX_WORDS = 1_000
MAX_PROPERTIES = 500
MAX_PROPERTY = 100
MAX_NAMED = 20
_SHORT = 16
"""Digits of the hash of a part: it says where a difference is, and not whether there is one."""


class Pin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool as it was approved. `parts` has the hashes of title, description and schema,
    `properties` of those of the schema; `source` is what the server was. Of each text `kept`
    characters are here at most, 0 where none are."""

    hash: str
    source: Source = UNKNOWN
    parts: dict[str, str] = {}
    properties: dict[str, str] = {}
    title: str = ""
    description: str = ""
    schema: str = ""
    kept: int = MAX_KEPT

    def without_texts(self) -> "Pin":
        """The same as small as it gets: it tells another tool from this one, and not how."""
        return msgspec.structs.replace(
            self, kept=0, title="", description="", schema="", properties={}
        )


def pin_of(tool: ListedTool, source: Source, most: int = MAX_KEPT) -> Pin:
    """The pin of a tool of a server that is `source`, with so many characters of its texts."""
    parts = {"title": tool.title, "description": tool.description, "schema": tool.schema}
    return Pin(
        hash=tool_hash(tool),
        source=msgspec.structs.replace(source, words=source.words[:MAX_WORDS]),
        title=tool.title[:most],
        description=tool.description[:most],
        schema=_pretty(tool.schema)[:most],
        parts={name: _digest(part)[:_SHORT] for name, part in parts.items()},
        properties=_properties(tool.schema),
    )


def tool_hash(tool: ListedTool) -> str:
    """What tells this tool from any that is not as it is."""
    return _digest([tool.name, tool.title, tool.description, tool.schema])


def tools_hash(tools: Iterable[ListedTool]) -> str:
    """What tells these tools from any others."""
    return _digest([tool_hash(tool) for tool in tools])


def difference(pin: Pin, tool: ListedTool, source: Source) -> str:
    """A unified diff from the tool as it was approved to the tool as it is, with what differs
    behind the part that was kept; "" for none."""
    if pin.hash == tool_hash(tool) and pin.source.hash == source.hash:
        return ""
    from difflib import unified_diff

    # The same server may be in other words than those that were kept.
    same = pin.source.hash == source.hash
    now = pin_of(tool, pin.source if same else source, MAX_DIFFERENCE)
    before, after = _lines(pin, pin), _lines(now, pin)
    told = [*unified_diff(before, after, "approved", "now", lineterm="", n=2)]
    told += _unseen(pin, tool, now)
    if not same and pin.source.words == now.source.words:
        told.append("! the server has other variables, headers, files or another directory")
    return "\n".join(told)


def _lines(pin: Pin, old: Pin) -> list[str]:
    """What a pin says, no more of it than was kept of what was approved."""
    told = [f"server: {pin.source.words}"] if pin.source.words or old.source.words else []
    if old.kept:
        told.append(f"title: {pin.title}")
        pairs = ((pin.description, old.description), (pin.schema, old.schema))
        told += (text[: old.kept] if len(was) >= old.kept else text for text, was in pairs)
    return [line for each in told for line in each.split("\n")]


def _unseen(pin: Pin, tool: ListedTool, now: Pin) -> Iterator[str]:
    """Lines on what the diff cannot show: it lies behind what was kept, or what is looked at.
    Numbers are of characters."""
    lengths = {
        "title": len(tool.title),
        "description": len(tool.description),
        "schema": len(_pretty(tool.schema)),
    }
    were = {"title": pin.title, "description": pin.description, "schema": pin.schema}
    for part, length in lengths.items():
        if pin.parts.get(part) == now.parts[part]:
            continue
        if not pin.kept:
            yield f"! its {part} is another, and what it was is not kept; now it has {length:,}"
            continue
        cut = len(were[part]) >= pin.kept
        if not cut and length <= MAX_DIFFERENCE:
            continue
        seen = pin.kept if cut else MAX_DIFFERENCE
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


def _properties(schema: dict[str, Any]) -> dict[str, str]:
    """The hashes of the properties of a schema, of so many of them."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return {}
    named = sorted(cast("dict[str, Any]", properties).items())
    return {name[:MAX_PROPERTY]: _digest(each)[:_SHORT] for name, each in named[:MAX_PROPERTIES]}


def _digest(value: Any) -> str:
    from hashlib import sha256

    return sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()


def _pretty(schema: dict[str, Any]) -> str:
    encoded = msgspec.json.encode(schema, order="deterministic")
    return msgspec.json.format(encoded, indent=2).decode("utf-8")


FILE = "mcp_tool_pins.json"
VERSION = 1
MAX_FILE = 32 * 1024 * 1024
MAX_SERVER = 2 * 1024 * 1024
"""Bytes that the pins of one server have: what it lists must not cost others theirs."""
MAX_TEXTS = 512 * 1024
"""Of those, bytes of pins with the texts that show a difference; the others have hashes alone."""
PATIENCE_S = 2.0
"""Seconds to wait for another process that writes the file, which takes it milliseconds."""

DAMAGED = (DamagedFileError, FileTooLargeError, NotRegularFileError, DirectoryTargetError)
"""What `PinFile.read` raises of something that is no file of pins, and is put aside."""


class ServerPins(msgspec.Struct, kw_only=True):
    """The tools of a server, those last approved at the end. `every`: all it had then were approved
    at once."""

    every: bool = False
    tools: dict[str, Pin] = {}

    def and_then(self, later: "ServerPins") -> "ServerPins":
        """The same with what was approved later."""
        older = {name: pin for name, pin in self.tools.items() if name not in later.tools}
        return ServerPins(every=self.every or later.every, tools=older | later.tools)


class Document(msgspec.Struct, kw_only=True):
    """The pins of all servers, by their names."""

    version: int = VERSION
    servers: dict[str, ServerPins] = {}

    def and_then(self, later: Mapping[str, ServerPins]) -> "Document":
        """The same with what was approved later."""
        servers = dict(self.servers)
        for name, pins in later.items():
            servers[name] = servers.get(name, ServerPins()).and_then(pins)
        return Document(servers=servers)


class PinFile:
    """The pins on the disk. Methods block for a moment and raise FileError."""

    def __init__(self, files: PrivateFiles, patience_s: float = PATIENCE_S) -> None:
        self._files = files
        self._patience_s = patience_s

    @property
    def path(self) -> Path:
        """Where the file is, or would be."""
        return self._files.path(FILE)

    def read(self) -> Document:
        """What is there now. Raises FileError: one of DAMAGED for what is no file of pins."""
        data = self._files.read(FILE, MAX_FILE)
        if data is None:
            return Document()
        try:
            document = msgspec.json.decode(data, type=Document)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise DamagedFileError(f"{self.path} holds something else: {error}.") from error
        if document.version != VERSION:
            raise DamagedFileError(f"{self.path} is of another version: {document.version}.")
        return document

    def add(self, approved: Mapping[str, ServerPins]) -> tuple[Document, Path | None]:
        """Adds pins to what is there now; what is there then, which may be less where a server has
        too many. A file that holds something else is moved away first: the path it has then."""
        with self._files.hold(FILE, self._patience_s) as held:
            if not held:
                raise LockHeldError(f"another program holds {self.path} for too long.")
            aside: Path | None = None
            try:
                document = self.read()
            except DAMAGED:
                aside = self._files.set_aside(FILE)
                document = Document()
            document = document.and_then(approved)
            bounded = {name: _bounded(pins) for name, pins in document.servers.items()}
            document = Document(servers=bounded)
            data = msgspec.json.format(msgspec.json.encode(document))
            self._files.write(FILE, data, MAX_FILE)
        return document, aside


def _bounded(pins: ServerPins) -> ServerPins:
    """The pins that fit, the last first; texts go before pins do."""
    left, texts = MAX_SERVER, MAX_TEXTS
    kept: list[tuple[str, Pin]] = []
    for name, pin in reversed(pins.tools.items()):
        fitting, size = pin, _size(name, pin)
        if pin.kept and size > texts:
            fitting = pin.without_texts()
            size = _size(name, fitting)
        elif pin.kept:
            texts -= size
        if size <= left:
            left -= size
            kept.append((name, fitting))
    return ServerPins(every=pins.every, tools=dict(reversed(kept)))


def _size(name: str, pin: Pin) -> int:
    return len(msgspec.json.encode({name: pin}))


NEW = "is new since the server was approved"
CHANGED = "is not as it was when it was approved"
OTHER = "is of another server than the one that was approved under this name"
UNREADABLE = "cannot be compared with what was approved"
UNKNOWN_THEN = "was approved, but what it was like then is not known"


class Pins:
    """The pins of all servers, in a file that only its owner may read. `warn` hears why they could
    not be read or kept; what could not be read counts as not approved. What was approved here
    holds here, whatever becomes of the file."""

    def __init__(
        self, files: PrivateFiles, warn: Callable[[str], None], patience_s: float = PATIENCE_S
    ) -> None:
        self._file = PinFile(files, patience_s)
        self._warn = warn
        self._document: Document | None = None
        self._own: dict[str, ServerPins] = {}
        self._readable = True

    def objection(
        self, server: str, tool: ListedTool, source: Source = UNKNOWN, *, approved: bool = False
    ) -> str:
        """The reason why an approval of an earlier day does not hold for this tool of a server that
        is `source`; "" when it does, or when there was none. `approved`: there was one, for a
        person answered so."""
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

    def changes(self, server: str, tool: ListedTool, source: Source = UNKNOWN) -> str:
        """A unified diff from the tool as it was approved to the tool as it is, with what differs
        behind the part that was kept; "" for none."""
        known = self._read().servers.get(server)
        pin = None if known is None else known.tools.get(tool.name)
        return "" if pin is None else difference(pin, tool, source)

    def approve(
        self, server: str, tools: Iterable[ListedTool], source: Source = UNKNOWN, *, every: bool
    ) -> None:
        """These tools of a server that is `source` are approved as they are given, the first above
        all. Blocks for a moment: the file is on the disk when this returns, or `warn` has heard why
        not."""
        known = self._read()
        # The last are kept first.
        given = {tool.name: pin_of(tool, source) for tool in reversed([*tools])}
        own = self._own.get(server, ServerPins())
        self._own[server] = own.and_then(ServerPins(every=every, tools=given))
        try:
            kept, aside = self._file.add(self._own)
        except FileError as error:
            self._document = known.and_then(self._own)
            self._warn(f"what was approved of MCP server '{server}' is not kept: {error}")
            return
        self._readable = True
        if aside is not None:
            self._warn(
                f"{self._file.path} could not be read, and is now {aside}; tools of MCP servers "
                "that were approved are asked about once more"
            )
        left = {
            name: {each: pin for each, pin in pins.tools.items() if each not in found}
            for name, pins in self._own.items()
            for found in (kept.servers[name].tools,)
        }
        if left[server]:
            self._warn(
                f"MCP server '{server}' has too many tools to keep what was approved of "
                f"{len(left[server])} of them, which later sessions ask about"
            )
        self._own = {name: ServerPins(tools=tools) for name, tools in left.items() if tools}
        self._document = kept.and_then(self._own)

    def _read(self) -> Document:
        if self._document is None:
            try:
                self._document = self._file.read()
            except FileError as error:
                self._document, self._readable = Document(), False
                rest = (
                    " It is put aside when a tool is approved for more than one call."
                    if isinstance(error, DAMAGED)
                    else ""
                )
                self._warn(
                    "what was approved of MCP servers is not known, and their tools are asked "
                    f"about: {error}{rest}"
                )
        return self._document
