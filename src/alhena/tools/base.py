"""The common part of the built-in tools: from parameters to an invocation, paths, room for results.

A concrete tool states its name, keeps its declaration in `NAME.json` and its description in
`NAME.md` beside its module, and makes invocations; everything else is here.
"""

import os
import stat
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from alhena.system.errors import FileError, from_os_error, printable
from alhena.system.workspace import Workspace, is_within
from alhena.tools.contract import (
    ConfirmationDetails,
    ExecutionContext,
    InfoConfirmation,
    Kind,
    Tool,
    ToolErrorType,
    ToolFailure,
    ToolInvocation,
    ToolLocation,
    ToolResult,
)
from alhena.tools.params import BUILT_IN, prepare, read_declaration
from alhena.wire.request import FunctionDeclaration


@cache
def description(folder: Path, name: str) -> str:
    """Reads a tool's `NAME.md`."""
    return (folder / f"{name}.md").read_text(encoding="utf-8").strip()


def declaration_of(tool: Tool) -> FunctionDeclaration:
    """The declaration of a tool with its own description and schema."""
    return FunctionDeclaration(
        name=tool.name, description=tool.description, parameters_json_schema=tool.parameter_schema
    )


class LazyTool:
    """A built-in tool whose module is imported with its first call; satisfies `contract.Tool`.

    `make` imports and creates the tool. `note` is appended to its description.
    """

    def __init__(self, name: str, make: Callable[[], Tool], *, note: str = "") -> None:
        data = read_declaration(BUILT_IN, name)
        self.name = name
        self.display_name = data.display_name
        self.kind = data.kind
        self.parameter_schema = data.parameters
        self.is_output_markdown = data.is_output_markdown
        self.can_update_output = data.can_update_output
        self._note = note
        self._make = make
        self._made: Tool | None = None

    @property
    def description(self) -> str:
        """The text of `NAME.md`, and the note."""
        said = description(BUILT_IN, self.name)
        return f"{said}\n\n{self._note}" if self._note else said

    def declaration(self) -> FunctionDeclaration:
        """The tool as the model sees it."""
        return declaration_of(self)

    def build(self, params: dict[str, Any]) -> ToolInvocation | ToolFailure:
        """The call, by the tool itself."""
        return self.tool().build(params)

    def tool(self) -> Tool:
        """The tool itself, created at the first use."""
        if self._made is None:
            self._made = self._make()
        return self._made


class DeclarativeTool(ABC):
    """A tool whose declaration is data; satisfies `contract.Tool`.

    A subclass that states its `name` alone has a `NAME.json` and a `NAME.md` beside its module.
    """

    name: str
    display_name: str
    kind: Kind
    parameter_schema: dict[str, Any]
    is_output_markdown: bool = False
    can_update_output: bool = False
    fills_defaults: bool = False

    def __init_subclass__(cls) -> None:
        if "name" not in vars(cls) or "kind" in vars(cls):
            return
        data = read_declaration(_folder(cls), cls.name)
        cls.display_name = data.display_name
        cls.kind = data.kind
        cls.parameter_schema = data.parameters
        cls.is_output_markdown = data.is_output_markdown
        cls.can_update_output = data.can_update_output

    @property
    def description(self) -> str:
        """The description for the model: the file NAME.md beside the concrete module."""
        return description(_folder(type(self)), self.name)

    def declaration(self) -> FunctionDeclaration:
        """The tool as the model sees it."""
        return declaration_of(self)

    def build(self, params: dict[str, Any]) -> ToolInvocation | ToolFailure:
        """Applies aliases, the JSON Schema and the tool's own checks; a failure is a value."""
        prepared = prepare(self.name, self.parameter_schema, params, defaults=self.fills_defaults)
        if isinstance(prepared, ToolFailure):
            return prepared
        return self.check(prepared) or self.invocation(prepared)

    def check(self, params: dict[str, Any]) -> ToolFailure | None:
        """Checks parameters that already fit the schema; None when they are valid."""
        del params
        return None

    @abstractmethod
    def invocation(self, params: dict[str, Any]) -> ToolInvocation:
        """Builds the call from checked parameters."""


def _folder(cls: type) -> Path:
    return Path(str(sys.modules[cls.__module__].__file__)).parent


