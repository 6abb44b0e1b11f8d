"""What the shadow repository keeps: moments of a project's files, and what differs between two."""

import os
from collections.abc import Collection
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
_SUBMODULE = "160000"
_MODES = frozenset({NOTHING, SYMLINK, EXECUTABLE, _SUBMODULE, "100644", "100664", "040000"})


class Limits(msgspec.Struct, frozen=True):
    """What a snapshot takes in. A file of more than `file_bytes` is left out; when `files` files or
    `bytes` bytes are new at once, there is no snapshot."""

    file_bytes: int = 50 << 20
    files: int = 200_000
    bytes: int = 2 << 30


class Around(msgspec.Struct, frozen=True, kw_only=True):
    """What a shadow repository has to know besides its own files. `others` are places of which no
    program is taken for git; `apart`, below its own, has a repository of its own. `obstacles` are
    rule files that git has waited for, of which every repository that knows of them takes care."""

    limits: Limits = Limits()
    others: tuple[Path, ...] = ()
    apart: Path | None = None
    obstacles: set[Path] = msgspec.field(default_factory=set[Path])


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


def content_name(data: bytes) -> str:
    """The name that git gives to the content of a file."""
    return sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def items(said: bytes) -> list[bytes]:
    """What git lists with `-z`."""
    return said.split(b"\0")[:-1]


def object_name(said: str, command: str) -> str:
    """The name of an object that git was to say. Raises GitFailedError."""
    if len(said) != FULL_NAME or not all(char in "0123456789abcdef" for char in said):
        raise GitFailedError(
            f"git {command} has given no answer of git's: {said[:60]!r}.",
            remedy="See whether `git --version` works; which git is found depends on PATH.",
        )
    return said


def changes_of(said: bytes) -> tuple[Change, ...]:
    """What `git diff-tree -r -z --raw` says. What is neither a file nor a symlink (a submodule that
    another program's snapshot has) is not spoken of. Raises GitFailedError."""
    words = items(said)
    found: list[Change] = []
    try:
        for head, path in zip(words[::2], words[1::2], strict=True):
            modes = head.decode("ascii").removeprefix(":").split()
            change = Change(os.fsdecode(path), *modes[:4])
            if not {change.old_mode, change.new_mode} <= _MODES:
                raise ValueError(modes)
            if _SUBMODULE not in (change.old_mode, change.new_mode):
                found.append(change)
    except (TypeError, ValueError) as error:
        raise GitFailedError(f"git diff-tree has given no answer of git's: {said[:60]!r}.") from (
            error
        )
    return tuple(found)


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
