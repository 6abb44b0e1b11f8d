"""Memory files (GEMINI.md, AGENTS.md): the user's, those of the directories from the project's root
down to the workspace's, and those below it, loaded when a path in their scope is used.

They are read within limits, their imports are a tree, and their text is framed, protected against
forged frames.
"""

import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path

import msgspec

from alhena.config.effective_settings import FolderTrust
from alhena.config.home import config_home, project_temp
from alhena.config.settings import ContextSettings
from alhena.memory import ImportLimits, MemoryFile, MemoryText, read_memory
from alhena.system.errors import (
    FileError,
    FilePermissionError,
    FileTooLargeError,
    printable,
)
from alhena.system.ignore import IgnoreRules
from alhena.system.walk import EXCLUDED_DIRECTORIES
from alhena.system.workspace import is_within

DISCOVERED = "--- Newly Discovered Project Context ---"
"""The first line of the text with files found for touched paths."""
_END = "--- End Project Context ---"

_LINES = (
    "Newly Discovered Project Context|End Project Context|Context from:|End of Context from:|"
    "Full File Context"
)
_TAGS = "loaded_context|project_context|global_context"


def frame_discovered(text: str) -> str:
    """Frames the text of files found for touched paths."""
    return f"{DISCOVERED}\n{text}\n{_END}"


def remove_frames(text: str) -> str:
    """The text of a file with everything removed that could open or close a frame."""
    return without_lines(without_tags(text))


def without_tags(text: str) -> str:
    """A text with frame tags disabled."""
    if "_context" not in text.lower():
        return text
    return re.sub(rf"<(?=\s*/?\s*(?:{_TAGS}))", "&lt;", text, flags=re.IGNORECASE)


def without_lines(text: str) -> str:
    """A text with frame lines disabled by separating their dashes."""
    if "--" not in text:
        return text
    return re.sub(rf"-{{2,}}(?=[ \t]*(?:{_LINES}))", "- - -", text, flags=re.IGNORECASE)


MARKERS = (".git",)


def find_project_root(start: Path, markers: Iterable[str] = MARKERS) -> Path:
    """The nearest of `start` and its parent directories that contains one of `markers`, else
    `start`."""
    names = tuple(markers)
    for directory in (start, *start.parents):
        if any(os.path.lexists(directory / name) for name in names):
            return directory
    return start


def for_people(error: FileError) -> str:
    """The error message for a memory file, without advice meant for a model with tools."""
    own = isinstance(error, FileTooLargeError | FilePermissionError)
    return str(error) if own else error.message


class MemoryKind(StrEnum):
    """The scope of a memory file: the user's for every project, an extension's, the user's
    for this project, the project's."""

    GLOBAL = "global"
    EXTENSION = "extension"
    PRIVATE = "private"
    PROJECT = "project"


def paths(file: MemoryFile) -> Iterator[str]:
    """A file and all its imports, with repetitions."""
    yield file.path
    for each in file.imports:
        yield from paths(each)


def format_trees(roots: Iterable[tuple[MemoryKind, MemoryFile]], top: str = "") -> str:
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
        text = remove_frames(self.content.strip())
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
        return join_files(item for item in self.files if not kinds or item.kind in kinds)


def join_files(files: Iterable[LoadedMemory]) -> str:
    """Concatenates memory files, each with its path, without empty ones."""
    return "\n\n".join(block for block in (item.block for item in files) if block)


