"""Which memory files were read, and what each of them imported."""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any

import msgspec

from alhena.system.errors import printable
from alhena.system.workspace import is_within


class MemoryKind(StrEnum):
    """Whose memory a file is: the user's for every project, the user's for this one, the
    project's."""

    GLOBAL = "global"
    PRIVATE = "private"
    PROJECT = "project"


class MemoryFile(msgspec.Struct, frozen=True):
    """A file that was read, by its absolute path; `imports` are its direct imports, in the order
    they were imported."""

    path: str
    imports: "tuple[MemoryFile, ...]" = ()

    def plain(self) -> dict[str, Any]:
        """{path, imports?} for JSON."""
        found: dict[str, Any] = {"path": printable(self.path)}
        if self.imports:
            found["imports"] = [item.plain() for item in self.imports]
        return found


def paths(file: MemoryFile) -> Iterator[str]:
    """A file and what it imports, however often."""
    yield file.path
    for each in file.imports:
        yield from paths(each)


def printed(roots: Iterable[tuple[MemoryKind, MemoryFile]], top: str = "") -> str:
    """The trees of `roots` as lines for people. Each file begins below the name of the one that
    imports it; paths below the directory `top` are told from there."""
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
