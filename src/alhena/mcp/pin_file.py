"""The file of the pins: read anew and changed under a lock, and never written over where it cannot
be read."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from alhena.mcp.pin import Pin
from alhena.system.errors import (
    DamagedFileError,
    DirectoryTargetError,
    FileTooLargeError,
    LockHeldError,
    NotRegularFileError,
)
from alhena.system.private_files import PrivateFiles

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
