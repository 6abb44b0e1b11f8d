"""Going through the files below a directory: what glob and the text search share."""

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from alhena.system.errors import from_os_error
from alhena.system.ignore import DirectoryRules, IgnoreRules

EXCLUDED_DIRECTORIES = frozenset({".git", ".hg", ".svn", "bower_components", "node_modules"})
"""Directories that are never searched."""

_ENTRIES_BETWEEN_CHECKS = 512


class WalkTally:
    """What a walk left out: ignored files and directories (full paths), unreadable directories."""

    def __init__(self) -> None:
        self.ignored_files: list[str] = []
        self.ignored_directories: list[str] = []
        self.unreadable: list[str] = []


class WalkLimits:
    """Where a walk may go.

    `enter(relative_path)` says whether to descend into a directory; `cancellation` ends the walk
    early when it is set.
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

    Symlinks to files count as files; symlinks to directories are not followed, so there are no
    loops. FIFOs, sockets, devices and broken links are passed over. `rules` leave out what they
    ignore, and directories that cannot be read go into the tally. `entry.path` begins with `root`
    as it was given. When `limits.cancellation` is set the walk ends; the caller checks it.
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
            if not _is_directory(entry):
                if _is_file(entry) and not _left_out(
                    entry, here, tally.ignored_files, is_dir=False
                ):
                    yield entry
            elif entry.name not in limits.excluded:
                below = f"{relative}{entry.name}"
                if not limits.enter(below):
                    continue
                if not _left_out(entry, here, tally.ignored_directories, is_dir=True):
                    inner = here.below(entry.name) if here else None
                    deeper.append((entry.path, f"{below}/", inner))
        pending.extend(reversed(deeper))


def _entries(path: str, tally: WalkTally, cancellation: threading.Event) -> list[os.DirEntry[str]]:
    found: list[os.DirEntry[str]] = []
    try:
        with os.scandir(path) as listing:
            for entry in listing:
                found.append(entry)
                if len(found) % _ENTRIES_BETWEEN_CHECKS == 0 and cancellation.is_set():
                    return []
    except OSError as error:
        tally.unreadable.append(str(from_os_error(error, path)))
    found.sort(key=_name)
    return found


def _name(entry: os.DirEntry[str]) -> str:
    return entry.name


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:  # it went away, or may not be looked at
        return False


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:  # a link that leads nowhere it may look: no file for anyone
        return False


def _left_out(
    entry: os.DirEntry[str], rules: DirectoryRules | None, ignored: list[str], *, is_dir: bool
) -> bool:
    if rules is None or not rules.ignores(entry.name, is_dir):
        return False
    ignored.append(entry.path)
    return True
