"""Memory files of subdirectories: loaded when a path in their scope is used, not at the session
start."""

import os
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

from alhena.memory.hierarchy import LoadedMemory, MemoryReader, MemoryRequest, joined
from alhena.system.ignore import IgnoreRules
from alhena.system.walk import EXCLUDED_DIRECTORIES
from alhena.system.workspace import is_within

Identity = tuple[int, int]


class TouchedMemory:
    """Finds the memory files between a path and its workspace root that are not loaded yet. `told`
    are the loaded ones; `said` are texts in the history that include earlier ones."""

    def __init__(
        self, request: MemoryRequest, told: Iterable[Identity] = (), said: Iterable[str] = ()
    ) -> None:
        self._request = request
        self._told = set(told)
        self._said = tuple(said)
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
        return joined(item for item in new if not self._was_said(item.block))

    def _was_said(self, block: str) -> bool:
        """True when a text contains a file's block verbatim: another version of it is new."""
        return any(block in text for text in self._said)

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
        directories = [
            directory
            for directory in reversed(chain[: chain.index(root) + 1])
            if any(self._is_new(directory / name) for name in self._request.context.file_names)
            and self._request.trust(directory).trusted
        ]
        if not directories:
            return []
        rules = IgnoreRules(root, environ=self._request.environ)
        return [each for each in directories if not rules.ignored(each, is_dir=True)]

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
        queue = deque([(str(root), IgnoreRules(root, environ=request.environ).within(root))])
        while queue and left > 0:
            left -= 1
            path, rules = queue.popleft()
            for name in request.context.file_names:
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
