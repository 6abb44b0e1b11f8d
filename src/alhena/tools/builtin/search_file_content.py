"""search_file_content: finds lines of workspace files that match a regular expression."""

import os
import re
import threading
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alhena.system.errors import FileError, SearchError, from_os_error, printable
from alhena.system.workspace import Workspace
from alhena.tools.base import (
    MOST_CHARACTERS,
    BaseInvocation,
    DeclarativeTool,
    failed_result,
    failure_of,
    fitting,
    path_problem,
    room_in,
)
from alhena.tools.contract import (
    ExecutionContext,
    ToolErrorType,
    ToolFailure,
    ToolLocation,
    ToolResult,
)
from alhena.tools.threads import run_blocking

if TYPE_CHECKING:
    from alhena.system.search import FileSearch, LineMatch, SearchResult

MAX_MATCHES = 20_000
MAX_CONTEXT = 50
_MAX_NOTES = 5
_INCLUDE_IGNORED = (
    "name one in `path` to search it, or set `no_ignore` to search all that git ignores"
)


class SearchFileContent(DeclarativeTool):
    """Searches with ripgrep or GNU grep if one is there, or with `backend`; without `program` it
    uses neither.

    `environ` defaults to this process's. A result has at most `most_characters` (0: unlimited)
    in whole lines.
    """

    name = "search_file_content"

    def __init__(
        self,
        workspace: Workspace,
        *,
        environ: Mapping[str, str] | None = None,
        backend: "FileSearch | None" = None,
        most_characters: int = MOST_CHARACTERS,
        program: bool = True,
    ) -> None:
        self.workspace = workspace
        self.program = program
        self.environ = environ
        self.backend = backend
        self.room = room_in(most_characters)

    def check(self, params: dict[str, Any]) -> ToolFailure | None:
        """Requires a non-empty pattern and a path inside the workspace."""
        if not params["pattern"]:
            return ToolFailure.of_params("The 'pattern' parameter must be non-empty.")
        path = params.get("path")
        return path_problem(self.workspace, path, "path") if path else None

    def invocation(self, params: dict[str, Any]) -> "SearchInvocation":
        """Builds the call."""
        return SearchInvocation(params, self)


