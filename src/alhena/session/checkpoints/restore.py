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
    SavedFile,
    path_text,
)
from alhena.session.checkpoints.repository import (
    Change,
    Notes,
    Repository,
    Snapshot,
    TreeEntry,
)
from alhena.session.checkpoints.saved import EXECUTABLE, LIMIT, SYMLINK
from alhena.system.errors import FileError
from alhena.system.files import CREATE, open_directory, open_real, read_whole, temporary_name
from alhena.system.replacement import open_made, remove_directory, replace_file

CHANGED = "it has changed since that turn"
DAMAGED = "its content in the checkpoint is damaged"


Saved = Mapping[str, SavedFile]


class Goal(msgspec.Struct, frozen=True):
    """The snapshot of the checkpoint `start` is to be restored, except for files that calls named:
    `saved` has their state, and `saved_later` that of those which the snapshot leaves out. A start
    without a tree has these files alone. With the tree `end` ("": unknown), only what changed
    between the two is reverted; files changed since are left; `ended` are named files at the end,
    as far as they are known. `later`: for paths that only later calls named, the tree of the first
    checkpoint that has them. `missing`: why files that commands changed cannot be restored."""

    start: Checkpoint
    later: Mapping[str, str] = {}
    end: str = ""
    saved: Saved = {}
    saved_later: Saved = {}
    ended: Saved = {}
    missing: str = ""


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
    with ExitStack() as stack:
        if goal.start.commit_hash:  # single files are saved and compared without git's index
            stack.enter_context(repository.hold_lock())
        plan = _plan(repository, goal, stack)
        if repository.cancellation.is_set():
            raise CheckpointError("interrupted; no file has changed.")
        record(plan.before)
        return _carry_out(plan)


def _plan(repository: Repository, goal: Goal, stack: ExitStack) -> Plan:
    if goal.start.commit_hash:
        before, notes, changes, left = _plan_all(repository, goal)
    else:
        before, notes, changes, left = _plan_saved(repository, goal)
    if goal.missing:
        left.append(("other files that commands changed", goal.missing))
    names = {each.name for change in changes for each in (change.old, change.new) if each}
    contents = stack.enter_context(repository.contents(names))
    return Plan(repository.project, before, changes, left, notes, contents)


_Left = list[tuple[str, str]]


def _plan_saved(repository: Repository, goal: Goal) -> tuple[Snapshot, Notes, list[Change], _Left]:
    """Plans the change of single files."""
    before = repository.save(sorted(goal.saved))
    changes: list[Change] = []
    left: _Left = []
    for path, wanted in sorted(goal.saved.items()):
        now = before.saved.get(path)
        end = goal.ended.get(path, now)
        if now is None:
            left.append((path, "its present content cannot be saved"))
        elif _entry(now) == _entry(wanted) or end == wanted:
            continue
        elif end is None or _entry(now) != _entry(end):
            left.append((path, CHANGED))
        else:
            changes.append(Change(path, _entry(now), _entry(wanted)))
    private = (path_text(path) for path, each in goal.saved.items() if each.private)
    return before, Notes(private=frozenset(private)), changes, left


def _plan_all(repository: Repository, goal: Goal) -> tuple[Snapshot, Notes, list[Change], _Left]:
    """Plans the change of all files."""
    end = goal.end
    notes = repository.notes(goal.start.notes)
    named = {*goal.start.forced, *goal.later, *goal.saved, *goal.saved_later}
    before = repository.snapshot(named)
    reverted = _compare_with_start(repository, goal, before.tree)
    hidden = {
        path
        for path, change in reverted.items()
        if change.old is None and os.path.lexists(repository.project / path)
    }
    if hidden:  # maybe ignored or large now; save them before they are overwritten
        before = repository.snapshot(named | hidden)
        reverted = _compare_with_start(repository, goal, before.tree)
    since = repository.changes(end, before.tree) if end else {}
    changes: list[Change] = []
    left: _Left = []
    for path, change in sorted(reverted.items()):
        if path in since:
            if since[path].new != change.new:
                left.append((path, CHANGED))
        elif (
            change.new is None
            and path not in goal.start.forced
            and path not in goal.saved
            and notes.omits(path)
        ):
            try:
                changes += _change_to_later(repository, goal, before.tree, path)
            except LostSnapshotError as error:
                left.append((path, error.message.removesuffix(".")))
        else:
            changes.append(change)
    if repository.warning:
        raise LostSnapshotError(f"{repository.warning}.")
    found = (*goal.saved.items(), *goal.saved_later.items())
    private = notes.private | {path_text(path) for path, each in found if each.private}
    return before, msgspec.structs.replace(notes, private=private), changes, left


