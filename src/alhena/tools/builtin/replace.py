"""replace: puts new text in the place of old text that is found as often as expected (TOOLS-10)."""

from typing import Any

from alhena.system.workspace import Workspace
from alhena.tools.base import DeclarativeTool
from alhena.tools.contract import Kind, ToolFailure, ToolInvocation

FILE_PATH: dict[str, Any] = {
    "type": "string",
    "description": "The file to change: an absolute path, or one relative to the working "
    "directory.",
}
NEW_STRING: dict[str, Any] = {"type": "string", "description": "The text to put in its place."}
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "file_path": FILE_PATH,
        "old_string": {
            "type": "string",
            "description": "The text to replace, exactly as it stands in the file; empty to create "
            "a new file.",
        },
        "new_string": NEW_STRING,
        "expected_replacements": {
            "type": "integer",
            "minimum": 1,
            "description": "How many occurrences there are to replace; 1 when not given.",
        },
    },
    "required": ["file_path", "old_string", "new_string"],
}


class Replace(DeclarativeTool):
    """Edits files of the workspace."""

    name = "replace"
    display_name = "Edit"
    kind = Kind.EDIT
    parameter_schema = _SCHEMA

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def check(self, params: dict[str, Any]) -> ToolFailure | None:
        """The path has to lie in the workspace."""
        from alhena.tools.edit.proposal import target_problem

        return target_problem(self._workspace, params["file_path"])

    def invocation(self, params: dict[str, Any]) -> ToolInvocation:
        """One edit."""
        from alhena.tools.edit.replacing import TextEdit

        return TextEdit(self._workspace, params)
