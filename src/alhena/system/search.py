"""Searching files for a regular expression, with the same result whatever does the looking.

Which files belong to a search (ignore rules, excluded directories, include patterns, no symlinks,
no binaries), which lines match and what is shown of them is decided here and in `search_lines`,
always. ripgrep and `git grep` only save reading: they name the files that hold some text which
every match must contain.
"""

import asyncio
import os
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from alhena.system.errors import FileError, from_os_error, printable
from alhena.system.ignore import IgnoreRules
from alhena.system.search_literals import required_literals
from alhena.system.walk import EXCLUDED_DIRECTORIES, WalkLimits, WalkTally, walk
from alhena.system.wildcard import expand_braces, name_regex, path_regex

MAX_MATCHES = 20_000
MAX_LINE = 2_000
TIME_LIMIT = 30.0

T = TypeVar("T")


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """What to look for, and where.

    `path` is a directory or a file, at or below `root`, the workspace root whose ignore rules
    count. `pattern` is a regular expression for single lines, case does not matter; lines that
    match `exclude` are left out. `include` is a glob: without a slash for file names, with one for
    paths below `path`. A path that git itself would ignore is searched when it is named.
    """

    pattern: str
    path: Path
    root: Path
    include: str | None = None
    exclude: str | None = None
    max_matches: int = MAX_MATCHES


class Match(msgspec.Struct, frozen=True):
    """A line that matches: its file, its number from 1, its text (at most 2,000 characters)."""

    path: Path
    line: int
    text: str


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """Matches by path (as bytes) and line. `limited`: there are more than the query allowed.

    `notes` say what could not be searched. `backend` is what did the looking.
    """

    matches: tuple[Match, ...]
    limited: bool
    notes: tuple[str, ...]
    backend: str


class SearchBackend(Protocol):
    """Carries out queries."""

    name: str

    async def search(
        self, query: Query, cancellation: threading.Event | None = None
    ) -> SearchResult:
        """Raises PatternError, SearchTimeoutError, SearchError; stops when cancelled."""
        ...


class PythonSearch:
    """Reads every file itself. Needs nothing."""

    name = "python"

    def __init__(self, *, time_limit: float = TIME_LIMIT) -> None:
        self._time_limit = time_limit

    async def search(
        self, query: Query, cancellation: threading.Event | None = None
    ) -> SearchResult:
        """As `SearchBackend.search`."""
        return await search_files(query, None, self.name, self._time_limit, cancellation)


async def search_files(
    query: Query,
    candidates: list[Path] | None,
    backend: str,
    time_limit: float,
    cancellation: threading.Event | None = None,
) -> SearchResult:
    """The search itself, in a thread. `candidates` narrow it: no other file has a match."""
    stop = threading.Event()

    def stopped() -> bool:
        return stop.is_set() or (cancellation is not None and cancellation.is_set())

    def work() -> SearchResult:
        return _Search(query, backend, time_limit, stopped).run(candidates)

    return await _in_thread(work, stop)


async def _in_thread(work: Callable[[], T], stop: threading.Event) -> T:
    running = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stop.set()
        # It looks at `stop` between lines, and no line takes longer than two seconds.
        await asyncio.wait({running})
        raise


