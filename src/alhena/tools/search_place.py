"""Why a path that a model gave cannot be searched: what glob and text search say alike."""

import os
import stat
from pathlib import Path

from alhena.system.errors import from_os_error, printable
from alhena.tools.contract import ToolErrorType, ToolFailure


def search_place_problem(
    path: Path, failure: ToolErrorType, *, files: bool = False
) -> ToolFailure | None:
    """None when `path`, an absolute one, is a directory or, with `files`, any other kind of file.

    `failure` is the type for whatever else the system says of it.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return _missing(path)
    except NotADirectoryError:
        return _no_directory(_first_file(path))
    except OSError as error:
        return ToolFailure(f"Cannot search: {from_os_error(error, path)}", failure)
    return None if files or stat.S_ISDIR(mode) else _no_directory(path)


def _missing(path: Path) -> ToolFailure:
    why = "is a link that leads nowhere" if os.path.islink(path) else "does not exist"
    return ToolFailure(
        f"Search path {why}: {printable(path)}. Check it with list_directory, or leave `path` out "
        "to search the whole workspace.",
        ToolErrorType.SEARCH_PATH_NOT_FOUND,
    )


def _no_directory(path: Path) -> ToolFailure:
    return ToolFailure(
        f"Search path is not a directory: {printable(path)}. Give the directory that it lies in, "
        "or read it with read_file.",
        ToolErrorType.SEARCH_PATH_NOT_A_DIRECTORY,
    )


def _first_file(path: Path) -> Path:
    """What keeps the path from leading on."""
    above = (parent for parent in reversed(path.parents) if not parent.is_dir())
    return next(above, path)
