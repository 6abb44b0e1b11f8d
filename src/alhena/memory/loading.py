"""What an import may name, and the files of imports."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from alhena.memory.imports import (
    MAX_DEPTH,
    ImportFormat,
    ProcessImportsResult,
    Refused,
    Source,
    expand,
)
from alhena.memory.reading import MAX_IMPORTS, Limits, find_project_root, read_memory
from alhena.system.errors import (
    DirectoryTargetError,
    FileError,
    FilePermissionError,
    FileTooLargeError,
    MissingFileError,
    NotRegularFileError,
)
from alhena.system.workspace import is_within

_PUNCTUATION = ".,;:!?)]}>'\"*_"
_TEXT_SUFFIXES = (".md", ".markdown", ".mdx", ".mdc", ".txt", ".rst", ".adoc")


def is_url(name: str) -> bool:
    """Whether an import names a URL."""
    scheme, found, _ = name.partition(":")
    return bool(found) and (scheme.lower() == "file" or name[len(scheme) :].startswith("://"))


def validate_import_path(
    import_path: str, base_path: Path, allowed_directories: Iterable[Path]
) -> bool:
    """Whether an import is none of a URL and really lies, all symlinks followed, in one of the
    directories. It need not exist."""
    if is_url(import_path) or "\0" in import_path:
        return False
    real = os.path.realpath(base_path / import_path)
    return any(is_within(real, os.path.realpath(top)) for top in allowed_directories)


class ImportLoader:
    """Finds the files of imports in the `allowed` directories, within `limits`.

    A name behind an `@` that could as well be a person or a package (it begins with neither `.`
    nor `/`) is an import when it names a file, or ends like one.
    """

    def __init__(self, allowed: Iterable[Path], limits: Limits) -> None:
        self._allowed = tuple(Path(os.path.realpath(top)) for top in allowed)
        self._limits = limits

    def named(self, written: str, base: str) -> str | None:
        """As much of `written`, the text behind an `@` in a file of `base`, as names a file."""
        names = _readings(written)
        name = next((each for each in names if self._leads_to_file(each, base)), None)
        if name is not None:
            return name
        name = names[-1]
        if is_url(name):
            return name
        like_a_path = name[0] in "./" and name.strip("./")  # an ellipsis is none
        return name if like_a_path or name.lower().endswith(_TEXT_SUFFIXES) else None

    def load(self, name: str, base: str) -> Source | Refused:
        """The file, or why it cannot be had."""
        if is_url(name):
            return Refused("URLs are not imported")
        if not validate_import_path(name, Path(base), self._allowed):
            return Refused("Path traversal attempt")
        if self._limits.imports <= 0:
            return Refused(f"more than {MAX_IMPORTS} imports in one text")
        self._limits.imports -= 1
        path = Path(os.path.realpath(os.path.join(base, name)))
        if _is_secret(name) or _is_secret(str(path)):
            return Refused("files of variables may hold secrets and are not imported", secret=True)
        try:
            found = read_memory(path, self._allowed, self._limits)
        except FileError as error:
            return Refused(_reason(error))
        return Source(str(path), str(path.parent), found.text, found.identity)

    def _leads_to_file(self, name: str, base: str) -> bool:
        """Whether there is anything at the path but a directory. Outside the allowed directories
        nothing is said to be there."""
        path = os.path.join(base, name)
        if not validate_import_path(name, Path(base), self._allowed):
            return False
        return os.path.lexists(path) and not os.path.isdir(path)


def _is_secret(path: str) -> bool:
    """Whether a file is called as those are that hold keys and passwords."""
    name = path.rpartition("/")[2].lower()
    return name == ".env" or name.startswith(".env.")


def root_source(path: Path, limits: Limits) -> Source:
    """The file at an absolute path, wherever it leads, to begin with. Raises FileError."""
    real = Path(os.path.realpath(path))
    found = read_memory(path, (real.parent,), limits)
    return Source(str(path), str(path.parent), found.text, found.identity)


def process_imports(
    content: str,
    base_path: Path,
    *,
    allowed: Iterable[Path] | None = None,
    format: ImportFormat = "tree",
    max_depth: int = MAX_DEPTH,
    log: Callable[[str], None] = lambda _line: None,
) -> ProcessImportsResult:
    """`content`, a text of no file of its own in the directory `base_path`, with its imports.

    They may come from the `allowed` directories, by default from the project that `base_path` is
    in. The root of the tree is called "unknown".
    """
    tops = (find_project_root(base_path),) if allowed is None else tuple(allowed)
    loader = ImportLoader(tops, Limits())
    root = Source("unknown", str(base_path), content, "unknown")
    return expand(root, loader, format=format, max_depth=max_depth, log=log)


def _readings(written: str) -> list[str]:
    """What of the text behind an `@` may be the name, the whole first: a sentence goes on behind
    it, or a tag."""
    found = [written]
    for cut in (written.rstrip(_PUNCTUATION), written.partition("<")[0]):
        found.append(cut)
        found.append(cut.rstrip(_PUNCTUATION))
    return [name for name in dict.fromkeys(found) if name] or [written]


def _reason(error: FileError) -> str:
    """Why a file cannot be imported, without the places of this machine."""
    match error:
        case MissingFileError():
            return "ENOENT: no such file or directory"
        case FilePermissionError():
            return "EACCES: permission denied"
        case DirectoryTargetError():
            return "EISDIR: it is a directory"
        case NotRegularFileError():
            return "not a regular file"
        case FileTooLargeError():
            return "too large, by itself or with all others"
        case _:
            return "it cannot be read as text"
