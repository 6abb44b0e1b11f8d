"""read_file: a window of a text file, or a media file as inline data (TOOLS-08)."""

import os
from binascii import b2a_base64
from typing import TYPE_CHECKING, Any

from alhena.system.errors import FileError, FileTooLargeError, from_os_error, printable
from alhena.system.files import open_real, read_bytes
from alhena.system.workspace import Workspace
from alhena.tools.base import (
    BaseInvocation,
    DeclarativeTool,
    failed,
    failure_of,
    path_problem,
    real_location,
)
from alhena.tools.contract import (
    ExecutionContext,
    Kind,
    ToolFailure,
    ToolInvocation,
    ToolLocation,
    ToolResult,
)
from alhena.tools.threads import run_blocking
from alhena.wire.content import Blob, Part

if TYPE_CHECKING:
    from alhena.system.textwindow import TextWindow

MEDIA_LIMIT = 20 * 1024 * 1024
_INLINE = 256 * 1024
"""Bytes up to which a file is read where it stands: a thread would cost more than the read."""
_STREAMED = 2 * 1024 * 1024
_DEFAULT_LINES = 2000

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "absolute_path": {
            "type": "string",
            "description": "The file to read: an absolute path, or one relative to the working "
            "directory.",
        },
        "offset": {
            "type": "integer",
            "minimum": 0,
            "description": "The line to start at, counted from 0. Only for text files.",
        },
        "limit": {
            "type": "integer",
            "minimum": 1,
            "description": "How many lines to read. Only for text files.",
        },
    },
    "required": ["absolute_path"],
}


class ReadFile(DeclarativeTool):
    """Reads files of the workspace."""

    name = "read_file"
    display_name = "ReadFile"
    kind = Kind.READ
    parameter_schema = _SCHEMA

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def check(self, params: dict[str, Any]) -> ToolFailure | None:
        """The path has to lie in the workspace."""
        return path_problem(self._workspace, params["absolute_path"], "absolute_path")

    def invocation(self, params: dict[str, Any]) -> ToolInvocation:
        """One read."""
        return ReadFileInvocation(self._workspace, params)


class ReadFileInvocation(BaseInvocation):
    """One read of one file."""

    def __init__(self, workspace: Workspace, params: dict[str, Any]) -> None:
        super().__init__(params)
        self._workspace = workspace
        self._path = workspace.resolve(params["absolute_path"])
        self._shown = printable(workspace.relative(self._path))
        self._offset: int = params.get("offset") or 0
        self._limit: int = params.get("limit") or _DEFAULT_LINES

    def describe(self) -> str:
        """The file, and the lines when only some were asked for."""
        if "offset" not in self.params and "limit" not in self.params:
            return self._shown
        return f"{self._shown} (from line {self._offset + 1}, at most {self._limit} lines)"

    def locations(self) -> tuple[ToolLocation, ...]:
        """The file."""
        line = self._offset + 1 if "offset" in self.params else None
        return (ToolLocation(printable(self._path), line),)

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Reads it."""
        real = real_location(self._workspace, self._path)
        if isinstance(real, ToolFailure):
            return failed(real)
        try:
            descriptor = open_real(real)
            try:
                size = os.fstat(descriptor).st_size
                if size <= _INLINE:
                    return self._read(descriptor, size, context)
                return await run_blocking(
                    context.cancellation, self._read, descriptor, size, context
                )
            finally:
                os.close(descriptor)
        except FileError as error:
            return failed(failure_of(error))
        except OSError as error:
            return failed(failure_of(from_os_error(error, self._path)))

    def _read(self, descriptor: int, size: int, context: ExecutionContext) -> ToolResult:
        from alhena.system.encoding import SAMPLE_SIZE, is_binary
        from alhena.system.media import sniff_mime
        from alhena.system.textwindow import window_of_bytes, window_of_file

        if size > _INLINE:
            sample = read_bytes(descriptor, SAMPLE_SIZE)
            os.lseek(descriptor, 0, os.SEEK_SET)
            data = b""
        else:
            data = read_bytes(descriptor, _INLINE + 1)
            sample = data[:SAMPLE_SIZE]
        mime = sniff_mime(sample, self._path.name)
        if mime is not None:
            return self._media(descriptor, mime, size, data)
        if is_binary(sample):
            note = f"Cannot display content of binary file: {self._shown}"
            return ToolResult(llm_content=note, display=f"Skipped binary file: {self._shown}")
        if size > _STREAMED or len(data) > _INLINE:
            os.lseek(descriptor, 0, os.SEEK_SET)
            window = window_of_file(descriptor, self._offset, self._limit, context.cancellation)
        else:
            data = data or read_bytes(descriptor, _STREAMED)
            window = window_of_bytes(data, self._offset, self._limit)
        return self._text(window)

    def _media(self, descriptor: int, mime: str, size: int, data: bytes) -> ToolResult:
        if size > MEDIA_LIMIT:
            raise FileTooLargeError(
                f"File size exceeds the 20MB limit for {mime}: {self._shown} has {size} bytes.",
                remedy="Make a smaller version of it and read that.",
            )
        data = data if len(data) == size else data + read_bytes(descriptor, MEDIA_LIMIT - len(data))
        blob = Blob(mime_type=mime, data=b2a_base64(data, newline=False).decode("ascii"))
        return ToolResult(
            llm_content=Part(inline_data=blob), display=f"Read {mime} file: {self._shown}"
        )

    def _text(self, window: "TextWindow") -> ToolResult:
        first, last, total = window.first, window.first + len(window.lines), window.total
        if not window.lines and total:
            note = (
                f"The file {self._shown} has {total} lines; offset {first} is past its end. "
                f"Use an offset below {total}."
            )
            return ToolResult(llm_content=note, display=note)
        whole = first == 0 and last == total and not window.long_lines
        if whole:
            display = f"Read {total} lines from {self._shown}"
        else:
            display = f"Read lines {first + 1}-{last} of {total} from {self._shown}"
        content = window.content()
        header = "" if whole else _guidance(window)
        notes = _encoding_note(window)
        if not header and notes:
            return ToolResult(
                llm_content=f"{notes}\n\n--- FILE CONTENT ---\n{content}", display=display
            )
        return ToolResult(llm_content=f"{header}{content}", display=display)


def _guidance(window: "TextWindow") -> str:
    last = window.first + len(window.lines)
    lines = ["", "IMPORTANT: The file content has been truncated."]
    lines.append(f"Status: Showing lines {window.first + 1}-{last} of {window.total} total lines.")
    if window.long_lines:
        lines.append(
            f"Lines longer than 2000 characters were cut: {window.long_lines} of those shown."
        )
    if note := _encoding_note(window):
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


def _encoding_note(window: "TextWindow") -> str:
    if window.replaced:
        return "NOTE: The file is not valid UTF-8; bytes that are no text are shown as \ufffd."
    if window.encoding in ("cp1252", "latin-1"):
        return f"NOTE: The file is not valid UTF-8; it is shown as {window.encoding}."
    return ""
