"""The editor around the terminal (IDE companion), an MCP server of its own on loopback.

A companion announces itself by a file `gemini/ide/gemini-ide-server-PID-PORT.json` in the directory
for temporary files; it tells by notifications what is open, and shows diffs. It sees what the agent
writes and its answer is written to files, so it must be the user's own: only the user can have
written the file, and the process that listens is the one that was announced, or a child of it.
"""

import asyncio
import os
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any, cast

import msgspec

from alhena.config.mcp_servers import McpServer
from alhena.display_text import one_line
from alhena.mcp.connection import (
    McpConnectError,
    McpError,
    McpLostError,
    ServerEvents,
    SessionFacts,
    Subject,
)
from alhena.mcp.opening import over_http
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
    found, refused = _find_companions(environ)
    if port.isdecimal() and all(each.port != int(port) for each in found):
        told = _Announcement(
            port=int(port),
            workspace_path=environ.get("GEMINI_CLI_IDE_WORKSPACE_PATH", ""),
            auth_token=environ.get("GEMINI_CLI_IDE_AUTH_TOKEN", ""),
        )
        why = foreign_listener(told.port)
        if why:
            refused.append(f"GEMINI_CLI_IDE_SERVER_PORT is {port}: {why}")
        else:
            found.append(_companion(told))
    here = [each for each in found if any(_has(folder, cwd) for folder in each.folders)]
    if here:
        return next((each for each in here if str(each.port) == port), here[0])
    if refused:
        raise McpConnectError(
            f"an editor's announcement is not trusted: {one_line(refused[0], 400)}",
            remedy="Start the editor as yourself, and keep others from writing to its files.",
        )
    if not found:
        raise McpConnectError(f"{NONE_FOUND}.", remedy=INSTALL)
    first = found[0]
    opened = ", ".join(first.folders) or "no folder"
    raise McpConnectError(
        f"{first.name} has {one_line(opened)} open, not {cwd}", remedy="Open this directory in it."
    )


def _has(folder: str, cwd: Path) -> bool:
    return is_within(os.path.realpath(cwd), os.path.realpath(folder))


def _find_companions(environ: Mapping[str, str]) -> tuple[list[Companion], list[str]]:
    """Companions of the user's own that still run, the newest first; and the reasons why others
    are not taken for the user's."""
    top = Path(environ.get("TMPDIR") or gettempdir(), "gemini")
    folder = top / "ide"
    files = sorted(folder.glob("gemini-ide-server-*-*.json"))
    found: list[tuple[float, Companion]] = []
    refused: list[str] = []
    for file in files:
        pid = file.name.split("-")[3]
        if not pid.isdecimal() or not _runs(int(pid)):
            continue
        why = _alterable(top) or _alterable(folder) or _alterable(file)
        read = None if why else _read(file)
        if read is not None:
            why = foreign_listener(read[1].port, int(pid))
        if why:
            refused.append(f"{file}: {why}")
        elif read is not None:
            found.append(read)
    return [each for _, each in sorted(found, key=lambda each: -each[0])], refused


def _alterable(path: Path) -> str:
    """The reason why another user may have written a path, "" if none can."""
    try:
        status = os.lstat(path)
    except OSError as error:
        return f"{path} cannot be examined ({error.strerror})"
    if stat.S_ISLNK(status.st_mode):
        return f"{path} is a link"
    if status.st_uid != os.getuid():
        return f"{path} belongs to another user"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"others can write to {path} (chmod go-w ends that)"
    return ""


def _read(file: Path) -> tuple[float, Companion] | None:
    """The time and content of an announcement; None for an unreadable one."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode) or state.st_uid != os.getuid() or state.st_nlink != 1:
            return None
        data = os.read(descriptor, MAX_ANNOUNCEMENT)
        return state.st_mtime, _companion(msgspec.json.decode(data, type=_Announcement))
    except (OSError, msgspec.DecodeError):
        return None
    finally:
        os.close(descriptor)


_TABLES = ("tcp", "tcp6")
_LISTENS = "0A"
_LOOPBACK = "0100007F"
_NOWHERE = "0" * 8


def foreign_listener(port: int, pid: int | None = None, proc: Path = Path("/proc")) -> str:
    """The reason why what listens on a port of this machine is not a process of the user's, and of
    the tree of `pid`; "" if it is. Systems without /proc/net only compare the announcement."""
    if not (proc / "net" / "tcp").exists():
        return ""
    sockets = _listening(port, proc)
    if not sockets:
        return f"nothing listens on port {port}"
    if any(owner != os.getuid() for owner, _ in sockets):
        return f"a process of another user listens on port {port}"
    if pid is None:
        return ""
    inodes = {inode for _, inode in sockets}
    tree = _tree(pid, proc)
    shown = [_sockets(proc, each) for each in tree]
    left = inodes.difference(*(each or () for each in shown))
    if left and None in shown:
        # A process may hide its descriptors: then only another one that shows them is known.
        others = {int(name) for name in os.listdir(proc) if name.isdecimal()}.difference(tree)
        left = {inode for each in others for inode in left & (_sockets(proc, each) or set())}
    if left:
        return f"process {pid} announced port {port}, but another one listens there"
    return ""


def _listening(port: int, proc: Path) -> list[tuple[int, str]]:
    """User and inode of each socket that accepts connections to 127.0.0.1 on a port."""
    found: list[tuple[int, str]] = []
    for table in _TABLES:
        try:
            rows = (proc / "net" / table).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for row in map(str.split, rows):
            address, _, number = row[1].partition(":")
            # The last word of an address is that of IPv4, also in IPv6 (::ffff:127.0.0.1).
            mine = address[-8:] in (_LOOPBACK, _NOWHERE)
            if row[3] == _LISTENS and int(number, 16) == port and mine:
                found.append((int(row[7]), row[9]))
    return found


def _tree(pid: int, proc: Path) -> list[int]:
    """A process and its descendants; editors announce the parent of the process that listens."""
    children: dict[int, list[int]] = {}
    for name in os.listdir(proc):
        if name.isdecimal():
            try:
                status = (proc / name / "stat").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            parent = int(status.rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(name))
    found = [pid]
    for each in found:
        found += children.get(each, ())
    return found


def _sockets(proc: Path, pid: int) -> set[str] | None:
    """The inodes of the sockets among the descriptors of a process; None if it does not show
    them."""
    found: set[str] = set()
    folder = proc / str(pid) / "fd"
    try:
        names = os.listdir(folder)
    except PermissionError:
        return None
    except OSError:  # it has ended
        return found
    for name in names:
        with suppress(OSError):  # closed meanwhile
            target = os.readlink(folder / name)
            if target.startswith("socket:["):
                found.add(target[8:-1])
    return found


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
            loaded=_nothing,
            changed=_ignore_text,
            note=_ignore_text,
            lost=self._mark_lost,
            heard=self._heard,
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

    def _mark_lost(self, _why: str) -> None:
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


def _ignore_text(_text: str | Subject) -> None:
    """Ignores diagnostics and changed lists."""
