"""read_many_files: the contents of all files that paths, directories and globs mean (TOOLS-15)."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never

import msgspec

from alhena.system.errors import FileError, from_os_error, printable
from alhena.system.files import open_real
from alhena.system.workspace import Workspace
from alhena.tools.base import BaseInvocation, DeclarativeTool, path_problem, real_location
from alhena.tools.contract import (
    ExecutionContext,
    Kind,
    ToolErrorType,
    ToolFailure,
    ToolInvocation,
    ToolLocation,
    ToolResult,
)
from alhena.tools.threads import run_blocking
from alhena.wire.content import Part

if TYPE_CHECKING:
    from alhena.system.textwindow import TextWindow
    from alhena.tools.reading import FileContent
    from alhena.tools.selecting import Chosen, Selection, Selector

MOST_CHARACTERS = 2_000_000
"""Characters of text that one call returns."""

MOST_MEDIA = 20 * 1024 * 1024
"""Bytes of media that one call returns."""

MOST_PATTERNS = 200
END = "\n--- End of content ---"
NOTHING = "No files matching the criteria were found or all were skipped."
_TRUNCATED = (
    "[WARNING: This file was truncated. To view the full content, use the 'read_file' tool on this "
    "specific file.]\n\n"
)
_LISTED = 20
_ENOUGH_OVER = 50
"""Files that did not fit, after which the rest is not even read: there may be 100,000."""

_SHOWN_PROCESSED, _SHOWN_SKIPPED = 10, 5

_GLOBS: dict[str, Any] = {"type": "array", "items": {"type": "string", "minLength": 1}}
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "paths": {
            **_GLOBS,
            "minItems": 1,
            "description": "Files, directories and globs, absolute or relative to the workspace: "
            '["README.md", "src/**/*.py", "docs"].',
        },
        "include": {**_GLOBS, "description": "Further globs to read."},
        "exclude": {
            **_GLOBS,
            "description": 'Globs to leave out: "*.min.js" by name, "tests/**" by path.',
        },
        "recursive": {
            "type": "boolean",
            "description": "Whether a directory in `paths` means all that lies below it (true when "
            "not given) or only its own files. Globs say it with `**`.",
        },
        "useDefaultExcludes": {
            "type": "boolean",
            "description": "Whether dependencies, build output, binaries and the like are left "
            "out; true when not given.",
        },
        "file_filtering_options": {
            "type": "object",
            "description": "Which ignore files count; both do when not given.",
            "properties": {
                "respect_git_ignore": {"type": "boolean"},
                "respect_gemini_ignore": {"type": "boolean"},
            },
        },
    },
    "required": ["paths"],
}


class ReadManyFiles(DeclarativeTool):
    """Reads sets of files of the workspace. The limits are those of one call's result; `environ`
    is the session's, this process's when None."""

    name = "read_many_files"
    display_name = "ReadManyFiles"
    kind = Kind.READ
    parameter_schema = _SCHEMA
    is_output_markdown = True

    def __init__(
        self,
        workspace: Workspace,
        *,
        environ: Mapping[str, str] | None = None,
        most_characters: int = MOST_CHARACTERS,
        most_media: int = MOST_MEDIA,
    ) -> None:
        self._workspace = workspace
        self._environ = environ
        self._limits = (most_characters, most_media)

    def check(self, params: dict[str, Any]) -> ToolFailure | None:
        """Every path has to lie in the workspace, and every glob has to be one."""
        from alhena.system.wildcard import BadPatternError
        from alhena.tools.selecting import Exclusions, globs

        for name in ("paths", "include", "exclude"):
            given: list[str] = params.get(name) or []
            if len(given) > MOST_PATTERNS:
                return _invalid(f"The '{name}' parameter has more than {MOST_PATTERNS} entries.")
            for item in given:
                problem = path_problem(self._workspace, item, name) if name != "exclude" else None
                if problem is not None:
                    return problem
                try:
                    if name == "exclude":
                        Exclusions((item,))
                    elif not os.path.lexists(self._workspace.resolve(item)):
                        tuple(globs(self._workspace, item))
                except BadPatternError:
                    return _invalid(f"The '{name}' pattern {printable(item)!r} is no valid one.")
        return None

    def invocation(self, params: dict[str, Any]) -> ToolInvocation:
        """One read of many files."""
        return ReadManyFilesInvocation(self._workspace, params, self._environ, self._limits)


def _invalid(message: str) -> ToolFailure:
    return ToolFailure(message, ToolErrorType.INVALID_TOOL_PARAMS)


class _Gathered(msgspec.Struct):
    """What was read so far: texts and media in order, the files, the room that is left."""

    characters: int
    media: int
    blocks: list[str | Part] = msgspec.field(default_factory=list[str | Part])
    processed: list[str] = msgspec.field(default_factory=list[str])
    over: list[str] = msgspec.field(default_factory=list[str])


class ReadManyFilesInvocation(BaseInvocation):
    """One read of many files."""

    def __init__(
        self,
        workspace: Workspace,
        params: dict[str, Any],
        environ: Mapping[str, str] | None,
        room: tuple[int, int],
    ) -> None:
        super().__init__(params)
        self._workspace = workspace
        self._environ = environ
        self._paths: tuple[str, ...] = (*params["paths"], *(params.get("include") or ()))
        self._room = room

    def describe(self) -> str:
        """What is read."""
        shown = ", ".join(printable(path) for path in self._paths[:_SHOWN_SKIPPED])
        more = len(self._paths) - _SHOWN_SKIPPED
        return f"{shown}, and {more} more" if more > 0 else shown

    def locations(self) -> tuple[ToolLocation, ...]:
        """The paths, and of globs the directory they begin at."""
        from alhena.tools.selecting import beginning

        found = (beginning(self._workspace, path) for path in self._paths)
        return tuple(dict.fromkeys(ToolLocation(printable(path)) for path in found))

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Reads them."""
        return await run_blocking(context.cancellation, self._read, context)

    def _read(self, context: ExecutionContext) -> ToolResult:
        from alhena.tools.selecting import Selector, Wanted

        filters: dict[str, bool] = self.params.get("file_filtering_options") or {}
        wanted = Wanted(
            paths=self._paths,
            exclude=tuple(self.params.get("exclude") or ()),
            recursive=self.params.get("recursive", True),
            default_excludes=self.params.get("useDefaultExcludes", True),
            git=filters.get("respect_git_ignore", True),
            gemini=filters.get("respect_gemini_ignore", True),
            environ=self._environ,
        )
        selector = Selector(self._workspace, wanted, context.cancellation)
        selection = selector.run()
        gathered = _Gathered(*self._room)
        for chosen in selection.files.values():
            if context.cancellation.is_set():
                break
            if len(gathered.over) >= _ENOUGH_OVER:
                gathered.over.append(chosen.path)
                continue
            content = self._content(chosen, selector, context)
            if isinstance(content, str):
                selection.skip(chosen.path, content)
            else:
                _take(gathered, selection, chosen.path, content)
        return _result(gathered, selection)

    def _content(
        self, chosen: "Chosen", selector: "Selector", context: ExecutionContext
    ) -> "FileContent | str":
        """What a file holds, or why it was not read."""
        from alhena.tools.reading import Lines, read_content

        path = Path(chosen.path)
        real = real_location(self._workspace, path)
        if isinstance(real, ToolFailure):
            return "it leads outside the workspace"
        if real != path and selector.gemini_ignores(real):
            return ".geminiignore leaves it out"
        try:
            descriptor = open_real(real)
            try:
                return read_content(
                    descriptor, path.name, Lines(), context.cancellation, media=chosen.media
                )
            finally:
                os.close(descriptor)
        except FileError as error:
            return error.message
        except OSError as error:
            return from_os_error(error, path).message


