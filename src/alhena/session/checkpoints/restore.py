"""Restores files to a snapshot, each atomically and through no symlink; finds the turn to undo.

The present files are saved first, so that a restore can be undone. Everything needed of git is read
before the first file changes. A file that no longer has its saved content is left.
"""

import os
import stat
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import msgspec

from alhena.session.checkpoints.git import BlobContents, content_name
from alhena.session.checkpoints.records import (
    Checkpoint,
    CheckpointError,
    LostSnapshotError,
    path_text,
)
from alhena.session.checkpoints.repository import (
    EXECUTABLE,
    SYMLINK,
    Change,
    Notes,
    Repository,
    Snapshot,
    TreeEntry,
)
from alhena.system.errors import FileError
from alhena.system.files import CREATE, open_directory, open_real, read_whole, temporary_name
from alhena.system.replacement import open_made, remove_directory, replace_file

LIMIT = 1 << 30
DAMAGED = "its content in the checkpoint is damaged"


class Goal(msgspec.Struct, frozen=True):
    """The snapshot of the checkpoint `start` is to be restored. With the tree `end` ("": unknown),
    only what changed between the two is reverted; files changed since are left. `later`: for paths
    that only later calls named, the tree of the first checkpoint that names them."""

    start: Checkpoint
    later: Mapping[str, str] = {}
    end: str = ""


class Restoration(msgspec.Struct, frozen=True):
    """Restored files. `before`: the tree of the project before; `left`: paths left unchanged, with
    reasons."""

    before: str
    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    left: tuple[tuple[str, str], ...] = ()


class Plan(msgspec.Struct, frozen=True):
    """Changes of the files of `project`, the snapshot `before` them, its target's notes and
    `contents`, and the files left, with reasons."""

    project: Path
    before: Snapshot
    changes: Sequence[Change]
    left: list[tuple[str, str]]
    notes: Notes
    contents: BlobContents


def restore(
    repository: Repository,
    goal: Goal,
    record: Callable[[Snapshot], object] = lambda _before: None,
) -> Restoration:
    """Restores files. `record` gets the snapshot of the present ones before the first change.
    Raises CheckpointError before it."""
    with repository.hold_lock(), ExitStack() as stack:
        plan = _plan(repository, goal, stack)
        if repository.cancellation.is_set():
            raise CheckpointError("interrupted; no file has changed.")
        record(plan.before)
        return _carry_out(plan)


def _plan(repository: Repository, goal: Goal, stack: ExitStack) -> Plan:
    start, end = goal.start.commit_hash, goal.end
    notes = repository.notes(goal.start.notes)
    named = {*goal.start.paths, *goal.later}
    before = repository.snapshot(named)
    reverted = repository.changes(end or before.tree, start)
    hidden = {
        path
        for path, change in reverted.items()
        if change.old is None and os.path.lexists(repository.project / path)
    }
    if hidden:  # maybe ignored or large now; save them before they are overwritten
        before = repository.snapshot(named | hidden)
        reverted = repository.changes(end or before.tree, start)
    since = repository.changes(end, before.tree) if end else {}
    changes: list[Change] = []
    left: list[tuple[str, str]] = []
    for path, change in sorted(reverted.items()):
        if path in since:
            if since[path].new != change.new:
                left.append((path, "it has changed since that turn"))
        elif change.new is None and path not in goal.start.paths and notes.omits(path):
            try:
                changes += _change_to_later(repository, goal, before.tree, path)
            except LostSnapshotError as error:
                left.append((path, error.message.removesuffix(".")))
        else:
            changes.append(change)
    if repository.warning:
        raise LostSnapshotError(f"{repository.warning}.")
    names = {each.name for change in changes for each in (change.old, change.new) if each}
    contents = stack.enter_context(repository.contents(names))
    return Plan(repository.project, before, changes, left, notes, contents)


def _change_to_later(
    repository: Repository, goal: Goal, before: str, path: str
) -> tuple[Change, ...]:
    """The change of a path that the goal's snapshot omits to the first snapshot that names it."""
    if path not in goal.later:
        raise LostSnapshotError("the checkpoint leaves it out")
    change = repository.changes(before, goal.later[path]).get(path)
    return () if change is None else (change,)


def _carry_out(plan: Plan) -> Restoration:
    """Removes files, then writes files; leaves those that fail."""
    left = list(plan.left)
    done: dict[bool, list[str]] = {True: [], False: []}
    # removing first frees disk space and names
    for change in sorted(plan.changes, key=lambda change: change.new is not None):
        path = plan.project / change.path
        try:
            _require_readable(change, plan.contents)
            if change.new is None:
                _remove(path, change.old)
                _remove_empty(path.parent, plan.project)
            else:
                private = path_text(change.path) in plan.notes.private
                _write(path, change.old, change.new, plan.contents, private=private)
        except FileNotFoundError:
            if change.new is not None:
                left.append((change.path, "it was removed meanwhile"))
        except (FileError, OSError) as error:
            left.append((change.path, _reason(error)))
        else:
            done[change.new is not None].append(change.path)
    return Restoration(plan.before.tree, tuple(done[True]), tuple(done[False]), tuple(left))


def _require_readable(change: Change, contents: BlobContents) -> None:
    if change.old is not None and change.old.name not in contents:
        raise FileError("its present content cannot be saved")
    if change.new is not None and change.new.name not in contents:
        raise FileError(DAMAGED)


@contextmanager
def _directory_handle(path: Path) -> Generator[int]:
    """A directory, reached through no symlink."""
    directory = open_directory(path)
    try:
        yield directory
    finally:
        os.close(directory)


