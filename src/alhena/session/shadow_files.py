"""A project's files as the shadow repository sees them: where they begin, what can be kept."""

import os
import stat
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from alhena.session.errors import CheckpointError
from alhena.system.errors import printable
from alhena.system.gitconfig import git_directory

RULES = (".gitignore", ".gitattributes")
"""What git reads in every directory of a project."""

_LOOK_S = 10.0
_SPECIAL = str.maketrans({char: f"\\{char}" for char in "\\*?[]"})


def shown(path: str) -> str:
    """A path as text that can be written down: bytes that are no UTF-8 are told by escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def is_there(place: Path) -> bool:
    """Whether there is a directory by this very path, which is a real one."""
    return place.is_dir() and os.path.realpath(place) == str(place)


def work_tree(project: Path, warnings: list[str]) -> tuple[Path, Path | None]:
    """The top of the repository that the project is in, with that one's own directory; the project
    itself when it is in none."""
    for top in (project, *project.parents):
        found = git_directory(top, warnings)
        if found is not None:
            if top != project and _leaves_out(top, project):
                break
            return top, found
    return project, None


def _leaves_out(top: Path, project: Path) -> bool:
    """Whether the repository around a project has nothing to do with it."""
    from alhena.system.ignore import IgnoreRules

    return IgnoreRules(top).ignored(project, True)


class Found(msgspec.Struct, frozen=True):
    """A file or symlink of so many bytes; a negative number when it cannot be kept. `private`: only
    its owner may read it."""

    size: int
    private: bool = False


UNREADABLE = Found(-1)


def found(top: Path, name: bytes) -> Found | None:
    """What there is of a name below `top`; None when there is nothing, or a directory."""
    path = os.path.join(os.fsencode(top), name)
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return UNREADABLE
    if stat.S_ISLNK(status.st_mode):
        return Found(status.st_size)
    if stat.S_ISDIR(status.st_mode):
        return None
    if not stat.S_ISREG(status.st_mode) or not os.access(path, os.R_OK):
        return UNREADABLE
    return Found(status.st_size, private=not status.st_mode & (stat.S_IRWXG | stat.S_IRWXO))


def ordinary(project: Path, path: str) -> bool:
    """Whether git can keep a path at all: it is not behind a symlink, and not in a `.git`."""
    if ".git" in path.lower().split("/"):
        return False
    parent = os.path.dirname(os.path.join(project, path))
    return os.path.realpath(parent) == parent


def below(prefix: str, line: str) -> str:
    """A rule of an ignore file in the directory `prefix`, as one of a file at the top says it."""
    rule = line.rstrip("\r")
    if not prefix or not rule.strip() or rule.startswith("#"):
        return rule
    sign = "!" if rule.startswith("!") else ""
    pattern = rule.removeprefix("!")
    anchored = "/" in pattern.rstrip().rstrip("/")
    middle = "" if anchored else "**/"
    return f"{sign}/{prefix.translate(_SPECIAL)}{middle}{pattern.removeprefix('/')}"


def rule_of(directory: str) -> tuple[str, ...]:
    """The rule by which a directory (with a slash at its end, below the top) is ignored; none for a
    name that no rule can say."""
    return () if "\n" in directory else (f"/{directory.translate(_SPECIAL)}",)


def trouble(error: OSError, path: Path) -> CheckpointError:
    """What the system said about a place where checkpoints are kept or files come from."""
    place = Path(os.fsdecode(error.filename or path))
    if isinstance(error, NotADirectoryError):  # what is none is one of those around it
        place = next((each for each in (place, *place.parents) if each.is_file()), place)
    return CheckpointError(
        f"{printable(place)}: {error.strerror or error}.",
        remedy="Checkpoints need this place: move away what is in its way, or make room there.",
    )


def require_readable(paths: Iterable[Path]) -> None:
    """Raises CheckpointError for a path at which reading would wait for somebody: a FIFO or a
    terminal in the place of a file of rules."""
    for path in paths:
        if _waits(path):
            raise CheckpointError(
                f"{printable(path)} is no regular file, and git would wait for it for ever.",
                remedy="Remove it.",
            )


def _waits(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):  # there is none, or git is told why it cannot be read
        return False
    return stat.S_ISFIFO(mode) or (stat.S_ISCHR(mode) and os.path.realpath(path) != os.devnull)


def refuse_blocking(top: Path, obstacles: set[Path]) -> None:
    """Looks through a project for what git may be waiting for. Raises CheckpointError; what was
    found is among the `obstacles` then, so that it need not be looked for again."""
    deadline = time.monotonic() + _LOOK_S
    for directory, names, files in os.walk(top):
        names[:] = [name for name in names if name != ".git"]
        found = [Path(directory, name) for name in RULES if name in files]
        obstacles.update(filter(_waits, found))
        require_readable(found)
        if time.monotonic() > deadline:
            return
