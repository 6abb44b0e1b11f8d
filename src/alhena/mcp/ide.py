"""The editor around the terminal (IDE companion), an MCP server of its own on loopback.

A companion announces itself by a file `gemini/ide/gemini-ide-server-PID-PORT.json` in the directory
for temporary files; it tells by notifications what is open, and shows diffs.
"""

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any, cast

import msgspec

from alhena.config.mcp_servers import McpServer
from alhena.display_text import one_line
from alhena.errors import ConfigError
from alhena.mcp.connection import (
    McpConnectError,
    McpError,
    McpLostError,
    ServerEvents,
    SessionFacts,
    Subject,
)
from alhena.mcp.opening import over_http
from alhena.system.files import open_regular
from alhena.system.workspace import is_within

if TYPE_CHECKING:
    from alhena.mcp.sdk import SdkConnection

ANSWER_S = 10.0
"""Seconds a companion has to answer; a person has as long as they like."""
CLOSING_S = 2.0
MAX_ANNOUNCEMENT = 65_536
MAX_NAME = 60
NONE_FOUND = "no editor has announced itself"
INSTALL = (
    "Install the Gemini CLI companion extension in the editor and open this directory there, "
    "or start alhena in the editor's own terminal."
)


class _IdeInfo(msgspec.Struct, rename="camel"):
    name: str = ""
    display_name: str = ""


class _Announcement(msgspec.Struct, rename="camel"):
    port: int
    workspace_path: str = ""
    auth_token: str = ""
    ide_info: _IdeInfo = msgspec.field(default_factory=_IdeInfo)


class Companion(msgspec.Struct, frozen=True, kw_only=True):
    """A companion that has announced itself; `folders` are open in its editor."""

    port: int
    token: str
    folders: tuple[str, ...]
    name: str

    def __repr__(self) -> str:
        return f"Companion(name={self.name!r}, port={self.port})"


def find_companion(environ: Mapping[str, str], cwd: Path) -> Companion:
    """The companion of the editor that has `cwd` open; of several the one whose terminal this is,
    else the newest. Raises McpConnectError."""
    port = environ.get("GEMINI_CLI_IDE_SERVER_PORT", "")
    found = _announced(environ)
    if port.isdecimal() and all(each.port != int(port) for each in found):
        told = _Announcement(
            port=int(port),
            workspace_path=environ.get("GEMINI_CLI_IDE_WORKSPACE_PATH", ""),
            auth_token=environ.get("GEMINI_CLI_IDE_AUTH_TOKEN", ""),
        )
        found.append(_companion(told))
    here = [each for each in found if any(_has(folder, cwd) for folder in each.folders)]
    if here:
        return next((each for each in here if str(each.port) == port), here[0])
    if not found:
        raise McpConnectError(NONE_FOUND, remedy=INSTALL)
    first = found[0]
    opened = ", ".join(first.folders) or "no folder"
    raise McpConnectError(
        f"{first.name} has {one_line(opened)} open, not {cwd}", remedy="Open this directory in it."
    )


def _has(folder: str, cwd: Path) -> bool:
    return is_within(os.path.realpath(cwd), os.path.realpath(folder))


def _announced(environ: Mapping[str, str]) -> list[Companion]:
    """Companions of the user's own that still run, the newest first."""
    folder = environ.get("TMPDIR") or gettempdir()
    files = Path(folder, "gemini", "ide").glob("gemini-ide-server-*-*.json")
    found: list[tuple[float, Companion]] = []
    for file in files:
        pid = file.name.split("-")[3]
        read = _read(file) if pid.isdecimal() and _runs(int(pid)) else None
        if read is not None:
            found.append(read)
    return [each for _, each in sorted(found, key=lambda each: -each[0])]


def _read(file: Path) -> tuple[float, Companion] | None:
    """The time and content of an announcement; None for one that is unreadable or another user's:
    its server would be shown what the agent writes."""
    try:
        descriptor = open_regular(file)
    except (OSError, ConfigError):
        return None
    try:
        state = os.fstat(descriptor)
        data = os.read(descriptor, MAX_ANNOUNCEMENT)
    finally:
        os.close(descriptor)
    if state.st_uid != os.getuid():
        return None
    try:
        return state.st_mtime, _companion(msgspec.json.decode(data, type=_Announcement))
    except msgspec.DecodeError:
        return None


def _companion(told: _Announcement) -> Companion:
    name = told.ide_info.display_name or told.ide_info.name or "the editor"
    folders = tuple(filter(None, told.workspace_path.split(os.pathsep)))
    name = one_line(name)[:MAX_NAME]
    return Companion(port=told.port, token=told.auth_token, folders=folders, name=name)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