class MemoryReader:
    """Reads memory files, each once whatever its name. `warnings` and `notes` collect failures."""

    def __init__(self, request: MemoryRequest) -> None:
        self.request = request
        self.warnings: list[str] = []
        self.notes: list[str] = []
        self._home = config_home(request.environ)
        self._limits = ImportLimits()

    def of_user(self) -> list[LoadedMemory]:
        """The files of `~/.gemini`, and the user's own about this project. A symlink there may lead
        anywhere."""
        found: list[LoadedMemory] = []
        names_in = self.request.context.names_in
        for name in names_in(self._home):
            self._add_own(found, MemoryKind.GLOBAL, self._home / name)
        private = project_temp(self.request.environ, self.request.roots[0]) / "memory"
        for name in (PRIVATE_NAME, *names_in(private)):
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
            for name in self.request.context.names_in(directory):
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
        content, tree = self._expand_imports(read, real)
        found.append(LoadedMemory(kind, path, content, tree, read.identity))

    def _expand_imports(
        self, read: MemoryText, allowed: tuple[Path, ...]
    ) -> tuple[str, MemoryFile]:
        path = str(read.path)
        context = self.request.context
        if "@" not in read.text and context.import_format == "tree":
            return read.text, MemoryFile(path)
        from alhena.memory.imports import ImportLoader, ImportSource, expand

        result = expand(
            ImportSource(path, str(read.path.parent), read.text, read.identity),
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


Identity = tuple[int, int]


class TouchedMemory:
    """Finds the memory files between a path and its workspace root that are not loaded yet. `told`
    are the loaded ones."""

    def __init__(self, request: MemoryRequest, told: Iterable[Identity] = ()) -> None:
        self._request = request
        self._told = set(told)
        self._failed: set[str] = set()

    def look(self, paths: Iterable[Path]) -> tuple[list[LoadedMemory], list[str]]:
        """The files for some paths, more specific ones later, and a line for each unreadable file,
        reported once. Blocks; does not mark files as loaded."""
        reader = MemoryReader(self._request)
        found: dict[Identity, LoadedMemory] = {}
        for path in paths:
            real = Path(os.path.realpath(path))
            root = self._root_of(real)
            if root is None:
                continue
            for item in reader.of_directories(self._directories(real, root), reader.top(root)):
                if item.identity not in self._told and item.path != real:
                    found.setdefault(item.identity, item)
        fresh = [line for line in dict.fromkeys(reader.warnings) if line not in self._failed]
        self._failed.update(fresh)
        return list(found.values()), fresh

    def take(self, found: Iterable[LoadedMemory]) -> str:
        """The text of files, which are then marked as loaded; each file is included once."""
        new = [item for item in found if item.identity not in self._told]
        self._told.update(item.identity for item in new)
        return join_files(new)

    def _root_of(self, real: Path) -> Path | None:
        around = (root for root in self._request.roots if is_within(str(real), str(root)))
        return max(around, key=lambda root: len(root.parts), default=None)

    def _directories(self, real: Path, root: Path) -> list[Path]:
        """The directories from the root down to that of a path which are trusted, contain an
        unknown file, and are not ignored."""
        start = real if os.path.isdir(real) else real.parent
        if not is_within(str(start), str(root)):
            return []
        chain = [start, *start.parents]
        names_in = self._request.context.names_in
        directories = [
            directory
            for directory in reversed(chain[: chain.index(root) + 1])
            if any(self._is_new(directory / name) for name in names_in(directory))
            and self._request.trust(directory).trusted
        ]
        if not directories:
            return []
        custom = self._request.context.file_filtering.custom_ignore_file_paths
        rules = IgnoreRules(root, environ=self._request.environ, custom=custom)
        return [each for each in directories if not rules.is_ignored(each, is_dir=True)]

    def _is_new(self, path: Path) -> bool:
        try:
            status = path.stat()
        except OSError:  # missing, or a dangling link, which reading will report
            return os.path.islink(path)
        return (status.st_dev, status.st_ino) not in self._told


def below(request: MemoryRequest, known: Iterable[Identity]) -> Iterator[Path]:
    """The paths of memory files below the workspace roots, without `known` ones, breadth first.
    Searches at most `context.discoveryMaxDirs` directories, no ignored ones and none through a
    symlink."""
    seen = set(known)
    left = request.context.discovery_max_dirs
    for root in request.roots:
        if not request.trust(root).trusted:
            continue
        custom = request.context.file_filtering.custom_ignore_file_paths
        made = IgnoreRules(root, tracked=False, environ=request.environ, custom=custom)
        top = made.rules_of(root)
        queue = deque([(str(root), top)])
        while queue and left > 0:
            left -= 1
            path, rules = queue.popleft()
            for name in request.context.names_in(Path(path)):
                file = Path(path, name)
                identity = _identity(file)
                if identity is not None and identity not in seen:
                    seen.add(identity)
                    yield file
            for name in _subdirectories(path):
                if name not in EXCLUDED_DIRECTORIES and not rules.ignores(name, is_dir=True):
                    queue.append((f"{path.rstrip('/')}/{name}", rules.below(name)))


def _identity(file: Path) -> Identity | None:
    """The identity of a file; None if missing."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _subdirectories(path: str) -> list[str]:
    try:
        with os.scandir(path) as listing:
            return sorted(entry.name for entry in listing if entry.is_dir(follow_symlinks=False))
    except OSError:  # nothing is readable there
        return []
