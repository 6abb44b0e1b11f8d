"""list_directory (TOOLS-12) and glob (TOOLS-13): list a directory, find files by name pattern."""

import os
import re
import stat
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from alhena.system.errors import from_os_error, printable
from alhena.system.workspace import Workspace
from alhena.tools.base import (
    MOST_CHARACTERS,
    BaseInvocation,
    DeclarativeTool,
    failed_result,
    fitting,
    path_problem,
    real_location,
    room_in,
    root_of,
)
from alhena.tools.contract import (
    ExecutionContext,
    ToolErrorType,
    ToolFailure,
    ToolInvocation,
    ToolLocation,
    ToolResult,
)
from alhena.tools.threads import run_blocking

if TYPE_CHECKING:
    from alhena.system.ignore import IgnoreRules
    from alhena.system.walk import GlobMatch, SkippedEntries, WalkTally


MOST_ENTRIES = 5_000


class ListDirectory(DeclarativeTool):
    """Lists directories of the workspace. `environ` (default: this process's) locates the user's
    git settings."""

    name = "list_directory"

    def __init__(
        self,
        workspace: Workspace,
        *,
        environ: Mapping[str, str] | None = None,
        most_characters: int = MOST_CHARACTERS,
    ) -> None:
        self.workspace = workspace
        self.environ = environ
        self.room = room_in(most_characters)

    def check(self, params: dict[str, Any]) -> ToolFailure | None:
        """Requires a path in the workspace and valid wildcards."""
        from alhena.system.wildcard import BadPatternError, name_regex

        for pattern in params.get("ignore") or ():
            try:
                name_regex(pattern)
            except BadPatternError:
                return ToolFailure.of_params(
                    f"The 'ignore' pattern {pattern!r} is no valid wildcard.",
                )
        return path_problem(self.workspace, params["path"], "path")

    def invocation(self, params: dict[str, Any]) -> ToolInvocation:
        """Builds the call."""
        return ListDirectoryInvocation(params, self)


class _DirectoryListing(msgspec.Struct):
    """Names of directories, the other entries, and the number of ignored ones."""

    directories: list[str] = msgspec.field(default_factory=list[str])
    files: "list[os.DirEntry[str]]" = msgspec.field(default_factory=list[Any])
    ignored: int = 0


