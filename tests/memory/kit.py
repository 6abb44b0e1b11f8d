"""Files of a project and what importing them gives."""

from pathlib import Path
from typing import Any

from alhena.memory import ImportLimits
from alhena.memory.files import find_project_root
from alhena.memory.imports import ImportLoader, ProcessImportsResult, expand, root_source


def put(top: Path, name: str, text: str) -> Path:
    path = top / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def import_file(
    path: Path, *allowed: Path, limits: ImportLimits | None = None, **options: Any
) -> ProcessImportsResult:
    """A file with its imports, which may come from its project and from `allowed`."""
    limits = limits or ImportLimits()
    tops = (find_project_root(path.parent), *allowed)
    return expand(root_source(path, limits), ImportLoader(tops, limits), **options)
