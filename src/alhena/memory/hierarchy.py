"""The memory of a session: the user's GEMINI.md, and those of the directories from the project's
root down to the workspace's."""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from alhena.config.home import config_home, project_temp
from alhena.config.settings import ContextSettings
from alhena.config.trust import FolderTrust
from alhena.memory.files import (
    Limits,
    MemoryFile,
    MemoryKind,
    MemoryText,
    find_project_root,
    for_people,
    read_memory,
)
from alhena.memory.frames import unframed
from alhena.system.errors import FileError, printable
from alhena.system.workspace import is_within

PRIVATE_NAME = "MEMORY.md"
"""File name of the user's notes about one project."""


class MemoryRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request for memory: workspace roots, the first of them the working directory, all real
    paths. `trust` decides if the files of a directory may be read. `extensions` are context files
    of extensions, each with the folder it may import from.

    Every use of a request reads all memory files again.
    """

    roots: tuple[Path, ...]
    environ: Mapping[str, str]
    context: ContextSettings
    trust: Callable[[Path], FolderTrust]
    extensions: tuple[tuple[Path, Path], ...] = ()


class LoadedMemory(msgspec.Struct, frozen=True):
    """A memory file with its imports expanded."""

    kind: MemoryKind
    path: Path
    content: str
    tree: MemoryFile
    identity: tuple[int, int]

    @property
    def block(self) -> str:
        """The text between lines that name its source, which it cannot forge; "" for an empty
        file."""
        text = unframed(self.content.strip())
        name = printable(self.path)
        if not text:
            return ""
        return f"--- Context from: {name} ---\n{text}\n--- End of Context from: {name} ---"


class Memory(msgspec.Struct, frozen=True):
    """The memory files of a session, more specific ones later. `warnings` are for people, `notes`
    for diagnosis."""

    files: tuple[LoadedMemory, ...]
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def text(self, *kinds: MemoryKind) -> str:
        """The concatenated files of some kinds (default: all)."""
        return joined(item for item in self.files if not kinds or item.kind in kinds)


def joined(files: Iterable[LoadedMemory]) -> str:
    """Concatenates memory files, each with its path, without empty ones."""
    return "\n\n".join(block for block in (item.block for item in files) if block)


class MemoryReader:
    """Reads memory files, each once whatever its name. `warnings` and `notes` collect failures."""

    def __init__(self, request: MemoryRequest) -> None:
        self.request = request
        self.warnings: list[str] = []
        self.notes: list[str] = []
        self._home = config_home(request.environ)
        self._limits = Limits()

    def of_user(self) -> list[LoadedMemory]:
        """The files of `~/.gemini`, and the user's own about this project. A symlink there may lead
        anywhere."""
        found: list[LoadedMemory] = []
        names = self.request.context.file_names
        for name in names:
            self._add_own(found, MemoryKind.GLOBAL, self._home / name)
        private = project_temp(self.request.environ, self.request.roots[0]) / "memory"
        for name in (PRIVATE_NAME, *names):
            if self._add_own(found, MemoryKind.PRIVATE, private / name):
                break
        return found

    def of_extensions(self) -> list[LoadedMemory]:
        """The context files of extensions; a link in one may not lead out of it."""
        found: list[LoadedMemory] = []
        for path, folder in self.request.extensions:
            self._add(found, MemoryKind.EXTENSION, path, (folder,))
        return found

    def above(self, root: Path) -> list[LoadedMemory]:
        """The files from the project's root down to a workspace root."""
        top = self.top(root)
        chain = [root, *root.parents]
        directories = chain[: chain.index(top) + 1]
        return self.of_directories(reversed(directories), top)

    def of_directories(self, directories: Iterable[Path], top: Path) -> list[LoadedMemory]:
        """The files of the trusted directories of a project with the root `top`, without the user's
        own."""
        found: list[LoadedMemory] = []
        allowed = (top, *self.request.roots)
        own = os.path.realpath(self._home)
        for directory in directories:
            if is_within(str(directory), own):
                continue
            for name in self.request.context.file_names:
                path = directory / name
                if not os.path.lexists(path):
                    continue
                trust = self.request.trust(directory)
                if trust.trusted:
                    self._add(found, MemoryKind.PROJECT, path, allowed)
                else:
                    self.notes.append(
                        f"{printable(path)} is not read: the folder is not trusted "
                        f"({trust.reason})."
                    )
        return found

    def top(self, root: Path) -> Path:
        """The root of the project of a directory."""
        return find_project_root(root, self.request.context.boundary_markers)

    def _add_own(self, found: list[LoadedMemory], kind: MemoryKind, path: Path) -> bool:
        """Reads a file of the user's, if it exists."""
        if not os.path.lexists(path):
            return False
        self._add(found, kind, path, (path.parent, Path(os.path.realpath(path)).parent))
        return True

    def _add(
        self, found: list[LoadedMemory], kind: MemoryKind, path: Path, allowed: tuple[Path, ...]
    ) -> None:
        real = tuple(Path(os.path.realpath(each)) for each in allowed)
        try:
            read = read_memory(path, real, self._limits)
        except FileError as error:
            self.warnings.append(f"memory: {for_people(error)}")
            return
        content, tree = self._imported(read, real)
        found.append(LoadedMemory(kind, path, content, tree, read.identity))

    def _imported(self, read: MemoryText, allowed: tuple[Path, ...]) -> tuple[str, MemoryFile]:
        path = str(read.path)
        context = self.request.context
        if "@" not in read.text and context.import_format == "tree":
            return read.text, MemoryFile(path)
        from alhena.memory.imports import ImportLoader, Source, expand

        result = expand(
            Source(path, str(read.path.parent), read.text, read.identity),
            ImportLoader(allowed, self._limits),
            format=context.import_format,
            max_depth=context.max_import_depth,
        )
        self.warnings += (f"memory: {problem}" for problem in result.warnings)
        known = set(result.warnings)
        self.notes += (f"memory: {each}" for each in result.problems if each not in known)
        return result.content, result.import_tree


def load_memory(request: MemoryRequest) -> Memory:
    """Loads the initial memory: the user's files, then those of each root and its parent
    directories. Roots beside the working directory count only if the settings enable them."""
    reader = MemoryReader(request)
    files = [*reader.of_user(), *reader.of_extensions()]
    wanted = request.roots if request.context.load_memory_from_include_directories else ()
    for root in dict.fromkeys((*request.roots[:1], *wanted)):
        files += reader.above(root)
    if request.context.unusable_names:
        names = ", ".join(printable(name) for name in request.context.unusable_names)
        reader.warnings.append(
            f"memory: context.fileName: no file is looked for by a name like {names}; it has to be "
            "a path inside a directory."
        )
    once: dict[tuple[int, int], LoadedMemory] = {}
    for item in files:
        once.setdefault(item.identity, item)
    return Memory(tuple(once.values()), tuple(reader.warnings), tuple(reader.notes))
