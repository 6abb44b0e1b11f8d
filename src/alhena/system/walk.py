"""Walks the files below a directory, all or those that match patterns."""

import os
import re
import threading
from collections.abc import Callable, Iterator
from operator import attrgetter
from pathlib import Path

import msgspec

from alhena.system.errors import from_os_error
from alhena.system.ignore import DirectoryRules, IgnoreRules
from alhena.system.replacement import is_temporary
from alhena.system.wildcard import expand_braces, leading_regexes, path_regex

EXCLUDED_DIRECTORIES = frozenset({".git", ".hg", ".svn", "bower_components", "node_modules"})
"""Directories that are never searched."""

_NAME = attrgetter("name")
_ENTRIES_BETWEEN_CHECKS = 512


class WalkTally:
    """Entries left out by a walk, by full path: ignored files and directories, special files
    (FIFOs, sockets, devices, broken links); and a sentence for every unreadable directory."""

    def __init__(self) -> None:
        self.ignored_files: list[str] = []
        self.ignored_directories: list[str] = []
        self.special: list[str] = []
        self.unreadable: list[str] = []


class WalkLimits:
    """Limits of a walk.

    `enter(relative_path)` returns True to descend into a directory; `cancellation` stops the walk
    early.
    """

    def __init__(
        self,
        *,
        enter: Callable[[str], bool] = lambda _relative: True,
        excluded: frozenset[str] = EXCLUDED_DIRECTORIES,
        cancellation: threading.Event | None = None,
    ) -> None:
        self.enter = enter
        self.excluded = excluded
        self.cancellation = cancellation or threading.Event()


def walk(
    root: Path,
    rules: IgnoreRules | None = None,
    tally: WalkTally | None = None,
    limits: WalkLimits | None = None,
) -> Iterator[os.DirEntry[str]]:
    """The regular files below `root`, a directory's own files first, each level in name order.

    Temporary files of a running write are skipped. Symlinks to files count as files; symlinks to
    directories are not followed, so there are no loops. FIFOs, sockets, devices, broken links,
    entries ignored by `rules` and unreadable directories are recorded in the tally. `entry.path`
    begins with `root` as given. When `limits.cancellation` is set the walk ends; the caller checks
    it.
    """
    tally = tally or WalkTally()
    limits = limits or WalkLimits()
    start = str(root)
    pending = [(start, "", rules.within(root) if rules else None)]
    while pending and not limits.cancellation.is_set():
        path, relative, here = pending.pop()
        entries = _entries(path, tally, limits.cancellation)
        deeper: list[tuple[str, str, DirectoryRules | None]] = []
        for entry in entries:
            name = entry.name
            try:
                directory = entry.is_dir(follow_symlinks=False)
                regular = not directory and entry.is_file()
            except OSError:  # it has been deleted, or its target is inaccessible
                directory = regular = False
            if regular:
                if here is not None and here.ignores(name, False):
                    tally.ignored_files.append(entry.path)
                else:
                    yield entry
            elif not directory:
                tally.special.append(entry.path)
            elif name not in limits.excluded:
                below = f"{relative}{name}"
                if not limits.enter(below):
                    continue
                if here is not None and here.ignores(name, True):
                    tally.ignored_directories.append(entry.path)
                else:
                    inner = here.below(name) if here is not None else None
                    deeper.append((entry.path, f"{below}/", inner))
        pending.extend(reversed(deeper))


def _entries(path: str, tally: WalkTally, cancellation: threading.Event) -> list[os.DirEntry[str]]:
    found: list[os.DirEntry[str]] = []
    try:
        with os.scandir(path) as listing:
            for entry in listing:
                if is_temporary(entry.name):
                    continue
                found.append(entry)
                if len(found) % _ENTRIES_BETWEEN_CHECKS == 0 and cancellation.is_set():
                    return []
    except OSError as error:
        tally.unreadable.append(str(from_os_error(error, path)))
    found.sort(key=_NAME)
    return found


_BRACKETS = re.compile(r"\\.|[\[\]]", re.DOTALL)
_WILDCARDS = re.compile(r"([*?\[\]{}\\])")


class GlobMatch(msgspec.Struct, frozen=True):
    """A file found, with its modification time in seconds since the epoch."""

    path: str
    modified: float


class GlobPattern:
    """A pattern for paths relative to a directory. Raises wildcard.BadPatternError."""

    def __init__(self, pattern: str, *, case_sensitive: bool = False) -> None:
        flags = re.DOTALL if case_sensitive else re.DOTALL | re.IGNORECASE
        options = options_of(pattern)
        self._path = re.compile("|".join(f"(?:{path_regex(o)})" for o in options), flags)
        self._leading = [_Leading(option, flags) for option in options]

    def matches(self, relative: str) -> bool:
        """True when a file's relative path matches."""
        return self._path.fullmatch(relative) is not None

    def may_enter(self, relative: str) -> bool:
        """True when a path below this directory can match."""
        return any(leading.allows(relative) for leading in self._leading)


class _Leading:
    def __init__(self, option: str, flags: int) -> None:
        levels, self._deeper = leading_regexes(option)
        self._levels = [
            re.compile("/".join(levels[: depth + 1]), flags) for depth in range(len(levels))
        ]

    def allows(self, relative: str) -> bool:
        depth = relative.count("/")
        if depth < len(self._levels):
            return self._levels[depth].fullmatch(relative) is not None
        if not self._deeper:
            return False
        if not self._levels:
            return True
        start = "/".join(relative.split("/")[: len(self._levels)])
        return self._levels[-1].fullmatch(start) is not None


def literal(path: str) -> str:
    """Escapes a path to a pattern that matches exactly it."""
    return _WILDCARDS.sub(r"\\\1", path)


def options_of(pattern: str) -> list[str]:
    """Expands the braces of a pattern, also with its brackets taken literally: directories of web
    routes have such names. Raises BadPatternError."""
    options = expand_braces(pattern)
    return options + [_BRACKETS.sub(_quoted, option) for option in options if "[" in option]


def _quoted(found: re.Match[str]) -> str:
    text = found.group()
    return text if text.startswith("\\") else f"\\{text}"


def glob_files(
    base: Path, pattern: GlobPattern, rules: IgnoreRules, tally: WalkTally, limits: WalkLimits
) -> list[GlobMatch]:
    """The regular files below `base` whose relative path matches.

    The tally keeps only ignored files that match.
    """
    start = len(f"{str(base).rstrip('/')}/")
    limits.enter = pattern.may_enter
    found: list[GlobMatch] = []
    for entry in walk(base, rules, tally, limits):
        if pattern.matches(entry.path[start:]):
            modified = _modified(entry)
            if modified is not None:
                found.append(GlobMatch(entry.path, modified))
    tally.ignored_files = [path for path in tally.ignored_files if pattern.matches(path[start:])]
    return found


def _modified(entry: os.DirEntry[str]) -> float | None:
    try:
        return entry.stat().st_mtime
    except OSError:  # deleted meanwhile
        return None
