"""Snapshots and restores for tests of the checkpoint repository."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from alhena.session.checkpoints.records import Checkpoint
from alhena.session.checkpoints.repository import (
    Repository,
    RepositorySettings,
    Snapshot,
    SnapshotLimits,
)
from alhena.session.checkpoints.restore import Goal, Restoration, restore

EMPTY = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""The tree without files."""


def repository(
    project: Path,
    limits: SnapshotLimits | None = None,
    environ: Mapping[str, str] | None = None,
    **options: Any,
) -> Repository:
    directory = Path(os.environ["HOME"], ".gemini", "history", "p")
    around = RepositorySettings(limits=limits or SnapshotLimits())
    return Repository(directory, project, environ or os.environ, around, **options)


def goal(snapshot: Snapshot, *named: str, later: Mapping[str, str] | None = None) -> Goal:
    start = Checkpoint(commit_hash=snapshot.tree, notes=snapshot.notes, paths=named)
    return Goal(start, later or {})


def undo(project: Path, snapshot: Snapshot, end: str) -> Restoration:
    start = Checkpoint(commit_hash=snapshot.tree, notes=snapshot.notes)
    return restore(repository(project), Goal(start, {}, end))


def git(cwd: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=u", "-c", "user.email=u@example.org")
    command = ["git", *identity, "-c", "protocol.file.allow=always", *arguments]
    return subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True).stdout


def put(path: Path, content: str | bytes = "x\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def back(project: Path, snapshot: Snapshot, *named: str) -> Restoration:
    return restore(repository(project), goal(snapshot, *named))


def save_snapshot(project: Path, *named: str, **options: Any) -> Snapshot:
    return take_snapshot(repository(project, **options), *named)


def take_snapshot(repository: Repository, *named: str) -> Snapshot:
    with repository.hold_lock():
        return repository.snapshot(named)


def paths(project: Path, tree: str) -> tuple[str, ...]:
    return tuple(repository(project).changes(EMPTY, tree))


def state(project: Path) -> dict[str, tuple[str, bytes]]:
    """Everything in a project but `.git`: kind and mode, content."""
    found: dict[str, tuple[str, bytes]] = {}
    for directory, names, files in os.walk(project):
        names[:] = [name for name in names if name != ".git"]
        for name in (*files, *(each for each in names if Path(directory, each).is_symlink())):
            path = Path(directory, name)
            if path.is_symlink():
                found[str(path.relative_to(project))] = ("link", os.readlink(os.fsencode(path)))
            else:
                mode = "exec" if path.stat().st_mode & 0o100 else "file"
                found[str(path.relative_to(project))] = (mode, path.read_bytes())
    return found
