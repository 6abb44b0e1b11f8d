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

from alhena.session.checkpoints.git import Contents, content_name
from alhena.session.checkpoints.records import (
    Checkpoint,
    CheckpointError,
    LostSnapshotError,
    RootSnapshot,
    shown,
    trouble,
)
from alhena.session.checkpoints.repository import (
    EXECUTABLE,
    SYMLINK,
    Change,
    Entry,
    Notes,
    Repository,
    Snapshot,
)
from alhena.system.errors import FileError
from alhena.system.files import CREATE, open_directory, open_real, read_whole, temporary_name
from alhena.system.replacement import open_made, remove_directory, replace_file

LIMIT = 1 << 30
DAMAGED = "its content in the checkpoint is damaged"


class Goal(msgspec.Struct, frozen=True):
    """Goal for one root: restore the snapshot `start`. With the tree `end` ("": unknown), only what
    changed between the two is reverted; files changed since are left. `later`: for paths that only
    later calls named, the tree of the first checkpoint that names them."""

    start: RootSnapshot
    later: Mapping[str, str] = {}
    end: str = ""


class Step(msgspec.Struct, frozen=True):
    """A goal for the files of a repository. A `further` root is left if it is not available, and
    created if it is missing."""

    repository: Repository
    goal: Goal
    further: bool = False


class Restoration(msgspec.Struct, frozen=True):
    """Restored files. `before`: the tree of the project before; `left`: paths left unchanged, with
    reasons. Paths outside the project are absolute."""

    before: str
    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    left: tuple[tuple[str, str], ...] = ()


class Plan(msgspec.Struct, frozen=True):
    """Changes of a step, the snapshot `before` them, its target's notes and `contents`, and the
    files left, with reasons."""

    step: Step
    before: Snapshot
    changes: Sequence[Change]
    left: list[tuple[str, str]]
    notes: Notes
    contents: Contents

    @property
    def project(self) -> Path:
        """The root's directory."""
        return self.step.repository.project


def restore(
    steps: Sequence[Step], record: Callable[[Sequence[Plan]], object] = lambda _plans: None
) -> tuple[tuple[Path, Restoration], ...]:
    """Carries out the steps; returns the result of each root. `record` is called before the first
    change. A root is left if its snapshot is lost, or it is a further one and not available. Files
    of nested roots belong to the inner one. Raises CheckpointError before the first change, also
    when all roots would be left."""
    left: list[tuple[Path, Restoration]] = []
    failures: list[CheckpointError] = []
    plans: list[Plan] = []
    with ExitStack() as stack:
        for step in steps:
            repository = step.repository
            try:
                if step.further:
                    _require_directory(repository.project)
                stack.enter_context(repository.locked())
                plans.append(_plan(step, _inner(repository.project, steps), stack))
            except CheckpointError as error:
                spared = step.further or isinstance(error, LostSnapshotError)
                if not spared or repository.cancellation.is_set():
                    raise
                failures.append(error)
                reason = error.message.removesuffix(".")
                left.append((repository.project, Restoration("", left=(("", reason),))))
        if any(step.repository.cancellation.is_set() for step in steps):
            raise CheckpointError("interrupted; no file has changed.")
        if failures and not plans:
            raise failures[0]
        record(plans)
        return (*((plan.project, _carry_out(plan)) for plan in plans), *left)


def _plan(step: Step, inner: Collection[str], stack: ExitStack) -> Plan:
    repository, goal = step.repository, step.goal
    start, end = goal.start.tree, goal.end
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
        if any(map(path.startswith, inner)):
            continue
        if path in since:
            if since[path].new != change.new:
                left.append((path, "it has changed since that turn"))
        elif change.new is None and path not in goal.start.paths and notes.omits(path):
            try:
                changes += _to_first_named(repository, goal, before.tree, path)
            except LostSnapshotError as error:
                left.append((path, error.message.removesuffix(".")))
        else:
            changes.append(change)
    if repository.warning:
        raise LostSnapshotError(f"{repository.warning}.")
    names = {each.name for change in changes for each in (change.old, change.new) if each}
    contents = stack.enter_context(repository.contents(names))
    return Plan(step, before, changes, left, notes, contents)


