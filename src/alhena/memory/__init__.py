"""Memory across sessions: GEMINI.md files."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from alhena.system.errors import (
    FilePermissionError,
    FileTooLargeError,
    ReadFailureError,
    printable,
)
from alhena.system.files import read_within
from alhena.system.workspace import is_within

FILE_LIMIT = 1_000_000
"""Maximum bytes of a memory file."""


TOTAL_LIMIT = 4_000_000
"""Maximum bytes of all memory files in one text, with repeated imports counted each time."""


MAX_IMPORTS = 500
"""Maximum imports of one text, counted the same way."""


class ImportLimits:
    """The remaining limits of one text."""

    def __init__(self, *, imports: int = MAX_IMPORTS, total: int = TOTAL_LIMIT) -> None:
        self.imports = imports
        self.total = total


class MemoryText(msgspec.Struct, frozen=True):
    """A memory file as read. `identity` is the same under all its names."""

    path: Path
    text: str
    identity: tuple[int, int]


def read_memory(path: Path, allowed: Iterable[Path], limits: ImportLimits) -> MemoryText:
    """Reads the regular text file at `path`, which must be in one of the `allowed` real
    directories. Raises FileError; for a file outside FilePermissionError."""
    real = Path(os.path.realpath(path))
    if not any(is_within(str(real), str(top)) for top in allowed):
        raise FilePermissionError(
            f"{printable(path)} leads to {printable(real)}, outside the directories it may come "
            "from.",
            remedy="Put the file itself there, or trust the folder it is in as a workspace.",
        )
    status, data = read_within(real, min(FILE_LIMIT, limits.total))
    if data is None:
        raise FileTooLargeError(
            f"{printable(path)} is too large: a memory file has at most {FILE_LIMIT:,} bytes, all "
            f"together {TOTAL_LIMIT:,}.",
            remedy="Keep in it what every session needs to know.",
        )
    from alhena.system.encoding import SAMPLE_SIZE, decode_text, is_binary

    file = decode_text(data)
    if is_binary(data[:SAMPLE_SIZE]) or file.damaged:
        raise ReadFailureError(f"{printable(path)} is no text file.")
    limits.total -= len(data)
    return MemoryText(path, file.shown, (status.st_dev, status.st_ino))


class MemoryFile(msgspec.Struct, frozen=True):
    """A file that was read, by its absolute path; `imports` are its direct imports, in order."""

    path: str
    imports: "tuple[MemoryFile, ...]" = ()

    def plain(self) -> dict[str, Any]:
        """{path, imports?} for JSON."""
        found: dict[str, Any] = {"path": printable(self.path)}
        if self.imports:
            found["imports"] = [item.plain() for item in self.imports]
        return found