class ListDirectoryInvocation(BaseInvocation):
    """A listing of one directory."""

    def __init__(self, params: dict[str, Any], tool: ListDirectory) -> None:
        super().__init__(params)
        self._tool = tool
        self._workspace = workspace = tool.workspace
        self._path = workspace.resolve(params["path"])
        self._abs = printable(self._path)
        self._shown = printable(workspace.relative(self._path))

    def describe(self) -> str:
        """The directory."""
        return self._shown

    def locations(self) -> tuple[ToolLocation, ...]:
        """The directory."""
        return (ToolLocation(self._abs),)

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Lists the directory."""
        real = real_location(self._workspace, self._path)
        if isinstance(real, ToolFailure):
            return failed_result(real)
        return await run_blocking(context.cancellation, self._list, real, context.cancellation)

    def _list(self, real: Path, cancellation: threading.Event) -> ToolResult:
        from alhena.system.ignore import IgnoreRules

        options: dict[str, bool] = self.params.get("file_filtering_options") or {}
        usual = self._workspace.filtering

        def make_rules(*, git: bool) -> IgnoreRules:
            return IgnoreRules(
                root_of(self._workspace, real),
                git=git and options.get("respect_git_ignore", usual.respect_git_ignore),
                gemini=options.get("respect_gemini_ignore", usual.respect_gemini_ignore),
                environ=self._tool.environ,
                custom=usual.custom_ignore_file_paths,
            )

        rules = make_rules(git=True)
        if rules.covers(real):
            rules = make_rules(git=False)
        try:
            listing = self._read(real, rules, cancellation)
            if listing.ignored and not listing.directories and not listing.files:
                # It was named, so its content counts, also when an ignore file names that.
                rules = make_rules(git=False)
                listing = self._read(real, rules, cancellation)
        except NotADirectoryError:
            return ToolResult.from_failure(
                f"Error: Path is not a directory: {self._abs}. Use read_file for a file.",
                ToolErrorType.PATH_IS_NOT_A_DIRECTORY,
            )
        except FileNotFoundError:
            return ToolResult.from_failure(
                f"Error listing directory: ENOENT: there is no directory {self._abs}. "
                "Check the path with list_directory on its parent.",
                ToolErrorType.LS_EXECUTION_ERROR,
            )
        except PermissionError:
            return ToolResult.from_failure(
                f"Error listing directory: Permission denied: {self._abs}.",
                ToolErrorType.PERMISSION_DENIED,
            )
        except OSError as error:
            return ToolResult.from_failure(
                f"Error listing directory: {from_os_error(error, self._path)}",
                ToolErrorType.LS_EXECUTION_ERROR,
            )
        return self._result(listing, rules.warnings)

    def _read(
        self, real: Path, rules: "IgnoreRules", cancellation: threading.Event
    ) -> _DirectoryListing:
        from alhena.system.files import is_temporary
        from alhena.system.wildcard import name_regex

        patterns: list[str] = self.params.get("ignore") or []
        unwanted = re.compile("|".join(f"(?:{name_regex(p)})" for p in patterns), re.DOTALL)
        listing = _DirectoryListing()
        with os.scandir(real) as entries:
            here = rules.rules_of(real)
            for entry in entries:
                if cancellation.is_set():
                    break
                if is_temporary(entry.name) or (patterns and unwanted.fullmatch(entry.name)):
                    continue
                if here.ignores(entry.name, entry.is_dir(follow_symlinks=False)):
                    listing.ignored += 1
                elif _is_directory(entry):
                    listing.directories.append(entry.name)
                else:
                    listing.files.append(entry)
        return listing

    def _describe(self, entry: os.DirEntry[str]) -> str:
        """The size of a file, or the kind of another entry."""
        from alhena.system.files import kind_of

        try:
            status = entry.stat()
        except OSError:  # a dangling link: describe the link itself
            return kind_of(stat.S_IFLNK)
        if entry.is_symlink() and not self._workspace.contains(Path(entry.path)):
            return "link out of the workspace"
        kind = stat.S_IFMT(status.st_mode)
        return f"{status.st_size} bytes" if kind == stat.S_IFREG else kind_of(kind)

    def _result(self, listing: _DirectoryListing, warnings: list[str]) -> ToolResult:
        total = len(listing.directories) + len(listing.files)
        if not total and not listing.ignored:
            text = f"Directory {self._abs} is empty."
            return ToolResult(
                llm_content="\n".join([text, *warnings]), display="Directory is empty."
            )
        lines = [f"[DIR] {printable(name)}" for name in sorted(listing.directories, key=_order)]
        room = max(MOST_ENTRIES - len(lines), 0)  # only what may be shown is looked at
        lines += [
            f"{printable(entry.name)} ({self._describe(entry)})"
            for entry in sorted(listing.files, key=lambda entry: _order(entry.name))[:room]
        ]
        shown = lines[: fitting(lines[:MOST_ENTRIES], self._tool.room)]
        text = "\n".join([f"Directory listing for {self._abs}:", *shown])
        if (left := total - len(shown)) > 0:
            more = "1 more entry is" if left == 1 else f"{left} more entries are"
            text += f"\n\n({more} not shown; use glob with a pattern)"
        display = f"Listed {total} item(s)."
        if listing.ignored:
            text += f"\n\n({listing.ignored} ignored)"
            display += f" ({listing.ignored} ignored)"
        return ToolResult(llm_content="\n".join([text, *warnings]), display=display)


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # the target of a link is out of reach
        return False


def _order(name: str) -> tuple[str, str]:
    return name.casefold(), name


MOST_FILES = 2_000
_RECENT = 24 * 60 * 60
_NAMED_UNREADABLE = 3
_INCLUDE_IGNORED = "name one in `path` to look there, or set `respect_git_ignore` to false"
_LONGEST_PATTERN = 4_096


class Glob(DeclarativeTool):
    """Finds files of the workspace. `clock` gives the time in seconds since the epoch, `environ`
    (default: this process's) locates the user's git settings. A result has at most
    `most_characters` (0: unlimited) in whole lines."""

    name = "glob"

    def __init__(
        self,
        workspace: Workspace,
        clock: Callable[[], float] = time.time,
        *,
        environ: Mapping[str, str] | None = None,
        most_characters: int = MOST_CHARACTERS,
    ) -> None:
        self.workspace = workspace
        self.clock = clock
        self.environ = environ
        self.room = room_in(most_characters)

    def check(self, params: dict[str, Any]) -> ToolFailure | None:
        """Requires a valid pattern; pattern and path must stay in the workspace."""
        from alhena.system.walk import GlobPattern
        from alhena.system.wildcard import BadPatternError

        pattern: str = params["pattern"]
        if not pattern.strip():
            return ToolFailure.of_params("The 'pattern' parameter must be non-empty.")
        if ".." in pattern.split("/"):
            return ToolFailure.of_params(
                "The 'pattern' parameter cannot hold '..'; use 'path' instead."
            )
        if len(pattern) > _LONGEST_PATTERN:
            return ToolFailure.of_params(
                f"The pattern is longer than {_LONGEST_PATTERN} characters."
            )
        try:
            GlobPattern(pattern)
        except BadPatternError:
            return ToolFailure.of_params(
                f"The pattern {pattern!r} is no valid one: a bracket is not closed, it ends in a "
                "backslash, or its braces have more than 1000 alternatives."
            )
        if params.get("path") is None:
            return None
        return path_problem(self.workspace, params["path"], "path")

    def invocation(self, params: dict[str, Any]) -> ToolInvocation:
        """Builds the call."""
        return GlobInvocation(params, self)


class GlobInvocation(BaseInvocation):
    """A search for files."""

    def __init__(self, params: dict[str, Any], tool: Glob) -> None:
        super().__init__(params)
        self._tool = tool
        self._workspace = tool.workspace
        self._pattern: str = params["pattern"].removeprefix("./")
        self._path: str | None = params.get("path")

    def describe(self) -> str:
        """The pattern, and the directory if given."""
        if self._path is None:
            return f"'{printable(self._pattern)}'"
        shown = self._workspace.relative(self._workspace.resolve(self._path))
        return f"'{printable(self._pattern)}' within {printable(shown)}"

    def locations(self) -> tuple[ToolLocation, ...]:
        """The directory, if given."""
        if self._path is None:
            return ()
        return (ToolLocation(printable(self._workspace.resolve(self._path))),)

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Searches for files."""
        bases = self._bases()
        if isinstance(bases, ToolFailure):
            return failed_result(bases)
        return await run_blocking(context.cancellation, self._search, bases, context)

    def _bases(self) -> list[Path] | ToolFailure:
        from alhena.tools.base import search_place_problem

        if self._path is None:
            return list(self._workspace.roots)
        real = real_location(self._workspace, self._workspace.resolve(self._path))
        if isinstance(real, ToolFailure):
            return real
        path = self._workspace.resolve(self._path)
        problem = search_place_problem(path, ToolErrorType.GLOB_EXECUTION_ERROR)
        return [real] if problem is None else problem

    def _search(self, bases: list[Path], context: ExecutionContext) -> ToolResult:
        from alhena.system.walk import SkippedEntries

        found: dict[str, GlobMatch] = {}
        left_out = SkippedEntries()
        notes: list[str] = []
        unreadable: list[str] = []
        inside = 0
        for base in bases:
            relative = self._relative_to(base)
            if relative is None:
                continue
            inside += 1
            matches, tally, warnings = self._look_below(base, relative, context)
            found |= {match.path: match for match in matches if match.path not in found}
            left_out = left_out.plus(tally.count())
            unreadable += tally.unreadable
            notes += warnings
        if not inside:
            return failed_result(
                ToolFailure(
                    self._workspace.refusal(self._pattern), ToolErrorType.PATH_NOT_IN_WORKSPACE
                )
            )
        # The ignore rules of a directory that cannot be entered cannot be read either.
        notes = [note for note in dict.fromkeys(notes) if note not in unreadable]
        if unreadable:
            notes.append(_unreadable_note(list(dict.fromkeys(unreadable))))
        return self._result(list(found.values()), left_out, bases, notes)

    def _look_below(
        self, base: Path, relative: str, context: ExecutionContext
    ) -> "tuple[list[GlobMatch], WalkTally, list[str]]":
        """The matches below a directory, what was left out, and warnings. A directory or file that
        was named counts, also when git ignores it or its content."""
        from alhena.system.ignore import IgnoreRules
        from alhena.system.walk import (
            EXCLUDED_DIRECTORIES,
            GlobPattern,
            WalkLimits,
            WalkTally,
            glob_files,
            leading_directory,
        )

        pattern = GlobPattern(relative, case_sensitive=self.params.get("case_sensitive") or False)
        root = root_of(self._workspace, base)
        begins = base / leading_directory(relative)
        through = EXCLUDED_DIRECTORIES.intersection(begins.relative_to(root).parts)
        excluded = frozenset[str]() if through else EXCLUDED_DIRECTORIES

        usual = self._workspace.filtering

        def look(*, git: bool) -> "tuple[list[GlobMatch], WalkTally, list[str]]":
            rules = IgnoreRules(
                root,
                git=git,
                gemini=self.params.get("respect_gemini_ignore", usual.respect_gemini_ignore),
                environ=self._tool.environ,
                custom=usual.custom_ignore_file_paths,
            )
            tally = WalkTally()
            limits = WalkLimits(excluded=excluded, cancellation=context.cancellation)
            return glob_files(base, pattern, rules, tally, limits), tally, rules.warnings

        found = look(git=self.params.get("respect_git_ignore", usual.respect_git_ignore))
        named = begins != root or os.path.lexists(base / self._pattern)
        if found[0] or not named or not found[1].count().has_ignored:
            return found
        return look(git=False)

    def _relative_to(self, base: Path) -> str | None:
        """The pattern relative to `base`; None for an absolute pattern outside it."""
        from alhena.system.walk import literal

        pattern = self._pattern
        if pattern.startswith("/"):
            inside = f"{str(base).rstrip('/')}/"
            if not pattern.startswith(inside):
                return None
            pattern = pattern.removeprefix(inside)
        # Names may contain brackets or braces: a file of exactly that name takes precedence.
        return literal(pattern) if os.path.lexists(base / pattern) else pattern

    def _result(
        self,
        found: "list[GlobMatch]",
        left_out: "SkippedEntries",
        bases: list[Path],
        notes: list[str],
    ) -> ToolResult:
        where = (
            f"within {printable(bases[0])}"
            if len(bases) == 1
            else f"across {len(bases)} workspace directories"
        )
        shown = printable(self.params["pattern"])
        if not found:
            text = f'No files found matching pattern "{shown}" {where}'
            closing = self._workspace.filtering.closing
            notes = [*left_out.describe(_INCLUDE_IGNORED, closing), *notes]
            return ToolResult(llm_content="\n".join([text, *notes]), display="No files found")
        ignored = left_out.files + left_out.closed
        text = f'Found {len(found)} file(s) matching "{shown}" {where}'
        if ignored:
            text += f" ({ignored} additional files were ignored)"
        lines = [f"{text}, sorted by modification time (newest first):"]
        paths = [printable(match.path) for match in self._sort_matches(found)[:MOST_FILES]]
        lines += paths[: fitting(paths, self._tool.room)]
        if (left := len(found) - len(lines) + 1) > 0:
            more = "1 more file is" if left == 1 else f"{left} more files are"
            lines.append(f"({more} not shown; use a narrower pattern)")
        return ToolResult(
            llm_content="\n".join([*lines, *notes]), display=f"Found {len(found)} matching file(s)"
        )

    def _sort_matches(self, found: "list[GlobMatch]") -> "list[GlobMatch]":
        threshold = self._tool.clock() - _RECENT
        recent = [match for match in found if match.modified > threshold]
        older = [match for match in found if match.modified <= threshold]
        recent.sort(key=lambda match: (-match.modified, match.path))
        older.sort(key=lambda match: match.path)
        return recent + older


def _unreadable_note(problems: list[str]) -> str:
    named = " ".join(problems[:_NAMED_UNREADABLE])
    count = "1 directory" if len(problems) == 1 else f"{len(problems)} directories"
    return f"({count} could not be read: {named})"
