"""save_memory: one fact into the user's GEMINI.md (TOOLS-19)."""

import os
from pathlib import Path
from typing import Any

import msgspec

from alhena.system.errors import FileError, printable
from alhena.tools.base import BaseInvocation, DeclarativeTool
from alhena.tools.confirmation import EditConfirmation
from alhena.tools.contract import (
    ExecutionContext,
    ToolErrorType,
    ToolFailure,
    ToolInvocation,
    ToolLocation,
    ToolResult,
)
from alhena.tools.threads import run_blocking

MAX_FACT = 4_000
"""Characters of the longest fact: the file goes into every session's prompt."""


class SaveMemory(DeclarativeTool):
    """Writes to the user's memory file at `path`.

    Its kind is EDIT, although it is about no file of the workspace: it changes one, so that two
    calls run one after the other and each question shows what the earlier call left.
    """

    name = "save_memory"

    def __init__(self, path: Path) -> None:
        self._path = path

    def check(self, params: dict[str, Any]) -> ToolFailure | None:
        """The fact has to say something, and not too much."""
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
        """One fact."""
        return SaveMemoryInvocation(self._path, params)


class SaveMemoryInvocation(BaseInvocation):
    """One fact to be remembered. What is approved is the fact: when the file changes between the
    question and the writing, the fact is added to what the file holds then."""

    def __init__(self, path: Path, params: dict[str, Any]) -> None:
        super().__init__(params)
        self._path = path
        self._shown = _tilde(path)

    def describe(self) -> str:
        """Where the fact goes."""
        return f"in {self._shown}"

    def locations(self) -> tuple[ToolLocation, ...]:
        """The memory file."""
        return (ToolLocation(printable(self._path)),)

    async def confirmation(self, context: ExecutionContext) -> EditConfirmation | None:
        """The diff; None when there is nothing to write or writing must fail."""
        from alhena.memory.saved import proposed
        from alhena.tools.edit.splicing import unified_diff

        fact: str = self.params["fact"]
        try:
            change = await run_blocking(context.cancellation, proposed, self._path, fact)
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