class Cursor(msgspec.Struct, frozen=True):
    """A place in a file, both counted from 1."""

    line: int
    character: int


class OpenFile(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A file that is open in the editor; the active one has cursor and selection."""

    path: str
    timestamp: float = 0
    is_active: bool = False
    cursor: Cursor | None = None
    selected_text: str | None = None


class _WorkspaceState(msgspec.Struct, rename="camel"):
    open_files: list[OpenFile] = []


class _ContextUpdate(msgspec.Struct, rename="camel"):
    workspace_state: _WorkspaceState = msgspec.field(default_factory=_WorkspaceState)


class Editor:
    """A connection to a companion."""

    def __init__(self, companion: Companion) -> None:
        self.companion = companion
        self.open_files: tuple[OpenFile, ...] = ()
        self._connection: SdkConnection | None = None
        self._lost = asyncio.Event()
        self._reviews: dict[str, asyncio.Future[str | None]] = {}

    @property
    def connected(self) -> bool:
        """True while the companion can be asked."""
        return self._connection is not None

    async def run(self, connected: Callable[[], None]) -> None:
        """Connects, calls `connected`, and returns when the companion goes away. Raises McpError
        when there is no connection."""
        companion = self.companion
        headers = {"Authorization": f"Bearer {companion.token}"} if companion.token else {}
        server = McpServer(http_url=f"http://127.0.0.1:{companion.port}/mcp", headers=headers)
        from alhena.mcp.elicitation import ServerQuestions

        nobody = ServerQuestions("ide", None)
        facts = SessionFacts(roots=(), timeout_s=ANSWER_S, longest_s=ANSWER_S, questions=nobody)
        events = ServerEvents(
            loaded=_nothing, changed=_ignored, note=_ignored, lost=self._ended, heard=self._heard
        )
        try:
            async with over_http(server, None, facts, events) as self._connection:
                connected()
                await self._lost.wait()
        except McpError:
            if not self._lost.is_set():
                raise
        finally:
            self._connection = None
            for waiting in self._reviews.values():
                if not waiting.done():
                    waiting.set_exception(McpLostError("the editor has gone away"))

    async def review(self, path: str, content: str) -> str | None:
        """Shows the new content of a file as a diff, and waits for the person: the content as they
        accept it, None when they reject it. Raises McpError."""
        answer = asyncio.get_running_loop().create_future()
        self._reviews[path] = answer
        try:
            await self._call("openDiff", {"filePath": path, "newContent": content})
            return await answer
        finally:
            self._reviews.pop(path, None)

    async def close(self, path: str) -> str | None:
        """Closes a diff and returns its content; None when the companion does not say."""
        try:
            async with asyncio.timeout(CLOSING_S):
                said = await self._call(
                    "closeDiff", {"filePath": path, "suppressNotification": True}
                )
            return msgspec.json.decode(said, type=dict[str, str | None]).get("content")
        except msgspec.DecodeError:
            return None
        except (McpError, TimeoutError):
            self._lost.set()  # streams over HTTP do not end when their server does
            return None

    async def _call(self, name: str, arguments: dict[str, Any]) -> str:
        """Calls a tool; the first text of its result."""
        if self._connection is None:
            raise McpLostError("the editor has gone away")
        result = await self._connection.call_tool(name, arguments)
        content: object = result.get("content")
        blocks = cast("list[object]", content) if isinstance(content, list) else []
        texts = [
            str(cast("dict[str, object]", each).get("text", ""))
            for each in blocks
            if isinstance(each, dict)
        ]
        said = texts[0] if texts else ""
        if result.get("isError"):
            raise McpError(one_line(said) or f"{name} failed")
        return said

    def _ended(self, _why: str) -> None:
        self._lost.set()

    def _heard(self, method: str, params: Mapping[str, Any]) -> None:
        """Takes a notification of the companion; one that cannot be read changes nothing."""
        path: object = params.get("filePath")
        if method == "ide/contextUpdate":
            try:
                update = msgspec.convert(params, _ContextUpdate)
            except msgspec.ValidationError:
                return
            self.open_files = tuple(update.workspace_state.open_files)
        elif method in ("ide/diffAccepted", "ide/diffRejected", "ide/diffClosed"):
            waiting = self._reviews.get(path) if isinstance(path, str) else None
            content: object = params.get("content") if method == "ide/diffAccepted" else None
            if waiting is not None and not waiting.done():
                waiting.set_result(content if isinstance(content, str) else None)


def _nothing() -> None:
    """Ignores that the client is loaded."""


def _ignored(_text: str | Subject) -> None:
    """Ignores diagnostics and changed lists."""
