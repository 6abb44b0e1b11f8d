"""Files that a checkpoint left out stay, whatever the rules are now."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.session.repositories import (
    back,
    git,
    goal,
    put,
    repository,
    restore,
    save_snapshot,
)


@pytest.mark.parametrize("gone", ["rule", "repository"])
def test_what_the_repositorys_own_excludes_left_out_stays_without_them(project: Path, gone: str):
    git(project, "init", "-q")
    put(project / ".git/info/exclude", "data/\n*.key\n")
    put(project / "data/x", "precious\n")
    put(project / "sub/a.key", "precious\n")
    put(project / "a.txt", "old\n")
    snapshot = save_snapshot(project)
    put(project / "b.txt", "new\n")
    if gone == "rule":
        put(project / ".git/info/exclude", "")
    else:
        shutil.rmtree(project / ".git")
    done = back(project, snapshot)
    assert done.removed == ("b.txt",)
    assert (project / "data/x").read_text() == "precious\n"
    assert (project / "sub/a.key").read_text() == "precious\n"


def test_an_ignored_file_that_a_later_call_names_goes_back_to_what_that_call_found(project: Path):
    put(project / ".gitignore", "*.env\n")
    put(project / "my.env", "KEY=1\n")
    first = save_snapshot(project)
    second = save_snapshot(project, "my.env", "new.env")
    put(project / "my.env", "KEY=2\n")
    put(project / "new.env", "KEY=2\n")
    later = {"my.env": second.tree, "new.env": second.tree}
    done = restore(repository(project), goal(first, later=later))
    assert (project / "my.env").read_text() == "KEY=1\n"
    assert not (project / "new.env").exists()
    assert done.left == ()


def test_a_moment_that_is_no_name_is_never_gits_to_interpret(project: Path, tmp_path: Path):
    put(project / ".gitignore", "*.env\n")
    put(project / "my.env", "KEY=1\n")
    first = save_snapshot(project)
    later = {"my.env": "--output=../written"}
    done = restore(repository(project), goal(first, later=later))
    assert done.left == (("my.env", "'--output=../' names no snapshot"),)
    assert (project / "my.env").read_text() == "KEY=1\n"
    assert not (tmp_path / "written").exists()


LOCKED = """
import os, sys
from pathlib import Path
from alhena.session.checkpoints.records import Checkpoint
from alhena.session.checkpoints.repository import Repository
from alhena.session.checkpoints.restore import Goal, restore

project = Path(sys.argv[1])
repository = Repository(Path(sys.argv[2]), project, os.environ)
locked = project / "deep" / sys.argv[3]
locked.chmod(0)
with repository.hold_lock():
    snapshot = repository.snapshot()
locked.chmod(0o755)
(project / "made.txt").write_text("new", encoding="utf-8")
done = restore(repository, Goal(Checkpoint(commit_hash=snapshot.tree, notes=snapshot.notes)))
print(snapshot.left_out, done.removed, [path for path, _ in done.left])
"""


@pytest.mark.parametrize("name", ["locked", "odd\u00e9 '"])
def test_what_is_in_a_directory_that_could_not_be_listed_stays(
    project: Path, tmp_path: Path, name: str
):
    put(project / "deep" / name / "x", "precious\n")
    put(project / "deep/other", "old\n")
    command = [sys.executable, "-c", LOCKED, str(project), str(tmp_path / "history"), name]
    if os.geteuid() == 0:  # what may read everything is given up
        given_up = "-dac_override,-dac_read_search"
        command[:0] = ["setpriv", f"--bounding-set={given_up}", f"--inh-caps={given_up}"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.stderr == ""
    assert (project / "deep" / name / "x").read_text() == "precious\n"
    assert f"('made.txt',) [{f'deep/{name}/x'!r}]" in ran.stdout


def test_directories_are_made_through_no_symlink_out_of_the_project(project: Path, tmp_path: Path):
    outside = tmp_path / "outside"
    outside.mkdir()
    put(project / "d/g/h/file").parent.joinpath("l").symlink_to("x")
    put(project / "d/k/key", "secret\n").chmod(0o600)
    snapshot = save_snapshot(project)
    shutil.rmtree(project / "d")
    (project / "d").symlink_to(outside)
    put(project / ".gitignore", "d\n")
    done = back(project, snapshot)
    assert list(outside.iterdir()) == []
    assert {path for path, _ in done.left} == {"d/g/h/file", "d/g/h/l", "d/k/key"}
    assert (project / "d").is_symlink()
