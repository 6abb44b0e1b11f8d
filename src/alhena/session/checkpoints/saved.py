"""Saves single files in the private repository of a project, without git: a few milliseconds.

Each content is an object of git's own format with a ref, so that git keeps and packs it like the
rest. The checkpoint is written first: whoever deletes unneeded objects then knows these.
"""

import os
import stat
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from alhena.session.checkpoints.git import content_name
from alhena.session.checkpoints.records import SavedFile, sync_file
from alhena.system.files import CREATE

REFS = "refs/alhena/"
SYMLINK, EXECUTABLE, REGULAR = "120000", "100755", "100644"
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
LIMIT = 1 << 30
_COMPRESSED = 1 << 16
"""Larger contents are stored as they are, which is faster; git compresses them later."""


class ReadFiles(msgspec.Struct, frozen=True):
    """Files of a project by relative path, and contents by name. Paths that cannot be saved are
    missing: they lead through a symlink or into a `.git`, or are unreadable, large or special."""

    files: Mapping[str, SavedFile]
    contents: Mapping[str, bytes]


def read_files(project: Path, paths: Iterable[str]) -> ReadFiles:
    """Reads files as they are now."""
    files: dict[str, SavedFile] = {}
    contents: dict[str, bytes] = {}
    for path in paths:
        if not is_savable(project, path):
            continue
        with suppress(OSError):
            file, data = _read(project / path)
            if file is not None:
                files[path] = file
                if file.mode:
                    contents[file.name] = data
    return ReadFiles(files, contents)


def store(git_dir: Path, contents: Mapping[str, bytes]) -> tuple[Path, ...]:
    """Stores contents by name; returns their files, which are not synced. Raises OSError."""
    stored: list[Path] = []
    git_dir.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    (git_dir / "objects").mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, data in contents.items():
        path = git_dir / "objects" / name[:2] / name[2:]
        try:
            os.utime(path)  # so that it counts as new
        except FileNotFoundError:
            level = 1 if len(data) <= _COMPRESSED else 0
            _create(git_dir, path, zlib.compress(b"blob %d\0" % len(data) + data, level))
        _create(git_dir, git_dir / REFS / name, name.encode() + b"\n")
        stored.append(path)
    return tuple(stored)


def sync_files(paths: Iterable[Path]) -> None:
    """Syncs files to disk as far as that is possible."""
    for path in paths:
        with suppress(OSError):
            sync_file(path)


def is_savable(project: Path, path: str) -> bool:
    """True unless a path leads through a symlink or into a `.git`, which git never saves."""
    if ".git" in path.lower().split("/"):
        return False
    parent = os.path.dirname(os.path.join(project, path))
    return os.path.realpath(parent) == parent


def _read(path: Path) -> tuple[SavedFile | None, bytes]:
    """A file and its content; None for one that cannot be saved. Raises OSError."""
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return SavedFile(), b""
    if stat.S_ISLNK(status.st_mode):
        data = os.readlink(os.fsencode(path))
        return SavedFile(SYMLINK, content_name(data)), data
    if stat.S_ISDIR(status.st_mode):
        return SavedFile(), b""
    if not stat.S_ISREG(status.st_mode) or status.st_size > LIMIT:
        return None, b""
    with open(os.open(path, _READ), "rb") as file:
        data = file.read(LIMIT + 1)
    if len(data) > LIMIT:
        return None, b""
    mode = EXECUTABLE if status.st_mode & 0o100 else REGULAR
    return SavedFile(mode, content_name(data), private=not status.st_mode & 0o077), data


def _create(git_dir: Path, path: Path, data: bytes) -> None:
    """Creates a small file atomically; git removes what a killed process leaves of it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = git_dir / "objects" / f"tmp_obj_{os.urandom(8).hex()}"
    try:
        with open(os.open(fresh, CREATE, 0o600), "wb") as file:
            file.write(data)
        fresh.rename(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