class _Search:
    def __init__(
        self, query: Query, backend: str, time_limit: float, stopped: Callable[[], bool]
    ) -> None:
        from alhena.system.search_lines import Deadline, LineMatcher, compile_pattern

        self._query = query
        self._backend = backend
        self._deadline = Deadline(time_limit, stopped)
        self._notes: list[str] = []
        self._files = FileChoice(query)
        self._matcher = LineMatcher(
            compile_pattern(query.pattern),
            compile_pattern(query.exclude) if query.exclude else None,
            required_literals(query.pattern),
            self._deadline,
        )

    def run(self, candidates: list[Path] | None) -> SearchResult:
        found: list[Match] = []
        path = self._query.path
        if self._files.rules.ignored(path, path.is_dir()):
            self._notes.append(f"{printable(path)} is left out by .geminiignore.")
            return self._result(found, limited=False)
        files = self._walked() if candidates is None else self._chosen(candidates)
        for path in sorted(files, key=os.fsencode):
            self._deadline.left()
            for match in self._in_file(Path(path)):
                if len(found) == self._query.max_matches:
                    return self._result(found, limited=True)
                found.append(match)
        return self._result(found, limited=False)

    def _in_file(self, path: Path) -> Iterator[Match]:
        try:
            for number, line in self._matcher.matches(path):
                yield Match(path, number, _shown(line))
        except FileError as error:
            self._notes.append(str(error))
        except OSError as error:
            self._notes.append(str(from_os_error(error, path)))

    def _chosen(self, candidates: list[Path]) -> Iterator[str]:
        for path in candidates:
            if self._files.belongs(path):
                yield str(path)

    def _walked(self) -> Iterator[str]:
        query = self._query
        if not query.path.is_dir():
            yield str(query.path)
            return
        tally = WalkTally()
        limits = WalkLimits(excluded=self._files.excluded)
        for entry in walk(query.path, self._files.rules, tally, limits):
            self._deadline.left()
            if not entry.is_symlink() and self._files.included(entry.path):
                yield entry.path
        self._notes.extend(tally.unreadable)

    def _result(self, found: list[Match], *, limited: bool) -> SearchResult:
        notes = (*dict.fromkeys([*self._files.rules.warnings, *self._notes]),)
        return SearchResult(
            matches=tuple(found), limited=limited, notes=notes, backend=self._backend
        )


class FileChoice:
    """Which files belong to a query.

    `named` is true when its path is one that git ignores, or lies in a directory that is never
    searched otherwise: having been named, it is searched, and only .geminiignore counts.
    """

    def __init__(self, query: Query) -> None:
        inside = query.path.relative_to(query.root).parts
        rules = IgnoreRules(query.root)
        git_only = IgnoreRules(query.root, gemini=False)
        self.named = bool(EXCLUDED_DIRECTORIES.intersection(inside)) or git_only.ignored(
            query.path, query.path.is_dir()
        )
        self.rules = IgnoreRules(query.root, git=False) if self.named else rules
        self.excluded: frozenset[str] = frozenset() if self.named else EXCLUDED_DIRECTORIES
        self._base = len(str(query.path).rstrip("/")) + 1
        self._include = _include_regexes(query.include) if query.include else None

    def belongs(self, path: Path) -> bool:
        """Whether a file that a search program named belongs to the query."""
        shown = str(path)
        return (
            not self.excluded.intersection(shown[self._base :].split("/")[:-1])
            and self.included(shown)
            and not path.is_symlink()
            and path.is_file()
            and not self.rules.ignored(path, is_dir=False)
        )

    def included(self, path: str) -> bool:
        """Whether the include pattern, if there is one, takes this file."""
        if self._include is None:
            return True
        below = path[self._base :]
        name = below.rpartition("/")[2]
        return any(regex.fullmatch(name if by_name else below) for regex, by_name in self._include)


def _include_regexes(include: str) -> list[tuple[re.Pattern[str], bool]]:
    from alhena.system.errors import PatternError
    from alhena.system.wildcard import BadPatternError

    found: list[tuple[re.Pattern[str], bool]] = []
    for pattern in expand_braces(include):
        by_name = "/" not in pattern
        bare = pattern.removeprefix("./").removeprefix("/")
        try:
            source = name_regex(bare) if by_name else path_regex(bare)
        except BadPatternError as error:
            raise PatternError(f"Invalid include pattern: {include}. {error}") from error
        found.append((re.compile(source, re.DOTALL), by_name))
    return found


def _shown(line: str) -> str:
    text = line.rstrip()
    return text if len(text) <= MAX_LINE else f"{text[:MAX_LINE]}... [truncated]"
