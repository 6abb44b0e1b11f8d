"""get_internal_docs: reads the project's packaged documentation (TOOLS-20)."""

import os
from pathlib import Path
from typing import Any

from alhena.system.errors import FileError, printable
from alhena.tools.base import BaseInvocation, DeclarativeTool, failed_result, failure_of
from alhena.tools.contract import (
    ExecutionContext,
    ToolErrorType,
    ToolInvocation,
    ToolResult,
)
from alhena.tools.threads import run_blocking
from alhena.wire.json_values import excerpt

DOC_LIMIT = 1_000_000
"""Maximum size of a document in bytes."""


def docs_directory(package: Path | None = None) -> Path:
    """Locates the documentation: inside the installed package, or beside its source in a checkout.
    `package` is the directory of the alhena package. The result need not exist."""
    inside = package or Path(__file__).parents[2]
    packaged = inside / "docs"
    checkout = inside.parent.parent
    if not packaged.is_dir() and (checkout / "pyproject.toml").is_file():
        return checkout / "docs"
    return packaged


class GetInternalDocs(DeclarativeTool):
    """Serves the Markdown files below `directory`, and nothing else."""

    name = "get_internal_docs"

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory

    def invocation(self, params: dict[str, Any]) -> ToolInvocation:
        """Builds the call."""
        return GetInternalDocsInvocation(self._directory or docs_directory(), params)


class GetInternalDocsInvocation(BaseInvocation):
    """Lists the documents or reads one; a path that is not in the list is never opened."""

    def __init__(self, directory: Path, params: dict[str, Any]) -> None:
        super().__init__(params)
        self._directory = directory
        self._path: str = params.get("path", "")

    def describe(self) -> str:
        """Describes the call."""
        return f"Reading documentation: {self._path}" if self._path else "Listing documentation"

    async def execute(self, context: ExecutionContext) -> ToolResult:
        """Lists the documents or reads one."""
        return await run_blocking(context.cancellation, self._look)

    def _look(self) -> ToolResult:
        from alhena.system.encoding import decode_text
        from alhena.system.files import read_whole

        names = document_names(self._directory)
        if not names:
            return ToolResult.from_failure(
                f"There is no documentation at {printable(self._directory)}.",
                ToolErrorType.FILE_NOT_FOUND,
            )
        listed = "\n".join(f"- {name}" for name in names)
        wanted = os.path.normpath(self._path.replace("\\", "/")) if self._path.strip() else ""
        if not wanted:
            return ToolResult(
                llm_content=f"Available documentation files:\n\n{listed}",
                display=f"Found {len(names)} documentation files.",
            )
        name = next((name for name in names if wanted in (name, name.removesuffix(".md"))), None)
        if name is None:
            return ToolResult.from_failure(
                f'There is no documentation file "{excerpt(self._path)}". '
                f"There are: {', '.join(names)}.",
                ToolErrorType.FILE_NOT_FOUND,
            )
        try:
            data, _ = read_whole(Path(os.path.realpath(self._directory)) / name, DOC_LIMIT)
        except FileError as error:
            return failed_result(failure_of(error))
        text = decode_text(data).shown
        return ToolResult(llm_content=text, display=f"Read documentation: {name}")


def document_names(directory: Path) -> list[str]:
    """Relative paths of the Markdown files below `directory`, without symlinks."""
    names: list[str] = []
    for folder, _, files in os.walk(directory):
        below = Path(folder).relative_to(directory)
        names += [
            (below / name).as_posix()
            for name in files
            if name.endswith(".md") and not (Path(folder) / name).is_symlink()
        ]
    return sorted(names)
