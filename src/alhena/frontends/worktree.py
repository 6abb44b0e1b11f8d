"""`--worktree NAME`: a git worktree in which a session works beside others."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from alhena.agent.subagents.worktree import run_git
from alhena.errors import InputError, UsageError
from alhena.system.workspace import current_directory

FOLDER = Path(".worktrees")
"""The folder of a repository's worktrees; git ignores it."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def enter_worktree(name: str, environ: Mapping[str, str]) -> Path:
    """Makes the directory in the worktree that is the working directory's counterpart the working
    directory, and returns it. A worktree that is missing is made at the last commit, on the branch
    `worktree-NAME`. Raises UsageError and InputError."""
    if not _NAME.fullmatch(name) or name.endswith((".", ".lock")) or ".." in name:
        raise UsageError(
            f"{name!r} cannot be the name of a worktree.",
            remedy="Use letters, digits, '-', '_' and '.'.",
        )
    cwd = current_directory()
    try:
        shown = run_git(cwd, environ, "rev-parse", "--show-toplevel", "--show-prefix")
        common = run_git(cwd, environ, "rev-parse", "--path-format=absolute", "--git-common-dir")
        run_git(cwd, environ, "rev-parse", "--verify", "HEAD^{commit}")
    except InputError as error:
        raise InputError(
            f"--worktree needs a git repository with a commit: {error}",
            remedy="Run `git init` and commit, or leave out --worktree.",
        ) from error
    prefix = os.fsdecode(shown).split("\n")[1]
    main = Path(os.fsdecode(common.removesuffix(b"\n"))).parent
    top = main / FOLDER / name
    if not (top / ".git").exists():
        _add(main, top, f"worktree-{name}", environ)
    inner = top / prefix
    place = inner if inner.is_dir() else top
    os.chdir(place)
    return place


def _add(main: Path, top: Path, branch: str, environ: Mapping[str, str]) -> None:
    try:
        top.parent.mkdir(parents=True, exist_ok=True)
        (top.parent / ".gitignore").write_text("*\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"the worktree cannot be made: {error}") from error
    run_git(main, environ, "worktree", "prune")
    known = run_git(main, environ, "branch", "--list", "--format=%(refname:short)", branch)
    new = (str(top), branch) if known.strip() else ("-b", branch, str(top), "HEAD")
    run_git(main, environ, "worktree", "add", "--quiet", *new)