def _take(gathered: _Gathered, selection: "Selection", path: str, content: "FileContent") -> None:
    from alhena.system.textwindow import TextWindow
    from alhena.tools.reading import Binary, Media, UnwantedMedia

    match content:
        case TextWindow():
            block = _block(path, content)
            if len(block) > gathered.characters:
                gathered.over.append(path)
                return
            gathered.characters -= len(block)
            gathered.blocks.append(block)
        case Media(mime, data):
            if len(data) > gathered.media:
                gathered.over.append(path)
                return
            gathered.media -= len(data)
            gathered.blocks += [f"--- {printable(path)} ---\n\n({mime})\n\n", content.part()]
        case UnwantedMedia(mime):
            reason = f"{mime}; name the file or its extension in `paths` to get it"
            selection.skip(path, reason)
            return
        case Binary():
            selection.skip(path, "a binary file that cannot be shown")
            return
        case _:
            assert_never(content)
    gathered.processed.append(path)


def _block(path: str, window: "TextWindow") -> str:
    from alhena.tools.reading import encoding_note

    notes = ""
    shown = len(window.lines)
    if shown < window.total or window.long_lines:
        notes = f"{_TRUNCATED}[Showing lines 1-{shown} of {window.total}"
        if window.long_lines:
            notes += f"; {window.long_lines} of them are longer than shown"
        notes += ".]\n\n"
    if note := encoding_note(window):
        notes += f"[{note}]\n\n"
    return f"--- {printable(path)} ---\n\n{notes}{window.content()}\n\n"


