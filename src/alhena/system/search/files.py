"""Searches files for a regular expression, with context lines.

This module and `lines` always decide the searched files (ignore rules, excluded directories,
include patterns, no symlinks, no binaries), the matching lines and their display. ripgrep and `git
grep` only save reading: they list the files that contain a text required by every match.
"""

import asyncio
import os
import re
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec

from alhena.system.errors import SearchTimeoutError, from_os_error, printable
from alhena.system.ignore import IgnoreRules
from alhena.system.replacement import is_temporary
from alhena.system.search.lines import (
    LONGEST_LINE,
    codec_of,
    first_bytes,
    line_end,
    open_for_search,
)
from alhena.system.search.literals import required_literals
from alhena.system.walk import EXCLUDED_DIRECTORIES, WalkLimits, WalkTally, walk
from alhena.system.wildcard import name_regex, path_regex

if TYPE_CHECKING:
    from alhena.system.search.lines import Deadline, LineMatcher

MAX_MATCHES = 20_000
MAX_LINE = 2_000
TIME_LIMIT = 30.0

_NAMED_LINES = 3
_VERSION_CONTROL = frozenset({".git", ".hg", ".svn"})

T = TypeVar("T")


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A search query.

    `path` is a directory or a file, at or below `root`, the workspace root whose ignore rules
    apply. `pattern` is a regular expression for single lines; lines that match `exclude` are
    dropped. `include` is a glob: without a slash for file names, with one for paths below `path`. A
    path that git would ignore is searched when it is named. `no_ignore` applies that to the whole
    search: only .geminiignore counts. `max_per_file` is 0 for no limit. `environ` (default: this
    process's) locates the user's git settings, and is passed to search programs without secrets.
    """

    pattern: str
    path: Path
    root: Path
    include: str | None = None
    exclude: str | None = None
    max_matches: int = MAX_MATCHES
    max_per_file: int = 0
    case_sensitive: bool = False
    no_ignore: bool = False
    environ: Mapping[str, str] | None = None


class Match(msgspec.Struct, frozen=True):
    """A matching line: its file, its number from 1, its text (at most 2,000 characters)."""

    path: Path
    line: int
    text: str


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """Matches by path (as bytes) and line. `limited`: there are more than `max_matches`;
    `cut_files` have more than `max_per_file`. `notes` report failures. `backend` names the search
    program.
    """

    matches: tuple[Match, ...]
    limited: bool
    cut_files: int = 0
    notes: tuple[str, ...]
    backend: str


class SearchBackend(Protocol):
    """Executes queries."""

    name: str

    async def search(
        self, query: Query, cancellation: threading.Event | None = None
    ) -> SearchResult:
        """Raises PatternError, SearchTimeoutError, SearchError; stops when cancelled."""
        ...


class PythonSearch:
    """Reads every file itself, without other programs."""

    name = "python"

    def __init__(self, *, time_limit: float = TIME_LIMIT) -> None:
        self._time_limit = time_limit

    async def search(
        self, query: Query, cancellation: threading.Event | None = None
    ) -> SearchResult:
        """Implements `SearchBackend.search`."""
        return await search_files(query, None, self.name, self._time_limit, cancellation)


class Ahead(Protocol):
    """The part of a search that runs while a finder is working."""

    def prepare(self) -> None:
        """Called after the finder has started. Raises PatternError."""
        ...

    def take(self, paths: list[str]) -> None:
        """Processes some of the finder's paths. Raises SearchError, SearchTimeoutError."""
        ...


class Finder(Protocol):
    """Lists the files that contain one of several texts, ignoring case; None when it cannot
    tell."""

    def __call__(
        self, query: Query, literals: tuple[str, ...], deadline: "Deadline", ahead: Ahead, /
    ) -> list[str] | None:
        """Paths that begin with `query.path`. Raises SearchError, SearchTimeoutError."""
        ...


async def search_files(
    query: Query,
    finder: Finder | None,
    backend: str,
    time_limit: float,
    cancellation: threading.Event | None = None,
) -> SearchResult:
    """Runs the search in a thread. Only files listed by `finder` can match.

    `backend` names the finder.
    """
    stop = threading.Event()

    def stopped() -> bool:
        return stop.is_set() or (cancellation is not None and cancellation.is_set())

    def work() -> SearchResult:
        return _Search(query, time_limit, stopped).run(finder, backend)

    return await _in_thread(work, stop)


async def _in_thread(work: Callable[[], T], stop: threading.Event) -> T:
    running = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stop.set()
        # It checks `stop` between lines, and no line takes longer than two seconds.
        await asyncio.wait({running})
        raise


class _FileMatches(msgspec.Struct, frozen=True):
    """The result of a file: its matches, a flag for further ones, an error note, and a flag for
    lines that took too long."""

    matches: list[Match] = msgspec.field(default_factory=list[Match])
    cut: bool = False
    note: str | None = None
    passed_over: bool = False


_NOTHING = _FileMatches()


class _Search:
    def __init__(self, query: Query, time_limit: float, stopped: Callable[[], bool]) -> None:
        from alhena.system.search.lines import Deadline

        self._query = query
        self._deadline = Deadline(time_limit, stopped)
        self._notes: list[str] = []
        self._files = FileChoice(query)
        self._backend = PythonSearch.name
        self._literals = required_literals(query.pattern)
        self._matcher: LineMatcher | None = None
        self._read: dict[str, _FileMatches | None] = {}
        self._room = query.max_matches

    def prepare(self) -> None:
        """Implements `Ahead.prepare`."""
        self._prepared()

    def _prepared(self) -> "LineMatcher":
        from alhena.system.search.lines import LineMatcher, compile_pattern

        if self._matcher is not None:
            return self._matcher
        query, case = self._query, self._query.case_sensitive
        pattern = compile_pattern(query.pattern, case_sensitive=case)
        exclude = compile_pattern(query.exclude, case_sensitive=case) if query.exclude else None
        self._matcher = LineMatcher(pattern, exclude, self._literals, self._deadline)
        self._files.rules.within(self._files.rules.root)
        return self._matcher

    def take(self, paths: list[str]) -> None:
        """Implements `Ahead.take`: reads files as they are listed, until there are enough
        matches."""
        for path in paths:
            if self._room <= 0:
                return
            read = self._read[path] = self._in_file(path) if self._files.belongs(path) else None
            self._room -= len(read.matches) if read else 0

    def run(self, finder: Finder | None, backend: str) -> SearchResult:
        """Runs the search; `backend` names the finder."""
        path = self._query.path
        directory = os.path.isdir(path)
        if self._files.rules.ignored(path, directory):
            self._notes.append(f"{printable(path)} is left out by .geminiignore.")
            return self._result([], limited=False)
        if directory:
            named = self._named(finder)
            self._backend = self._backend if named is None else backend
            files = self._walked() if named is None else iter(named)
        else:
            files = iter([str(path)])
        self.prepare()
        found: list[Match] = []
        cut_files = 0
        passed_over: list[str] = []
        for name in sorted(files, key=os.fsencode):
            read = self._matches(name)
            found += read.matches
            cut_files += read.cut
            if read.note:
                self._notes.append(read.note)
                passed_over += [read.note] if read.passed_over else []
            if len(found) > self._query.max_matches:
                del found[self._query.max_matches :]
                return self._result(found, limited=True, cut_files=cut_files)
        if passed_over and not found:
            raise _nothing_but(passed_over)
        return self._result(found, limited=False, cut_files=cut_files)

    def _named(self, finder: Finder | None) -> list[str] | None:
        """The finder's paths; None when all files have to be read."""
        if finder is None or not self._literals or self._files.named:
            return None
        named = finder(self._query, self._literals, self._deadline, self)
        if named is None:
            return None
        return [
            name for name in named
            if (self._read[name] is not None if name in self._read else self._files.belongs(name))
        ]  # fmt: skip

    def _matches(self, path: str) -> _FileMatches:
        return self._read.pop(path, None) or self._in_file(path)

    def _in_file(self, path: str) -> _FileMatches:
        """The matches of a file, at most one more than the query allows."""
        query = self._query
        most = min(query.max_per_file or query.max_matches, query.max_matches) + 1
        try:
            found = self._prepared().matches(path, most)
        except OSError as error:
            return _FileMatches(note=str(from_os_error(error, path)))
        passed_over = self._prepared().passed_over()
        if not found and not passed_over:
            return _NOTHING
        cut = bool(query.max_per_file) and len(found) > query.max_per_file
        if cut:
            del found[query.max_per_file :]
        located = Path(path)
        return _FileMatches(
            [Match(located, number, shown_line(line)) for number, line in found],
            cut,
            _passed_over_note(path, passed_over) if passed_over else None,
            bool(passed_over),
        )

    def _walked(self) -> Iterator[str]:
        tally = WalkTally()
        limits = WalkLimits(enter=self._go_on, excluded=self._files.excluded)
        for entry in walk(self._query.path, self._files.rules, tally, limits):
            if self._files.included(entry.path) and not entry.is_symlink():
                yield entry.path
        self._notes.extend(tally.unreadable)

    def _go_on(self, _directory: str) -> bool:
        self._deadline.left()
        return True

    def _result(self, found: list[Match], *, limited: bool, cut_files: int = 0) -> SearchResult:
        notes = (*dict.fromkeys([*self._files.rules.warnings, *self._notes]),)
        return SearchResult(
            matches=tuple(found),
            limited=limited,
            cut_files=cut_files,
            notes=notes,
            backend=self._backend,
        )


def _passed_over_note(path: str, numbers: list[int]) -> str:
    named = ", ".join(f"{number:,}" for number in numbers[:_NAMED_LINES])
    if len(numbers) == 1:
        which, what = f"Line {named}", "was not searched: the pattern takes more time on it than"
    else:
        more = len(numbers) - _NAMED_LINES
        which = f"Lines {named}" + (f" and {more:,} more" if more > 0 else "")
        what = "were not searched: the pattern takes more time on each than"
    return f"{which} of {printable(path)} {what} a line may take."


def _nothing_but(passed_over: list[str]) -> SearchTimeoutError:
    """The error when lines took too long and no other line matches."""
    rest = f" The same is so in {len(passed_over) - 1:,} more files." if passed_over[1:] else ""
    return SearchTimeoutError(
        f"{passed_over[0]}{rest} No other line matches.",
        remedy="The pattern tries too many ways to match: simplify nested or adjoining "
        "repetitions, such as (a+)+ or a*a*.",
    )


class FileChoice:
    """Selects the files of a query.

    `named` is True when the query's path is ignored by git, or in an excluded directory: it was
    named explicitly, so only .geminiignore applies. The same holds without ignore rules.
    """

    def __init__(self, query: Query) -> None:
        inside = query.path.relative_to(query.root).parts
        environ = query.environ
        rules = IgnoreRules(query.root, environ=environ)
        git_only = IgnoreRules(query.root, gemini=False, environ=environ)
        self.named = (
            query.no_ignore
            or bool(EXCLUDED_DIRECTORIES.intersection(inside))
            or git_only.ignored(query.path, os.path.isdir(query.path))
        )
        self.rules = IgnoreRules(query.root, git=False, environ=environ) if self.named else rules
        self.excluded: frozenset[str] = EXCLUDED_DIRECTORIES
        if self.named:
            self.excluded = _VERSION_CONTROL if query.no_ignore else frozenset[str]()
        self._base = len(str(query.path).rstrip("/")) + 1
        self._include = _include_regexes(query.path, query.include) if query.include else None

    def belongs(self, path: str) -> bool:
        """True when a file listed by a search program belongs to the query."""
        *above, name = path[self._base :].split("/")
        if self.excluded.intersection(above) or is_temporary(name):
            return False
        if not self.included(path):
            return False
        try:
            regular = stat.S_ISREG(os.lstat(path).st_mode)
        except OSError:  # it has been deleted
            return False
        return regular and not self.rules.ignored(Path(path), is_dir=False)

    def included(self, path: str) -> bool:
        """True when the file matches the include pattern, if any."""
        if self._include is None:
            return True
        below = path[self._base :]
        name = below.rpartition("/")[2]
        return any(regex.fullmatch(name if by_name else below) for regex, by_name in self._include)


def _include_regexes(path: Path, include: str) -> list[tuple[re.Pattern[str], bool]]:
    from alhena.system.errors import PatternError
    from alhena.system.walk import literal, options_of
    from alhena.system.wildcard import BadPatternError

    found: list[tuple[re.Pattern[str], bool]] = []
    try:
        options = options_of(include)
        if "\0" not in include and os.path.lexists(path / include.lstrip("/")):
            options.append(literal(include))
        for pattern in options:
            by_name = "/" not in pattern
            bare = pattern.removeprefix("./").removeprefix("/")
            source = name_regex(bare) if by_name else path_regex(bare)
            found.append((re.compile(source, re.DOTALL), by_name))
    except BadPatternError as error:
        raise PatternError(f"Invalid include pattern: {include}. {error}") from error
    return found


def shown_line(line: str) -> str:
    """A line for results: without trailing white space, at most `MAX_LINE` long."""
    text = line.rstrip()
    return text if len(text) <= MAX_LINE else f"{text[:MAX_LINE]}... [truncated]"


def lines_around(path: str, numbers: list[int], before: int, after: int) -> dict[int, str]:
    """Context lines before and after the lines with these numbers, which are left out.

    Ascending, truncated like matches. Raises OSError.
    """
    wanted = {near for n in numbers for near in range(max(1, n - before), n + after + 1)}
    wanted.difference_update(numbers)
    last = max(wanted, default=0)
    found: dict[int, str] = {}
    for number, line in _lines(path):
        if number > last:
            break
        if number in wanted:
            found[number] = shown_line(line)
    return found


def _lines(path: str) -> Iterator[tuple[int, str]]:
    descriptor = open_for_search(path)
    with os.fdopen(descriptor, "rb") as file:
        size = os.fstat(descriptor).st_size
        start = first_bytes(descriptor, size)
        codec = codec_of(start, whole=len(start) == size)
        if codec is None:
            return
        file.seek(len(codec.bom))
        end = line_end(start.removeprefix(codec.bom), codec)
        text = TextIOWrapper(file, encoding=codec.encoding, errors="replace", newline=end)
        number = 1
        while line := text.readline(LONGEST_LINE):
            yield number, line.removesuffix("\n").removesuffix("\r")
            while line and not line.endswith(end):
                line = text.readline(LONGEST_LINE)
            number += 1
