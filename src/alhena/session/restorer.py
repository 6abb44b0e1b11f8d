"""Writes and removes files of a moment of the shadow repository, each in one step and through no
symlink."""

import os
import stat
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from alhena.session.errors import CheckpointError
from alhena.session.shadow import ShadowRepository
from alhena.session.shadow_files import (
    ALL,
    EXECUTABLE,
    NOTHING,
    SYMLINK,
    Change,
    Snapshot,
    content_name,
    shown,
    trouble,
    within,
)
from alhena.system.errors import FileError, MissingFileError
from alhena.system.files import CREATE, open_directory, open_real, read_whole
from alhena.system.files import Snapshot as FileState
from alhena.system.replacement import open_made, remove_directory, replace_file, temporary_name

LIMIT = 1 << 30


class ChangedError(FileError):
    """A file is not what was kept of it."""


@contextmanager
def opened(path: Path) -> Generator[int]:
    """A directory, reached through no symlink."""
    directory = open_directory(path)
    try:
        yield directory
    finally:
        os.close(directory)


@contextmanager
def made_directory(path: Path) -> Generator[int]:
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


@contextmanager
def without_link(path: Path, change: Change) -> Generator[None]:
    """Takes away the symlink in whose place a file comes; it is back when none does."""
    if change.old_mode != SYMLINK:
        yield
        return
    with opened(path.parent) as directory:
        require_same(path, change)
        target = os.readlink(os.fsencode(path))
        os.unlink(path.name, dir_fd=directory)
        try:
            yield
        except BaseException:
            with suppress(FileExistsError):
                os.symlink(target, os.fsencode(path.name), dir_fd=directory)
            raise


@contextmanager
def new_private(path: Path) -> Generator[FileState]:
    """Makes an empty file that only its owner may read, so that what takes its place in the block
    is, too."""
    with made_directory(path.parent) as directory:
        os.close(os.open(path.name, CREATE, 0o600, dir_fd=directory))
        try:
            yield read_whole(path, LIMIT)[1]
        except BaseException:
            with suppress(FileNotFoundError):
                if not os.stat(path.name, dir_fd=directory, follow_symlinks=False).st_size:
                    os.unlink(path.name, dir_fd=directory)
            raise


def remove_empty(path: Path) -> None:
    """Removes an empty directory. Raises FileError, OSError."""
    with opened(path.parent) as directory:
        os.rmdir(path.name, dir_fd=directory)


def require_same(path: Path, change: Change) -> None:
    """Raises FileError unless a path holds what was kept of it. Raises OSError."""
    if change.old_mode == NOTHING:
        if os.path.lexists(path):
            raise ChangedError("it has been made meanwhile")
        return
    if change.old_mode == SYMLINK:
        require_content(os.readlink(os.fsencode(path)), change)
        return
    if stat.S_ISLNK(path.lstat().st_mode):
        raise ChangedError("it has become a symlink meanwhile")
    data, _ = read_whole(path, LIMIT)
    require_content(data, change)


def require_content(data: bytes, change: Change) -> None:
    """Raises FileError unless this is what was kept."""
    if content_name(data) != change.old:
        raise ChangedError("it has changed meanwhile")


def set_executable(path: Path, *, executable: bool) -> None:
    """Makes a file executable for those who may read it, or for nobody. Raises FileError,
    OSError."""
    descriptor = open_real(path)
    try:
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        wanted = mode | (mode & 0o444) >> 2 if executable else mode & ~0o111
        if wanted != mode:
            os.fchmod(descriptor, wanted)
    finally:
        os.close(descriptor)


_RULES = (".gitignore", ".geminiignore")
DAMAGED = "what it was is damaged in the checkpoint"
_NO_LIST = "the list of what the checkpoint leaves out is damaged"
_NO_RULES = "what it was left out by could not be put back"


