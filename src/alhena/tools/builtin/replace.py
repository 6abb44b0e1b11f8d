"""replace: replaces old text by new text if it occurs as often as expected (TOOLS-10)."""

from typing import Any

from alhena.system.workspace import Workspace
from alhena.tools.base import DeclarativeTool
from alhena.tools.contract import ToolFailure, ToolInvocation


class Replace(DeclarativeTool):
    """Edits files of the workspace."""

    name = "replace"

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def check(self, params: dict[str, Any]) -> ToolFailure | None:
        """Requires a path in the workspace."""
        from alhena.tools.edit.proposal import target_problem

        return target_problem(self._workspace, params["file_path"])

    def invocation(self, params: dict[str, Any]) -> ToolInvocation:
        """Builds the call."""
        from alhena.tools.edit.replacing import TextEdit

        return TextEdit(self._workspace, params)
