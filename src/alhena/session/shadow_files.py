"""A project's files as the shadow repository sees them, and the moments it keeps."""

import os
import stat
import time
from collections.abc import Callable, Collection, Iterable
from hashlib import sha1
from pathlib import Path

import msgspec

from alhena.session.errors import CheckpointError, GitFailedError
from alhena.system.errors import printable
from alhena.system.ignore import git_directory

RULES = (".gitignore", ".gitattributes")
"""Files that git reads in every directory of a project."""

_LOOK_S = 10.0
_SPECIAL = str.maketrans({char: f"\\{char}" for char in "\\*?[]"})


def shown(path: str) -> str:
    """A path as text that can be written down: bytes that are no UTF-8 are told by escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def is_there(place: Path) -> bool:
    """True when there is a directory by this very path, which is a real one."""
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
    """True when the repository around a project has nothing to do with it."""
    from alhena.system.ignore import IgnoreRules

    return IgnoreRules(top).ignored(project, True)


class Found(msgspec.Struct, frozen=True):
    """A file or symlink of so many bytes; a negative number when it cannot be kept. `private`: only
    its owner may read it."""

    size: int
    private: bool = False


UNREADABLE = Found(-1)


def found(top: Path, name: bytes) -> Found | None:
    """Looks up a name below `top`; None if it is missing or a directory."""
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
    """True when git can keep a path at all: it is not behind a symlink, and not in a `.git`."""
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
    """Converts an OSError about checkpoint storage or project files."""
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


FULL_NAME = 40
ALL = "*"
"""In the place of private files: too many to be named."""

ANY = "/"
"""Among what was left out: some of it could not be named, so it may have been anything."""

EMPTY = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""The tree of no files."""

NO_NAMES = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
"""The list of nothing; it need not be kept."""

NOTHING = "000000"
SYMLINK = "120000"
EXECUTABLE = "100755"
SUBMODULE = "160000"
DIRECTORY = "40000"


class Limits(msgspec.Struct, frozen=True):
    """Limits of a snapshot. Files larger than `file_bytes` are left out; more than `files` new
    files or `bytes` new bytes at once prevent the snapshot."""

    file_bytes: int = 50 << 20
    files: int = 200_000
    bytes: int = 2 << 30


def _nothing() -> None:
    """Nobody wants to know."""


class Around(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a shadow repository. Programs in `others` are never used as git; `apart`, a
    directory below the project, has its own repository. `obstacles`: rule files at which git hung;
    shared by all repositories. `patience_s`: seconds to wait for another process that uses the
    repository; `waits` is called when that takes long."""

    limits: Limits = Limits()
    others: tuple[Path, ...] = ()
    apart: Path | None = None
    obstacles: set[Path] = msgspec.field(default_factory=set[Path])
    patience_s: float = 60.0
    waits: Callable[[], object] = _nothing


class Snapshot(msgspec.Struct, frozen=True):
    """A moment: its tree, what was left out because it is large or cannot be read (a directory that
    could not be listed ends in a slash), and the files that only their owner may read (`ALL`: too
    many to be named). Paths are relative to the project, as `shown`. `ignored` names the list of
    what was there and ignored, "" where there was nothing of the kind; `bare` that of directories
    that were there without a file that is kept, "" where it is not known."""

    tree: str
    left_out: tuple[str, ...] = ()
    private: tuple[str, ...] = ()
    ignored: str = ""
    bare: str = ""


class Change(msgspec.Struct, frozen=True):
    """One path between two moments: modes as git has them ("000000" for nothing), names of
    contents."""

    path: str
    old_mode: str
    new_mode: str
    old: str
    new: str


def content_name(data: bytes, kind: str = "blob") -> str:
    """The name that git gives to the content of a file, or of an object of another kind."""
    head = b"%s %d\0" % (kind.encode(), len(data))
    return sha1(head + data, usedforsecurity=False).hexdigest()


def items(said: bytes) -> list[bytes]:
    """Splits the output of a git command with `-z`."""
    return said.split(b"\0")[:-1]


def is_name(said: str) -> bool:
    """True when it can be the whole name of an object."""
    return len(said) == FULL_NAME and all(char in "0123456789abcdef" for char in said)


def object_name(said: str, command: str) -> str:
    """The name of an object that git was to say. Raises GitFailedError."""
    if not is_name(said):
        raise GitFailedError(
            f"git {command} has given no answer of git's: {said[:60]!r}.",
            remedy="See whether `git --version` works; which git is found depends on PATH.",
        )
    return said


def within(path: str, places: Collection[str]) -> bool:
    """True when a path is one of these, or below a directory (with a slash at its end) of them."""
    if path in places or ANY in places:
        return True
    end = path.find("/")
    while end >= 0:
        if path[: end + 1] in places:
            return True
        end = path.find("/", end + 1)
    return False