class BaseInvocation(ABC):
    """A call without locations, confirmed by its description, unless a subclass overrides that."""

    def __init__(self, params: dict[str, Any]) -> None:
        self._params = params

    @property
    def params(self) -> dict[str, Any]:
        """The parameters under their declared names."""
        return self._params

    @abstractmethod
    def describe(self) -> str:
        """Describes the call to people in one line."""

    def locations(self) -> tuple[ToolLocation, ...]:
        """The paths this call reads or changes."""
        return ()

    async def confirmation(self, context: ExecutionContext) -> ConfirmationDetails | None:
        """Details to show when a person has to approve; None when there is nothing to approve."""
        del context
        return InfoConfirmation(title="Confirm", prompt=self.describe())

    @abstractmethod
    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Executes the call."""


def path_problem(
    workspace: Workspace, path: str, parameter: str, *, reading: bool = False
) -> ToolFailure | None:
    """Explains why a path from a model is unusable: empty, not encodable, or outside the workspace.

    With `reading`, for tools that only read, the session's own directories are allowed too.
    """
    if not path.strip():
        return ToolFailure.of_params(f"The '{parameter}' parameter must be non-empty.")
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError:
        encoded = b"\0"
    if b"\0" in encoded:
        return ToolFailure.of_params(
            f"The '{parameter}' parameter contains a character that no path can have.",
        )
    if not workspace.contains(workspace.resolve(path), reading=reading):
        return ToolFailure(printable(workspace.refusal(path)), ToolErrorType.PATH_NOT_IN_WORKSPACE)
    return None


def real_location(workspace: Workspace, path: Path, *, reading: bool = False) -> Path | ToolFailure:
    """Resolves all symlinks of an absolute path; returns a failure when it leads outside.
    `reading` is as for `path_problem`."""
    real = os.path.realpath(path)
    for root in (*workspace.roots, *workspace.readable) if reading else workspace.roots:
        if is_within(real, str(root)):
            return Path(real)
    return ToolFailure(printable(workspace.refusal(str(path))), ToolErrorType.PATH_NOT_IN_WORKSPACE)


def is_kept_from_model(workspace: Workspace, *paths: Path) -> bool:
    """True when the .geminiignore of its workspace root, or a file like it that the settings name,
    ignores one of the paths."""
    if not has_closing_file(workspace):
        return False
    from alhena.system.ignore import IgnoreRules

    usual = workspace.filtering
    gemini, custom = usual.respect_gemini_ignore, usual.custom_ignore_file_paths
    return any(
        IgnoreRules(root_of(workspace, path), git=False, gemini=gemini, custom=custom).is_ignored(
            path, is_dir=os.path.isdir(path)
        )
        for path in paths
    )


def has_closing_file(workspace: Workspace) -> bool:
    """True when a root of the workspace has an ignore file for named files, too."""
    names = workspace.filtering.closing
    return any(os.path.lexists(root / name) for root in workspace.roots for name in names)


def failure_of(error: FileError) -> ToolFailure:
    """Converts a file error to the failure of a call."""
    return ToolFailure(str(error), ToolErrorType.from_name(error.kind))


def failed_result(failure: ToolFailure) -> ToolResult:
    """Converts a failure to the result of the call."""
    return ToolResult.from_failure(failure.message, failure.type)


def root_of(workspace: Workspace, real: Path) -> Path:
    """The workspace root that contains a real path; the innermost when roots are nested."""
    holding = [root for root in workspace.roots if is_within(str(real), str(root))]
    return max(holding, key=lambda root: len(str(root)), default=workspace.cwd)


MOST_CHARACTERS = 40_000
"""Default limit for the characters of a result."""

REMARKS = 1_000
"""Characters reserved for notes around the lines."""


def room_in(most: int) -> int:
    """Characters for lines in a result of `most`, without the notes; 0 or less means no limit."""
    return most - min(REMARKS, most // 2) if most > 0 else sys.maxsize


def fitting(lines: Sequence[str], room: int) -> int:
    """Number of leading lines that fit into `room` characters, at least one."""
    if sum(map(len, lines)) + len(lines) <= room:
        return len(lines)
    count = 0
    for line in lines:
        room -= len(line) + 1
        if room < 0 and count:
            break
        count += 1
    return count


def search_place_problem(
    path: Path, failure: ToolErrorType, *, files: bool = False
) -> ToolFailure | None:
    """Checks that the absolute `path` is a directory or, with `files`, any other kind of file.

    `failure` is the error type for any other operating system error.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return ToolFailure(
            f"Search path does not exist: {printable(path)}. Check it with list_directory, or "
            "leave `path` out to search the whole workspace.",
            ToolErrorType.SEARCH_PATH_NOT_FOUND,
        )
    except NotADirectoryError:
        mode = stat.S_IFREG
        files = False
    except OSError as error:
        return ToolFailure(f"Cannot search: {from_os_error(error, path)}", failure)
    if files or stat.S_ISDIR(mode):
        return None
    return ToolFailure(
        f"Search path is not a directory: {printable(path)}. Give the directory that it lies in, "
        "or read it with read_file.",
        ToolErrorType.SEARCH_PATH_NOT_A_DIRECTORY,
    )
