"""The editor around the terminal: tells the model about open files, shows edits."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from alhena.display_text import one_line
from alhena.frontends.terminal.drawing.lines import Line, line, warning_line
from alhena.scheduler.question import Answer, ConfirmationRequest, Payload, Verdict
from alhena.system.ignore import IgnoreRules
from alhena.system.workspace import Workspace
from alhena.tools.contract import EditConfirmation, ToolConfirmationOutcome
from alhena.wire.content import Part

if TYPE_CHECKING:
    from alhena.mcp.ide import Editor, OpenFile

MAX_FILES = 10
MAX_SELECTED = 16_384
"""Characters of a selection that the model gets."""
CUT = "... [TRUNCATED]"
ENABLING_S = 10.0
USAGE = "Usage: /ide status, /ide enable, /ide disable or /ide install"


class EditorLink:
    """The session's connection to an editor, while it has one. `show` prints lines."""

    def __init__(self, show: Callable[[list[Line]], None]) -> None:
        self._show = show
        self._editor: Editor | None = None
        self._task: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()
        self._problem = "ide.enabled is not set. /ide enable sets it."
        self._told = self._sent = ""
        self._turn = asyncio.Lock()
        self._workspace: Workspace | None = None

    def begin(self, workspace: Workspace, *, enabled: bool) -> None:
        """Connects in the background, if the setting says so."""
        self._workspace = workspace
        if enabled:
            self._task = asyncio.create_task(self._connect(workspace))

    async def stop(self) -> None:
        """Ends the connection."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            self._task = None

    async def command(self, rest: str) -> list[Line]:
        """Carries out `/ide REST`. Raises ConfigError when the settings cannot be changed."""
        what = rest.strip() or "status"
        if what == "install":
            from alhena.mcp.ide import INSTALL

            return [line(INSTALL)]
        if what not in ("status", "enable", "disable"):
            return [line(USAGE, "error")]
        if what != "status":
            await self._switch(on=what == "enable")
        return self._status()

    def note(self) -> Part | None:
        """The text about open files for the next prompt; None when the model knows it."""
        editor = self._connected_editor()
        if editor is None or self._workspace is None:
            return None
        self._told = context_text(editor.open_files, self._workspace)
        if self._told == self._sent:
            return None
        return Part(text=self._told or "In the person's editor no file of the workspace is open.")

    def note_sent(self) -> None:
        """Notes that the history has the last note."""
        self._sent = self._told

    def forget(self) -> None:
        """Notes that the history is a new one."""
        self._told = self._sent = ""

    async def answer(
        self, request: ConfirmationRequest, ask: Callable[[], Awaitable[Verdict]]
    ) -> Verdict:
        """The first answer to a call: that of the terminal, which `ask` waits for, or, for an edit,
        the editor's, where what the person has made of the content counts."""
        editor, details = self._connected_editor(), request.details
        if editor is None or not isinstance(details, EditConfirmation) or not request.modifiable:
            return await ask()
        async with self._turn:
            return await self._either(editor, details, ask)

    async def _either(
        self, editor: "Editor", details: EditConfirmation, ask: Callable[[], Awaitable[Verdict]]
    ) -> Verdict:
        from alhena.mcp.connection import McpError

        path, name = details.file_path, editor.companion.name
        asking = asyncio.ensure_future(ask())
        showing = asyncio.create_task(editor.review(path, details.new_content))
        try:
            await asyncio.wait({asking, showing}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                try:
                    content = await showing
                except McpError as error:
                    self._show([line(f"! Not shown in {name}: {error.message}", "warning")])
                else:
                    done = "Rejected" if content is None else "Accepted"
                    self._show([line(f"  {done} in {name}.", "dim")])
                    return _of_editor(content, details)
            verdict = await asking
            left = None if showing.done() else await editor.close(path)
            if left is None or not isinstance(verdict, Answer):
                return verdict
            proceeds = verdict.outcome is ToolConfirmationOutcome.PROCEED_ONCE
            return _of_editor(left, details) if proceeds else verdict
        finally:
            shown = not showing.done() and not asking.done()
            for each in (asking, showing):
                each.cancel()
            await asyncio.wait({asking, showing})
            if shown:  # nobody is asked any more
                await editor.close(path)

    def _connected_editor(self) -> "Editor | None":
        editor = self._editor
        return editor if editor is not None and editor.connected else None

    async def _connect(self, workspace: Workspace) -> None:
        from alhena.mcp.connection import McpError
        from alhena.mcp.ide import Editor, find_companion

        def note_connected() -> None:
            self._settled.set()
            self._show([line(f"Connected to {editor.companion.name}.", "dim")])

        self._problem = "connecting"
        try:
            self._editor = editor = Editor(find_companion(os.environ, workspace.cwd))
            await editor.run(note_connected)
            self._problem = f"{editor.companion.name} has gone away. /ide enable connects again."
            self._show([warning_line(self._problem)])
        except McpError as error:
            self._problem = one_line(str(error))
        finally:
            self._editor = None
            self._settled.set()

    async def _switch(self, *, on: bool) -> None:
        from alhena.config.home import user_settings_path
        from alhena.frontends.shared.files import write_setting

        write_setting(user_settings_path(os.environ), ("ide", "enabled"), on)
        await self.stop()
        self._problem = "ide.enabled is false. /ide enable sets it."
        if on and self._workspace is not None:
            self._settled.clear()
            self.begin(self._workspace, enabled=True)
            with suppress(TimeoutError):  # the status says that it is connecting
                async with asyncio.timeout(ENABLING_S):
                    await self._settled.wait()

    def _status(self) -> list[Line]:
        editor = self._connected_editor()
        if editor is None:
            return [line(f"No editor is connected: {self._problem}", "warning")]
        told = [line(f"Connected to {editor.companion.name}.", "ok")]
        if self._workspace is not None:
            files = open_in(editor.open_files, self._workspace)
            told += [line(f"  {self._workspace.relative(Path(each.path))}") for each in files]
        return told


def open_in(files: "Sequence[OpenFile]", workspace: Workspace) -> "list[OpenFile]":
    """The open files that the model may hear of, the active one first: files of the workspace that
    are not ignored."""
    custom = workspace.filtering.custom_ignore_file_paths
    rules = {root: IgnoreRules(root, environ=os.environ, custom=custom) for root in workspace.roots}

    def is_shared(file: "OpenFile") -> bool:
        path = Path(file.path)
        if not path.is_absolute() or not workspace.contains(path):
            return False
        above = [root for root in rules if path.is_relative_to(root)]
        return not any(rules[root].is_ignored(path, is_dir=False) for root in above)

    kept = sorted(filter(is_shared, files), key=lambda each: (not each.is_active, -each.timestamp))
    return kept[:MAX_FILES]


def context_text(files: "Sequence[OpenFile]", workspace: Workspace) -> str:
    """The open files in words for the model; "" for none."""
    shown = open_in(files, workspace)
    if not shown:
        return ""
    context: dict[str, Any] = {}
    if shown[0].is_active:
        active = shown.pop(0)
        context["activeFile"] = about = {"path": active.path}
        if active.cursor is not None:
            about["cursor"] = msgspec.to_builtins(active.cursor)
        if active.selected_text:
            cut = len(active.selected_text) > MAX_SELECTED
            about["selectedText"] = active.selected_text[:MAX_SELECTED] + (CUT if cut else "")
    context["otherOpenFiles"] = [each.path for each in shown]
    encoded = msgspec.json.format(msgspec.json.encode(context), indent=1).decode("utf-8")
    return (
        "The state of the person's editor, for information only: it asks for nothing.\n"
        f"```json\n{encoded}\n```"
    )


def _of_editor(content: str | None, details: EditConfirmation) -> Answer:
    """The answer of a person who left this content in the diff, or rejected it."""
    if content is None:
        return Answer(ToolConfirmationOutcome.CANCEL)
    changed = content if content != details.new_content else None
    return Answer(ToolConfirmationOutcome.PROCEED_ONCE, Payload(new_content=changed))
