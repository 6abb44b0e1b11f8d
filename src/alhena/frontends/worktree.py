"""`--worktree NAME`: a git worktree in which a session works beside others."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from alhena.agent.subagents.worktree import add_worktree, run_git
from alhena.config.home import path_within
from alhena.errors import InputError, UsageError
from alhena.system.errors import FileError
from alhena.system.private_files import change_file
from alhena.system.workspace import current_directory

FOLDER = Path(".worktrees")
"""The folder of a repository's worktrees."""
_IGNORED = b"/.worktrees/\n"
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
    own, prefix = os.fsdecode(shown).split("\n")[:2]
    shared = Path(os.fsdecode(common.removesuffix(b"\n")))
    _require_own(Path(own), shared, environ)
    # The files of a submodule's repository are elsewhere.
    main = shared.parent if shared.name == ".git" else Path(own)
    top = path_within(main, FOLDER / name)
    if not (top / ".git").exists():
        _add(main, shared, top, f"worktree-{name}", environ)
    elif not _is_known(main, top, environ):
        raise InputError(
            f"{top} is not a worktree of this repository.",
            remedy="Move it away, or choose another name.",
        )
    inner = top / prefix
    place = inner if inner.is_dir() else top
    os.chdir(place)
    return place


def _require_own(top: Path, shared: Path, environ: Mapping[str, str]) -> None:
    """Raises InputError where the repository's files are in another place that does not name this
    working tree: a folder could bring a `.git` that leads into any repository of the user's."""
    dot_git = top / ".git"
    if shared == Path(os.path.realpath(top)) / ".git" and dot_git.is_dir():
        return
    found = run_git(top, environ, "rev-parse", "--absolute-git-dir").removesuffix(b"\n")
    back = Path(os.fsdecode(found), "gitdir")
    if back.parent.parent == shared / "worktrees" and back.is_file():
        if os.path.samefile(back.read_text(encoding="utf-8").rstrip("\n"), dot_git):
            return
    elif _names_tree(shared, top, environ):
        return
    raise InputError(
        f"{dot_git} leads to {shared}, which does not name {top} as its working tree.",
        remedy="Make the worktree yourself: git worktree add.",
    )


def _names_tree(shared: Path, top: Path, environ: Mapping[str, str]) -> bool:
    """True if the configuration of a repository elsewhere, such as a submodule's, names `top`."""
    options = ("config", "--file", str(shared / "config"), "core.worktree")
    try:
        named = run_git(top, environ, *options).removesuffix(b"\n")
    except InputError:
        return False
    return os.path.realpath(shared / os.fsdecode(named)) == os.path.realpath(top)


def _is_known(main: Path, top: Path, environ: Mapping[str, str]) -> bool:
    """True for a worktree that was made by the repository: anybody can bring a folder along."""
    listed = run_git(main, environ, "worktree", "list", "--porcelain", "-z").split(b"\0")
    paths = (os.fsdecode(each[9:]) for each in listed if each.startswith(b"worktree "))
    return any(os.path.realpath(path) == str(top) for path in paths)


def _add(main: Path, shared: Path, top: Path, branch: str, environ: Mapping[str, str]) -> None:
    """Makes a worktree of the repository of `main`, whose files are in `shared`, and has git ignore
    it."""
    try:
        _ignore(shared)
    except (FileError, OSError) as error:
        raise InputError(f"the worktree cannot be made: {error}") from error
    run_git(main, environ, "worktree", "prune")
    known = run_git(main, environ, "branch", "--list", "--format=%(refname:short)", branch)
    new = (str(top), branch) if known.strip() else ("-b", branch, str(top), "HEAD")
    add_worktree(main, environ, new, top)


def _ignore(shared: Path) -> None:
    """Adds the folder of worktrees to `info/exclude`, a file that no commit brings."""
    exclude = path_within(shared, "info/exclude")
    exclude.parent.mkdir(exist_ok=True)

    def with_ignored(data: bytes) -> bytes:
        if _IGNORED in data.splitlines(keepends=True):
            return data
        ended = data if not data or data.endswith(b"\n") else data + b"\n"
        return ended + _IGNORED

    change_file(exclude, with_ignored, "git cannot be told to ignore the worktree")