def _to_first_named(
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
                private = shown(change.path) in plan.notes.private
                _write(path, change.old, change.new, plan.contents, private=private)
        except FileNotFoundError:
            if change.new is not None:
                left.append((change.path, "it was removed meanwhile"))
        except (FileError, OSError) as error:
            left.append((change.path, _reason(error)))
        else:
            done[change.new is not None].append(change.path)
    return Restoration(plan.before.tree, tuple(done[True]), tuple(done[False]), tuple(left))


def _require_readable(change: Change, contents: Contents) -> None:
    if change.old is not None and change.old.name not in contents:
        raise FileError("its present content cannot be saved")
    if change.new is not None and change.new.name not in contents:
        raise FileError(DAMAGED)


@contextmanager
def _opened(path: Path) -> Generator[int]:
    """A directory, reached through no symlink."""
    directory = open_directory(path)
    try:
        yield directory
    finally:
        os.close(directory)


def _remove(path: Path, now: Entry | None) -> None:
    with _opened(path.parent) as directory:
        _require_same(path, now)
        os.unlink(path.name, dir_fd=directory)


def _remove_empty(directory: Path, project: Path) -> None:
    """Removes a directory of the project and those around it as far as they are empty."""
    with suppress(OSError):  # not empty
        while directory != project:
            with _opened(directory.parent) as parent:
                os.rmdir(directory.name, dir_fd=parent)
            directory = directory.parent


def _write(
    path: Path, now: Entry | None, wanted: Entry, contents: Contents, *, private: bool
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


def _replace(path: Path, now: Entry | None, data: bytes, *, private: bool) -> None:
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


def _link(path: Path, now: Entry | None, target: bytes) -> None:
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


def _require_same(path: Path, now: Entry | None) -> None:
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


def _inner(project: Path, steps: Sequence[Step]) -> tuple[str, ...]:
    """The roots of other steps inside `project`, relative to it, with a slash at the end."""
    others = (step.repository.project for step in steps)
    return tuple(
        f"{other.relative_to(project)}{os.sep}"
        for other in others
        if other != project and other.is_relative_to(project)
    )


def _require_directory(root: Path) -> None:
    """Creates a missing root. Raises CheckpointError unless it is a directory."""
    try:
        if not os.path.lexists(root):
            root.mkdir()
    except OSError as error:
        raise trouble(error, root) from error
    if not is_real_directory(root):
        raise CheckpointError("it is no directory any more.")


def is_real_directory(path: Path) -> bool:
    """True for a directory at a real path."""
    return path.is_dir() and os.path.realpath(path) == str(path)


Named = tuple[str, Checkpoint]


class EditingTurn(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of a turn since its `first` checkpoint, called `name`: `goals` revert them."""

    name: str
    first: Checkpoint
    goals: tuple[Goal, ...]


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
        if turn is not None and any(each.end != each.start.tree for each in turn.goals):
            return turn
    return None


def named_later(found: Iterable[Named], start: RootSnapshot) -> dict[str, str]:
    """For paths of a root that `start` does not name: the tree of the first of these checkpoints
    that names them."""
    later: dict[str, str] = {}
    for _, checkpoint in found:
        for snapshot in checkpoint.snapshots:
            if snapshot.root == start.root:
                for path in snapshot.paths:
                    if path not in start.paths:
                        later.setdefault(path, snapshot.tree)
    return later


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
    starts: dict[str, tuple[int, RootSnapshot]] = {}
    for count, number in enumerate(own, start=1):
        for snapshot in found[number][1].snapshots:
            starts.setdefault(snapshot.root, (count, snapshot))
    after = found[own[-1] + 1 :]
    ends = {each.root: each.tree for at, one in found if at == cut for each in one.snapshots}
    goals = tuple(
        Goal(
            start,
            named_later((found[number] for number in own[count:]), start),
            ends.get(root) or first.ended(root) or _next_tree(after, root),
        )
        for root, (count, start) in starts.items()
    )
    return EditingTurn(name=name, first=first, goals=goals)


def _next_tree(found: Iterable[Named], root: str) -> str:
    """The root's tree at the next checkpoint, "" if there is none: the turn of a killed process
    ended before that."""
    trees = (each.tree for _, one in found for each in one.snapshots if each.root == root)
    return next(trees, "")
