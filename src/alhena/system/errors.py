"""Errors of files, processes and searches; a tool failure uses `kind` as its name.

AlhenaError
├── FileError
│   ├── MissingFileError             file_not_found
│   ├── DirectoryTargetError         target_is_directory
│   ├── NotRegularFileError          not_a_regular_file    FIFO, device, socket
│   ├── FilePermissionError          permission_denied
│   ├── FileTooLargeError            file_too_large
│   ├── DiskFullError                no_space_left
│   ├── ReadFailureError             read_content_failure
│   │   └── DamagedFileError         its content is invalid
│   └── WriteFailureError            file_write_failure
│       ├── ChangedFileError         changed since it was read
│       ├── LockHeldError            another program holds the lock
│       └── UnencodableTextError     a character the file's encoding lacks
├── ProcessStartError                a program could not be started
│   └── SandboxError                 exit 44: the requested sandbox is unavailable
└── SearchError                      a search failed
    ├── PatternError                 invalid regular expression
    └── SearchTimeoutError           it took too long
"""

import errno
from pathlib import Path

from alhena.errors import AlhenaError


def printable(path: str | Path) -> str:
    """Formats a path as one line of valid Unicode, with control characters and stray bytes
    escaped."""
    text = str(path)
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape_char(char) for char in text)


def _escape_char(char: str) -> str:
    if "\udc80" <= char <= "\udcff":  # a byte of a name that is not UTF-8
        return f"\\x{ord(char) - 0xDC00:02x}"
    return char.encode("unicode_escape").decode("ascii")


class FileError(AlhenaError):
    """A file cannot be used as requested."""

    kind = "read_content_failure"


class MissingFileError(FileError):
    """The file does not exist."""

    kind = "file_not_found"


class DirectoryTargetError(FileError):
    """The path is a directory, not a file."""

    kind = "target_is_directory"


class NotRegularFileError(FileError):
    """The path is a FIFO, a device or a socket; it was not opened."""

    kind = "not_a_regular_file"


class FilePermissionError(FileError):
    """The system refuses access."""

    kind = "permission_denied"


class FileTooLargeError(FileError):
    """The file exceeds a limit."""

    kind = "file_too_large"


class DiskFullError(FileError):
    """No space, or no quota, is left."""

    kind = "no_space_left"


class ReadFailureError(FileError):
    """Reading failed for another reason."""

    kind = "read_content_failure"


class DamagedFileError(ReadFailureError):
    """A file of ours has invalid content."""


class WriteFailureError(FileError):
    """Writing failed for another reason; the old content is unchanged."""

    kind = "file_write_failure"


class ChangedFileError(WriteFailureError):
    """The file has changed since it was read; it was left unchanged."""


class LockHeldError(WriteFailureError):
    """Another program holds the lock; nothing was done."""


class UnencodableTextError(WriteFailureError):
    """The text has a character that the file's encoding lacks."""


class ProcessStartError(AlhenaError):
    """A program could not be started: it is missing, or resources are exhausted."""

    kind = "shell_execute_error"


class SandboxError(ProcessStartError):
    """The requested sandbox is unavailable, so nothing was started."""

    exit_code = 44
    kind = "sandbox"
    page = "sandbox"


class SearchError(AlhenaError):
    """A search could not be carried out."""

    kind = "grep_execution_error"


class PatternError(SearchError):
    """The pattern is not a supported regular expression."""

    kind = "invalid_tool_params"


class SearchTimeoutError(SearchError):
    """The search took longer than it may."""


_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
PERMISSION = (errno.EACCES, errno.EPERM, errno.EROFS)


def from_os_error(error: OSError, path: str | Path, *, writing: bool = False) -> FileError:
    """Converts an OSError about `path` to a typed error."""
    shown = printable(path)
    code = errno.errorcode.get(error.errno or 0, "unknown")
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return MissingFileError(
            f"File not found: {shown} ({code}).", remedy="Check the path with list_directory."
        )
    if error.errno == errno.EISDIR:
        return DirectoryTargetError(f"Path is a directory, not a file: {shown} (EISDIR).")
    if error.errno in PERMISSION:
        verb = "writing to" if writing else "reading"
        return FilePermissionError(
            f"Permission denied {verb} file: {shown} ({code}).",
            remedy="Its owner has to change the permissions, or choose another path.",
        )
    if error.errno in _SPACE and writing:
        return DiskFullError(
            f"No space left to write file: {shown} ({code}); the old content was kept.",
            remedy="Free some space and try again.",
        )
    if error.errno == errno.ENAMETOOLONG:
        failure = WriteFailureError if writing else MissingFileError
        return failure(f"Path is too long: {shown[:200]}… ({code}).", remedy="Use a shorter one.")
    reason = error.strerror or str(error)
    if writing:
        return WriteFailureError(f"Error writing to file '{shown}': {reason} ({code}).")
    return ReadFailureError(f"Error reading file '{shown}': {reason} ({code}).")
