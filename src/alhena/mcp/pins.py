"""What tools of servers were like when a person approved them for more than one call.

A server can say one thing when it is approved and another thing later. So name, description and
schema are kept, and a tool that is not as it was is asked about again, with the difference. So is
one of another program, or from another URL, under the name of a server that was approved; and one
that was approved, but of which nothing is kept.
"""

from collections.abc import Callable, Iterable

from alhena.mcp.connection import ListedTool
from alhena.mcp.pin import difference, pin_of, tool_hash
from alhena.mcp.pin_file import DAMAGED, PATIENCE_S, Document, PinFile, ServerPins
from alhena.mcp.source import UNKNOWN, Source
from alhena.system.errors import FileError
from alhena.system.private_files import PrivateFiles

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
        """Why an approval of an earlier day does not hold for this tool of a server that is
        `source`; "" when it does, or when there was none. `approved`: there was one, for a person
        answered so."""
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
