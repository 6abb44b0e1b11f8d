"""read_many_files: reads all files that match paths, directories and globs (TOOLS-15)."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from alhena.shell.secret_files import left_out
from alhena.system.errors import printable
from alhena.system.workspace import Workspace
from alhena.tools.base import BaseInvocation, DeclarativeTool, path_problem
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
    from alhena.tools.selecting import GatheredFiles, Selection

MOST_CHARACTERS = 2_000_000
"""Maximum characters of text in one result."""

MOST_MEDIA = 20 * 1024 * 1024
"""Maximum bytes of media in one result."""

MOST_PATTERNS = 200
END = "\n--- End of content ---"
NOTHING = "No files matching the criteria were found or all were skipped."
_SHOWN_PROCESSED, _SHOWN_SKIPPED, _SHOWN_UNSEARCHED = 10, 5, 20


class ReadManyFiles(DeclarativeTool):
    """Reads sets of files of the workspace. The limits apply to one result; `environ` defaults to
    this process's."""

    name = "read_many_files"

    def __init__(
        self,
        workspace: Workspace,
        *,
        environ: Mapping[str, str] | None = None,
        most_characters: int = MOST_CHARACTERS,
        most_media: int = MOST_MEDIA,
    ) -> None:
        self.workspace = workspace
        self.environ = environ
        self.most_characters = most_characters
        self.most_media = most_media

    def check(self, params: dict[str, Any]) -> ToolFailure | None:
        """Requires paths in the workspace and valid globs."""
        from alhena.system.wildcard import BadPatternError
        from alhena.tools.selecting import Exclusions, globs

        for name in ("paths", "include", "exclude"):
            given: list[str] = params.get(name) or []
            if len(given) > MOST_PATTERNS:
                return ToolFailure.of_params(
                    f"The '{name}' parameter has more than {MOST_PATTERNS} entries."
                )
            for item in given:
                problem = (
                    path_problem(self.workspace, item, name, reading=True)
                    if name != "exclude"
                    else None
                )
                if problem is not None:
                    return problem
                try:
                    if name == "exclude":
                        Exclusions((item,))
                    elif not os.path.lexists(self.workspace.resolve(item)):
                        tuple(globs(self.workspace, item))
                except BadPatternError:
                    return ToolFailure.of_params(
                        f"The '{name}' pattern {printable(item)!r} is no valid one."
                    )
        return None

    def invocation(self, params: dict[str, Any]) -> ToolInvocation:
        """Builds the call."""
        return ReadManyFilesInvocation(params, self)


