"""Walks the files below a directory, all or those that match patterns; draws a directory tree."""

import os
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from pathlib import Path

import msgspec

from alhena.system.errors import from_os_error, printable
from alhena.system.files import is_temporary
from alhena.system.ignore import DirectoryRules, IgnoreRules
from alhena.system.wildcard import expand_braces, leading_regexes, path_regex

VERSION_CONTROL = frozenset({".git", ".hg", ".svn"})
EXCLUDED_DIRECTORIES = VERSION_CONTROL | {"bower_components", "node_modules"}
"""Directories that are not searched."""

_NAME = attrgetter("name")
_ENTRIES_BETWEEN_CHECKS = 512


class SkippedEntries(msgspec.Struct, frozen=True):
    """Numbers of files and directories that git's rules or their names leave out of a search, and
    of entries that .geminiignore leaves out."""

    files: int = 0
    directories: int = 0
    closed: int = 0

    def plus(self, other: "SkippedEntries") -> "SkippedEntries":
        """The sums."""
        return SkippedEntries(
            self.files + other.files,
            self.directories + other.directories,
            self.closed + other.closed,
        )

    @property
    def has_ignored(self) -> bool:
        """True when git's rules leave out something."""
        return bool(self.files or self.directories)

    def describe(self, remedy: str, closing: Sequence[str] = (".geminiignore",)) -> list[str]:
        """Sentences for an empty result; the first ends with the `remedy`. `closing` are the names
        of the ignore files that hold for named files, too."""
        counts = [(self.files, "file", "files"), (self.directories, "folder", "folders")]
        parts = [f"{count} ignored {one if count == 1 else many}" for count, one, many in counts
                 if count]  # fmt: skip
        found: list[str] = []
        if parts:
            was = "was" if self.files + self.directories == 1 else "were"
            found.append(f"{' and '.join(parts)} {was} not looked at; {remedy}.")
        if self.closed:
            entry = "1 entry" if self.closed == 1 else f"{self.closed} entries"
            found.append(f"{' or '.join(closing)} leaves out {entry}.")
        return found


class WalkTally:
    """Entries left out by a walk, by full path: ignored files and directories, those of them that
    .geminiignore names, directories that are never entered, special files (FIFOs, sockets, devices,
    broken links); and a sentence for every unreadable directory."""

    def __init__(self) -> None:
        self.ignored_files: list[str] = []
        self.ignored_directories: list[str] = []
        self.closed: set[str] = set()
        self.excluded: list[str] = []
        self.special: list[str] = []
        self.unreadable: list[str] = []

    def leaves_out(
        self,
        entry: os.DirEntry[str],
        rules: DirectoryRules | None,
        excluded: frozenset[str] = frozenset(),
        *,
        is_dir: bool = False,
    ) -> bool:
        """True for an entry that the rules ignore, and for an excluded directory; keeps it."""
        name = entry.name
        if name in excluded:
            if name not in VERSION_CONTROL:
                self.excluded.append(entry.path)
            return True
        if rules is None or not rules.ignores(name, is_dir):
            return False
        if not is_dir:
            self.ignored_files.append(entry.path)
        elif name not in VERSION_CONTROL:
            self.ignored_directories.append(entry.path)
        if rules.closes(name, is_dir):
            self.closed.add(entry.path)
        return True

    def count(self, is_meant: Callable[[str], bool] = lambda _path: True) -> SkippedEntries:
        """The numbers of what was left out, of files those that are meant."""
        files = [path for path in self.ignored_files if is_meant(path)]
        closed = sum(path in self.closed for path in (*files, *self.ignored_directories))
        open_files = sum(path not in self.closed for path in files)
        directories = sum(path not in self.closed for path in self.ignored_directories)
        return SkippedEntries(open_files, directories + len(self.excluded), closed)


