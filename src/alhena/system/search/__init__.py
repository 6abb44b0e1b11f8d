"""Searches files for a regular expression, line by line, with context lines.

This module decides the searched files (ignore rules, excluded directories, include patterns, no
symlinks, no binaries), the matching lines and their display. A program (`text_finder`) only saves
reading: it names the files that contain a text which every match contains. When it fails, all files
are read.
"""

import asyncio
import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from alhena.config.settings import FileFilteringSettings
from alhena.shell.secret_files import is_secret_name, left_out, may_hold_secrets
from alhena.system.encoding import LONGEST_LINE, lines_of
from alhena.system.errors import (
    PatternError,
    SearchError,
    SearchTimeoutError,
    from_os_error,
    printable,
)
from alhena.system.ignore import IgnoreRules
from alhena.system.unicode_forms import compose, origin_of
from alhena.system.walk import (
    EXCLUDED_DIRECTORIES,
    VERSION_CONTROL,
    SkippedEntries,
    WalkLimits,
    WalkTally,
    literal,
    options_of,
    walk,
)
from alhena.system.wildcard import BadPatternError, name_regex, path_regex

if TYPE_CHECKING:
    from regex import Pattern

_NAMES = {"rg": "ripgrep"}
MAX_MATCHES = 20_000
MAX_LINE = 2_000
TIME_LIMIT = 30.0
LONGEST_PATTERN = 2_000
LINE_SECONDS = 2.0

