"""write_file, replace and smart_edit: create, overwrite and edit files (TOOLS-09 to TOOLS-11)."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from alhena.system.encoding import Codec, LineEnding, TextFile, encode_text
from alhena.system.errors import FileError, ReadFailureError, printable
from alhena.system.workspace import Workspace
from alhena.tools.base import DeclarativeTool
from alhena.tools.contract import ToolErrorType, ToolFailure, ToolInvocation
from alhena.tools.edit.proposal import (
    EditInvocation,
    EditProposal,
    current_file,
    require_encodable,
    target_problem,
)

if TYPE_CHECKING:
    from alhena.tools.edit.model_correction import Ask

_BOM = "\ufeff"


class _EditTool(DeclarativeTool):
    """A tool that changes one file of the workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def check(self, params: dict[str, Any]) -> ToolFailure | None:
        """Requires a path in the workspace."""
        return target_problem(self._workspace, params["file_path"])


class SmartEdit(_EditTool):
    """Replaces old text by new text. Also matches similar text, or asks a model once if there is
    `ask`."""

    name = "smart_edit"

    def __init__(
        self, workspace: Workspace, ask: "Ask | None" = None, timeout: float | None = None
    ) -> None:
        super().__init__(workspace)
        self._ask = ask
        self._timeout = timeout

    def invocation(self, params: dict[str, Any]) -> ToolInvocation:
        """Builds the call."""
        from alhena.tools.edit.model_correction import TIMEOUT_S, CorrectedEdit

        timeout = TIMEOUT_S if self._timeout is None else self._timeout
        return CorrectedEdit(self._workspace, params, self._ask, timeout)


class Replace(SmartEdit):
    """Replaces old text by new text if it occurs as often as expected; with an `instruction` as
    SmartEdit does."""

    name = "replace"

    def invocation(self, params: dict[str, Any]) -> ToolInvocation:
        """Builds the call."""
        if params.get("instruction"):
            return super().invocation(params)
        from alhena.tools.edit.replacing import TextEdit

        return TextEdit(self._workspace, params)


class WriteFile(_EditTool):
    """Writes whole files."""

    name = "write_file"

    def invocation(self, params: dict[str, Any]) -> ToolInvocation:
        """Builds the call."""
        return WriteFileInvocation(self._workspace, params)


class WriteFileInvocation(EditInvocation):
    """A write of one file."""

    verb = "Write"
    parameter = "content"

    def propose(self, real: Path) -> EditProposal | ToolFailure:
        """Proposes the content in the encoding and with the line endings of the existing file."""
        content: str = self.params["content"]
        current = current_file(real, self._workspace.editor)
        file = current.text if current else None
        codec = file.codec if file else Codec()
        if codec.bom:
            content = content.removeprefix(_BOM)
        raw = _with_line_ends(content, file)
        require_encodable(content, codec, self.path)
        done = "overwrote file" if current else "created and wrote to new file"
        original = None
        if current:
            original = file.shown if file else ""
        return EditProposal(
            real=real,
            before=current.digest if current else None,
            data=encode_text(raw, codec),
            original=original,
            content=content.replace("\r\n", "\n"),
            message=f"Successfully {done}: {printable(self.path)}.",
            file=file,
        )

    def _preparation_failure(self, error: FileError) -> ToolFailure:
        """Converts the error; an unreadable existing file gets a message of its own."""
        if not isinstance(error, ReadFailureError):
            return super()._preparation_failure(error)
        return ToolFailure(
            f"Error checking existing file '{printable(self.path)}': {error} Nothing was written. "
            "Look at the file with run_shell_command.",
            ToolErrorType.FILE_WRITE_FAILURE,
        )

    def modified_params(self, content: str, original: str | None) -> dict[str, Any]:
        """Returns the parameters with `content` as the whole file."""
        del original
        return {**self.params, "content": content}

    def modified_parameter(self, proposal: EditProposal, content: str) -> tuple[str, str] | None:
        """Returns the parameter `content`."""
        del proposal
        return "content", content


def _with_line_ends(content: str, file: TextFile | None) -> str:
    """Gives `content` the line endings of the file if those are not LF.

    In a file with mixed line endings or stray bytes, unchanged lines keep theirs.
    """
    if file is None:
        return content
    if file.line_ending is LineEnding.MIXED or file.codec.errors != "strict":
        from alhena.tools.edit.splicing import rewritten

        return rewritten(file, content.replace("\r\n", "\n"))
    if file.newline == "\n":
        return content
    return content.replace("\r\n", "\n").replace("\n", file.newline)