class WalkLimits:
    """Limits of a walk.

    `enter(relative_path)` returns True to descend into a directory; `cancellation` stops the walk
    early. With `most` at most so many entries are read, ignored ones counted, and at most a quarter
    of them in a single directory.
    """

    def __init__(
        self,
        *,
        enter: Callable[[str], bool] = lambda _relative: True,
        excluded: frozenset[str] = EXCLUDED_DIRECTORIES,
        cancellation: threading.Event | None = None,
        most: int | None = None,
    ) -> None:
        self.most = most
        self._most_each = None if most is None else max(1, most // 4)
        self.enter = enter
        self.excluded = excluded
        self.cancellation = cancellation or threading.Event()

    def take_from(self, listing: Iterator[os.DirEntry[str]]) -> Iterator[os.DirEntry[str]]:
        """The entries of one directory that may be read."""
        return listing if self._most_each is None else self._count(listing, self._most_each)

    def _count(
        self, listing: Iterator[os.DirEntry[str]], most_each: int
    ) -> Iterator[os.DirEntry[str]]:
        for entry in islice(listing, min(self.most or 0, most_each)):
            self.most = (self.most or 1) - 1
            yield entry


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
    pending = [(start, "", rules.rules_of(root) if rules else None)]
    while pending and not limits.cancellation.is_set():
        path, relative, here = pending.pop()
        entries = _entries(path, tally, limits)
        deeper: list[tuple[str, str, DirectoryRules | None]] = []
        for entry in entries:
            name = entry.name
            try:
                directory = entry.is_dir(follow_symlinks=False)
                regular = not directory and entry.is_file()
            except OSError:  # it has been deleted, or its target is inaccessible
                directory = regular = False
            if regular:
                if not tally.leaves_out(entry, here):
                    yield entry
            elif not directory:
                tally.special.append(entry.path)
            elif limits.enter(below := f"{relative}{name}") and not tally.leaves_out(
                entry, here, limits.excluded, is_dir=True
            ):
                inner = here.below(name) if here is not None else None
                deeper.append((entry.path, f"{below}/", inner))
        pending.extend(reversed(deeper))


def _entries(path: str, tally: WalkTally, limits: WalkLimits) -> list[os.DirEntry[str]]:
    found: list[os.DirEntry[str]] = []
    try:
        with os.scandir(path) as listing:
            for entry in limits.take_from(listing):
                if is_temporary(entry.name):
                    continue
                found.append(entry)
                if len(found) % _ENTRIES_BETWEEN_CHECKS == 0 and limits.cancellation.is_set():
                    return []
    except OSError as error:
        tally.unreadable.append(str(from_os_error(error, path)))
    found.sort(key=_NAME)
    return found


_BRACKETS = r"(?s)\\.|[\[\]]"
_WILD = r"[*?\[{\\]"
_WILDCARDS = r"([*?\[\]{}\\])"


class GlobMatch(msgspec.Struct, frozen=True):
    """A file found, with its modification time in seconds since the epoch."""

    path: str
    modified: float


class GlobPattern:
    """A pattern for paths relative to a directory, in any Unicode form. Raises
    wildcard.BadPatternError."""

    def __init__(self, pattern: str, *, case_sensitive: bool = False) -> None:
        flags = re.DOTALL if case_sensitive else re.DOTALL | re.IGNORECASE
        from alhena.system.unicode_forms import compose

        self._compose = compose
        options = options_of(compose(pattern))
        self._path = re.compile("|".join(f"(?:{path_regex(o)})" for o in options), flags)
        self._leading = [_Leading(option, flags) for option in options]

    def matches(self, relative: str) -> bool:
        """True when a file's relative path matches."""
        return self._path.fullmatch(self._compose(relative)) is not None

    def may_enter(self, relative: str) -> bool:
        """True when a path below this directory can match."""
        relative = self._compose(relative)
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


def leading_directory(pattern: str) -> str:
    """The directory that a pattern names before its first wildcard; "" if none."""
    parts = pattern.removeprefix("./").split("/")
    plain = 0
    while plain < len(parts) - 1 and not re.search(_WILD, parts[plain]):
        plain += 1
    return "/".join(parts[:plain])


def literal(path: str) -> str:
    """Escapes a path to a pattern that matches exactly it."""
    return re.sub(_WILDCARDS, r"\\\1", path)


def options_of(pattern: str) -> list[str]:
    """Expands the braces of a pattern, also with its brackets taken literally: directories of web
    routes have such names. Raises BadPatternError."""
    options = expand_braces(pattern)
    return options + [
        re.sub(_BRACKETS, _quote_match, option) for option in options if "[" in option
    ]


def _quote_match(found: re.Match[str]) -> str:
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
            modified = _modification_time(entry)
            if modified is not None:
                found.append(GlobMatch(entry.path, modified))
    tally.ignored_files = [path for path in tally.ignored_files if pattern.matches(path[start:])]
    return found


def _modification_time(entry: os.DirEntry[str]) -> float | None:
    try:
        return entry.stat().st_mtime
    except OSError:  # deleted meanwhile
        return None


MAX_ITEMS = 200
MAX_READ = 20_000
"""Maximum entries read in all directories, and a quarter of them in a single one: a million entries
must neither delay a session nor hide the directories beside them."""

SUMMARISED = frozenset({"node_modules", ".git", "dist", "__pycache__", ".venv"})
"""Directories shown as one line, whatever their content."""

_Place = tuple["_DrawnFolder", str, DirectoryRules | None]
"""A directory still to read: its node in the drawing, its path, the rules inside."""


class _DrawnFolder:
    """A directory in the drawing. `cut`: it has more content than shown."""

    __slots__ = ("cut", "files", "folders", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.files: list[str] = []
        self.folders: list[_DrawnFolder] = []
        self.cut = False


class _Picture:
    """A tree under construction, with the remaining numbers of items to show and entries to
    read."""

    def __init__(self, max_items: int, max_read: int) -> None:
        self.items = max_items
        self.reads = max_read
        self.reads_each = max(1, max_read // 4)
        self.queue: deque[_Place] = deque()
        self.waiting: list[tuple[_DrawnFolder, list[str]]] = []

    def look_into(self, folder: _DrawnFolder, path: str, rules: DirectoryRules | None) -> None:
        """Lists one directory, and queues its subdirectories."""
        if self.items == 0 or self.reads == 0:
            folder.cut = _holds_something(path)
            return
        files, subfolders, whole = self._read(path)
        shown = [name for name in files if not (rules and rules.ignores(name, is_dir=False))]
        folder.cut = not whole or len(shown) < len(files)
        # A directory full of files leaves room for its subfolders, which are more informative.
        room = self.items - (self.items // 2 if subfolders else 0)
        self._show(folder, shown[:room])
        if len(shown) > room:
            self.waiting.append((folder, shown[room:]))
        for name in subfolders:
            if self.items == 0:
                folder.cut = True
                break
            child = _DrawnFolder(_safe(name))
            folder.folders.append(child)
            self.items -= 1
            if name in SUMMARISED or (rules and rules.ignores(name, is_dir=True)):
                child.cut = True
            else:
                below = rules.below(name) if rules else None
                self.queue.append((child, os.path.join(path, name), below))

    def show_waiting(self) -> None:
        """Shows postponed files if folders left room."""
        for folder, files in self.waiting:
            folder.cut = folder.cut or len(files) > self.items
            self._show(folder, files[: self.items])

    def _show(self, folder: _DrawnFolder, files: list[str]) -> None:
        folder.files += map(_safe, files)
        self.items -= len(files)

    def _read(self, path: str) -> tuple[list[str], list[str], bool]:
        """Sorted names of files and folders, and True if they are complete."""
        files: list[str] = []
        folders: list[str] = []
        whole = True
        try:
            with os.scandir(path) as listing:
                left = min(self.reads, self.reads_each)
                for entry in listing:
                    if left == 0:
                        whole = False
                        break
                    left -= 1
                    self.reads -= 1
                    (folders if _is_folder(entry) else files).append(entry.name)
        except OSError:
            whole = False
        return sorted(files), sorted(folders), whole


def folder_structure(
    root: Path, rules: IgnoreRules | None, max_items: int = MAX_ITEMS, max_read: int = MAX_READ
) -> str:
    """Draws the tree below `root`, breadth first, with at most `max_items` files and folders; files
    leave room for folders beside them. Reads at most `max_read` entries.

    Truncated folders end in "...", as do ignored and summarised ones. Symlinked directories are
    listed as files; unreadable ones as truncated.
    """
    top = _DrawnFolder(_safe(str(root)))
    picture = _Picture(max_items, max_read)
    picture.queue.append((top, str(root), rules.rules_of(root) if rules else None))
    while picture.queue:
        picture.look_into(*picture.queue.popleft())
    picture.show_waiting()
    shown = f"Showing up to {max_items} items (files + folders)."
    if _any_cut(top):
        shown += (
            " Folders or files indicated with ... contain more items not shown, were ignored, "
            f"or the display limit ({max_items} items) was reached."
        )
    lines: list[str] = []
    _draw(top, "", lines)
    return f"{shown}\n\n{top.name}{os.sep}\n" + "\n".join(lines)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:  # its type is unknown; it may be gone
        return False


def _holds_something(path: str) -> bool:
    """True when an unread directory has content, or may have."""
    try:
        with os.scandir(path) as listing:
            return next(listing, None) is not None
    except OSError:
        return True


def _any_cut(folder: _DrawnFolder) -> bool:
    return folder.cut or any(_any_cut(child) for child in folder.folders)


def _draw(folder: _DrawnFolder, indent: str, lines: list[str]) -> None:
    """Appends the lines of a folder's content. The number of items limits the depth."""
    items: list[str | _DrawnFolder] = [*folder.files, *folder.folders]
    if folder.cut and (items or not indent):
        items.append("...")
    for index, item in enumerate(items):
        last = index == len(items) - 1
        branch = "└───" if last else "├───"
        if isinstance(item, str):
            lines.append(f"{indent}{branch}{item}")
            continue
        closed = item.cut and not item.files and not item.folders
        lines.append(f"{indent}{branch}{item.name}{os.sep}{'...' if closed else ''}")
        _draw(item, f"{indent}{'    ' if last else '│   '}", lines)


def _safe(name: str) -> str:
    """Escapes control characters and undecodable bytes in a name."""
    return printable(name)