def _compare_with_start(repository: Repository, goal: Goal, present: str) -> dict[str, Change]:
    """The changes from the end, or the present, to the start."""
    end = goal.end or present
    found = repository.changes(end, goal.start.commit_hash)
    ends = repository.entries(end, goal.saved)
    for path, file in goal.saved.items():
        old, new = ends.get(path), _entry(file)
        found.pop(path, None)
        if old != new:
            found[path] = Change(path, old, new)
    return found


def _entry(file: SavedFile) -> TreeEntry | None:
    return TreeEntry(file.mode, file.name) if file.mode else None


def _change_to_later(
    repository: Repository, goal: Goal, before: str, path: str
) -> tuple[Change, ...]:
    """The change of a path that the goal's snapshot omits to what later checkpoints have of it."""
    if path in goal.saved_later:
        old = repository.entries(before, [path]).get(path)
        new = _entry(goal.saved_later[path])
        return () if old == new else (Change(path, old, new),)
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
        if turn is not None and not _changed_nothing(turn.goal):
            return turn
    return None


def _changed_nothing(goal: Goal) -> bool:
    """True for a turn that is known to have left all files as they were."""
    if goal.end != goal.start.commit_hash or goal.missing:
        return False
    return all(goal.ended.get(path) == file for path, file in goal.saved.items())


def later_trees(found: Iterable[Named], start: Checkpoint) -> dict[str, str]:
    """For paths that `start` does not name: the tree of the first of these checkpoints that names
    them."""
    later: dict[str, str] = {}
    for _, checkpoint in found:
        for path in checkpoint.forced:
            if path not in start.forced:
                later.setdefault(path, checkpoint.commit_hash)
    return later


def first_saved(found: Iterable[Named]) -> dict[str, SavedFile]:
    """The first saved state of each file in these checkpoints."""
    saved: dict[str, SavedFile] = {}
    for _, checkpoint in found:
        saved = {**(checkpoint.saved or {}), **saved}
    return saved


def goal_from(name: str, start: Checkpoint, found: Sequence[Named]) -> Goal:
    """The goal of going back to a checkpoint. `found`: the project's, oldest first."""
    names = [each for each, _ in found]
    after = found[names.index(name) + 1 :] if name in names else ()
    calls = [(name, start), *(each for each in after if each[1].kind == "call")]
    if not start.commit_hash:
        complete = start.kind == "restore" or all(each.edits for _, each in calls)
        saved = first_saved([(name, start), *after])
        return Goal(start, saved=saved, missing="" if complete else NO_SNAPSHOT)
    turn = [each for each in calls if each[1].prompt_id == start.prompt_id]
    saved = first_saved(_until_command(turn))
    return Goal(start, later_trees(after, start), saved=saved, saved_later=first_saved(after))


NO_SNAPSHOT = "there is no snapshot from before that"


def _until_command(calls: Sequence[Named]) -> Sequence[Named]:
    """These calls up to the first that may change any file. Their snapshot may already have what
    they change, for no edit waits for it; the files that they name have been saved before."""
    edits = next((at for at, (_, each) in enumerate(calls) if not each.edits), len(calls))
    return calls[: edits + 1]


def _turn(found: Sequence[Named], prompt: str, cut: str) -> EditingTurn | None:
    """Changes of a turn, up to the checkpoint `cut` if that was restored."""
    own = [
        number
        for number, (_, each) in enumerate(found)
        if each.kind == "call" and each.prompt_id == prompt
    ]
    if not own:
        return None
    name, first = found[own[0]]
    calls = [found[number] for number in own]
    after = found[own[-1] + 1 :]
    # The turn of a killed process ended before the next checkpoint.
    ended = {**first_saved(after), **first.ended}
    end = first.after or next((one.commit_hash for _, one in after if one.commit_hash), "")
    if cut:
        at = next(number for number, (each, _) in enumerate(calls) if each == cut)
        ended, end = calls[at][1].saved or {}, calls[at][1].commit_hash
        calls = calls[:at]
    until = _until_command(calls)
    start = next((each for _, each in until if each.commit_hash), None)
    if start is None or all(each.edits for _, each in calls):
        bare = msgspec.structs.replace(first, commit_hash="", notes="")
        missing = "" if all(each.edits for _, each in calls) else NO_SNAPSHOT
        goal = Goal(bare, saved=first_saved(calls), ended=ended, missing=missing)
    else:
        goal = Goal(
            start,
            later_trees(calls, start),
            end,
            first_saved(until),
            first_saved(calls),
            ended,
        )
    return EditingTurn(name=name, first=first, goal=goal)
