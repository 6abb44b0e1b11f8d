"""What a shadow repository has lost by damage: found when it is needed, and kept anew where a file
still has it.

git writes no object of which it believes that it is there. So what is damaged is put in its place
here, in the form of a loose object, to which git turns as well where a pack is damaged.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from alhena.session.loose import discard_loose, put_loose
from alhena.session.moments import FULL_NAME, SYMLINK, content_name, items, object_name
from alhena.session.shadow_git import ShadowGit
from alhena.session.shadow_trees import TREE, Entry, made_of, unreadable
from alhena.system.errors import FileError
from alhena.system.files import read_whole

LIMIT = 1 << 30


class HeldFile(msgspec.Struct, frozen=True):
    """A file or symlink that had the content `name` when it was last looked at."""

    path: Path
    mode: str
    name: str


def keep_anew(git: ShadowGit, files: Iterable[HeldFile], wanted: Iterable[str]) -> frozenset[str]:
    """Keeps anew what is lost of the contents of files; what is lost for good of that, and of the
    contents `wanted`. Raises CheckpointError."""
    held = tuple(files)
    lost = unreadable(git, (*wanted, *(file.name for file in held)))
    for file in held:
        if file.name in lost:
            _keep(git, file)
    lost = unreadable(git, lost)
    for name in lost:
        discard_loose(git.place.git_dir, name)
    return lost


def keep_trees_anew(git: ShadowGit, prefix: str) -> None:
    """Keeps anew what is lost of the trees of the index, in the directory `prefix` (with a slash at
    its end, "" for all). Raises CheckpointError."""
    start = os.fsencode(prefix)
    inside = ((path, entry) for path, entry in _index(git) if path.startswith(start))
    made = made_of((path.removeprefix(start), entry) for path, entry in inside)
    for name in unreadable(git, made, TREE):
        with suppress(OSError):  # it stays lost
            put_loose(git.place.git_dir, made[name], TREE)


def keep_index_anew(git: ShadowGit, prefix: str) -> None:
    """As both of these, for what files have of the contents of the index, and for its trees.
    Raises CheckpointError."""
    top = git.place.work_tree
    listed = _index(git)
    held = (HeldFile(top / os.fsdecode(path), each.mode, each.content) for path, each in listed)
    keep_anew(git, held, ())
    keep_trees_anew(git, prefix)


def _index(git: ShadowGit) -> list[tuple[bytes, Entry]]:
    found: list[tuple[bytes, Entry]] = []
    for item in items(git.run(("ls-files", "-s", "-z"))):
        head, _, path = item.partition(b"\t")
        mode, _, rest = head.decode("ascii", "replace").partition(" ")
        found.append((path, Entry(mode, object_name(rest[:FULL_NAME], "ls-files"))))
    return found


def _keep(git: ShadowGit, file: HeldFile) -> None:
    try:
        if file.mode == SYMLINK:
            data = os.readlink(os.fsencode(file.path))
        else:
            data = read_whole(file.path, LIMIT)[0]
        if content_name(data) == file.name:
            put_loose(git.place.git_dir, data, "blob")
    except (FileError, OSError):  # it stays lost
        return
