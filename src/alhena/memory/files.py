"""Memory files: reads them within limits, represents the tree of their imports, and frames their
text, protected against forged frames."""

import os
import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from alhena.system.errors import (
    FileError,
    FilePermissionError,
    FileTooLargeError,
    ReadFailureError,
    printable,
)
from alhena.system.files import read_within
from alhena.system.workspace import is_within

DISCOVERED = "--- Newly Discovered Project Context ---"
"""The first line of the text with files found for touched paths."""
_END = "--- End Project Context ---"

_TITLE = "Newly Discovered Project Context"
_LINES = f"{_TITLE}|End Project Context|Context from:|End of Context from:|Full File Context"
_TAGS = "loaded_context|project_context|global_context"


def discovered(text: str) -> str:
    """Frames the text of files found for touched paths."""
    return f"{DISCOVERED}\n{text}\n{_END}"


def unframed(text: str) -> str:
    """The text of a file with everything removed that could open or close a frame."""
    return without_lines(without_tags(text))


def without_tags(text: str) -> str:
    """A text with frame tags disabled."""
    if "_context" not in text.lower():
        return text
    return re.sub(rf"<(?=\s*/?\s*(?:{_TAGS}))", "&lt;", text, flags=re.IGNORECASE)


def without_lines(text: str) -> str:
    """A text with frame lines disabled by separating their dashes."""
    return _apart(text, _LINES)


def without_discoveries(text: str) -> str:
    """A text that cannot be mistaken for files of touched paths."""
    return _apart(text, _TITLE)


def _apart(text: str, words: str) -> str:
    if "--" not in text:
        return text
    return re.sub(rf"-{{2,}}(?=[ \t]*(?:{words}))", "- - -", text, flags=re.IGNORECASE)


FILE_LIMIT = 1_000_000
"""Maximum bytes of a memory file."""
TOTAL_LIMIT = 4_000_000
"""Maximum bytes of all memory files in one text, with repeated imports counted each time."""
MAX_IMPORTS = 500
"""Maximum imports of one text, counted the same way."""

MARKERS = (".git",)


class Limits:
    """The remaining limits of one text."""

    def __init__(self, *, imports: int = MAX_IMPORTS, total: int = TOTAL_LIMIT) -> None:
        self.imports = imports
        self.total = total


class MemoryText(msgspec.Struct, frozen=True):
    """A memory file as read. `identity` is the same under all its names."""

    path: Path
    text: str
    identity: tuple[int, int]


def find_project_root(start: Path, markers: Iterable[str] = MARKERS) -> Path:
    """The nearest of `start` and its parent directories that contains one of `markers`, else
    `start`."""
    names = tuple(markers)
    for directory in (start, *start.parents):
        if any(os.path.lexists(directory / name) for name in names):
            return directory
    return start


def read_memory(path: Path, allowed: Iterable[Path], limits: Limits | None = None) -> MemoryText:
    """Reads the regular text file at `path`, which must be in one of the `allowed` real
    directories. Raises FileError; for a file outside FilePermissionError."""
    real = Path(os.path.realpath(path))
    if not any(is_within(str(real), str(top)) for top in allowed):
        raise FilePermissionError(
            f"{printable(path)} leads to {printable(real)}, outside the directories it may come "
            "from.",
            remedy="Put the file itself there, or trust the folder it is in as a workspace.",
        )
    most = FILE_LIMIT if limits is None else min(FILE_LIMIT, limits.total)
    status, data = read_within(real, most)
    if data is None:
        what = "one memory file" if most == FILE_LIMIT else "all memory files together"
        raise FileTooLargeError(
            f"{printable(path)} goes past the limit for {what} ({_limit(most)}).",
            remedy="Keep in it what every session needs to know.",
        )
    from alhena.system.encoding import SAMPLE_SIZE, decode_text, is_binary

    if is_binary(data[:SAMPLE_SIZE]):
        raise ReadFailureError(f"{printable(path)} is no text file.")
    if limits is not None:
        limits.total -= len(data)
    file = decode_text(data)
    if file.damage is not None:
        encoding = file.codec.encoding.upper()
        raise ReadFailureError(
            f"{printable(path)} is not valid {encoding} at byte offset {file.damage.offset}."
        )
    return MemoryText(path, file.shown, (status.st_dev, status.st_ino))


def for_people(error: FileError) -> str:
    """The error message for a memory file, without advice meant for a model with tools."""
    own = isinstance(error, FileTooLargeError | FilePermissionError)
    return str(error) if own else error.message


def _limit(most: int) -> str:
    return f"{(FILE_LIMIT if most == FILE_LIMIT else TOTAL_LIMIT):,} bytes"


class MemoryKind(StrEnum):
    """The scope of a memory file: the user's for every project, an extension's, the user's
    for this project, the project's."""

    GLOBAL = "global"
    EXTENSION = "extension"
    PRIVATE = "private"
    PROJECT = "project"


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


def paths(file: MemoryFile) -> Iterator[str]:
    """A file and all its imports, with repetitions."""
    yield file.path
    for each in file.imports:
        yield from paths(each)


def printed(roots: Iterable[tuple[MemoryKind, MemoryFile]], top: str = "") -> str:
    """The trees of `roots` as lines for people. Imported files are indented below the importing
    one; paths below the directory `top` are relative."""
    lines = ["Memory Files"]
    for kind, file in roots:
        label = f" L {kind}: "
        lines.append(label + _name(file.path, top))
        _append(lines, file.imports, top, len(label))
    return "\n".join(lines)


def _append(lines: list[str], files: tuple[MemoryFile, ...], top: str, column: int) -> None:
    for file in files:
        lines.append(f"{' ' * column}L {_name(file.path, top)}")
        _append(lines, file.imports, top, column + 2)


def _name(path: str, top: str) -> str:
    if top and path != top and is_within(path, top):
        path = path[len(top) :].lstrip("/")
    return printable(path)