class ReadManyFilesInvocation(BaseInvocation):
    """A read of many files."""

    def __init__(self, params: dict[str, Any], tool: ReadManyFiles) -> None:
        super().__init__(params)
        self._tool = tool
        self._workspace = tool.workspace
        self._paths: tuple[str, ...] = (*params["paths"], *(params.get("include") or ()))

    def describe(self) -> str:
        """Names the first paths and counts the others."""
        shown = ", ".join(printable(path) for path in self._paths[:_SHOWN_SKIPPED])
        more = len(self._paths) - _SHOWN_SKIPPED
        return f"{shown}, and {more} more" if more > 0 else shown

    def locations(self) -> tuple[ToolLocation, ...]:
        """The paths, and the base directories of globs."""
        from alhena.tools.selecting import beginning

        found = (beginning(self._workspace, path) for path in self._paths)
        return tuple(dict.fromkeys(ToolLocation(printable(path)) for path in found))

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Reads the files."""
        return await run_blocking(context.cancellation, self._read, context)

    def _read(self, context: ExecutionContext) -> ToolResult:
        from alhena.tools.selecting import FileRequest, GatheredFiles, Selector

        filters: dict[str, bool] = self.params.get("file_filtering_options") or {}
        usual = self._workspace.filtering
        wanted = FileRequest(
            paths=self._paths,
            exclude=tuple(self.params.get("exclude") or ()),
            unasked=tuple(set(self.params.get("include") or ()).difference(self.params["paths"])),
            recursive=self.params.get("recursive", True),
            default_excludes=self.params.get("useDefaultExcludes", True),
            git=filters.get("respect_git_ignore", usual.respect_git_ignore),
            gemini=filters.get("respect_gemini_ignore", usual.respect_gemini_ignore),
            strict=filters.get("respect_git_ignore", False),
            environ=self._tool.environ,
        )
        selector = Selector(self._workspace, wanted, context.cancellation)
        selection = selector.run()
        tool = self._tool
        gathered = GatheredFiles(self._workspace, text=tool.most_characters, media=tool.most_media)
        gathered.read(selector, context.cancellation)
        return _result(gathered, selection)


def _result(gathered: "GatheredFiles", selection: "Selection") -> ToolResult:
    missing = [printable(name) for name in selection.missing]
    told = gathered.describe_skipped(selection)
    data: dict[str, Any] = {
        "processed": len(gathered.processed),
        "skipped": len(selection.skipped) + len(missing),
        "ignored": len(selection.ignored),
        "over_limit": len(gathered.over),
    }
    if selection.skipped:
        data["reasons"] = dict(list(selection.skipped.items())[:_SHOWN_UNSEARCHED])
    display = _summary(gathered, selection)
    if not gathered.processed:
        if missing:
            also = f" Also: {'; '.join(line.rstrip('.') for line in told)}." if told else ""
            names = ", ".join(missing)
            message = f"{NOTHING} There is no such file: {names}.{also} Find it with glob."
            failure = ToolFailure(message, ToolErrorType.FILE_NOT_FOUND)
            return ToolResult(llm_content=message, display=display, error=failure, data=data)
        if selection.unsearched:
            named = " ".join(list(selection.unsearched)[:_SHOWN_UNSEARCHED])
            message = f"Error during file search: {named} {NOTHING}"
            failure = ToolFailure(message, ToolErrorType.READ_MANY_FILES_SEARCH_ERROR)
            return ToolResult(llm_content=message, display=display, error=failure, data=data)
        text = "\n".join([NOTHING, "", *(f"- {line}" for line in told)]) if told else NOTHING
        return ToolResult(llm_content=text, display=display, data=data)
    told = [*(f"{name}: there is no such file" for name in missing), *told]
    if told:
        lines = "\n".join(f"- {line}" for line in told)
        gathered.blocks.append(f"--- Not included ---\n\n{lines}\n")
    gathered.blocks.append(END)
    joined = gathered.merge_texts()
    content = joined[0] if len(joined) == 1 else tuple(joined)
    return ToolResult(llm_content=content, display=display, data=data)


def _summary(gathered: "GatheredFiles", selection: "Selection") -> str:
    """Markdown summary for people: the first files read, the first skipped, and the reasons."""
    processed = gathered.processed
    skipped = [f"`{printable(name)}` (there is no such file)" for name in selection.missing]
    skipped += [f"`{printable(path)}` ({why})" for path, why in selection.skipped.items()]
    skipped += [f"`{printable(path)}` (it did not fit)" for path in gathered.over]
    lines = ["### ReadManyFiles Result", ""]
    if processed:
        lines += [f"Read **{len(processed)} file(s)**.", "", "**Processed files:**"]
        lines += [f"- `{printable(path)}`" for path in processed[:_SHOWN_PROCESSED]]
        if len(processed) > _SHOWN_PROCESSED:
            lines.append(f"- … and {len(processed) - _SHOWN_PROCESSED} more")
    else:
        lines.append("No files were read.")
    if skipped:
        lines += ["", f"**Skipped {len(skipped)} item(s):**"]
        lines += [f"- {item}" for item in skipped[:_SHOWN_SKIPPED]]
        if len(skipped) > _SHOWN_SKIPPED:
            lines.append(f"- … and {len(skipped) - _SHOWN_SKIPPED} more")
    if selection.ignored:
        lines += ["", f"{len(selection.ignored)} file(s) are left out by ignore files."]
    if selection.secrets:
        lines += ["", left_out(len(selection.secrets))]
    return "\n".join(lines)
