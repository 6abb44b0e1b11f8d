"""Makes the shadow repository of a project, and one that is damaged whole again."""

import os
import re
import stat
from contextlib import suppress
from pathlib import Path

from alhena.session.errors import GitFailedError
from alhena.session.shadow_git import BRANCH, ShadowGit

_ATTRIBUTES = "* -text -ident -filter -working-tree-encoding !eol\n"
_HEAD = re.compile(rb"ref: refs/[\x21-\x7e]+\n?|[0-9a-f]{40}\n?")
_MAX_HEAD = 1_000


def make_ready(git: ShadowGit) -> None:
    """Makes the repository when there is none. Of one that lacks what git needs that is made again;
    one that still is none is moved aside, and a new one takes its place. Nobody else is at work on
    it. Raises CheckpointError, OSError."""
    git_dir = git.place.git_dir
    if os.path.lexists(git_dir) and not stat.S_ISDIR(git_dir.lstat().st_mode):
        _move_aside(git_dir)
    attributes = git_dir / "info" / "attributes"
    if not _whole(git_dir):  # the attributes come last: without them nothing need be whole
        if os.path.lexists(git_dir):
            _clear(git_dir)
        try:
            _init(git)
        except GitFailedError:
            if not os.path.lexists(attributes):
                raise
            _move_aside(git_dir)
            _init(git)
    write_whole(attributes, _ATTRIBUTES)


def write_whole(path: Path, text: str) -> None:
    """Writes a small file, in one step, unless it says that already. Raises OSError."""
    data = text.encode("utf-8", "surrogateescape")
    with suppress(FileNotFoundError):
        if path.read_bytes() == data:
            return
    path.parent.mkdir(exist_ok=True)
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_bytes(data)
    fresh.replace(path)


def _whole(git_dir: Path) -> bool:
    needed = (git_dir / "info" / "attributes", git_dir / "config")
    directories = (git_dir / "objects", git_dir / "refs")
    return (
        all(map(os.path.isfile, needed)) and all(map(os.path.isdir, directories)) and _head(git_dir)
    )


def _head(git_dir: Path) -> bool:
    """Whether HEAD is one: without it git takes the directory for no repository."""
    try:
        with (git_dir / "HEAD").open("rb") as file:
            return bool(_HEAD.fullmatch(file.read(_MAX_HEAD)))
    except OSError:
        return False


def _clear(git_dir: Path) -> None:
    """Takes away what keeps git from making a repository: locks of a process that is gone, and a
    HEAD that is none."""
    for name in ("HEAD", "config"):
        (git_dir / f"{name}.lock").unlink(missing_ok=True)
    if not _head(git_dir):
        with suppress(IsADirectoryError, PermissionError):  # then git says so, and it is moved
            (git_dir / "HEAD").unlink(missing_ok=True)


def _init(git: ShadowGit) -> None:
    git.run((*BRANCH, "init", "--quiet", "--template="))
    if not _head(git.place.git_dir):
        raise GitFailedError(
            "git init has made no repository.",
            remedy="See whether `git --version` works; which git is found depends on PATH.",
        )


def _move_aside(git_dir: Path) -> None:
    number = 1
    while os.path.lexists(aside := git_dir.with_name(f"{git_dir.name}.damaged-{number}")):
        number += 1
    git_dir.rename(aside)
