"""One query put to any search backend."""

import shutil
from collections.abc import Callable
from pathlib import Path

from alhena.system.search import FileSearch, Query

RG = shutil.which("rg")
GIT = shutil.which("git")
Write = Callable[[str, str | bytes], None]
"""Writes a file of the tree."""


async def found(
    backend: FileSearch, pattern: str, path: Path, **options: object
) -> list[tuple[str, int, str]]:
    """Relative path, line number and line of each match; there are not more than allowed."""
    root = options.pop("root", None) or path
    assert isinstance(root, Path)
    result = await backend.search(Query(pattern=pattern, path=path, root=root, **options))
    assert not result.limited
    return [(str(m.path.relative_to(root)), m.line, m.text) for m in result.matches]
