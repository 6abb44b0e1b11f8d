"""Puts files back to a moment of the shadow repository, each in one step, and loses none.

What the files are before that is kept first, so that one can return from it, too. A file that is
then not what was kept is left alone, whoever has changed it.
"""

import os
import stat
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from hashlib import sha1
from pathlib import Path

import msgspec

from alhena.session.errors import CheckpointError
from alhena.session.shadow import ALL, Change, ShadowRepository, Snapshot
from alhena.session.shadow_files import shown
from alhena.system.durable import CREATE
from alhena.system.errors import FileError, MissingFileError
from alhena.system.files import Snapshot as FileState
from alhena.system.files import open_directory, open_real, read_whole
from alhena.system.leftovers import temporary_name
from alhena.system.replacement import replace_file

NOTHING = "000000"
SYMLINK = "120000"
EXECUTABLE = "100755"
_LIMIT = 1 << 30


class Restoration(msgspec.Struct, frozen=True):
    """What was put back. `before` is the moment before that; `left` are paths that were left as
    they are, each with the reason."""

    before: Snapshot
    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    left: tuple[tuple[str, str], ...] = ()


class _ChangedError(FileError):
    """A file is not what was kept of it."""


def restore(
    repository: ShadowRepository,
    moment: Snapshot,
    forced: Iterable[str] = (),
    kept: Callable[[Snapshot], object] = lambda _before: None,
) -> Restoration:
    """Makes the files what they were at a moment. `forced` are paths that may be ignored and
    count all the same; `kept` is told of the moment before, ahead of the first change. Raises
    CheckpointError, and then not all of it may be done: it can be said again."""
    own = frozenset(forced)
    with repository.alone():
        if not repository.known(moment.tree):
            raise CheckpointError(
                f"the files of the checkpoint ({moment.tree[:12]}) are not kept any more."
            )
        before = repository.taken(own)
        changes = repository.changes(before.tree, moment.tree)
        hidden = [
            change.path
            for change in changes
            if change.old_mode == NOTHING and os.path.lexists(repository.project / change.path)
        ]
        if hidden:  # they are there, though ignored or large: nothing is written over unkept
            before = repository.taken((*own, *hidden))
            changes = repository.changes(before.tree, moment.tree)
        kept(before)
        return _Restorer(repository, before, own).restored(changes, moment)