def _remove(path: Path, now: TreeEntry | None) -> None:
    with _directory_handle(path.parent) as directory:
        _require_same(path, now)
        os.unlink(path.name, dir_fd=directory)


def _remove_empty(directory: Path, project: Path) -> None:
    """Removes a directory of the project and those around it as far as they are empty."""
    with suppress(OSError):  # not empty
        while directory != project:
            with _directory_handle(directory.parent) as parent:
                os.rmdir(directory.name, dir_fd=parent)
            directory = directory.parent


def _write(
    path: Path, now: TreeEntry | None, wanted: TreeEntry, contents: BlobContents, *, private: bool
) -> None:
    _remove_empty(path, path.parent)  # an empty directory may be in the way
    data = contents[wanted.name]
    if wanted.mode == SYMLINK:
        _link(path, now, data)
        return
    if now is not None and now.mode == SYMLINK:
        _remove(path, now)
        try:
            _replace(path, None, data, private=private)
        except BaseException:
            _link(path, None, contents[now.name])
            raise
    elif now is None or now.name != wanted.name:
        _replace(path, now, data, private=private)
    _set_executable(path, executable=wanted.mode == EXECUTABLE)


def _replace(path: Path, now: TreeEntry | None, data: bytes, *, private: bool) -> None:
    _require_same(path, now)
    if now is not None:
        replace_file(path, data, expected=read_whole(path, LIMIT)[1], limit=LIMIT)
    elif not private:
        replace_file(path, data, expected=None, limit=LIMIT)
    else:  # others must not read it even for a moment, so the mode comes before the content
        made: list[Path] = []
        directory = open_made(path.parent, made)
        try:
            os.close(os.open(path.name, CREATE, 0o600, dir_fd=directory))
            try:
                replace_file(path, data, expected=read_whole(path, LIMIT)[1], limit=LIMIT)
            except BaseException:
                os.unlink(path.name, dir_fd=directory)
                for each in reversed(made):
                    remove_directory(each)
                raise
        finally:
            os.close(directory)


def _link(path: Path, now: TreeEntry | None, target: bytes) -> None:
    directory = open_made(path.parent, [])
    try:
        _require_same(path, now)
        temporary = temporary_name()
        os.symlink(target, os.fsencode(temporary), dir_fd=directory)
        try:
            os.rename(temporary, path.name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            os.unlink(temporary, dir_fd=directory)
            raise
    finally:
        os.close(directory)


def _require_same(path: Path, now: TreeEntry | None) -> None:
    """Raises FileError unless a path has its saved content. Raises OSError."""
    if now is None:
        if os.path.lexists(path):
            raise FileError("it was created meanwhile")
        return
    if now.mode == SYMLINK:
        data = os.readlink(os.fsencode(path))
    elif stat.S_ISLNK(path.lstat().st_mode):
        raise FileError("it has become a symlink meanwhile")
    else:
        data, _ = read_whole(path, LIMIT)
    if content_name(data) != now.name:
        raise FileError("it has changed meanwhile")


def _set_executable(path: Path, *, executable: bool) -> None:
    """Makes a file executable for its readers, or for none."""
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


Named = tuple[str, Checkpoint]


class EditingTurn(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of a turn since its `first` checkpoint, called `name`: `goal` reverts them."""

    name: str
    first: Checkpoint
    goal: Goal


def last_turn(
    found: Sequence[Named], session_id: str, inherited: Collection[str] = ()
) -> EditingTurn | None:
    """The last turn of a session that changed files and is not undone. `found`: the project's
    checkpoints, oldest first; `inherited`: names of those that the session has from another one.
    After a restore, the turns before the restored checkpoint count."""
    stands: dict[str, str] = {}
    before: dict[str, dict[str, str]] = {}
    for name, checkpoint in found:
        if checkpoint.session_id != session_id and name not in inherited:
            continue
        prompt = checkpoint.prompt_id
        before[name] = dict(stands)
        if checkpoint.kind == "call":
            if prompt in stands:  # restoring this checkpoint leaves the first part of the turn
                before[name][prompt] = name
            stands[prompt] = ""
        elif checkpoint.under_way:  # the restore was interrupted and can be repeated
            continue
        elif checkpoint.undoes in stands:
            del stands[checkpoint.undoes]
        elif checkpoint.back_to in before:
            stands = dict(before[checkpoint.back_to])
    for prompt, cut in reversed(stands.items()):
        turn = _turn(found, prompt, cut)
        if turn is not None and turn.goal.end != turn.first.commit_hash:
            return turn
    return None


def later_trees(found: Iterable[Named], start: Checkpoint) -> dict[str, str]:
    """For paths that `start` does not name: the tree of the first of these checkpoints that names
    them."""
    later: dict[str, str] = {}
    for _, checkpoint in found:
        for path in checkpoint.paths:
            if path not in start.paths:
                later.setdefault(path, checkpoint.commit_hash)
    return later


def _turn(found: Sequence[Named], prompt: str, cut: str) -> EditingTurn | None:
    """Changes of a turn, up to the checkpoint `cut` if that was restored."""
    own = [
        number
        for number, (_, each) in enumerate(found)
        if each.kind == "call" and each.prompt_id == prompt
    ]
    if not own or not found[own[0]][1].commit_hash:
        return None
    name, first = found[own[0]]
    cut_at = next((one.commit_hash for at, one in found if at == cut), "")
    # The turn of a killed process ended before the next checkpoint.
    after = (one.commit_hash for _, one in found[own[-1] + 1 :])
    following = next(filter(None, after), "")
    goal = Goal(
        first,
        later_trees((found[number] for number in own[1:]), first),
        cut_at or first.after or following,
    )
    return EditingTurn(name=name, first=first, goal=goal)
