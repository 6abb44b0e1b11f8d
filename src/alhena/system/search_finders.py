"""ripgrep and `git grep`, asked for the files that hold some fixed text.

Neither is asked to match the pattern (see `search_literals`), neither reads the user's or the
repository's configuration where that could run something, and neither failing is an error: the
search is then carried out without it.
"""

import os
import re
import shutil
import threading
from pathlib import Path

from alhena.system.errors import ProcessStartError
from alhena.system.processes import Command, Limits, run_process
from alhena.system.search import (
    TIME_LIMIT,
    FileChoice,
    PythonSearch,
    Query,
    SearchBackend,
    SearchResult,
    search_files,
)
from alhena.system.search_literals import literal_source, required_literals
from alhena.system.walk import EXCLUDED_DIRECTORIES

_MATCHES, _NO_MATCH = 0, 1
_GITLINK = b"160000 "


class RipgrepSearch:
    """Lets ripgrep find the files to read."""

    name = "ripgrep"

    def __init__(self, program: str, *, time_limit: float = TIME_LIMIT) -> None:
        self._program = program
        self._time_limit = time_limit
        self._version: int | None = None

    async def search(
        self, query: Query, cancellation: threading.Event | None = None
    ) -> SearchResult:
        """As `SearchBackend.search`."""
        candidates = await self._candidates(query)
        name = self.name if candidates is not None else PythonSearch.name
        return await search_files(query, candidates, name, self._time_limit, cancellation)

    async def _candidates(self, query: Query) -> list[Path] | None:
        literals = _usable_literals(query)
        if not literals or await self._has_rules_of_its_own(query.path):
            return None
        options = [f"--glob=!**/{name}/**" for name in sorted(EXCLUDED_DIRECTORIES)]
        if not in_work_tree(query.path):
            # Without a repository it would go up to "/" for rules, past the workspace root.
            options.append("--no-ignore-parent")
        return await _files_named_by(
            (self._program, "--no-config", "--files-with-matches", "--null", "--text", "--hidden",
             "--ignore-case", "--no-messages", "--color=never", "--no-ignore-dot",
             "--no-require-git", *options, "-e", literal_source(literals), "--", "."),
            query.path,
            self._time_limit,
        )  # fmt: skip

    async def _has_rules_of_its_own(self, directory: Path) -> bool:
        """Whether a .rgignore counts: before version 14 it does, even with --no-ignore-dot."""
        if self._version is None:
            said = await _output((self._program, "--version"), directory, self._time_limit)
            found = re.match(rb"ripgrep (\d+)\.", said or b"")
            self._version = int(found.group(1)) if found else 0
        if self._version >= 14:
            return False
        if any((above / ".rgignore").exists() for above in (directory, *directory.parents)):
            return True
        listing = (self._program, "--no-config", "--files", "--null", "--hidden",
                   "--no-messages", "--glob=.rgignore", "--", ".")  # fmt: skip
        return await _output(listing, directory, self._time_limit) != b""


class GitGrepSearch:
    """Lets `git grep` find the files to read, in a work tree without repositories inside it."""

    name = "git grep"

    def __init__(self, program: str, *, time_limit: float = TIME_LIMIT) -> None:
        self._program = program
        self._time_limit = time_limit

    async def search(
        self, query: Query, cancellation: threading.Event | None = None
    ) -> SearchResult:
        """As `SearchBackend.search`."""
        candidates = await self._candidates(query)
        name = self.name if candidates is not None else PythonSearch.name
        return await search_files(query, candidates, name, self._time_limit, cancellation)

    async def _candidates(self, query: Query) -> list[Path] | None:
        literals = _usable_literals(query)
        if not literals or await self._has_inner_repositories(query.path):
            return None
        # Without the index git looks at what is there, tracked or not, as the others do. It does
        # not decode UTF-16: every file with a byte order mark is one to read.
        return await _files_named_by(
            (*self._git(), "grep", "--no-index", "--exclude-standard", "--files-with-matches",
             "--null", "--text", "--ignore-case", "--extended-regexp", "--no-color",
             "-e", literal_source(literals), "-e", b"\xff\xfe", "-e", b"\xfe\xff", "--", "."),
            query.path,
            self._time_limit,
        )  # fmt: skip

    async def _has_inner_repositories(self, directory: Path) -> bool:
        """Whether rules of a repository inside this one would have to be followed; True if unknown.

        git lists an untracked repository as a directory, and a submodule by its mode.
        """
        listing = (*self._git(), "ls-files", "-z")
        others = await _output((*listing, "--others", "--exclude-standard"), directory,
                               self._time_limit)  # fmt: skip
        tracked = await _output((*listing, "--stage"), directory, self._time_limit)
        if others is None or tracked is None:
            return True
        return b"/\0" in others or tracked.startswith(_GITLINK) or b"\0" + _GITLINK in tracked

    def _git(self) -> tuple[str, ...]:
        # A repository's configuration may name programs: none of them is to run.
        return (self._program, "--no-pager", "-c", "core.fsmonitor=false", "-c",
                "core.untrackedCache=false", "-c", "core.quotePath=false")  # fmt: skip


def choose_backend(path: Path, *, time_limit: float = TIME_LIMIT) -> SearchBackend:
    """The fastest way to search below `path`: ripgrep, in a work tree git, else Python."""
    if program := shutil.which("rg"):
        return RipgrepSearch(program, time_limit=time_limit)
    if in_work_tree(path) and (program := shutil.which("git")):
        return GitGrepSearch(program, time_limit=time_limit)
    return PythonSearch(time_limit=time_limit)


def in_work_tree(path: Path) -> bool:
    """Whether `path` is in a git work tree."""
    return any((above / ".git").exists() for above in (path, *path.parents))


def _usable_literals(query: Query) -> tuple[str, ...]:
    """What to have looked for; () where reading the files oneself is the only way."""
    if not query.path.is_dir() or FileChoice(query).named:
        return ()
    return required_literals(query.pattern)


async def _files_named_by(
    argv: tuple[str | bytes, ...], directory: Path, seconds: float
) -> list[Path] | None:
    named = await _output(argv, directory, seconds)
    if named is None:
        return None
    relative = (os.fsdecode(name).removeprefix("./") for name in named.split(b"\0") if name)
    return [directory / name for name in relative]


async def _output(argv: tuple[str | bytes, ...], directory: Path, seconds: float) -> bytes | None:
    """What a search program wrote; None when it failed in any way."""
    output = bytearray()
    command = Command(argv=argv, cwd=str(directory), env=_environment(), merge_stderr=False)
    try:
        ending = await run_process(
            command, output.extend, limits=Limits(inactivity=0, total=seconds)
        )
    except ProcessStartError:
        return None
    usable = ending.stopped is None and ending.exit_code in {_MATCHES, _NO_MATCH}
    return bytes(output) if usable else None


def _environment() -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name.startswith("GIT_CONFIG_")
    }
    return {
        **kept,
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }
