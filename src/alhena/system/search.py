"""Searches files for a regular expression, line by line, with context lines.

This module decides the searched files (ignore rules, excluded directories, include patterns, no
symlinks, no binaries), the matching lines and their display. ripgrep only saves reading: it lists
the files that contain a text which every match contains. When it fails, all files are read.
"""

import asyncio
import os
import re
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from alhena.config.settings import FileFilteringSettings
from alhena.shell.secret_files import GLOBS, left_out, may_hold_secrets
from alhena.system.encoding import lines_of
from alhena.system.errors import (
    PatternError,
    ProcessStartError,
    SearchError,
    SearchTimeoutError,
    from_os_error,
    printable,
)
from alhena.system.files import is_temporary
from alhena.system.ignore import IgnoreRules
from alhena.system.walk import (
    EXCLUDED_DIRECTORIES,
    WalkLimits,
    WalkTally,
    literal,
    options_of,
    walk,
)
from alhena.system.wildcard import BadPatternError, name_regex, path_regex

if TYPE_CHECKING:
    from regex import Pattern

MAX_MATCHES = 20_000
MAX_LINE = 2_000
TIME_LIMIT = 30.0
LONGEST_PATTERN = 2_000
LINE_SECONDS = 2.0

_STEP = 0.05
_BETWEEN_CHECKS = 2_000
_VERSION_CONTROL = frozenset({".git", ".hg", ".svn"})


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A search query.

    `path` is a directory or a file, at or below `root`, the workspace root whose ignore rules
    apply. `pattern` is a regular expression for single lines; lines that match `exclude` are
    dropped. `include` is a glob: without a slash for file names, with one for paths below `path`. A
    path that git would ignore is searched when it is named; `filtering` says whether ignore files
    count at all. `no_ignore` applies that to the whole
    search: only .geminiignore counts. `max_per_file` is 0 for no limit. `environ` (default: this
    process's) locates the user's git settings, and is passed to ripgrep without secrets.
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
    filtering: FileFilteringSettings = FileFilteringSettings()
    environ: Mapping[str, str] | None = None


class LineMatch(msgspec.Struct, frozen=True):
    """A matching line: its file, its number from 1, its text (at most 2,000 characters)."""

    path: Path
    line: int
    text: str


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """Matches by path (as bytes) and line. `limited`: there are more than `max_matches`;
    `cut_files` have more than `max_per_file`. `notes` report failures. `backend` names the search
    program.
    """

    matches: tuple[LineMatch, ...]
    limited: bool
    cut_files: int = 0
    notes: tuple[str, ...]
    backend: str


class FileSearch:
    """Searches files, with ripgrep if `program` is its path."""

    def __init__(self, program: str = "", *, time_limit: float = TIME_LIMIT) -> None:
        self.program = program
        self.name = "ripgrep" if program else "python"
        self._time_limit = time_limit

    async def search(
        self, query: Query, cancellation: threading.Event | None = None
    ) -> SearchResult:
        """Runs in a thread. Raises PatternError, SearchTimeoutError, SearchError; stops when
        cancelled."""
        stop = threading.Event()

        def is_stopped() -> bool:
            return stop.is_set() or (cancellation is not None and cancellation.is_set())

        work = _FileSearch(query, self.program, Deadline(self._time_limit, is_stopped)).run
        running = asyncio.get_running_loop().run_in_executor(None, work)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            stop.set()
            # It checks `stop` between lines, and no line takes longer than two seconds.
            await asyncio.wait({running})
            raise


def choose_search(
    *,
    environ: Mapping[str, str] | None = None,
    roots: Iterable[Path] = (),
    time_limit: float = TIME_LIMIT,
) -> FileSearch:
    """A search with ripgrep if it is on the PATH of `environ` (default: this process's), outside
    the `roots` of the workspace."""
    from alhena.system.own_programs import find_program

    found = find_program("rg", os.environ if environ is None else environ, roots)
    return FileSearch(found or "", time_limit=time_limit)


class Deadline:
    """A time limit on the monotonic clock, or a stop signaled by `stopped`."""

    def __init__(self, seconds: float, stopped: Callable[[], bool]) -> None:
        self.seconds = seconds
        self._stopped = stopped
        self._end = time.monotonic() + seconds

    def remaining_seconds(self) -> float:
        """Remaining seconds, at most `LINE_SECONDS`.

        Raises SearchTimeoutError when there are none, SearchError when it was stopped.
        """
        if self._stopped():
            raise SearchError("The search was cancelled.")
        left = self._end - time.monotonic()
        if left <= 0:
            raise SearchTimeoutError(
                f"Operation timed out after {self.seconds * 1000:.0f}ms. In large repositories, "
                "consider narrowing the search with path or include.",
                remedy="Simplify the pattern if it has nested repetitions.",
            )
        return min(left, LINE_SECONDS)


class _FileSearch:
    def __init__(self, query: Query, program: str, deadline: Deadline) -> None:
        self._query = query
        self._program = program
        self._deadline = deadline
        self._files = FileChoice(query)
        self._literals = required_literals(query.pattern)
        self._secrets = 0
        self._notes: list[str] = []
        self._backend = "python"

    def run(self) -> SearchResult:
        """Runs the search."""
        path = self._query.path
        directory = os.path.isdir(path)
        if self._files.rules.is_ignored(path, directory):
            self._notes.append(f"{printable(path)} is left out by .geminiignore.")
            return self._result([], limited=False)
        found: list[LineMatch] = []
        cut_files = 0
        names, matcher = self._list_files() if directory else ([str(path)], self._matcher())
        if names is None:
            names = list(self._walk_files())
        most = self._query.max_matches
        per_file = self._query.max_per_file
        for name in sorted(names, key=os.fsencode):
            lines = self._lines(matcher, name, min(per_file or most, most) + 1)
            if per_file and len(lines) > per_file:
                cut_files += 1
                del lines[per_file:]
            located = Path(name)
            found += [LineMatch(located, number, shown_line(line)) for number, line in lines]
            if len(found) > most:
                del found[most:]
                return self._result(found, limited=True, cut_files=cut_files)
        return self._result(found, limited=False, cut_files=cut_files)

    def _lines(self, matcher: "LineMatcher", path: str, most: int) -> list[tuple[int, str]]:
        try:
            return matcher.matches(path, most)
        except OSError as error:
            self._notes.append(str(from_os_error(error, path)))
            return []

    def _matcher(self) -> "LineMatcher":
        query, case = self._query, self._query.case_sensitive
        pattern = compile_pattern(query.pattern, case_sensitive=case)
        exclude = compile_pattern(query.exclude, case_sensitive=case) if query.exclude else None
        return LineMatcher(pattern, exclude, self._literals, self._deadline)

    def _list_files(self) -> "tuple[list[str] | None, LineMatcher]":
        """The files that ripgrep lists, None when all have to be read; and the matcher, which is
        made meanwhile."""
        usual = self._query.filtering.respect_git_ignore
        if not self._program or not self._literals or self._files.named or not usual:
            return None, self._matcher()
        texts = ("--files-with-matches", "--text", "--ignore-case", "--fixed-strings",
                 *(f"--regexp={each}" for each in self._literals))  # fmt: skip
        # Listed apart from the pattern, so that their number tells nothing about their content.
        secrets = ("--files", *(f"--iglob={each}" for each in GLOBS))
        listed: list[list[str]] = []
        with ExitStack() as ends:
            processes = [self._start(texts), self._start(secrets)]
            for process in filter(None, processes):
                ends.enter_context(_killed_on_failure(process))
            matcher = self._matcher()
            for process in processes:
                output = None if process is None else self._output(process)
                if process is None or output is None or process.returncode not in {0, 1}:
                    return None, matcher  # 1: no file contains it
                listed.append(self._names(output))
        self._backend = "ripgrep"
        found, secret = listed
        self._secrets = sum(not self._files.is_open(each) for each in secret)
        return [each for each in found if self._files.is_open(each)], matcher

    def _names(self, output: bytes) -> list[str]:
        top = str(self._query.path).rstrip("/")
        names = [os.fsdecode(name).removeprefix("./") for name in output.split(b"\0")[:-1]]
        paths = [f"{top}/{name}" for name in names]
        return [path for path in paths if self._files.belongs(path)]

    def _start(self, wanted: tuple[str, ...]) -> "subprocess.Popen[bytes] | None":
        from alhena.system.environment import child_environment, shield_memory

        query = self._query
        options = [f"--glob=!{name}/" for name in sorted(EXCLUDED_DIRECTORIES)]
        if not any(os.path.exists(above / ".git") for above in (query.path, *query.path.parents)):
            # Without a repository it would read rules up to "/", above the workspace root.
            options.append("--no-ignore-parent")
        argv = (self._program, "--no-config", "--null", "--hidden", "--no-messages",
                "--color=never", "--no-ignore-dot", "--no-require-git", *wanted, *options, "--",
                ".")  # fmt: skip
        environ = os.environ if query.environ is None else query.environ
        place = environ.get("XDG_CONFIG_HOME")  # it locates ignore rules
        extra = {"XDG_CONFIG_HOME": place} if place else {}
        try:
            shield_memory()
            return subprocess.Popen(
                argv,
                cwd=str(query.path),
                env=child_environment(environ, extra=extra).variables,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except (OSError, ValueError, ProcessStartError):
            return None

    def _output(self, process: "subprocess.Popen[bytes]") -> bytes:
        while True:
            with suppress(subprocess.TimeoutExpired):
                return process.communicate(timeout=min(_STEP, self._deadline.remaining_seconds()))[
                    0
                ]

    def _walk_files(self) -> Iterator[str]:
        tally = WalkTally()
        limits = WalkLimits(enter=self._go_on, excluded=self._files.excluded)
        for entry in walk(self._query.path, self._files.rules, tally, limits):
            if self._files.is_included(entry.path) and not entry.is_symlink():
                if self._files.is_open(entry.path):
                    yield entry.path
                else:
                    self._secrets += 1
        self._notes.extend(tally.unreadable)

    def _go_on(self, _directory: str) -> bool:
        self._deadline.remaining_seconds()
        return True

    def _result(self, found: list[LineMatch], *, limited: bool, cut_files: int = 0) -> SearchResult:
        secrets = [left_out(self._secrets)] if self._secrets else []
        notes = (*dict.fromkeys([*secrets, *self._files.rules.warnings, *self._notes]),)
        return SearchResult(
            matches=tuple(found),
            limited=limited,
            cut_files=cut_files,
            notes=notes,
            backend=self._backend,
        )


@contextmanager
def _killed_on_failure(process: "subprocess.Popen[bytes]") -> Generator[None]:
    """Waits for a process; kills it when its output is not wanted any more."""
    with process:
        try:
            yield
        except BaseException:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            raise


class FileChoice:
    """Selects the files of a query.

    `named` is True when the query's path is ignored by git, or in an excluded directory: it was
    named explicitly, so only .geminiignore applies. The same holds without ignore rules.
    """

    def __init__(self, query: Query) -> None:
        inside = query.path.relative_to(query.root).parts
        environ = query.environ
        gemini = query.filtering.respect_gemini_ignore
        git = query.filtering.respect_git_ignore
        rules = IgnoreRules(query.root, git=git, gemini=gemini, environ=environ)
        git_only = IgnoreRules(query.root, gemini=False, environ=environ)
        self.named = (
            query.no_ignore
            or bool(EXCLUDED_DIRECTORIES.intersection(inside))
            or git_only.is_ignored(query.path, os.path.isdir(query.path))
        )
        if self.named:
            rules = IgnoreRules(query.root, git=False, gemini=gemini, environ=environ)
        self.rules = rules
        self.excluded: frozenset[str] = EXCLUDED_DIRECTORIES
        if self.named:
            self.excluded = _VERSION_CONTROL if query.no_ignore else frozenset[str]()
        self._base = len(str(query.path).rstrip("/")) + 1
        self._include = _include_regexes(query.path, query.include) if query.include else None

    def belongs(self, path: str) -> bool:
        """True when a file listed by ripgrep belongs to the query."""
        *above, name = path[self._base :].split("/")
        if self.excluded.intersection(above) or is_temporary(name) or not self.is_included(path):
            return False
        try:
            regular = stat.S_ISREG(os.lstat(path).st_mode)
        except OSError:  # it has been deleted
            return False
        return regular and not self.rules.is_ignored(Path(path), is_dir=False)

    def is_open(self, path: str) -> bool:
        """False for a file below the query's path that may hold secrets."""
        return not may_hold_secrets(path[self._base :])

    def is_included(self, path: str) -> bool:
        """True when the file matches the include pattern, if any."""
        if self._include is None:
            return True
        below = path[self._base :]
        name = below.rpartition("/")[2]
        return any(regex.fullmatch(name if by_name else below) for regex, by_name in self._include)


def _include_regexes(path: Path, include: str) -> list[tuple[re.Pattern[str], bool]]:
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


def compile_pattern(pattern: str, *, case_sensitive: bool = False) -> "Pattern[str]":
    """Compiles a pattern of the `regex` module. Raises PatternError."""
    import regex

    if len(pattern) > LONGEST_PATTERN:
        raise PatternError(
            f"Invalid regular expression pattern provided: {len(pattern):,} characters, "
            f"the limit is {LONGEST_PATTERN:,}."
        )
    try:
        return regex.compile(pattern, 0 if case_sensitive else regex.IGNORECASE)
    except RecursionError:
        reason = "too deeply nested"
    except (regex.error, ValueError, OverflowError) as error:
        reason = str(error)
    raise PatternError(
        f"Invalid regular expression pattern provided: {printable(pattern)}. Error: {reason}.",
        remedy="To search for the text as it is, escape its special characters with a backslash.",
    )


_TOKEN = re.compile(
    r"\\(?P<escape>.)"
    r"|(?P<set>\[\^?\]?(?:\\.|[^\\\[\]])*\])"
    r"|(?P<open>\((?:\?:|\?P?<[A-Za-z_]\w*>)?(?![?*]))"
    r"|(?P<repeated>(?:[*+?]|\{\d+(?:,\d*)?\})[?+]?)"
    r"|(?P<other>[^\\\[({*+?])",
    re.DOTALL,
)
_NO_TEXT = frozenset("dDwWsSbBAZ")
_SHORTEST, _MOST_BRANCHES = 2, 50


def required_literals(pattern: str) -> tuple[str, ...]:
    """Lower-case ASCII texts of which every matching line contains one, ignoring case; () if
    unknown. `pattern` is a valid regular expression; what is in its groups is not looked at."""
    found: list[str] = []
    best = run = ""
    depth = at = 0
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None:
            return ()
        at, char = token.end(), ""
        match token.lastgroup:
            case "escape" if token["escape"].isalnum() and token["escape"] not in _NO_TEXT:
                return ()
            case "escape" if not token["escape"].isalnum():
                char = token["escape"]
            case "open":
                depth += 1
            case "repeated":
                run = run[:-1] if token[0][0] in "*?" or token[0].startswith("{0") else run
            case "other" if token[0] == ")":
                depth -= 1
            case "other" if token[0] == "|" and not depth:
                found.append(max(best, run, key=len))
                best = run = ""
            case "other" if token[0] not in "|.^$":
                char = token[0]
            case _:
                pass
        if not depth and " " <= char <= "~":
            run += char.lower()
        else:
            best, run = max(best, run, key=len), ""
    found.append(max(best, run, key=len))
    usable = len(found) <= _MOST_BRANCHES and min(map(len, found)) >= _SHORTEST
    return tuple(sorted(set(found))) if usable else ()


class LineMatcher:
    """Finds the matching lines of files; lines that also match `exclude` are dropped.

    Every matching line contains one of `literals`, ignoring case; () if unknown.
    """

    def __init__(
        self,
        pattern: "Pattern[str]",
        exclude: "Pattern[str] | None",
        literals: tuple[str, ...],
        deadline: Deadline,
    ) -> None:
        import regex

        self._pattern = pattern
        self._exclude = exclude
        self._deadline = deadline
        self._literals = literals
        self._bytes = tuple(each.encode() for each in literals)
        source = "|".join(map(re.escape, literals))
        self._texts = regex.compile(source, regex.IGNORECASE) if literals else None

    def matches(self, path: str, most: int) -> list[tuple[int, str]]:
        """Line numbers from 1 and text of up to `most` matching lines of a file. Raises OSError,
        SearchTimeoutError, SearchError when stopped."""
        self._deadline.remaining_seconds()
        found: list[tuple[int, str]] = []
        for number, line in lines_of(path, self._lacks):
            if number % _BETWEEN_CHECKS == 0:
                self._deadline.remaining_seconds()
            if self._literals and line.isascii() and not self._says(line.lower()):
                continue
            try:
                fits = self._is_match(self._pattern, line) and not (
                    self._exclude is not None and self._is_match(self._exclude, line)
                )
            except (TimeoutError, MemoryError) as error:
                self._deadline.remaining_seconds()
                raise SearchTimeoutError(
                    f"The pattern takes too long at line {number:,} of {printable(path)}.",
                    remedy="Simplify nested or adjoining repetitions, such as (a+)+ or a*a*, or "
                    "leave the file out with path or include.",
                ) from error
            if fits:
                found.append((number, line))
                if len(found) == most:
                    break
        return found

    def _says(self, lowered: str) -> bool:
        return any(map(lowered.__contains__, self._literals))

    def _lacks(self, content: bytes | str) -> bool:
        """True when a file of this content can have no matching line, by required text alone."""
        if self._texts is None:
            return False
        if isinstance(content, bytes):
            return not any(map(content.lower().__contains__, self._bytes))
        return self._texts.search(content, concurrent=True) is None

    def _is_match(self, pattern: "Pattern[str]", line: str) -> bool:
        seconds = self._deadline.remaining_seconds()
        return pattern.search(line, timeout=seconds, concurrent=True) is not None


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
    for number, line in lines_of(path):
        if number > last:
            break
        if number in wanted:
            found[number] = shown_line(line)
    return found