def _result(gathered: _Gathered, selection: "Selection") -> ToolResult:
    missing = [printable(name) for name in selection.missing]
    told = _told(gathered, selection)
    data = {
        "processed": len(gathered.processed),
        "skipped": len(selection.skipped) + len(missing),
        "ignored": len(selection.ignored),
        "over_limit": len(gathered.over),
    }
    display = _summary(gathered, selection)
    if not gathered.processed:
        if missing:
            also = f" Also: {'; '.join(line.rstrip('.') for line in told)}." if told else ""
            names = ", ".join(missing)
            message = f"{NOTHING} There is no such file: {names}.{also} Find it with glob."
            failure = ToolFailure(message, ToolErrorType.FILE_NOT_FOUND)
            return ToolResult(llm_content=message, display=display, error=failure, data=data)
        if selection.unsearched:
            named = " ".join(list(selection.unsearched)[:_LISTED])
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
    joined = _joined(gathered.blocks)
    content = joined[0] if len(joined) == 1 else tuple(joined)
    return ToolResult(llm_content=content, display=display, data=data)


def _joined(blocks: list[str | Part]) -> list[str | Part]:
    """The blocks with neighbouring texts made one."""
    joined: list[str | Part] = []
    texts: list[str] = []
    for block in blocks:
        if isinstance(block, str):
            texts.append(block)
        else:
            joined += ["".join(texts), block]
            texts = []
    return [*joined, "".join(texts)]


def _told(gathered: _Gathered, selection: "Selection") -> list[str]:
    """What the model has to know of files that are there and that it does not get, by line."""
    lines = [
        f"{printable(item.path)}: {item.reason}"
        for item in list(selection.skipped.values())[:_LISTED]
    ]
    if len(selection.skipped) > _LISTED:
        lines.append(f"{len(selection.skipped) - _LISTED} more files were skipped.")
    if gathered.over:
        named = ", ".join(printable(path) for path in gathered.over[:_LISTED])
        more = len(gathered.over) - _LISTED
        lines.append(
            f"{len(gathered.over)} files did not fit into one result: {named}"
            f"{f', and {more} more' if more > 0 else ''}. Read them with a further call."
        )
    if selection.ignored:
        lines.append(f"{len(selection.ignored)} files are left out by ignore files.")
    return lines + [*dict.fromkeys((*selection.unsearched, *selection.warnings))][:_LISTED]


def _summary(gathered: _Gathered, selection: "Selection") -> str:
    """Markdown for people: the first files that were read, the first that were not, and why."""
    processed = gathered.processed
    skipped = [f"`{printable(name)}` (there is no such file)" for name in selection.missing]
    skipped += [f"`{printable(s.path)}` ({s.reason})" for s in selection.skipped.values()]
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
    return "\n".join(lines)
