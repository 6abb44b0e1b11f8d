"""read_file: reads a range of lines of a text file, or a media file as inline data (TOOLS-08)."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never

from alhena.system.errors import (
    DirectoryTargetError,
    FileError,
    FileTooLargeError,
    MissingFileError,
    from_os_error,
    printable,
)
from alhena.system.files import open_real
from alhena.system.workspace import EditorFiles, Workspace
from alhena.tools.base import (
    MOST_CHARACTERS,
    BaseInvocation,
    DeclarativeTool,
    failed_result,
    failure_of,
    fitting,
    is_kept_from_model,
    path_problem,
    real_location,
    room_in,
)
from alhena.tools.contract import (
    ExecutionContext,
    ToolErrorType,
    ToolFailure,
    ToolInvocation,
    ToolLocation,
    ToolResult,
)
from alhena.tools.threads import run_blocking

if TYPE_CHECKING:
    from alhena.system.encoding import TextWindow

_DEFAULT_LINES = 2000


class ReadFile(DeclarativeTool):
    """Reads files of the workspace, at most `most_characters` at once (0: unlimited)."""

    name = "read_file"

    def __init__(self, workspace: Workspace, *, most_characters: int = MOST_CHARACTERS) -> None:
        self._workspace = workspace
        self._room = room_in(most_characters)

    def check(self, params: dict[str, Any]) -> ToolFailure | None:
        """Requires a path in the workspace."""
        return path_problem(self._workspace, params["absolute_path"], "absolute_path", reading=True)

    def invocation(self, params: dict[str, Any]) -> ToolInvocation:
        """Builds the call."""
        return ReadFileInvocation(self._workspace, params, self._room)


class ReadFileInvocation(BaseInvocation):
    """A read of one file."""

    def __init__(self, workspace: Workspace, params: dict[str, Any], room: int) -> None:
        super().__init__(params)
        self._room = room
        self._workspace = workspace
        self._path = workspace.resolve(params["absolute_path"])
        self._shown = printable(workspace.relative(self._path))
        self._offset: int = params.get("offset") or 0
        self._limit: int = params.get("limit") or _DEFAULT_LINES

    def describe(self) -> str:
        """The file, and the line range if one was given."""
        if "offset" not in self.params and "limit" not in self.params:
            return self._shown
        return f"{self._shown} (from line {self._offset + 1}, at most {self._limit} lines)"

    def locations(self) -> tuple[ToolLocation, ...]:
        """The file."""
        line = self._offset + 1 if "offset" in self.params else None
        return (ToolLocation(printable(self._path), line),)

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Reads the file."""
        from alhena.tools.reading import SMALL_FILE

        real = real_location(self._workspace, self._path, reading=True)
        if isinstance(real, ToolFailure):
            return failed_result(real)
        if is_kept_from_model(self._workspace, real, self._path):
            return ToolResult.from_failure(
                f"File path '{printable(self._path)}' is ignored by configured ignore patterns.",
                ToolErrorType.INVALID_TOOL_PARAMS,
            )
        editor = self._workspace.editor
        try:
            descriptor = open_real(real)
            try:
                if editor is not None:
                    places = (editor, real, descriptor)
                    return await run_blocking(context.cancellation, self._read_in, places)
                if os.fstat(descriptor).st_size <= SMALL_FILE:
                    return self._read(descriptor)
                return await run_blocking(context.cancellation, self._read, descriptor)
            finally:
                os.close(descriptor)
        except FileError as error:
            return failed_result(_read_failure(error, self._path))
        except OSError as error:
            return failed_result(failure_of(from_os_error(error, self._path)))

    def _read_in(self, places: tuple[EditorFiles, Path, int]) -> ToolResult:
        """Reads the text as the editor has it, or else the file."""
        from tempfile import TemporaryFile

        editor, real, descriptor = places
        shown = editor.read(real)
        if shown is None:
            return self._read(descriptor)
        with TemporaryFile() as held:
            held.write(shown.encode())
            held.seek(0)
            return self._read(held.fileno())

    def _read(self, descriptor: int) -> ToolResult:
        from alhena.system.encoding import TextWindow
        from alhena.tools.reading import BinaryFile, LineRange, Media, UnwantedMedia, read_content

        lines = LineRange(self._offset, self._limit)
        content = read_content(descriptor, self._path.name, lines)
        match content:
            case TextWindow():
                return self._text(content)
            case Media(mime, data):
                from alhena.tools.media import find_media_problem

                if problem := find_media_problem(mime, data):
                    note = f"Cannot display content of {self._shown} ({mime}): {problem}"
                    return ToolResult(llm_content=note, display=note)
                return ToolResult(
                    llm_content=content.part(), display=f"Read {mime} file: {self._shown}"
                )
            case BinaryFile() | UnwantedMedia():
                note = f"Cannot display content of binary file: {self._shown}"
                return ToolResult(llm_content=note, display=f"Skipped binary file: {self._shown}")
            case _:
                assert_never(content)

    def _text(self, window: "TextWindow") -> ToolResult:
        from alhena.tools.reading import encoding_note

        window = window.beginning(fitting(window.lines, self._room))
        first, last, total = window.first, window.first + len(window.lines), window.total
        if not window.lines and first:
            note = f"The file {self._shown} is empty: there is no line at offset {first}."
            if total:
                note = (
                    f"The file {self._shown} has {total} lines; offset {first} is past its end. "
                    f"Use an offset below {total}."
                )
            return ToolResult(llm_content=note, display=note)
        whole = first == 0 and last == total and not window.long_lines
        if whole:
            display = f"Read {total} {'line' if total == 1 else 'lines'} from {self._shown}"
        else:
            display = f"Read lines {first + 1}-{last} of {total} from {self._shown}"
        content = window.content()
        header = "" if whole else _guidance(window)
        notes = encoding_note(window)
        if not header and notes:
            return ToolResult(
                llm_content=f"{notes}\n\n--- FILE CONTENT ---\n{content}", display=display
            )
        return ToolResult(llm_content=f"{header}{content}", display=display)


