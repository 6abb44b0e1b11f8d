"""What tests of the shadow repository share."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from alhena.session.restorer import Restoration, Target
from alhena.session.restoring import Step, go_back
from alhena.session.shadow import ShadowRepository
from alhena.session.shadow_files import Around, Limits, Snapshot


def shadow(project: Path, limits: Limits | None = None) -> ShadowRepository:
    directory = Path(os.environ["HOME"], ".gemini", "history", "p")
    return ShadowRepository(
        directory, project, os.environ, around=Around(limits=limits or Limits())
    )


def restore(
    repository: ShadowRepository,
    target: Target,
    kept: Callable[[Snapshot], object] = lambda _before: None,
) -> Restoration:
    ((_, done),) = go_back((Step(repository, target),), lambda plans: kept(plans[0].before))
    return done


def undo(repository: ShadowRepository, target: Target, end: str) -> Restoration:
    ((_, done),) = go_back((Step(repository, target, end),))
    return done


def git(cwd: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=u", "-c", "user.email=u@example.org")
    command = ["git", *identity, "-c", "protocol.file.allow=always", *arguments]
    return subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True).stdout


def put(path: Path, content: str | bytes = "x\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def back(project: Path, moment: Snapshot, *forced: str) -> Restoration:
    return restore(shadow(project), Target(moment=moment, forced=frozenset(forced)))


def kept(project: Path, *forced: str) -> Snapshot:
    return shadow(project).snapshot(forced)


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
