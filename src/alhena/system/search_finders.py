"""ripgrep and `git grep`, asked for the files that hold some fixed text.

Neither is asked to match the pattern (see `search_literals`), neither reads the user's or the
repository's configuration where that could run something, and neither failing is an error: the
search is then carried out without it.
"""

import os
import shutil
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path

from alhena.system.search import (
    TIME_LIMIT,
    Ahead,
    PythonSearch,
    Query,
    SearchBackend,
    SearchResult,
    search_files,
)
from alhena.system.search_lines import Deadline
from alhena.system.search_listing import Listing, listing_environment
from alhena.system.search_literals import ESCAPED, RAW, literal_source
from alhena.system.walk import EXCLUDED_DIRECTORIES

_GITLINK = b"160000 "
_RGIGNORE = b'.rgignore")'


class _FinderSearch(ABC):
    """Lets a program find the files to read; `_find` gives their paths, None when it cannot."""

    name: str

    def __init__(self, program: str, *, time_limit: float = TIME_LIMIT) -> None:
        self._program = program
        self._time_limit = time_limit

    async def search(
        self, query: Query, cancellation: threading.Event | None = None
    ) -> SearchResult:
        """As `SearchBackend.search`."""
        return await search_files(query, self._find, self.name, self._time_limit, cancellation)

    @abstractmethod
    def _find(
        self, query: Query, literals: tuple[str, ...], deadline: Deadline, ahead: Ahead
    ) -> list[str] | None: ...


class RipgrepSearch(_FinderSearch):
    """Lets ripgrep find the files to read."""

    name = "ripgrep"

    def _find(
        self, query: Query, literals: tuple[str, ...], deadline: Deadline, ahead: Ahead
    ) -> list[str] | None:
        options = [f"--glob=!{name}/" for name in sorted(EXCLUDED_DIRECTORIES)]
        if not in_work_tree(query.path):
            # Without a repository it would go up to "/" for rules, past the workspace root.
            options.append("--no-ignore-parent")
        source = f"(?-u){literal_source(literals, ESCAPED)}"
        argv = (self._program, "--no-config", "--files-with-matches", "--null", "--text",
                "--hidden", "--ignore-case", "--no-messages", "--color=never", "--no-ignore-dot",
                "--no-require-git", "--encoding=none", "--debug", *options, "-e", source,
                "--", ".")  # fmt: skip
        names = _Names(str(query.path), ahead)
        # Before version 14 a .rgignore counts even with --no-ignore-dot; what one has left out is
        # said with the place of the rule.
        environment = listing_environment(query.environ)
        with Listing(argv, names.directory, environment, mark=_RGIGNORE) as listing:
            ahead.prepare()
            output = listing.output(deadline, names.feed)
        return None if output is None or listing.marked else names.paths


class GitGrepSearch(_FinderSearch):
    """Lets `git grep` find the files to read, in a work tree without repositories inside it."""

    name = "git grep"

    def _find(
        self, query: Query, literals: tuple[str, ...], deadline: Deadline, ahead: Ahead
    ) -> list[str] | None:
        # A repository's configuration may name programs: none of them is to run.
        git = (self._program, "--no-pager", "-c", "core.fsmonitor=", "-c",
               "core.hooksPath=/dev/null", "-c", "core.untrackedCache=false", "-c",
               "core.quotePath=false")  # fmt: skip
        # Without the index git looks at what is there, tracked or not, as the others do.
        source = literal_source(literals, RAW).encode("latin-1")
        grep = (*git, "grep", "--no-index", "--exclude-standard", "--files-with-matches", "--null",
                "--text", "--ignore-case", "--extended-regexp", "--no-color",
                "-e", source, "--", ".")  # fmt: skip
        others = (*git, "ls-files", "-z", "--others", "--exclude-standard")
        tracked = (*git, "ls-files", "-z", "--stage")
        names = _Names(str(query.path), ahead)
        environment = listing_environment(query.environ)
        with (
            Listing(grep, names.directory, environment) as finding,
            Listing(others, names.directory, environment) as listing_others,
            Listing(tracked, names.directory, environment) as listing_tracked,
        ):
            ahead.prepare()
            if _has_inner_repositories(
                listing_others.output(deadline), listing_tracked.output(deadline)
            ):
                return None
            output = finding.output(deadline, names.feed)
        return None if output is None else names.paths


def _has_inner_repositories(others: bytes | None, tracked: bytes | None) -> bool:
    """Whether rules of a repository inside this one would have to be followed; True if unknown.

    git lists an untracked repository as a directory, and a submodule by its mode.
    """
    if others is None or tracked is None:
        return True
    return b"/\0" in others or tracked.startswith(_GITLINK) or b"\0" + _GITLINK in tracked


class _Names:
    """NUL-separated names as they come, made paths and passed on."""

    def __init__(self, directory: str, ahead: Ahead) -> None:
        self.directory = directory
        self.paths: list[str] = []
        self._top = directory.rstrip("/")
        self._ahead = ahead
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """The next bytes; a name that is not yet whole waits for the following ones."""
        *whole, self._rest = (self._rest + data).split(b"\0")
        paths = [f"{self._top}/{os.fsdecode(name).removeprefix('./')}" for name in whole]
        self.paths += paths
        self._ahead.take(paths)


def choose_backend(
    path: Path, *, environ: Mapping[str, str] | None = None, time_limit: float = TIME_LIMIT
) -> SearchBackend:
    """The fastest way to search below `path`: ripgrep, in a work tree git, else Python.

    The programs are looked for on the PATH of `environ`, this process's when None.
    """
    where = None if environ is None else environ.get("PATH", os.defpath)
    if program := shutil.which("rg", path=where):
        return RipgrepSearch(program, time_limit=time_limit)
    if in_work_tree(path) and (program := shutil.which("git", path=where)):
        return GitGrepSearch(program, time_limit=time_limit)
    return PythonSearch(time_limit=time_limit)


def in_work_tree(path: Path) -> bool:
    """Whether `path` is in a git work tree."""
    return any(os.path.exists(above / ".git") for above in (path, *path.parents))
