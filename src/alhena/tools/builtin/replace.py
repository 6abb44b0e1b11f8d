"""replace: puts new text in the place of old text that is found as often as expected (TOOLS-10)."""

from pathlib import Path
from typing import Any, assert_never

from alhena.system.encoding import Codec, LineEnding, TextFile, encode_text, safe_text
from alhena.system.errors import printable
from alhena.system.workspace import Workspace
from alhena.tools.base import DeclarativeTool, path_problem
from alhena.tools.contract import Kind, ToolErrorType, ToolFailure, ToolInvocation
from alhena.tools.editing import (
    CurrentFile,
    EditInvocation,
    Proposal,
    current_file,
    omission_placeholder,
    require_encodable,
)

Span = tuple[int, int]
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "file_path": {
            "type": "string",
            "description": "The file to change: an absolute path, or one relative to the working "
            "directory.",
        },
        "old_string": {
            "type": "string",
            "description": "The text to replace, exactly as it stands in the file; empty to create "
            "a new file.",
        },
        "new_string": {"type": "string", "description": "The text to put in its place."},
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
        """The path has to lie in the workspace, and the new text has to be complete."""
        placeholder = omission_placeholder(params["new_string"], params["old_string"])
        if placeholder is not None:
            return ToolFailure(
                "`new_string` contains an omission placeholder (for example 'rest of methods ...')"
                f": {placeholder!r}. Provide the complete replacement text.",
                ToolErrorType.INVALID_TOOL_PARAMS,
            )
        return path_problem(self._workspace, params["file_path"], "file_path")

    def invocation(self, params: dict[str, Any]) -> ToolInvocation:
        """One edit."""
        return ReplaceInvocation(self._workspace, params)


class ReplaceInvocation(EditInvocation):
    """One edit of one file."""

    def propose(self, real: Path) -> Proposal | ToolFailure:
        """The file with every expected occurrence replaced."""
        current = current_file(real)
        if not self.params["old_string"]:
            return self._created(real, current)
        if current is None:
            return self._failure(
                "File not found",
                "Check the path, or give an empty old_string to create the file.",
                ToolErrorType.FILE_NOT_FOUND,
            )
        if current.text is None:
            return self._failure(
                "Cannot edit binary file",
                "Use write_file or run_shell_command.",
                ToolErrorType.READ_CONTENT_FAILURE,
            )
        return self._edited(real, current, current.text)

    def _created(self, real: Path, current: CurrentFile | None) -> Proposal | ToolFailure:
        if current is not None:
            return self._failure(
                "File already exists, cannot create",
                "Give the text to replace as old_string, or use write_file.",
                ToolErrorType.ATTEMPT_TO_CREATE_EXISTING_FILE,
            )
        content: str = self.params["new_string"]
        require_encodable(content, Codec(), self.path)
        return Proposal(
            real=real,
            before=None,
            data=encode_text(content, Codec()),
            original=None,
            content=content.replace("\r\n", "\n"),
            message=f"Created new file: {printable(self.path)} with provided content.",
        )

    def _edited(self, real: Path, current: CurrentFile, file: TextFile) -> Proposal | ToolFailure:
        from alhena.tools.matching import find

        old = _with_line_feeds(self.params["old_string"], file)
        new = _with_line_feeds(self.params["new_string"], file)
        if old == new:
            return self._failure(
                "No changes to apply. The old_string and new_string are identical in file",
                "Give a new_string that differs.",
                ToolErrorType.EDIT_NO_CHANGE,
            )
        match = find(file.text, old)
        if match is None:
            return self._not_found(file, old)
        spans = match.spans
        expected = self._expected(len(spans))
        if len(spans) != expected:
            noun = "occurrence" if expected == 1 else "occurrences"
            return self._failure(
                f"Failed to edit, Expected {expected} {noun} but found {len(spans)} for old_string "
                "in file",
                "Give more of the surrounding lines to mean one place, or set "
                "expected_replacements to the number there are.",
                ToolErrorType.EDIT_EXPECTED_OCCURRENCE_MISMATCH,
            )
        require_encodable(new, file.codec, self.path)
        return Proposal(
            real=real,
            before=current.snapshot,
            data=encode_text(_spliced(file, spans, new), file.codec),
            original=file.shown,
            content=safe_text(_joined(file.text, spans, new)),
            message=f"Successfully modified file: {printable(self.path)} "
            f"({len(spans)} replacements).",
        )

    def _expected(self, found: int) -> int:
        if "expected_replacements" in self.params:
            return self.params["expected_replacements"]
        return found if self.params.get("allow_multiple") else 1

    def _not_found(self, file: TextFile, old: str) -> ToolFailure:
        from alhena.tools.matching import nearest

        hint = nearest(file.text, old)
        return self._failure(
            "Failed to edit, 0 occurrences found for old_string in file",
            f"{hint} Read the lines with read_file and give old_string exactly as they are, blanks "
            "included.".lstrip(),
            ToolErrorType.EDIT_NO_OCCURRENCE_FOUND,
        )

    def _failure(self, what: str, remedy: str, type: ToolErrorType) -> ToolFailure:
        return ToolFailure(f"{what}: {printable(self.path)}. {remedy}", type)


def _with_line_feeds(text: str, file: TextFile) -> str:
    text = text.replace("\r\n", "\n")
    return text.replace("\r", "\n") if file.line_ending is LineEnding.CR else text


def _joined(text: str, spans: list[Span], new: str) -> str:
    pieces: list[str] = []
    at = 0
    for start, end in spans:
        pieces += (text[at:start], new)
        at = end
    return "".join([*pieces, text[at:]])


def _spliced(file: TextFile, spans: list[Span], new: str) -> str:
    """The raw text with the edits in it: what an edit does not change keeps its line ends.

    What old and new text begin and end with stays as it is in the file; between, line ends are
    those of the text that goes, else of the line the edit stands in, else of the file.
    """
    edits = [_narrowed(file.text, span, new) for span in spans]
    places = file.spans([span for span, _ in edits])
    pieces: list[str] = []
    at = 0
    for (start, end), (_, text) in zip(places, edits, strict=True):
        newline = _newline_at(file, start)
        pieces += (file.raw[at:start], text if newline == "\n" else text.replace("\n", newline))
        at = end
    return "".join([*pieces, file.raw[at:]])


def _narrowed(text: str, span: Span, new: str) -> tuple[Span, str]:
    start, end = span
    shortest = min(end - start, len(new))
    head = 0
    while head < shortest and text[start + head] == new[head]:
        head += 1
    tail = 0
    while tail < shortest - head and text[end - 1 - tail] == new[-1 - tail]:
        tail += 1
    return (start + head, end - tail), new[head : len(new) - tail]


def _newline_at(file: TextFile, start: int) -> str:
    match file.line_ending:
        case LineEnding.MIXED:
            feed = file.raw.find("\n", start)
            if feed < 0:
                return file.newline
            return "\r\n" if feed and file.raw[feed - 1] == "\r" else "\n"
        case LineEnding.LF | LineEnding.CRLF | LineEnding.CR:
            return file.newline
        case _:
            assert_never(file.line_ending)
