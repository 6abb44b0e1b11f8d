"""Going through the files below a directory: what glob and the text search share."""

import os
import threading
from collections.abc import Callable, Iterator
from operator import attrgetter
from pathlib import Path

from alhena.system.errors import from_os_error
from alhena.system.ignore import DirectoryRules, IgnoreRules
from alhena.system.leftovers import is_temporary

EXCLUDED_DIRECTORIES = frozenset({".git", ".hg", ".svn", "bower_components", "node_modules"})
"""Directories that are never searched."""

_NAME = attrgetter("name")
_ENTRIES_BETWEEN_CHECKS = 512


class WalkTally:
    """What a walk left out, by full path: ignored files and directories, special files (FIFOs,
    sockets, devices, broken links); and a sentence for every directory that cannot be read."""

    def __init__(self) -> None:
        self.ignored_files: list[str] = []
        self.ignored_directories: list[str] = []
        self.special: list[str] = []
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

    Files that are being written under a temporary name are passed over. Symlinks to files count as
    files; symlinks to directories are not followed, so there are no loops. FIFOs, sockets, devices,
    broken links, what `rules` ignore and directories that cannot be read go into the tally.
    `entry.path` begins with `root` as it was given. When `limits.cancellation` is set the walk
    ends; the caller checks it.
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
            except OSError:  # it went away, or leads where nobody may look
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
