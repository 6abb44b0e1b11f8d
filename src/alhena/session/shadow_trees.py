"""The trees and objects of a shadow repository, read one by one; damage found when it matters.

git ends at the first tree that it cannot read, and takes one for another where their files were
mixed up. Here each is looked at by its checksum.

git writes no object of which it believes that it is there. So what is damaged is put in its place
here, in the form of a loose object, to which git turns as well where a pack is damaged.

An object's name is the checksum of what its file holds unpacked: kind, size and content.
"""

import os
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from alhena.session.errors import GitFailedError
from alhena.session.loose import discard_loose, is_loose_and_whole, loose_object, put_loose
from alhena.session.shadow_files import (
    DIRECTORY,
    EMPTY,
    FULL_NAME,
    NOTHING,
    SUBMODULE,
    SYMLINK,
    Change,
    content_name,
    items,
    object_name,
)
from alhena.session.shadow_git import ShadowGit
from alhena.system.errors import FileError
from alhena.system.files import read_whole

TREE = "tree"
_MODES = frozenset({DIRECTORY, SUBMODULE, "100644", "100664", "100755", "120000"})
_NO_NAMES = frozenset({b"", b".", b"..", b".git"})
_NO_CONTENT = "0" * FULL_NAME


class Entry(msgspec.Struct, frozen=True):
    """An entry of a tree: git's mode and the object name."""

    mode: str
    content: str


NONE = Entry(NOTHING, _NO_CONTENT)
Tree = dict[bytes, Entry]


class Difference(msgspec.Struct, frozen=True):
    """The difference of two snapshots, of files and symlinks only. The contents of the directories
    `lost` (with trailing slash; "" for all) are unknown because a tree is damaged."""

    changes: tuple[Change, ...]
    lost: frozenset[str] = frozenset()

    def hides(self, path: str) -> bool:
        """True when a path is, or is in, a directory that is lost."""
        return any(f"{path}/".startswith(each) for each in self.lost)


def difference(git: ShadowGit, old: str, new: str) -> Difference:
    """Compares two trees or commits. Raises CheckpointError."""
    changes: list[Change] = []
    lost: set[str] = set()
    level = [("", _tree_of(git, old), _tree_of(git, new))]
    while level:
        known = trees(git, {name for _, *both in level for name in both})
        deeper: list[tuple[str, str, str]] = []
        for prefix, *both in level:
            was, now = (known[name] for name in both)
            if was is None or now is None:
                lost.add(prefix)
                continue
            for name in was.keys() | now.keys():
                before, after = was.get(name, NONE), now.get(name, NONE)
                if before == after:
                    continue
                path = prefix + os.fsdecode(name)
                if DIRECTORY in (before.mode, after.mode):
                    deeper.append((f"{path}/", _below(before), _below(after)))
                before, after = _file(before), _file(after)
                if before != after and SUBMODULE not in (before.mode, after.mode):
                    modes = (before.mode, after.mode)
                    changes.append(Change(path, *modes, before.content, after.content))
        level = deeper
    found = Difference((), frozenset(lost))
    kept = (each for each in changes if not found.hides(each.path))
    return Difference(tuple(sorted(kept, key=_by_path)), found.lost)


def damaged(git: ShadowGit, tree: str, paths: Iterable[str]) -> frozenset[str]:
    """Those of the paths at which a tree has a file that cannot be read from it. Raises
    CheckpointError."""
    lost: set[str] = set()
    contents: dict[str, str] = {}
    level = [(tree, path, path) for path in paths]
    while level:
        known = trees(git, {name for name, _, _ in level})
        deeper: list[tuple[str, str, str]] = []
        for name, path, rest in level:
            there = known[name]
            if there is None:
                lost.add(path)
                continue
            first, _, rest = rest.partition("/")
            entry = there.get(os.fsencode(first), NONE)
            if rest and entry.mode == DIRECTORY:
                deeper.append((entry.content, path, rest))
            elif not rest and _file(entry) != NONE and entry.mode != SUBMODULE:
                contents[path] = entry.content
        level = deeper
    git_dir = git.place.git_dir
    rest = {name for name in contents.values() if not is_loose_and_whole(git_dir, name)}
    gone = unreadable(git, rest) if rest else ()
    return frozenset(lost).union(path for path, name in contents.items() if name in gone)