class Restoration(msgspec.Struct, frozen=True):
    """Restored files. `before`: the snapshot taken before; `left`: paths left unchanged, with
    reasons. Paths outside the project are absolute."""

    before: Snapshot
    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    left: tuple[tuple[str, str], ...] = ()


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
    `before`. What git failed at, once it was begun, is its `failure`."""

    def __init__(self, repository: ShadowRepository, before: Snapshot, target: Target) -> None:
        self._repository = repository
        self._project = repository.project
        self._target = target
        self._before = before
        self._private = frozenset(target.moment.private)
        self._written: list[str] = []
        self._removed: list[str] = []
        self._left: list[tuple[str, str]] = []
        self._vanished: set[str] = set()
        self._emptied: dict[Path, None] = {}
        self.failure: CheckpointError | None = None

    def leave(self, paths: Iterable[str], reason: str) -> None:
        """Has these named as left."""
        self._left += ((path, reason) for path in paths)

    def restored(self, changes: Sequence[Change]) -> Restoration:
        """Makes the changes. What cannot be made is left, each for itself."""
        self._make(changes)
        with self._failing(()):
            self._remove_emptied()
        return Restoration(
            self._before, tuple(self._written), tuple(self._removed), tuple(self._left)
        )

    @contextmanager
    def _failing(self, changes: Iterable[Change]) -> Generator[None]:
        """On a git failure in the block, marks the remaining changes as left."""
        try:
            yield
        except (CheckpointError, OSError) as error:
            failure = error
            if isinstance(failure, OSError):
                failure = trouble(failure, self._repository.directory)
            self.failure = self.failure or failure
            known = {
                *self._written,
                *self._removed,
                *self._vanished,
                *(each for each, _ in self._left),
            }
            rest = [each.path for each in changes if each.path not in known]
            self.leave(rest, failure.message.removesuffix("."))

    def _make(self, changes: Sequence[Change]) -> None:
        """Makes the changes: clears the way, writes rule files, removes files, writes the rest."""
        gone = [change for change in changes if change.new_mode == NOTHING]
        back = [change for change in changes if change.new_mode != NOTHING]
        in_the_way = _in_the_way(gone, back)
        self._remove([change for change in gone if change.path in in_the_way])
        self._make_way([change for change in back if change.old_mode == NOTHING])
        before = len(self._left)
        rules = [change for change in back if _is_rules(change)]
        with self._failing(rules):
            self._write(rules)
        missing = {f"{path.rpartition('/')[0]}/" for path, _ in self._left[before:]}
        back = [change for change in back if not _is_rules(change)]
        rest = [change for change in gone if change.path not in in_the_way]
        with self._failing(rest):
            back += self._take_away(rest, missing)
        with self._failing(back):
            self._write(back)

    def _take_away(self, gone: Sequence[Change], missing: Collection[str]) -> list[Change]:
        """Removes what was not there then. What was left out then, maybe by rules that are
        `missing` in these directories, may have been: it stays, or comes back from where it was
        kept first, to which the changes that are returned belong."""
        if not gone:
            return []
        moment, forced = self._target.moment, self._target.forced
        paths = frozenset(change.path for change in gone)
        passed = self._repository.listed(moment.ignored)
        there = {path for path in paths if within(path, passed or ())} - forced
        there |= {path for path in paths if within(shown(path), moment.left_out)}
        known = paths - there if passed is not None else paths & forced
        rest = [change for change in gone if change.path in known]
        rules = [change for change in rest if _is_rules(change)]
        self._remove(rules)  # they did not hold then
        rest = [change for change in rest if change not in rules]
        there |= self._repository.ignored(change.path for change in rest) - forced
        doubtful = {path for path in paths if passed is None or within(path, missing)}
        doubtful -= forced | there | {change.path for change in rules}
        there |= doubtful & self._target.later.keys()
        doubtful -= there
        self.leave(sorted(doubtful), _NO_LIST if passed is None else _NO_RULES)
        self._remove([each for each in rest if each.path not in there | doubtful])
        return self._go_to_first([change for change in gone if change.path in there])

    def _go_to_first(self, changes: Sequence[Change]) -> list[Change]:
        later = self._target.later
        self.leave(
            sorted(each.path for each in changes if each.path not in later),
            "the checkpoint leaves it out",
        )
        back: list[Change] = []
        for tree in sorted({later[each.path] for each in changes if each.path in later}):
            paths = {each.path for each in changes if later.get(each.path) == tree}
            if not self._repository.known(tree):
                self.leave(sorted(paths), "what it was is not kept any more")
                continue
            found = self._repository.difference(self._before.tree, tree)
            self.leave(sorted(filter(found.hides, paths)), DAMAGED)
            wanted = [change for change in found.changes if change.path in paths]
            self._remove([change for change in wanted if change.new_mode == NOTHING])
            back += (change for change in wanted if change.new_mode != NOTHING)
        return back

    def _write(self, changes: Sequence[Change]) -> None:
        fresh = [change for change in changes if change.old != change.new or _is_link(change)]
        contents = self._repository.git.objects([change.new for change in fresh])
        for change, data in zip(fresh, contents, strict=True):
            if data is None:
                self.leave((change.path,), DAMAGED)
            else:
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
                with without_link(path, change):
                    if data is not None:
                        self._replace(path, data, change)
                set_executable(path, executable=change.new_mode == EXECUTABLE)
        except (FileError, OSError) as error:
            self._left.append((change.path, _reason(error)))
        else:
            self._written.append(change.path)

    def _replace(self, path: Path, data: bytes, change: Change) -> None:
        try:
            current, found = read_whole(path, LIMIT)
        except MissingFileError:
            found = None
        else:
            require_content(current, change)
        if found is None and ({ALL, shown(change.path)} & self._private):
            with new_private(path) as made:
                replace_file(path, data, expected=made, limit=LIMIT)
        else:
            replace_file(path, data, expected=found, limit=LIMIT)

    def _link(self, path: Path, target: bytes, change: Change) -> None:
        with made_directory(path.parent) as directory:
            require_same(path, change)
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
                with opened(path.parent) as directory:
                    require_same(path, change)
                    os.unlink(path.name, dir_fd=directory)
            except FileNotFoundError:
                self._vanished.add(change.path)
                continue
            except (FileError, OSError) as error:
                self._left.append((change.path, _reason(error)))
                continue
            self._removed.append(change.path)
            self._emptied[path.parent] = None

    def _make_way(self, back: Sequence[Change]) -> None:
        """Removes the empty directories in whose places files come."""
        places = {self._project / change.path for change in back}
        for each in (*self._emptied, *places):
            directory = each
            with suppress(FileError, OSError):
                while not places.isdisjoint((directory, *directory.parents)):
                    remove_empty(directory)
                    directory = directory.parent

    def _remove_emptied(self) -> None:
        """Removes the directories that are empty now, but those that were there without a file."""
        moment = self._target.moment
        if not (self._emptied and moment.bare):
            return
        bare = self._repository.listed(moment.bare)
        ignored = self._repository.listed(moment.ignored)
        if bare is None or ignored is None:  # nobody knows which were there
            return
        there = bare | ignored
        for each in self._emptied:
            directory = each
            with suppress(FileError, OSError):  # something is in it
                while directory != self._project:
                    if within(f"{directory.relative_to(self._project)}/", there):
                        break
                    remove_empty(directory)
                    directory = directory.parent


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


def _is_rules(change: Change) -> bool:
    return change.path.rpartition("/")[2] in _RULES


def _is_link(change: Change) -> bool:
    return SYMLINK in (change.old_mode, change.new_mode) and change.old_mode != change.new_mode


def _reason(error: Exception) -> str:
    if isinstance(error, FileError):
        return error.message
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
