"""Writes and removes files of a moment of the shadow repository, each in one step."""

import os
import stat
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha1
from pathlib import Path

import msgspec

from alhena.session.moments import ALL, EXECUTABLE, NOTHING, SYMLINK, Change, Snapshot, within
from alhena.session.shadow import ShadowRepository
from alhena.session.shadow_files import shown
from alhena.system.durable import CREATE
from alhena.system.errors import FileError, MissingFileError
from alhena.system.files import Snapshot as FileState
from alhena.system.files import open_directory, open_real, read_whole
from alhena.system.leftovers import temporary_name
from alhena.system.replacement import open_made, remove_directory, replace_file

_LIMIT = 1 << 30
_RULES = (".gitignore", ".geminiignore")


class Restoration(msgspec.Struct, frozen=True):
    """What was put back. `before` is the moment before that; `left` are paths that were left as
    they are, each with the reason. Paths in another root than the project are absolute."""

    before: Snapshot
    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    left: tuple[tuple[str, str], ...] = ()


class _ChangedError(FileError):
    """A file is not what was kept of it."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The moment to go back to. `forced` are paths that it has although they may be ignored. Of
    ignored ones that only later calls have named, `later` says which moment (its tree) was the
    first to have them."""

    moment: Snapshot
    forced: frozenset[str] = frozenset()
    later: Mapping[str, str] = {}

    @property
    def named(self) -> frozenset[str]:
        """All paths that calls have named."""
        return self.forced | self.later.keys()


class Restorer:
    """Makes changes in the files of a repository, each unless the file is no more what was kept
    `before`."""

    def __init__(self, repository: ShadowRepository, before: Snapshot, target: Target) -> None:
        self._repository = repository
        self._project = repository.project
        self._target = target
        self._before = before
        self._private = frozenset(target.moment.private)
        self._written: list[str] = []
        self._removed: list[str] = []
        self._left: list[tuple[str, str]] = []

    def leave(self, paths: Iterable[str], reason: str) -> None:
        """Has these named as left."""
        self._left += ((path, reason) for path in paths)

    def restored(self, changes: Sequence[Change]) -> Restoration:
        """Makes the changes. Raises CheckpointError."""
        gone = [change for change in changes if change.new_mode == NOTHING]
        back = [change for change in changes if change.new_mode != NOTHING]
        in_the_way = _in_the_way(gone, back)
        self._remove([change for change in gone if change.path in in_the_way])
        self._write(back)
        self._take_away([change for change in gone if change.path not in in_the_way])
        return Restoration(
            self._before, tuple(self._written), tuple(self._removed), tuple(self._left)
        )

    def _take_away(self, gone: Sequence[Change]) -> None:
        """Removes what was not there then. What was left out then may have been: it stays, or comes
        back from where it was kept first."""
        if not gone:
            return
        moment, forced = self._target.moment, self._target.forced
        paths = frozenset(change.path for change in gone)
        there = self._repository.passed_over(moment, paths) - forced
        there |= {path for path in paths if within(shown(path), moment.left_out)}
        rest = [change for change in gone if change.path not in there]
        rules = [change for change in rest if change.path.rpartition("/")[2] in _RULES]
        self._remove(rules)  # they did not hold then
        rest = [change for change in rest if change not in rules]
        there |= self._repository.ignored(change.path for change in rest) - forced
        self._remove([change for change in rest if change.path not in there])
        self._go_to_first([change for change in gone if change.path in there])

    def _go_to_first(self, changes: Sequence[Change]) -> None:
        later = self._target.later
        self.leave(
            sorted(each.path for each in changes if each.path not in later),
            "the checkpoint leaves it out",
        )
        for tree in sorted({later[each.path] for each in changes if each.path in later}):
            paths = {each.path for each in changes if later.get(each.path) == tree}
            if not self._repository.known(tree):
                self.leave(sorted(paths), "what it was is not kept any more")
                continue
            found = self._repository.changes(self._before.tree, tree)
            wanted = [change for change in found if change.path in paths]
            self._remove([change for change in wanted if change.new_mode == NOTHING])
            self._write([change for change in wanted if change.new_mode != NOTHING])

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
                    with _directory(path.parent) as directory:
                        _require_same(path, change)
                        os.unlink(path.name, dir_fd=directory)
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
        with _made_directory(path.parent) as directory:
            _require_same(path, change)
            temporary = temporary_name()
            os.symlink(target, os.fsencode(temporary), dir_fd=directory)
            try:
                os.rename(temporary, path.name, src_dir_fd=directory, dst_dir_fd=directory)
            except BaseException:
                os.unlink(temporary, dir_fd=directory)
                raise

    def _remove(self, changes: Sequence[Change]) -> None:
        for change in changes:
            path = self._project / change.path
            try:
                with _directory(path.parent) as directory:
                    _require_same(path, change)
                    os.unlink(path.name, dir_fd=directory)
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


@contextmanager
def _directory(path: Path) -> Generator[int]:
    directory = open_directory(path)
    try:
        yield directory
    finally:
        os.close(directory)


@contextmanager
def _made_directory(path: Path) -> Generator[int]:
    """A directory that is made if need be, through no symlink, and taken away again on failure."""
    made: list[Path] = []
    try:
        directory = open_made(path, made)
        try:
            yield directory
        finally:
            os.close(directory)
    except BaseException:
        for each in reversed(made):
            remove_directory(each)
        raise


def _new_private(path: Path) -> FileState:
    """Makes an empty file that only its owner may read, so that what takes its place is, too."""
    with _made_directory(path.parent) as directory:
        os.close(os.open(path.name, CREATE, 0o600, dir_fd=directory))
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
