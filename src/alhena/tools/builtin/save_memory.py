"""save_memory: saves a fact in the user's GEMINI.md (TOOLS-19)."""

import os
from pathlib import Path
from typing import Any

import msgspec

from alhena.system.errors import FileError, printable
from alhena.tools.base import BaseInvocation, DeclarativeTool
from alhena.tools.contract import (
    EditConfirmation,
    ExecutionContext,
    ToolErrorType,
    ToolFailure,
    ToolInvocation,
    ToolLocation,
    ToolResult,
)
from alhena.tools.threads import run_blocking

MAX_FACT = 4_000
"""Maximum characters of a fact: the file is part of every session's prompt."""


class SaveMemory(DeclarativeTool):
    """Writes to the user's memory file at `path`.

    The kind is EDIT although the file is outside the workspace: calls then run one after the
    other, and each confirmation shows the result of the earlier call.
    """

    name = "save_memory"

    def __init__(self, path: Path) -> None:
        self._path = path

    def check(self, params: dict[str, Any]) -> ToolFailure | None:
        """Requires a fact that is neither empty nor too long."""
        from alhena.memory.saved import one_line

        fact: str = params["fact"]
        if len(fact) > MAX_FACT:
            return ToolFailure.of_params(
                f'Parameter "fact" has {len(fact):,} characters, over the limit of {MAX_FACT:,}. '
                "Give the essence of it in one sentence."
            )
        if not one_line(fact):
            return ToolFailure.of_params('Parameter "fact" must be a non-empty string.')
        return None

    def invocation(self, params: dict[str, Any]) -> ToolInvocation:
        """Builds the call."""
        return SaveMemoryInvocation(self._path, params)


class SaveMemoryInvocation(BaseInvocation):
    """A fact to save. The approval covers the fact: if the file changes in between, the fact is
    added to the new content."""

    def __init__(self, path: Path, params: dict[str, Any]) -> None:
        super().__init__(params)
        self._path = path
        self._shown = _tilde(path)

    def describe(self) -> str:
        """The memory file."""
        return f"in {self._shown}"

    def locations(self) -> tuple[ToolLocation, ...]:
        """The memory file."""
        return (ToolLocation(printable(self._path)),)

    async def confirmation(self, context: ExecutionContext) -> EditConfirmation | None:
        """Shows the diff; None when there is nothing to write or writing would fail."""
        from alhena.memory.saved import propose_change
        from alhena.tools.edit.splicing import unified_diff

        fact: str = self.params["fact"]
        try:
            change = await run_blocking(context.cancellation, propose_change, self._path, fact)
        except FileError:
            return None
        if change is None:
            return None
        diff, _ = unified_diff(change.original or "", change.content, self._path.name)
        return EditConfirmation(
            title=f"Confirm Memory Save: {self._shown}",
            file_path=printable(self._path),
            file_name=self._path.name,
            file_diff=diff,
            original_content=change.original,
            new_content=change.content,
            is_new_file=change.original is None,
        )

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Writes the fact, once."""
        from alhena.memory.saved import one_line, save

        fact: str = self.params["fact"]
        try:
            await run_blocking(context.cancellation, save, self._path, fact, context.cancellation)
        except FileError as error:
            told = {"success": False, "error": f"Failed to save memory. Detail: {error}"}
            return ToolResult(
                llm_content=_json(told),
                display=f"Error saving memory: {error}",
                error=ToolFailure(_json(told), ToolErrorType.MEMORY_TOOL_EXECUTION_ERROR),
            )
        message = f'Okay, I\'ve remembered that: "{one_line(fact)}"'
        return ToolResult(llm_content=_json({"success": True, "message": message}), display=message)


def _json(value: dict[str, Any]) -> str:
    return msgspec.json.encode(value).decode("utf-8")


def _tilde(path: Path) -> str:
    home = os.path.expanduser("~")
    text = str(path)
    inside = home != os.sep and text.startswith(home + os.sep)
    return printable(f"~{text[len(home) :]}" if inside else text)
