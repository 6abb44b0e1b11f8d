"""`--worktree NAME`: a git worktree in which a session works beside others."""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from alhena.agent.subagents.worktree import (
    add_worktree,
    list_worktrees,
    lock_worktrees,
    run_git,
)
from alhena.config.home import path_within
from alhena.errors import InputError, UsageError
from alhena.system.errors import FileError, printable
from alhena.system.private_files import change_file
from alhena.system.workspace import current_directory

FOLDER = Path(".worktrees")
"""The folder of a repository's worktrees."""
_IGNORED = b"/.worktrees/\n"
_GITLINK = b"160000 "
_NAMED = 5
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
        home = _find_home(cwd, environ)
        run_git(cwd, environ, "rev-parse", "--verify", "HEAD^{commit}")
    except InputError as error:
        raise InputError(
            f"--worktree needs a git repository with a commit: {error}",
            remedy="Run `git init` and commit, or leave out --worktree.",
        ) from error
    top = path_within(home.main, FOLDER / name)
    with lock_worktrees(home.git_from, environ) as held:
        if not (top / ".git").exists():
            _add(home, top, f"worktree-{name}", environ, held)
        elif not _is_known(home.git_from, top, environ, held):
            raise InputError(
                f"{top} is not a worktree of this repository.",
                remedy="Move it away, or choose another name.",
            )
    inner = top / home.prefix
    place = inner if inner.is_dir() else top
    os.chdir(place)
    return place


def describe_empty_submodules(environ: Mapping[str, str]) -> str:
    """Says which submodules of the worktree around the working directory have no files; "" if
    none."""
    try:
        shown = run_git(current_directory(), environ, "rev-parse", "--show-toplevel")
        top = Path(os.fsdecode(shown.removesuffix(b"\n")))
        if not (top / ".gitmodules").is_file():
            return ""
        entries = run_git(top, environ, "ls-files", "--stage", "-z").split(b"\0")
    except InputError:  # said when it was entered
        return ""
    paths = [os.fsdecode(each.partition(b"\t")[2]) for each in entries
             if each.startswith(_GITLINK)]  # fmt: skip
    empty = [path for path in paths if not (top / path / ".git").exists()]
    if not empty:
        return ""
    named = ", ".join(printable(path) for path in empty[:_NAMED])
    more = f" and {len(empty) - _NAMED} more" if len(empty) > _NAMED else ""
    return (
        f"submodules are empty in this worktree: {named}{more}. To fill them run: "
        "git submodule update --init --recursive"
    )


class _Home(NamedTuple):
    """The place of a repository's worktrees: below `main`. `git_from` is a directory in which git
    finds the repository, `shared` that of its files; `prefix` is the working directory's path in
    its working tree."""

    main: Path
    git_from: Path
    shared: Path
    prefix: str


def _find_home(cwd: Path, environ: Mapping[str, str]) -> _Home:
    """The same for every working tree of a repository: its main one, the directory around one
    without (`project/.bare` with `project/.git` that leads there), or that itself. Raises
    InputError."""
    common = run_git(cwd, environ, "rev-parse", "--path-format=absolute", "--git-common-dir")
    shared = Path(os.path.realpath(os.fsdecode(common.removesuffix(b"\n"))))
    inside = run_git(cwd, environ, "rev-parse", "--is-inside-work-tree").strip() == b"true"
    bare = run_git(shared, environ, "rev-parse", "--is-bare-repository").strip() == b"true"
    if not inside and not bare:
        raise InputError("the working directory is inside of the repository's own files.")
    own, prefix = shared, ""
    if inside:
        shown = run_git(cwd, environ, "rev-parse", "--show-toplevel", "--show-prefix")
        top, prefix = os.fsdecode(shown).split("\n")[:2]
        own = Path(top)
        _require_own(own, shared, environ)
    if not bare:
        main = _main_tree(own, shared, environ)
        return _Home(main, main, shared, prefix)
    around = shared.parent
    entry = around / ".git"
    leads_here = entry.is_file() and os.path.realpath(
        around / entry.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
    ) == str(shared)
    main = around if leads_here else shared
    if not inside and not Path(os.path.realpath(cwd)).is_relative_to(main):
        raise InputError(
            f"{cwd} leads to {shared}, which is elsewhere.",
            remedy="Make the worktree yourself: git worktree add.",
        )
    return _Home(main, shared, shared, prefix)


def _main_tree(own: Path, shared: Path, environ: Mapping[str, str]) -> Path:
    """The main working tree of a repository with the working tree `own`."""
    found = run_git(own, environ, "rev-parse", "--absolute-git-dir").removesuffix(b"\n")
    if os.path.realpath(os.fsdecode(found)) == str(shared):
        return own
    if shared.name == ".git":
        return shared.parent
    options = ("config", "--file", str(shared / "config"), "core.worktree")
    try:
        named = run_git(own, environ, *options).removesuffix(b"\n")
    except InputError:  # it is not known where that is, if anywhere
        return own
    return Path(os.path.realpath(shared / os.fsdecode(named)))


def _require_own(top: Path, shared: Path, environ: Mapping[str, str]) -> None:
    """Raises InputError where the repository's files are in another place that does not name this
    working tree: a folder could bring a `.git` that leads into any repository of the user's."""
    dot_git = top / ".git"
    if shared == Path(os.path.realpath(top)) / ".git" and dot_git.is_dir():
        return
    found = run_git(top, environ, "rev-parse", "--absolute-git-dir").removesuffix(b"\n")
    back = Path(os.fsdecode(found), "gitdir")
    if os.path.realpath(back.parent.parent) == str(shared / "worktrees") and back.is_file():
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


def _is_known(main: Path, top: Path, environ: Mapping[str, str], held: tuple[int, ...]) -> bool:
    """True for a worktree that was made by the repository: anybody can bring a folder along."""
    known = list_worktrees(main, environ, held)
    return any(os.path.realpath(path) == str(top) for path in known)


def _add(
    home: _Home, top: Path, branch: str, environ: Mapping[str, str], held: tuple[int, ...]
) -> None:
    """Makes a worktree, and has git ignore it. What a failure leaves is removed."""
    run = partial(run_git, home.git_from, environ, held=held)
    run("worktree", "prune")
    known = bool(run("branch", "--list", "--format=%(refname:short)", branch).strip())
    new = (str(top), branch) if known else ("-b", branch, str(top), "HEAD")
    there = top.parent.exists()
    try:
        if home.main != home.shared:
            _ignore(home.shared)
        add_worktree(home.git_from, environ, new, top, held)
    except (FileError, OSError, InputError) as error:
        with suppress(InputError):  # it was not made
            run("worktree", "remove", "--force", "--force", str(top))
        if not known:
            with suppress(InputError):
                run("branch", "-D", branch)
        if not there:
            with suppress(OSError):
                top.parent.rmdir()
        raise InputError(f"the worktree cannot be made: {error}") from error


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