def _read_failure(error: FileError, path: Path) -> ToolFailure:
    """The failure of a read: the sentence models know first, then the system's message."""
    sentence = ""
    if isinstance(error, MissingFileError):
        sentence = "Could not read file because no file was found at the specified path. "
    elif isinstance(error, DirectoryTargetError):
        sentence = "Could not read file because the provided path is a directory, not a file. "
    elif isinstance(error, FileTooLargeError):
        return ToolFailure(f"{error} Path: {printable(path)}", ToolErrorType.from_name(error.kind))
    return ToolFailure(f"{sentence}{error}", ToolErrorType.from_name(error.kind))


def _guidance(window: "TextWindow") -> str:
    from alhena.tools.reading import encoding_note

    last = window.first + len(window.lines)
    lines = ["", "IMPORTANT: The file content has been truncated."]
    lines.append(f"Status: Showing lines {window.first + 1}-{last} of {window.total} total lines.")
    if window.long_lines:
        lines.append(
            f"Lines longer than 2000 characters were cut: {window.long_lines} of those shown."
        )
    if note := encoding_note(window):
        lines.append(note)
    if last < window.total:
        lines.append(
            "Action: To read more of the file, you can use the 'offset' and 'limit' parameters in "
            "a subsequent 'read_file' call. For example, to read the next section of the file, "
            f"use offset: {last}."
        )
    elif window.first:
        lines.append("Action: This is the end of the file; earlier lines start at offset: 0.")
    else:
        lines.append(
            "Action: All lines are shown. To see the rest of a long line, use search_file_content "
            "or run_shell_command on it."
        )
    return "\n".join([*lines, "", "--- FILE CONTENT (truncated) ---", ""])