class SearchInvocation(BaseInvocation):
    """A search over the given path, or over every workspace root."""

    def __init__(self, params: dict[str, Any], tool: SearchFileContent) -> None:
        super().__init__(params)
        self._tool = tool
        self._workspace = tool.workspace
        self._room = tool.room
        self._path: str | None = params.get("path") or None
        self._include: str | None = params.get("include") or None
        self._most: int = min(params.get("total_max_matches") or MAX_MATCHES, MAX_MATCHES)
        context: int = params.get("context") or 0
        self._before: int = min(params.get("before", context), MAX_CONTEXT)
        self._after: int = min(params.get("after", context), MAX_CONTEXT)

    def describe(self) -> str:
        """Describes the call to people in one line."""
        include = f" ({printable(self._include)})" if self._include else ""
        return f"'{printable(self.params['pattern'])}' in {printable(self._path or '.')}{include}"

    def locations(self) -> tuple[ToolLocation, ...]:
        """The directories and files searched."""
        return tuple(ToolLocation(printable(path)) for path, _ in self._places())

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Searches; the result lists matches and unreadable places. Nothing is raised."""
        from alhena.system.walk import SkippedEntries

        problem = self._problem()
        if problem is not None:
            return failed_result(problem)
        found: list[LineMatch] = []
        notes: list[str] = []
        limited = False
        cut_files = 0
        left_out = SkippedEntries()
        used: list[str] = []
        for path, root in self._places():
            try:
                result = await self._search(path, root, self._most - len(found), context)
            except SearchError as error:
                return ToolResult.from_failure(str(error), ToolErrorType.from_name(error.kind))
            found.extend(result.matches)
            notes.extend(result.notes)
            limited = limited or result.limited
            cut_files += result.cut_files
            left_out = left_out.plus(result.left_out)
            used.append(result.backend)
            if limited:
                break
        if not found:
            closing = self._tool.workspace.filtering.closing
            notes = [*left_out.describe(_INCLUDE_IGNORED, closing), *notes]
        if cut_files and not self.params.get("names_only"):
            most: int = self.params["max_matches_per_file"]
            notes.append(
                f"{_count(cut_files, 'file has', 'files have')} more than the "
                f"{_count(most, 'match', 'matches')} shown of each."
            )
        around = await self._around(found, notes, context)
        text = _MatchText(found, around, self._names(found), self._room)
        return self._result(text, notes, limited=limited, backends=used)

    async def _around(
        self, found: "list[LineMatch]", notes: list[str], context: ExecutionContext
    ) -> dict[Path, dict[int, str]]:
        """Context lines around the matches, by file; files that have changed since get none."""
        if not (self._before or self._after) or self.params.get("names_only"):
            return {}
        return await run_blocking(
            context.cancellation, self._read_around, found, notes, context.cancellation
        )

    def _read_around(
        self, found: "list[LineMatch]", notes: list[str], cancellation: threading.Event
    ) -> dict[Path, dict[int, str]]:
        from alhena.system.search import lines_around

        around: dict[Path, dict[int, str]] = {}
        left = self._room
        for path, group in groupby(found, key=lambda match: match.path):
            if left < 0 or cancellation.is_set():
                break
            numbers = [match.line for match in group]
            try:
                around[path] = lines_around(str(path), numbers, self._before, self._after)
            except OSError as error:
                notes.append(str(from_os_error(error, path)))
                continue
            left -= sum(map(len, around[path].values()))
        return around

    def _names(self, found: "list[LineMatch]") -> list[str]:
        return [printable(self._workspace.relative(match.path)) for match in found]

    def _places(self) -> list[tuple[Path, Path]]:
        """The paths to search, each with the workspace root whose ignore rules apply."""
        if self._path is None:
            roots = self._workspace.roots
            # A root inside another root is searched with the outer one.
            outer = [r for r in roots if not any(other in r.parents for other in roots)]
            return [(root, root) for root in outer]
        real = Path(os.path.realpath(self._workspace.resolve(self._path)))
        around = [root for root in self._workspace.roots if real == root or root in real.parents]
        return [(real, around[0])] if around else []

    def _problem(self) -> ToolFailure | None:
        """Checks the path again; returns the reason when it cannot be searched."""
        from alhena.system.files import open_regular
        from alhena.tools.base import search_place_problem

        if self._path is None:
            return None
        outside = path_problem(self._workspace, self._path, "path")
        if outside is not None:
            return outside
        path = self._workspace.resolve(self._path)
        problem = search_place_problem(path, ToolErrorType.GREP_EXECUTION_ERROR, files=True)
        if problem is not None or os.path.isdir(path):
            return problem
        try:
            os.close(open_regular(path))
        except FileError as error:
            return failure_of(error)
        return None

    async def _search(
        self, path: Path, root: Path, limit: int, context: ExecutionContext
    ) -> "SearchResult":
        from alhena.system.search import Query, choose_search

        params = self.params
        pattern: str = params["pattern"]
        query = Query(
            pattern=re.escape(pattern) if params.get("fixed_strings") else pattern,
            path=path,
            root=root,
            include=self._include,
            exclude=params.get("exclude_pattern") or None,
            max_matches=limit,
            max_per_file=1 if params.get("names_only") else params.get("max_matches_per_file") or 0,
            case_sensitive=params.get("case_sensitive") or False,
            no_ignore=params.get("no_ignore") or False,
            filtering=self._tool.workspace.filtering,
            environ=self._tool.environ,
        )
        tool = self._tool
        backend = tool.backend or choose_search(
            environ=tool.environ if tool.program else {}, roots=(root,)
        )
        return await backend.search(query, context.cancellation)

    def _result(
        self, found: "_MatchText", notes: list[str], *, limited: bool, backends: list[str]
    ) -> ToolResult:
        where = self._where()
        limit = f" (results limited to {self._most} matches)" if limited else ""
        matches, files = len(found.matches), list(dict.fromkeys(found.names))
        if not matches:
            summary = f"No matches found for pattern {where}."
            text = summary
        elif self.params.get("names_only"):
            summary = f"Found {_count(len(files), 'file')} with matches for pattern {where}{limit}"
            text = f"{summary}:\n" + _limit_names(files, self._room)
        else:
            summary = f"Found {_count(matches, 'match', 'matches')} for pattern {where}{limit}"
            text = f"{summary}:\n---\n{found.group_by_file()}"
        told = list(dict.fromkeys(notes))
        if told:
            text += "\n" + "\n".join(f"Note: {note}" for note in told[:_MAX_NOTES])
        if len(told) > _MAX_NOTES:
            text += f"\nNote: {len(told) - _MAX_NOTES} more places could not be searched."
        data = {"matches": matches, "files": len(files), "limited": limited,
                "backend": ", ".join(dict.fromkeys(backends))}  # fmt: skip
        return ToolResult(llm_content=text, display=summary, data=data)

    def _where(self) -> str:
        roots = len(self._places())
        place = (
            f'in path "{printable(self._path or ".")}"'
            if self._path or roots == 1
            else f"across {roots} workspace directories"
        )
        include = f' (filter: "{printable(self._include)}")' if self._include else ""
        return f'"{printable(self.params["pattern"])}" {place}{include}'


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


class _MatchText:
    """Formats matches for models; `around` has context lines, `names` each match's file name."""

    def __init__(
        self,
        matches: "list[LineMatch]",
        around: dict[Path, dict[int, str]],
        names: list[str],
        room: int,
    ) -> None:
        self._room = room
        self.matches = matches
        self.names = names
        self._around = around

    def group_by_file(self) -> str:
        """The matches grouped by file, as many as fit, at least one."""
        lines: list[str] = []
        left, shown = self._room, 0
        for name, group in groupby(range(len(self.matches)), key=self.names.__getitem__):
            block = [f"File: {name}"]
            for is_match, line in self._block([self.matches[index] for index in group]):
                left -= len(line) + 1
                if left < 0 and shown:
                    break
                block.append(line)
                shown += is_match
            left -= len(name) + 11
            if len(block) > 1:
                lines += [*block, "---"]
            if left < 0:
                break
        if shown < len(self.matches):
            files = len(set(self.names[shown:]))
            lines.append(
                f"... [{_count(len(self.matches) - shown, 'more match', 'more matches')} in "
                f"{_count(files, 'file')} not shown; narrow the pattern, path or include] ..."
            )
        return "\n".join(lines)

    def _block(self, group: "list[LineMatch]") -> list[tuple[bool, str]]:
        """The lines of one file in order, each with a flag that marks a match."""
        found = {match.line: (True, _shown_match(match)) for match in group}
        for number, text in self._around.get(group[0].path, {}).items():
            found.setdefault(number, (False, f"L{number}- {text}"))
        return [found[number] for number in sorted(found)]


def _shown_match(match: "LineMatch") -> str:
    column = f" (column {match.column:,})" if match.column else ""
    return f"L{match.line}{column}: {match.text}"


def _limit_names(names: list[str], room: int) -> str:
    shown = names[: fitting(names, room)]
    left = len(names) - len(shown)
    if not left:
        return "\n".join(shown)
    return "\n".join([*shown, f"... [{_count(left, 'more file')} not shown] ..."])