def unreadable(git: ShadowGit, names: Iterable[str], kind: str = "blob") -> frozenset[str]:
    """Those of the objects that are lost. Raises CheckpointError."""
    chosen = sorted(set(names))
    contents = zip(chosen, git.objects(chosen, kind), strict=True)
    return frozenset(name for name, data in contents if data is None)


def trees(git: ShadowGit, names: Collection[str]) -> dict[str, Tree | None]:
    """Trees by their names, None for one that is damaged or not there. Raises CheckpointError."""
    found: dict[str, Tree | None] = {}
    packed: list[str] = []
    for name in names:
        data = b"" if name == EMPTY else loose_object(git.place.git_dir, name, TREE)
        if data is None:
            packed.append(name)
        else:
            found[name] = _parsed(data)
    for name, data in zip(packed, git.objects(packed, TREE), strict=True):
        found[name] = None if data is None else _parsed(data)
    return found


def made_of(files: Iterable[tuple[bytes, Entry]]) -> dict[str, bytes]:
    """The trees of which git makes a directory with these files, by their names."""
    entries: dict[bytes, list[tuple[bytes, Entry]]] = {b"": []}
    for path, entry in files:
        parent, _, name = path.rpartition(b"/")
        entries.setdefault(parent, []).append((name, entry))
        while parent:
            parent = parent.rpartition(b"/")[0]
            entries.setdefault(parent, [])
    found: dict[str, bytes] = {}
    inner_first = sorted(entries, key=lambda path: path.count(b"/") if path else -1, reverse=True)
    for path in inner_first:
        data = _written(entries[path])
        name = content_name(data, TREE)
        found[name] = data
        if path:
            parent, _, last = path.rpartition(b"/")
            entries[parent].append((last, Entry(DIRECTORY, name)))
    return found


def _written(entries: Sequence[tuple[bytes, Entry]]) -> bytes:
    ordered = sorted(entries, key=lambda each: each[0] + b"/" * (each[1].mode == DIRECTORY))
    return b"".join(
        b"%s %s\0%s" % (entry.mode.encode(), name, bytes.fromhex(entry.content))
        for name, entry in ordered
    )


def _parsed(data: bytes) -> Tree | None:
    """Parses a tree object; None if it is malformed."""
    found: Tree = {}
    start = 0
    while start < len(data):
        end = data.find(b"\0", start)
        mode, space, name = data[start:end].partition(b" ")
        content = data[end + 1 : end + 1 + FULL_NAME // 2]
        start = end + 1 + FULL_NAME // 2
        entry = Entry(mode.decode("ascii", "replace"), content.hex())
        if end < 0 or not space or start > len(data) or entry.mode not in _MODES:
            return None
        if b"/" in name or name.lower() in _NO_NAMES:
            return None
        found[name] = entry
    return found


def _tree_of(git: ShadowGit, name: str) -> str:
    """The tree of a moment, which may be a commit."""
    if name == EMPTY or loose_object(git.place.git_dir, name, TREE) is not None:
        return name
    try:
        if git.text("cat-file", "-t", name) == "commit":
            return git.text("rev-parse", "--verify", f"{name}^{{tree}}")
    except GitFailedError:  # it is seen to be lost when it is read
        return name
    return name


def _below(entry: Entry) -> str:
    return entry.content if entry.mode == DIRECTORY else EMPTY


def _file(entry: Entry) -> Entry:
    return NONE if entry.mode == DIRECTORY else entry


def _by_path(change: Change) -> bytes:
    return os.fsencode(change.path)


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
