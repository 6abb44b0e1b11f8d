"""The worktree of a task, or a copy of its directory where there is no git."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import msgspec

from alhena.agent.subagents.worktree import (
    Worktree,
    alone,
    forget_worktrees,
    make_worktree,
    patch_since,
    run_git,
)
from alhena.batch.tasks import QueuedTask
from alhena.errors import InputError

_NOTE = "tree.json"
_PLACE = "tree"
_LOCK = "tree.lock"


class TaskTree(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The files of a task: those below `top`, of which `cwd` is its directory. `base` is the commit
    or tree they began with, "" if git is missing; `repository` is None for a copy, which has a
    repository of its own in `store`."""

    top: str
    cwd: str
    base: str
    repository: str | None = None
    store: str = ""

    def patch(self, folder: Path, environ: Mapping[str, str]) -> str | None:
        """The changes as a patch, for the task with this folder. Raises InputError."""
        if not self.base:
            return None
        top, chosen = Path(self.top), self._choose_store()
        index = ("rev-parse", "--git-path", "index.lock")
        with alone(folder / _LOCK) as held:
            # Left by a git that was killed; one that lives has the lock.
            name = run_git(top, environ, *index, chosen=chosen)
            Path(self.top, os.fsdecode(name.removesuffix(b"\n"))).unlink(missing_ok=True)
            return patch_since(self.base, top, environ, chosen, held)

    def _choose_store(self) -> Mapping[str, str]:
        """Variables of git that name the repository beside a copy."""
        return {} if self.repository else {"GIT_DIR": self.store, "GIT_WORK_TREE": self.top}


def open_tree(
    folder: Path, task: QueuedTask, cwd: Path, environ: Mapping[str, str]
) -> tuple[TaskTree, bool]:
    """The files of a task whose folder in the run directory this is; True if they were made now.
    Raises InputError."""
    with alone(folder / _LOCK) as held:  # an earlier attempt, or its git, may still be at it
        found = find_earlier_tree(folder)
        if found is not None:
            return found, False
        _remove(folder, environ)
        try:
            made = _create_tree(folder / _PLACE, task, cwd, environ, held)
        except OSError as error:
            raise InputError(f"{cwd} cannot be copied: {error}") from error
        part = folder / f"{_NOTE}.part"
        part.write_bytes(msgspec.json.encode(made))
        part.replace(folder / _NOTE)
        return made, True


def remove_tree(folder: Path, environ: Mapping[str, str]) -> None:
    """Removes what `open_tree` made, if anything. Raises InputError."""
    with alone(folder / _LOCK):
        _remove(folder, environ)


def find_earlier_tree(folder: Path) -> TaskTree | None:
    """The files that an earlier attempt at a task left, if any."""
    found = _read_note(folder)
    return found if found is not None and os.path.isdir(found.top) else None


def _read_note(folder: Path) -> TaskTree | None:
    try:
        return msgspec.json.decode((folder / _NOTE).read_bytes(), type=TaskTree)
    except (OSError, msgspec.DecodeError):
        return None


def _remove(folder: Path, environ: Mapping[str, str]) -> None:
    found = _read_note(folder)
    shutil.rmtree(folder / _PLACE, ignore_errors=True)
    if found is not None and found.repository and os.path.isdir(found.repository):
        forget_worktrees(Path(found.repository), environ, found.top.__eq__)
    (folder / _NOTE).unlink(missing_ok=True)


def _create_tree(
    place: Path, task: QueuedTask, cwd: Path, environ: Mapping[str, str], held: tuple[int, ...]
) -> TaskTree:
    place.mkdir(parents=True)
    place = Path(os.path.realpath(place))
    repository, _, commit = (task.repo or "").partition("#")
    start = Path(repository) if repository else cwd
    try:
        run_git(start, environ, "rev-parse", "--verify", "HEAD^{commit}")
    except InputError:
        if task.repo:
            raise
        return _copy_directory(cwd, place, environ)
    tree = make_worktree(start, environ, place, commit or "HEAD", lock=True, held=held)
    return TaskTree(
        top=str(tree.top),
        cwd=str(_inner(tree, cwd) if task.cwd else tree.cwd),
        base=tree.base,
        repository=str(tree.repository),
    )


def _inner(tree: Worktree, cwd: Path) -> Path:
    """The directory in a worktree that corresponds to `cwd`; its top for one outside, and where the
    repository is bare."""
    if not os.path.lexists(tree.repository / ".git"):
        return tree.top
    inner = os.path.relpath(os.path.realpath(cwd), tree.repository)
    return tree.top if inner.startswith("..") else Path(os.path.normpath(tree.top / inner))


def _copy_directory(cwd: Path, place: Path, environ: Mapping[str, str]) -> TaskTree:
    """A copy of a directory, with a repository beside it that knows how it began."""
    top, store = place / (cwd.name or "copy"), place / "base.git"
    skipped = shutil.ignore_patterns("*.run") if (place.is_relative_to(cwd)) else None
    shutil.copytree(cwd, top, symlinks=True, ignore=skipped)
    try:
        run_git(top, environ, "init", "--quiet", "--bare", "--template=", str(store))
        chosen = {"GIT_DIR": str(store), "GIT_WORK_TREE": str(top)}
        run_git(top, environ, "add", "-A", chosen=chosen)
        base = run_git(top, environ, "write-tree", chosen=chosen).decode().strip()
    except InputError:
        base = ""
    return TaskTree(top=str(top), cwd=str(top), base=base, store=str(store))
