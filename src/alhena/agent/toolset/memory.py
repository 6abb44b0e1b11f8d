"""The memory of a session: at its beginning, and when a path leads into a subdirectory."""

import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from alhena.chat.prompt import last_sent_memory
from alhena.config.effective_settings import FolderTrust, Place, folder_trust
from alhena.events import Event, WarningEvent
from alhena.memory.files import (
    Memory,
    MemoryKind,
    MemoryRequest,
    TouchedMemory,
    frame_discovered,
    load_memory,
    without_tags,
)
from alhena.system.workspace import Workspace
from alhena.tools.contract import ToolLocation
from alhena.wire.content import Content

if TYPE_CHECKING:
    from alhena.tools.contract import Discover

TOUCHING = frozenset(
    {"read_file", "read_many_files", "list_directory", "write_file", "replace", "smart_edit"}
)
"""The tools whose paths say what the model works on."""
_OF_PLACES = frozenset({"read_many_files", "list_directory"})
"""Those of them whose paths may be directories."""
FRESH_S = 1.0
NOTHING = "There are no context files any more."


def memory_request(workspace: Workspace, place: Place) -> MemoryRequest:
    """The memory request of a workspace in a `place`. Its trust check raises ConfigError if the
    list of trusted folders cannot be used."""

    def trust(folder: Path) -> FolderTrust:
        enabled = place.settings.security.folder_trust.enabled
        return folder_trust(folder, place.environ, enabled=enabled, skip=place.skip_trust)

    return MemoryRequest(
        roots=workspace.roots,
        environ=place.environ,
        context=place.settings.context,
        trust=trust,
        extensions=tuple(
            (path, each.folder) for each in place.extensions for path in each.context_files()
        ),
    )


def open_memory(
    workspace: Workspace, place: Place, emit: Callable[[Event], None]
) -> "SessionMemory":
    """Reads the memory of a session over `workspace`. Raises ConfigError."""
    follows = place.settings.experimental.jit_context
    return SessionMemory(memory_request(workspace, place), emit, follows=follows)


class SessionMemory:
    """The memory files of one session. `emit` takes warnings about files that are found later."""

    def __init__(
        self, request: MemoryRequest, emit: Callable[[Event], None], *, follows: bool = True
    ) -> None:
        self.request = request
        self.emit = emit
        self.follows = follows
        self._watchers: list[Callable[[], None]] = []
        self.memory: Memory = load_memory(request)
        self._project_told: str | None = None
        self.forgotten = 0

    @property
    def user_text(self) -> str:
        """The user's own memory, for the system instruction."""
        return self.memory.text(MemoryKind.GLOBAL, MemoryKind.EXTENSION, MemoryKind.PRIVATE)

    @property
    def project_text(self) -> str:
        """The project's memory, for the first content."""
        return self.memory.text(MemoryKind.PROJECT)

    @property
    def changed(self) -> bool:
        """True when the files have another text now. Blocks while they are read."""
        return load_memory(self.request).text() != self.memory.text()

    def watch(self, listener: Callable[[], None]) -> None:
        """Calls `listener` after the files were read again."""
        self._watchers.append(listener)

    def refresh(self) -> Memory:
        """Reads all files again, for the following requests. Blocks, and may not be called while a
        run is at work."""
        self.memory = load_memory(self.request)
        for listener in self._watchers:
            listener()
        return self.memory

    def began_with(self, contents: Iterable[Content]) -> None:
        """Takes note of what the session's conversation, all that is left of it, has been told of
        the project when it began or since."""
        now, told = without_tags(self.project_text), last_sent_memory(tuple(contents))
        same = not now if told is None else told == (now or NOTHING)
        self._project_told = self.project_text if same else None

    def take_changes(self) -> str:
        """The project's memory if it changed since the model last got it; returned once per
        change."""
        now = self.project_text
        changed = now != self._project_told
        self._project_told = now
        if not changed:
            return ""
        return now or NOTHING

    def forget_told(self) -> None:
        """Has everything around the places that tools touch told once more: it was in contents that
        are gone."""
        self.forgotten += 1

    def conversation(self) -> "Discover":
        """Returns the function that loads memory around the locations of a conversation's calls:
        the session's, or a subagent's."""
        return _ConversationMemory(self).discover


class _ConversationMemory:
    """Memory files that one conversation has got; a subagent has its own. The parallel calls of a
    turn often touch one directory: it is looked at once in FRESH_S seconds."""

    def __init__(self, session: SessionMemory) -> None:
        self._looked: dict[str, float] = {}
        self._session = session
        self._memory: Memory | None = None
        self._forgotten = 0
        self._place: TouchedMemory | None = None

    async def discover(
        self, tool: str, locations: Iterable[ToolLocation], cancellation: threading.Event
    ) -> str:
        """Framed text of new memory files around these locations; "" for none."""
        if tool not in TOUCHING or not self._session.follows:
            return ""
        place = self._current()
        now = time.monotonic()
        paths: list[Path] = []
        for path in (location.path for location in locations):
            around = path if tool in _OF_PLACES else os.path.dirname(path)
            if now - self._looked.get(around, -FRESH_S) >= FRESH_S:
                self._looked[around] = now
                paths.append(Path(path))
        if not paths:
            return ""
        from alhena.tools.threads import run_blocking

        found, problems = await run_blocking(cancellation, place.look, paths)
        for problem in problems:
            self._session.emit(WarningEvent(message=problem))
        # No await from here to the end of the call: what counts as told is told.
        text = place.take(found)
        return text and frame_discovered(text)

    def _current(self) -> "TouchedMemory":
        memory = self._session.memory
        forgotten = self._session.forgotten
        if self._place is None or self._memory is not memory or self._forgotten != forgotten:
            self._memory, self._forgotten = memory, forgotten
            self._looked.clear()
            told = (item.identity for item in memory.files)
            self._place = TouchedMemory(self._session.request, told)
        return self._place
