"""What a shadow repository has lost by damage: found when it is needed, and kept anew where a file
still has it.

git writes no content of which it believes that it is there. So what is damaged is put in its place
here, in the form of a loose object, to which git turns as well where a pack is damaged.
"""

import os
import stat
import zlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from alhena.session.moments import SYMLINK, content_name, items
from alhena.session.shadow_git import ShadowGit
from alhena.system.durable import CREATE, synchronise
from alhena.system.errors import FileError
from alhena.system.files import read_whole

LIMIT = 1 << 30
_LEVEL = 1
_TEMPORARY = "tmp_obj_"  # git removes what is left of these


class HeldFile(msgspec.Struct, frozen=True):
    """A file or symlink that had the content `name` when it was last looked at."""

    path: Path
    mode: str
    name: str


def unreadable(git: ShadowGit, names: Iterable[str]) -> frozenset[str]:
    """Those of the contents that are lost. Raises CheckpointError."""
    chosen = sorted(set(names))
    return frozenset(
        name for name, data in zip(chosen, git.blobs(chosen), strict=True) if data is None
    )


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
        _discard(_loose(git, name))
    return lost


def indexed(git: ShadowGit) -> list[HeldFile]:
    """The files of the index. Raises CheckpointError."""
    found: list[HeldFile] = []
    for item in items(git.run(("ls-files", "-s", "-z"))):
        head, _, path = item.partition(b"\t")
        mode, name, *_ = head.decode("ascii", "replace").split()
        found.append(HeldFile(git.place.work_tree / os.fsdecode(path), mode, name))
    return found


def _keep(git: ShadowGit, file: HeldFile) -> None:
    try:
        if file.mode == SYMLINK:
            data = os.readlink(os.fsencode(file.path))
        else:
            data = read_whole(file.path, LIMIT)[0]
        if content_name(data) == file.name:
            _put(_loose(git, file.name), data)
    except (FileError, OSError):  # it stays lost
        return


def _put(path: Path, data: bytes) -> None:
    """Puts a content there in one step, whatever is there."""
    path.parent.mkdir(exist_ok=True)
    fresh = path.with_name(f"{_TEMPORARY}{os.urandom(4).hex()}")
    descriptor = os.open(fresh, CREATE, stat.S_IRUSR)
    try:
        with open(descriptor, "wb") as file:
            file.write(zlib.compress(b"blob %d\0" % len(data) + data, _LEVEL))
            file.flush()
            synchronise(file.fileno())
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def _discard(path: Path) -> None:
    """Removes an object that is damaged, so that git takes in its content when it sees that again.
    What cannot be read now may be whole."""
    with suppress(OSError):
        path.read_bytes()
        path.unlink()


def _loose(git: ShadowGit, name: str) -> Path:
    return git.place.git_dir / "objects" / name[:2] / name[2:]
