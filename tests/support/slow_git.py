"""A git that makes worktrees slowly, and one that waits."""

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
    return _path_to(folder, _SCRIPT)


_HELD = """#!/bin/sh
case " $* " in *" $WORDS "*)
    : > "$FOLDER/reached"
    looks=0
    while [ ! -e "$FOLDER/go-on" ] && [ $looks -lt 600 ]; do
        looks=$((looks + 1))
        sleep 0.1
    done
esac
exec "$GIT" "$@"
"""


def path_to_held_git(folder: Path, words: str) -> str:
    """A value of PATH where git, given these words, makes the file `reached` in the folder and
    waits for the file `go-on` there."""
    return _path_to(folder, _HELD.replace("$WORDS", words).replace("$FOLDER", str(folder)))


def _path_to(folder: Path, text: str) -> str:
    git = shutil.which("git")
    assert git is not None
    folder.mkdir()
    script = folder / "git"
    script.write_text(text.replace("$GIT", git), encoding="utf-8")
    script.chmod(0o755)
    return os.pathsep.join((str(folder), os.environ["PATH"]))
