"""What the tools that change one file share: a proposal, its diff, its approval, its writing."""

import re
from abc import abstractmethod
from pathlib import Path
from typing import Any

import msgspec

from alhena.system.encoding import SAMPLE_SIZE, Codec, TextFile, decode_text, is_binary, unencodable
from alhena.system.errors import FileError, MissingFileError, UnencodableTextError, printable
from alhena.system.files import Snapshot, read_whole
from alhena.system.workspace import Workspace
from alhena.tools.base import BaseInvocation, failed, failure_of, real_location
from alhena.tools.confirmation import EditConfirmation
from alhena.tools.contract import (
    ExecutionContext,
    ToolFailure,
    ToolLocation,
    ToolResult,
)
from alhena.tools.display import FileDiff
from alhena.tools.threads import run_blocking

EDIT_LIMIT = 64_000_000
"""Bytes of the largest file that is edited or overwritten."""


class CurrentFile(msgspec.Struct, frozen=True):
    """A file as it stands: its text, None when it is not text, and what it was on disk."""

    text: TextFile | None
    snapshot: Snapshot


class Proposal(msgspec.Struct, frozen=True):
    """A change, ready to be shown and made. Texts have LF line ends; `original` None: new file."""

    real: Path
    before: Snapshot | None
    data: bytes
    original: str | None
    content: str
    message: str


def current_file(real: Path) -> CurrentFile | None:
    """The file at a real path; None when there is none. Raises FileError."""
    try:
        data, snapshot = read_whole(real, EDIT_LIMIT)
    except MissingFileError:
        return None
    return CurrentFile(None if is_binary(data[:SAMPLE_SIZE]) else decode_text(data), snapshot)


def require_encodable(text: str, codec: Codec, path: Path) -> None:
    """Raises UnencodableTextError when the file's encoding lacks a character of `text`."""
    lacking = unencodable(text, codec)
    if lacking is None:
        return
    if codec.encoding.startswith("utf"):
        raise UnencodableTextError(
            f"The text for {printable(path)} holds U+{ord(lacking):04X}, half of a surrogate pair, "
            "which is no character.",
            remedy="Give the text without it.",
        )
    raise UnencodableTextError(
        f"File {printable(path)} is encoded in {codec.encoding}, which has no character "
        f"{lacking!r} (U+{ord(lacking):04X}); nothing was written.",
        remedy="Use characters of that encoding, or convert the file to UTF-8 first.",
    )


_OMISSION = (
    r"^[ \t]*(?:(?://|#|/\*|<!--|--|;|%|\*|\{/\*)[ \t]*)?\(?[ \t]*(?:(?:\.\.\.|\u2026)[ \t]*)?"
    r"(?:(?:the[ \t]+)?rest[ \t]+of[ \t]+(?:the[ \t]+)?|remaining[ \t]+|unchanged[ \t]+"
    r"|existing[ \t]+)"
    r"(?:code|methods?|functions?|file|class|content|lines|implementation|imports)"
    r"[ \t]*(?:\.\.\.|\u2026)[ \t]*\)?[ \t]*(?:\*/\}?|-->)?[ \t]*$"
)


def omission_placeholder(text: str, known: str = "") -> str | None:
    """A line of `text` that stands for left out code ("// rest of code ..."), None if none does.

    What stands in `known` already is no placeholder.
    """
    for found in re.finditer(_OMISSION, text, re.IGNORECASE | re.MULTILINE):
        line = found.group().strip()
        if line not in known:
            return line
    return None


class EditInvocation(BaseInvocation):
    """A change of one file. What was shown for approval is what is written, or nothing is."""

    verb = "Edit"

    def __init__(self, workspace: Workspace, params: dict[str, Any]) -> None:
        super().__init__(params)
        self._workspace = workspace
        self.path = workspace.resolve(params["file_path"])
        self.shown = printable(workspace.relative(self.path))
        self._name = printable(self.path.name)
        self._outcome: Proposal | ToolFailure | None = None

    @abstractmethod
    def propose(self, real: Path) -> Proposal | ToolFailure:
        """The change to the file at a real path, worked out and not made. Raises FileError."""

    def describe(self) -> str:
        """The file that changes."""
        return f"{self.verb} {self.shown}"

    def locations(self) -> tuple[ToolLocation, ...]:
        """The file."""
        return (ToolLocation(printable(self.path)),)

    async def confirmation(self, context: ExecutionContext) -> EditConfirmation | None:
        """The diff. None when the change cannot be made: `execute` then says why."""
        outcome = await self._worked_out(context)
        if isinstance(outcome, ToolFailure):
            return None
        from alhena.tools.diffing import unified_diff

        diff, _ = unified_diff(outcome.original or "", outcome.content, self._name)
        return EditConfirmation(
            title=f"Confirm {self.verb}: {self.shown}",
            file_path=printable(self.path),
            file_name=self._name,
            file_diff=diff,
            original_content=outcome.original,
            new_content=outcome.content,
            is_new_file=outcome.before is None,
        )

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Makes the change."""
        outcome = await self._worked_out(context)
        if isinstance(outcome, ToolFailure):
            return failed(outcome)
        try:
            return await run_blocking(context.cancellation, self._write, outcome, context)
        except FileError as error:
            return failed(failure_of(error))

    async def _worked_out(self, context: ExecutionContext) -> Proposal | ToolFailure:
        # Kept, failures too: what a person was shown, or not asked about, must not become another.
        if self._outcome is None:
            self._outcome = await run_blocking(context.cancellation, self._work_out)
        return self._outcome

    def _work_out(self) -> Proposal | ToolFailure:
        real = real_location(self._workspace, self.path)
        if isinstance(real, ToolFailure):
            return real
        try:
            return self.propose(real)
        except FileError as error:
            return failure_of(error)

    def _write(self, proposal: Proposal, context: ExecutionContext) -> ToolResult:
        from alhena.system.replacement import replace_file
        from alhena.tools.diffing import unified_diff

        replace_file(
            proposal.real,
            proposal.data,
            expected=proposal.before,
            limit=EDIT_LIMIT,
            cancellation=context.cancellation,
        )
        diff, stat = unified_diff(proposal.original or "", proposal.content, self._name)
        display = FileDiff(
            file_diff=diff,
            file_name=self._name,
            file_path=printable(self.path),
            original_content=proposal.original,
            new_content=proposal.content,
            diff_stat=stat,
        )
        return ToolResult(llm_content=proposal.message, display=display)
