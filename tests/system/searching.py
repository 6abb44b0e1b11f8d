"""One query put to any search backend."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from alhena.system.search import FileSearch, Query
from alhena.system.search.text_finder import find_reader

RG = shutil.which("rg")
GREP = find_reader({"PATH": os.environ["PATH"]}) if RG is None else shutil.which("grep")
GIT = shutil.which("git")
Write = Callable[[str, str | bytes], None]
"""Writes a file of the tree."""


async def find_matches(
    backend: FileSearch, pattern: str, path: Path, **options: object
) -> list[tuple[str, int, str]]:
    """Relative path, line number and line of each match; there are not more than allowed."""
    root = options.pop("root", None) or path
    assert isinstance(root, Path)
    result = await backend.search(Query(pattern=pattern, path=path, root=root, **options))
    assert not result.limited
    return [(str(m.path.relative_to(root)), m.line, m.text) for m in result.matches]
