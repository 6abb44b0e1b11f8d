"""What the shadow repository keeps: moments of a project's files, and what differs between two."""

from collections.abc import Callable, Collection
from hashlib import sha1
from pathlib import Path

import msgspec

from alhena.session.errors import GitFailedError

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
    """What a snapshot takes in. A file of more than `file_bytes` is left out; when `files` files or
    `bytes` bytes are new at once, there is no snapshot."""

    file_bytes: int = 50 << 20
    files: int = 200_000
    bytes: int = 2 << 30


def _nothing() -> None:
    """Nobody wants to know."""


class Around(msgspec.Struct, frozen=True, kw_only=True):
    """What a shadow repository has to know besides its own files. `others` are places of which no
    program is taken for git; `apart`, below its own, has a repository of its own. `obstacles` are
    rule files that git has waited for, of which every repository that knows of them takes care.
    Another process at work on the same repository is waited for `patience_s`; `waits` is called
    when that takes a while."""

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
    """What git lists with `-z`."""
    return said.split(b"\0")[:-1]


def is_name(said: str) -> bool:
    """Whether it can be the whole name of an object."""
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
    """Whether a path is one of these, or below a directory (with a slash at its end) of them."""
    if path in places or ANY in places:
        return True
    end = path.find("/")
    while end >= 0:
        if path[: end + 1] in places:
            return True
        end = path.find("/", end + 1)
    return False