_BETWEEN_CHECKS = 2_000
_BLOCK = 1 << 20
BINARY_BYTES = 64 * _BLOCK
"""Bytes of a binary file in which a required text is looked for."""
_MAX_NAMED = 5


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A search query.

    `path` is a directory or a file, at or below `root`, the workspace root whose ignore rules
    apply. `pattern` is a regular expression for single lines; lines that match `exclude` are
    dropped. `include` is a glob: without a slash for file names, with one for paths below `path`. A
    path that git would ignore is searched when it is named; `filtering` says whether ignore files
    count at all. `no_ignore` applies that to the whole
    search: only .geminiignore counts. `max_per_file` is 0 for no limit. `environ` (default: this
    process's) locates the user's git settings, and is passed to the program without secrets.
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
    """A matching line: its file, its number from 1, its text. Of a line with more than 2,000
    characters the text is the part around the match, whose first character is number `column`, from
    1; 0 for a line that is shown whole."""

    path: Path
    line: int
    text: str
    column: int = 0


class SearchResult(msgspec.Struct, frozen=True, kw_only=True):
    """Matches by path (as bytes) and line. `limited`: there are more than `max_matches`;
    `cut_files` have more than `max_per_file`. `left_out` counts what was not searched, `notes`
    report failures. `backend` names the search program.
    """

    matches: tuple[LineMatch, ...]
    limited: bool
    cut_files: int = 0
    left_out: SkippedEntries = SkippedEntries()
    notes: tuple[str, ...]
    backend: str


class FileSearch:
    """Searches files, with ripgrep or GNU grep if `program` is its path."""

    def __init__(self, program: str = "", *, time_limit: float = TIME_LIMIT) -> None:
        self.program = program
        self.name = _NAMES.get(os.path.basename(program), "grep") if program else "python"
        self._time_limit = time_limit

    async def search(
        self, query: Query, cancellation: threading.Event | None = None
    ) -> SearchResult:
        """Runs in a thread. Raises PatternError, SearchTimeoutError, SearchError; stops when
        cancelled."""
        stop = threading.Event()

        def is_stopped() -> bool:
            return stop.is_set() or (cancellation is not None and cancellation.is_set())

        deadline = Deadline(self._time_limit, is_stopped)
        work = _FileSearch(query, (self.program, self.name), deadline).run
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
    """A search with a program on the PATH of `environ` (default: this process's) that reads
    faster, if there is one outside the `roots` of the workspace."""
    from alhena.system.search.text_finder import find_reader

    found = find_reader(os.environ if environ is None else environ, roots)
    return FileSearch(found, time_limit=time_limit)


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
    def __init__(self, query: Query, program: tuple[str, str], deadline: Deadline) -> None:
        self._query = query
        self._program, self._name = program
        self._deadline = deadline
        self._files = FileChoice(query)
        self._literals = required_literals(compose(query.pattern))
        self._tally = WalkTally()
        self._secrets = 0
        self._notes: list[str] = []
        self._binary: list[str] = []
        self._backend = "python"
        self._matcher = self._make_matcher()

    def run(self) -> SearchResult:
        """Runs the search."""
        path = self._query.path
        if self._files.rules.is_ignored(path, os.path.isdir(path)):
            names = " or ".join(self._query.filtering.closing)
            self._notes.append(f"{printable(path)} is left out by {names}.")
            return self._result([], limited=False)
        if not os.path.isdir(path):
            return self._read([str(path)])
        result = self._read(self._choose_names())
        if result.matches or path == self._query.root or not result.left_out.has_ignored:
            return result
        # It was named, so its content counts, also when an ignore file names that.
        self._files.open_all()
        self._tally, self._secrets = WalkTally(), 0
        self._notes.append(f"What git ignores in {printable(path)} was searched too.")
        return self._read(self._choose_names())

    def _read(self, names: list[str]) -> SearchResult:
        """Searches these files."""
        found: list[LineMatch] = []
        cut_files = 0
        most = self._query.max_matches
        per_file = self._query.max_per_file
        for name in sorted(names, key=os.fsencode):
            matches = self._matches(name, min(per_file or most, most) + 1)
            if per_file and len(matches) > per_file:
                cut_files += 1
                del matches[per_file:]
            found += matches
            if len(found) > most:
                del found[most:]
                return self._result(found, limited=True, cut_files=cut_files)
        return self._result(found, limited=False, cut_files=cut_files)

    def _matches(self, path: str, most: int) -> list[LineMatch]:
        try:
            found = self._matcher.matches(path, most)
        except OSError as error:
            self._notes.append(str(from_os_error(error, path)))
            return []
        cut, self._matcher.cut_lines = self._matcher.cut_lines, []
        if self._matcher.is_skipped:
            self._matcher.is_skipped = False
            self._binary.append(path)
        self._notes += [
            f"Of line {number:,} of {printable(path)} only the first {LONGEST_LINE:,} characters "
            "were searched."
            for number in cut
        ]
        return found

    def _make_matcher(self) -> "LineMatcher":
        query, case = self._query, self._query.case_sensitive
        pattern = compile_pattern(query.pattern, case_sensitive=case)
        exclude = compile_pattern(query.exclude, case_sensitive=case) if query.exclude else None
        return LineMatcher(pattern, exclude, self._literals, self._deadline)

    def _choose_names(self) -> list[str]:
        """The files to read: all, or those in which a program finds a required text."""
        if not self._program or not self._literals:
            return list(self._walk_files())
        from alhena.system.search.text_finder import TextFinder

        query = self._query
        environ = os.environ if query.environ is None else query.environ
        wait = self._deadline.remaining_seconds
        with TextFinder(self._program, self._literals, environ, wait) as finder:
            for name in self._walk_files():
                finder.look_into(name)
            found = finder.finish()
        if not finder.failed:
            self._backend = self._name
        return found

    def _walk_files(self) -> Iterator[str]:
        is_included, is_open = self._files.is_included, self._files.is_open
        limits = WalkLimits(enter=self._go_on, excluded=self._files.excluded)
        for entry in walk(self._query.path, self._files.rules, self._tally, limits):
            path = entry.path
            if not is_included(path) or entry.is_symlink():
                continue
            if is_open(path):
                yield path
            else:
                self._secrets += 1
        self._notes.extend(self._tally.unreadable)

    def _go_on(self, _directory: str) -> bool:
        self._deadline.remaining_seconds()
        return True

    def _result(self, found: list[LineMatch], *, limited: bool, cut_files: int = 0) -> SearchResult:
        first = [left_out(self._secrets)] if self._secrets else []
        if self._binary and (self._literals or not found):
            first.append(_describe_binary(self._binary))
        notes = (*dict.fromkeys([*first, *self._files.rules.warnings, *self._notes]),)
        return SearchResult(
            matches=tuple(found),
            limited=limited,
            cut_files=cut_files,
            left_out=self._tally.count(self._files.is_included),
            notes=notes,
            backend=self._backend,
        )


def _describe_binary(paths: list[str]) -> str:
    named = ", ".join(map(printable, paths[:_MAX_NAMED]))
    more = len(paths) - _MAX_NAMED
    return (
        f"Binary files that may match were not searched: {named}"
        f"{f' and {more:,} more' if more > 0 else ''}."
    )


class FileChoice:
    """Selects the files of a query.

    `named` is True when the query's path is ignored by git, or in an excluded directory: it was
    named explicitly, so only .geminiignore applies. The same holds without ignore rules.
    """

    def __init__(self, query: Query) -> None:
        inside = query.path.relative_to(query.root).parts
        self._query = query
        git = query.filtering.respect_git_ignore
        rules = _make_rules(query, git=git)
        open_only = _make_rules(query, git=False)
        self.named = (
            query.no_ignore
            or bool(EXCLUDED_DIRECTORIES.intersection(inside))
            or rules.covers(query.path)
            or (rules.is_ignored(query.path, is_dir=False) and not os.path.isdir(query.path))
        )
        self.rules = open_only if self.named else rules
        self.excluded: frozenset[str] = EXCLUDED_DIRECTORIES
        if self.named:
            self.excluded = VERSION_CONTROL if query.no_ignore else frozenset[str]()
        self._base = len(str(query.path).rstrip("/")) + 1
        self._include = _include_regexes(query.path, query.include) if query.include else None
        self._opened = ("", True)

    def open_all(self) -> None:
        """Applies git's rules no more."""
        self.rules = _make_rules(self._query, git=False)

    def is_open(self, path: str) -> bool:
        """False for a file below the query's path that may hold secrets."""
        above, _, name = path.rpartition("/")
        if self._opened[0] != above:  # most files follow others of their directory
            self._opened = (above, not may_hold_secrets(above[self._base :]))
        if not self._opened[1] or is_secret_name(name):
            return False
        return name.lower() != "config" or not may_hold_secrets(path[self._base :])

    def is_included(self, path: str) -> bool:
        """True when the file matches the include pattern, if any."""
        if self._include is None:
            return True
        below = compose(path[self._base :])
        name = below.rpartition("/")[2]
        return any(regex.fullmatch(name if by_name else below) for regex, by_name in self._include)


def _make_rules(query: Query, *, git: bool) -> IgnoreRules:
    usual = query.filtering
    return IgnoreRules(
        query.root,
        git=git,
        gemini=usual.respect_gemini_ignore,
        environ=query.environ,
        custom=usual.custom_ignore_file_paths,
    )


def _include_regexes(path: Path, include: str) -> list[tuple[re.Pattern[str], bool]]:
    found: list[tuple[re.Pattern[str], bool]] = []
    try:
        options = options_of(include)
        if "\0" not in include and os.path.lexists(path / include.lstrip("/")):
            options.append(literal(include))
        for pattern in map(compose, options):
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
        return regex.compile(compose(pattern), 0 if case_sensitive else regex.IGNORECASE)
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
        self.cut_lines: list[int] = []
        self.is_skipped = False
        source = "|".join(map(re.escape, literals))
        self._texts = regex.compile(source, regex.IGNORECASE) if literals else None

    def matches(self, path: str, most: int) -> list[LineMatch]:
        """Up to `most` matching lines of a file; `cut_lines` then has the numbers of lines of which
        only the beginning was looked at. `is_skipped`: the file is binary and may match. Raises
        OSError, SearchTimeoutError, SearchError when stopped."""
        self._deadline.remaining_seconds()
        located = Path(path)
        found: list[LineMatch] = []
        for number, line in lines_of(path, self._lacks, self.cut_lines.append, self._skip):
            if number % _BETWEEN_CHECKS == 0:
                self._deadline.remaining_seconds()
            if self._literals and line.isascii() and not self._says(line.lower()):
                continue
            try:
                span = self._find_match(self._pattern, line)
                if span and self._exclude is not None and self._find_match(self._exclude, line):
                    span = None
            except (TimeoutError, MemoryError) as error:
                self._deadline.remaining_seconds()
                raise SearchTimeoutError(
                    f"The pattern takes too long at line {number:,} of {printable(path)}.",
                    remedy="Simplify nested or adjoining repetitions, such as (a+)+ or a*a*, or "
                    "leave the file out with path or include.",
                ) from error
            if span:
                column = span[0] + 1 if len(line.rstrip()) > MAX_LINE else 0
                found.append(LineMatch(located, number, shorten_line(line, span), column))
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

    def _skip(self, start: bytes, rest: BinaryIO) -> None:
        """Notes a binary file, unless it contains none of the required texts. Raises OSError,
        SearchTimeoutError, SearchError when stopped."""
        tail, block, left = b"", start, BINARY_BYTES
        longest = max(map(len, self._bytes), default=1)
        while block and left > 0 and self._bytes:
            self._deadline.remaining_seconds()
            content = tail + block.lower()
            if any(map(content.__contains__, self._bytes)):
                break
            tail, left = content[len(content) - longest + 1 :], left - len(block)
            block = rest.read(_BLOCK)
        self.is_skipped = bool(block) or not self._bytes

    def _find_match(self, pattern: "Pattern[str]", line: str) -> tuple[int, int] | None:
        seconds = self._deadline.remaining_seconds()
        found = pattern.search(line, timeout=seconds, concurrent=True)
        if found is None and not line.isascii() and (composed := compose(line)) != line:
            found = pattern.search(composed, timeout=seconds, concurrent=True)
            return None if found is None else origin_of(found.span(), line)
        return None if found is None else found.span()


def shorten_line(line: str, match: tuple[int, int]) -> str:
    """A line for results: without trailing white space, and of a long one `MAX_LINE` characters
    around the `match`, with an ellipsis where there is more."""
    text = line.rstrip()
    if len(text) <= MAX_LINE:
        return text
    begin, end = match
    around = max(0, MAX_LINE - (end - begin)) // 2
    start = max(0, min(begin - around, len(text) - MAX_LINE))
    part = text[start : start + MAX_LINE]
    return f"{'…' if start else ''}{part}{'…' if start + MAX_LINE < len(text) else ''}"


def lines_around(path: str, numbers: list[int], before: int, after: int) -> dict[int, str]:
    """Context lines before and after the lines with these numbers, which are left out.

    Ascending, of at most `MAX_LINE` characters. Raises OSError.
    """
    wanted = {near for n in numbers for near in range(max(1, n - before), n + after + 1)}
    wanted.difference_update(numbers)
    last = max(wanted, default=0)
    found: dict[int, str] = {}
    for number, line in lines_of(path):
        if number > last:
            break
        if number in wanted:
            text = line.rstrip()
            found[number] = text if len(text) <= MAX_LINE else f"{text[:MAX_LINE]}... [truncated]"
    return found