class _Restorer:
    def __init__(
        self, repository: ShadowRepository, before: Snapshot, forced: frozenset[str]
    ) -> None:
        self._repository = repository
        self._project = repository.project
        self._forced = forced
        self._before = before
        self._private: frozenset[str] = frozenset()
        self._written: list[str] = []
        self._removed: list[str] = []
        self._left: list[tuple[str, str]] = []

    def restored(self, changes: Sequence[Change], moment: Snapshot) -> Restoration:
        self._private = frozenset(moment.private)
        gone = [change for change in changes if change.new_mode == NOTHING]
        back = [change for change in changes if change.new_mode != NOTHING]
        in_the_way = _in_the_way(gone, back)
        self._remove([change for change in gone if change.path in in_the_way])
        self._write(back)
        rest = [change for change in gone if change.path not in in_the_way]
        rules = [change for change in rest if change.path.rpartition("/")[2] == ".gitignore"]
        self._remove(rules)
        self._remove(self._made_since([each for each in rest if each not in rules], moment))
        return Restoration(
            self._before, tuple(self._written), tuple(self._removed), tuple(self._left)
        )

    def _made_since(self, gone: Sequence[Change], moment: Snapshot) -> list[Change]:
        """What was not there then. What was left out then may have been: it stays."""
        if not gone:
            return []
        paths = frozenset(change.path for change in gone)
        unknown = self._repository.ignored(paths) - self._forced
        unknown |= {path for path in paths if shown(path) in moment.left_out}
        self._left += ((path, "the checkpoint leaves it out") for path in sorted(unknown))
        return [change for change in gone if change.path not in unknown]

    def _write(self, changes: Sequence[Change]) -> None:
        fresh = [change for change in changes if change.old != change.new or _is_link(change)]
        contents = self._repository.git.blobs([change.new for change in fresh])
        for change, data in zip(fresh, contents, strict=True):
            self._attempt(change, data)
        for change in changes:
            if change.old == change.new and not _is_link(change):
                self._attempt(change, None)

    def _attempt(self, change: Change, data: bytes | None) -> None:
        path = self._project / change.path
        try:
            if change.new_mode == SYMLINK:
                self._link(path, data or b"", change)
            else:
                if change.old_mode == SYMLINK:
                    _require_same(path, change)
                    path.unlink()
                if data is not None:
                    self._replace(path, data, change)
                _set_executable(path, executable=change.new_mode == EXECUTABLE)
        except (FileError, OSError) as error:
            self._left.append((change.path, _reason(error)))
        else:
            self._written.append(change.path)

    def _replace(self, path: Path, data: bytes, change: Change) -> None:
        try:
            current, found = read_whole(path, _LIMIT)
        except MissingFileError:
            found = None
        else:
            _require_content(current, change)
        if found is None and ({ALL, shown(change.path)} & self._private):
            found = _new_private(path)
        replace_file(path, data, expected=found, limit=_LIMIT)

    def _link(self, path: Path, target: bytes, change: Change) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        directory = open_directory(path.parent)
        try:
            _require_same(path, change)
            temporary = temporary_name()
            os.symlink(target, os.fsencode(temporary), dir_fd=directory)
            try:
                os.rename(temporary, path.name, src_dir_fd=directory, dst_dir_fd=directory)
            except BaseException:
                os.unlink(temporary, dir_fd=directory)
                raise
        finally:
            os.close(directory)

    def _remove(self, changes: Sequence[Change]) -> None:
        for change in changes:
            path = self._project / change.path
            try:
                directory = open_directory(path.parent)
                try:
                    _require_same(path, change)
                    os.unlink(path.name, dir_fd=directory)
                finally:
                    os.close(directory)
            except FileNotFoundError:
                continue
            except (FileError, OSError) as error:
                self._left.append((change.path, _reason(error)))
                continue
            self._removed.append(change.path)
            self._remove_empty(path.parent)

    def _remove_empty(self, directory: Path) -> None:
        with suppress(OSError):  # something is in it
            while directory != self._project:
                directory.rmdir()
                directory = directory.parent


def _new_private(path: Path) -> FileState:
    """Makes an empty file that only its owner may read, so that what takes its place is, too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    directory = open_directory(path.parent)
    try:
        os.close(os.open(path.name, CREATE, 0o600, dir_fd=directory))
    finally:
        os.close(directory)
    return read_whole(path, _LIMIT)[1]


def _in_the_way(gone: Sequence[Change], back: Sequence[Change]) -> frozenset[str]:
    """Files where directories have to be, and files in directories where files have to be."""
    files = {change.path for change in back}
    directories = {parent for path in files for parent in _parents(path)}
    return frozenset(
        change.path
        for change in gone
        if change.path in directories or any(each in files for each in _parents(change.path))
    )


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _is_link(change: Change) -> bool:
    return SYMLINK in (change.old_mode, change.new_mode) and change.old_mode != change.new_mode


def _require_same(path: Path, change: Change) -> None:
    """Raises FileError unless a path holds what was kept of it. Raises OSError."""
    if change.old_mode == NOTHING:
        if os.path.lexists(path):
            raise _ChangedError("it has been made meanwhile")
        return
    if change.old_mode == SYMLINK:
        _require_content(os.readlink(os.fsencode(path)), change)
        return
    if stat.S_ISLNK(path.lstat().st_mode):
        raise _ChangedError("it has become a symlink meanwhile")
    data, _ = read_whole(path, _LIMIT)
    _require_content(data, change)


def _require_content(data: bytes, change: Change) -> None:
    # The name of a content, as git has it.
    name = sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
    if name != change.old:
        raise _ChangedError("it has changed meanwhile")


def _set_executable(path: Path, *, executable: bool) -> None:
    descriptor = open_real(path)
    try:
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        wanted = mode | (mode & 0o444) >> 2 if executable else mode & ~0o111
        if wanted != mode:
            os.fchmod(descriptor, wanted)
    finally:
        os.close(descriptor)


def _reason(error: Exception) -> str:
    if isinstance(error, FileError):
        return error.message
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
