"""glob: finds files by name pattern, recent ones first (TOOLS-13)."""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alhena.system.errors import printable
from alhena.system.workspace import Workspace
from alhena.tools.base import (
    MOST_CHARACTERS,
    BaseInvocation,
    DeclarativeTool,
    failed,
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
    from alhena.system.walk import GlobMatch

MOST_FILES = 2_000
_RECENT = 24 * 60 * 60
_NAMED_UNREADABLE = 3
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
            return failed(bases)
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
        from alhena.system.ignore import IgnoreRules
        from alhena.system.walk import GlobPattern, WalkLimits, WalkTally, glob_files

        found: dict[str, GlobMatch] = {}
        ignored: set[str] = set()
        notes: list[str] = []
        unreadable: list[str] = []
        inside = 0
        for base in bases:
            relative = self._relative_to(base)
            if relative is None:
                continue
            inside += 1
            pattern = GlobPattern(
                relative, case_sensitive=self.params.get("case_sensitive") or False
            )
            rules = IgnoreRules(
                root_of(self._workspace, base),
                git=self.params.get("respect_git_ignore", True),
                gemini=self.params.get("respect_gemini_ignore", True),
                environ=self._tool.environ,
            )
            tally = WalkTally()
            limits = WalkLimits(cancellation=context.cancellation)
            for match in glob_files(base, pattern, rules, tally, limits):
                found.setdefault(match.path, match)
            ignored.update(tally.ignored_files)
            unreadable += tally.unreadable
            notes += rules.warnings
        if not inside:
            return failed(
                ToolFailure(
                    self._workspace.refusal(self._pattern), ToolErrorType.PATH_NOT_IN_WORKSPACE
                )
            )
        # The ignore rules of a directory that cannot be entered cannot be read either.
        notes = [note for note in dict.fromkeys(notes) if note not in unreadable]
        if unreadable:
            notes.append(_unreadable_note(list(dict.fromkeys(unreadable))))
        return self._result(list(found.values()), len(ignored), bases, notes)

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
        self, found: "list[GlobMatch]", ignored: int, bases: list[Path], notes: list[str]
    ) -> ToolResult:
        where = (
            f"within {printable(bases[0])}"
            if len(bases) == 1
            else f"across {len(bases)} workspace directories"
        )
        shown = printable(self.params["pattern"])
        if not found:
            text = f'No files found matching pattern "{shown}" {where}'
            if ignored:
                text += f" ({ignored} files were ignored)"
            return ToolResult(llm_content="\n".join([text, *notes]), display="No files found")
        text = f'Found {len(found)} file(s) matching "{shown}" {where}'
        if ignored:
            text += f" ({ignored} additional files were ignored)"
        lines = [f"{text}, sorted by modification time (newest first):"]
        paths = [printable(match.path) for match in self._sorted(found)[:MOST_FILES]]
        lines += paths[: fitting(paths, self._tool.room)]
        if (left := len(found) - len(lines) + 1) > 0:
            more = "1 more file is" if left == 1 else f"{left} more files are"
            lines.append(f"({more} not shown; use a narrower pattern)")
        return ToolResult(
            llm_content="\n".join([*lines, *notes]), display=f"Found {len(found)} matching file(s)"
        )

    def _sorted(self, found: "list[GlobMatch]") -> "list[GlobMatch]":
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
