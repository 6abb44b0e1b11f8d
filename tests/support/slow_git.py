"""A git that makes worktrees slowly."""

import os
import shutil
from pathlib import Path

_SCRIPT = """#!/bin/sh
case " $* " in *" worktree add "*)
    half=$("$GIT" rev-parse --path-format=absolute --git-common-dir)/worktrees/half-$$
    mkdir -p "$half"
    pwd > "$half/gitdir"
    : > "$half/commondir"
    sleep 0.3
    rm -r "$half"
esac
exec "$GIT" "$@"
"""


def path_to_slow_git(folder: Path) -> str:
    """A value of PATH where git, while it makes a worktree, leaves another half made for 0.3 s:
    meanwhile each further command about worktrees fails, as it may for a moment with the real
    one."""
    git = shutil.which("git")
    assert git is not None
    folder.mkdir()
    script = folder / "git"
    script.write_text(_SCRIPT.replace("$GIT", git), encoding="utf-8")
    script.chmod(0o755)
    return os.pathsep.join((str(folder), os.environ["PATH"]))
