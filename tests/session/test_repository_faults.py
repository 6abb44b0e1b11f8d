"""The checkpoint repository among broken programs, odd files and damage."""

import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from alhena.session.checkpoints.records import CheckpointError
from alhena.session.checkpoints.repository import Repository, RepositorySettings
from tests.session.repositories import (
    EMPTY,
    back,
    git,
    goal,
    paths,
    put,
    repository,
    restore,
    save_snapshot,
    take_snapshot,
)

REAL = shutil.which("git") or "git"


def fake(directory: Path, script: str) -> Path:
    path = put(directory / "git", f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return directory


def environ(directory: Path) -> dict[str, str]:
    return {**os.environ, "PATH": f"{directory}:{os.environ['PATH']}"}


def on(project: Path, found: dict[str, str], **options: Any) -> Repository:
    directory = Path(os.environ["HOME"], ".gemini", "history", "p")
    return Repository(directory, project, found, **options)


HANGS = "exec 1>&- 2>&-; exec sleep 300"


def test_git_that_hangs_can_be_interrupted(project: Path, tmp_path: Path):
    stop = threading.Event()
    started = tmp_path / "started"
    found = environ(fake(tmp_path / "bin", f"touch {started}; {HANGS}"))
    private = on(project, found, cancellation=stop)
    failures: list[CheckpointError] = []

    def work() -> None:
        try:
            take_snapshot(private)
        except CheckpointError as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    while not started.exists():
        thread.join(0.01)
    stop.set()
    thread.join()
    assert failures[0].message == "interrupted; no file has changed."


def test_a_lock_that_git_removes_at_the_same_time_is_no_failure(
    project: Path, monkeypatch: pytest.MonkeyPatch
):
    put(project / "a.txt", "old\n")
    snapshot = save_snapshot(project)
    lock = put(on(project, dict(os.environ)).git.git_dir / "gc.pid.lock")
    unlink = Path.unlink

    def unlink_late(path: Path, missing_ok: bool = False) -> None:
        if path == lock:
            os.unlink(path)
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink_late)
    assert save_snapshot(project) == snapshot


def test_an_interruption_before_anything_has_changed_changes_nothing(project: Path):
    put(project / "a.txt", "old\n")
    snapshot = save_snapshot(project)
    put(project / "a.txt", "new\n")
    stop = threading.Event()
    stop.set()
    with pytest.raises(CheckpointError, match="interrupted"):
        restore(on(project, dict(os.environ), cancellation=stop), goal(snapshot))
    assert (project / "a.txt").read_text() == "new\n"


@pytest.mark.parametrize("name", [".gitignore", ".gitattributes", ".geminiignore"])
def test_a_directory_in_the_place_of_rules_says_nothing(project: Path, name: str):
    put(project / name / "a.txt")
    put(project / "sub" / name / "a.txt")
    tree = save_snapshot(project).tree
    assert paths(project, tree) == (f"{name}/a.txt", f"sub/{name}/a.txt")


def test_no_program_of_the_project_is_taken_for_git(project: Path, tmp_path: Path):
    mark = tmp_path / "ran"
    for inside in ("bin", ".venv/bin", "node_modules/.bin"):
        fake(project / inside, f"touch {mark}")
    (tmp_path / "alias").symlink_to(project / "bin")
    entries = [project / "bin", project / ".venv/bin", tmp_path / "alias", Path("bin")]
    entries.append(project / "x/../node_modules/.bin")
    found = {**os.environ, "PATH": ":".join([*map(str, entries), "", os.environ["PATH"]])}
    put(project / "a.txt")
    private = on(project, found)
    assert "a.txt" in private.changes(EMPTY, take_snapshot(private).tree)
    assert not mark.exists()


def test_nor_is_one_of_another_directory_of_the_workspace(project: Path, tmp_path: Path):
    mark = tmp_path / "ran"
    git(tmp_path, "init", "-q", "mono")
    part = put(tmp_path / "mono/part/a.txt").parent
    others = (put(tmp_path / "root/a.txt").parent, part)
    for inside in (tmp_path / "root/bin", tmp_path / "mono/bin"):
        fake(inside, f"touch {mark}")
    path = f"{tmp_path}/root/bin:{tmp_path}/mono/bin:{os.environ['PATH']}"
    around = RepositorySettings(others=others)
    take_snapshot(Repository(tmp_path / "history", project, {**os.environ, "PATH": path}, around))
    assert not mark.exists()


@pytest.mark.parametrize(
    "script",
    ["exit 0", "echo nonsense", "printf 'a\\0b\\0c\\0'", r"printf '\377\376\001\200\033\n\303'"],
)
def test_a_program_that_is_not_git_is_told_as_that(project: Path, tmp_path: Path, script: str):
    put(project / "a.txt")
    with pytest.raises(CheckpointError) as told:
        take_snapshot(on(project, environ(fake(tmp_path / "bin", script))))
    assert "git" in told.value.message
    assert "list_directory" not in str(told.value)
    save_snapshot(project)
    with pytest.raises(CheckpointError) as told:
        take_snapshot(on(project, environ(tmp_path / "bin")))
    assert "printed no object name" in told.value.message
    assert "git --version" in str(told.value)


def test_a_file_in_the_place_of_the_directory_is_named(project: Path):
    history = put(Path(os.environ["HOME"], ".gemini", "history"), "a file")
    with pytest.raises(CheckpointError) as told:
        save_snapshot(project)
    assert told.value.message == f"{history}: Not a directory."
    assert "list_directory" not in str(told.value)


@pytest.mark.parametrize("name", ["HEAD", "config", "refs", "info/attributes"])
def test_a_repository_that_lacks_a_part_gets_it_again(project: Path, name: str):
    put(project / "a.txt", "old\n")
    snapshot = save_snapshot(project)
    part = repository(project).git.git_dir / name
    shutil.rmtree(part) if part.is_dir() else part.unlink()
    put(project / "a.txt", "new\n")
    save_snapshot(project)
    back(project, snapshot)
    assert (project / "a.txt").read_text() == "old\n"


@pytest.mark.parametrize("damage", ["HEAD", "config", "objects"])
def test_a_damaged_repository_is_set_aside_and_a_new_one_begun(project: Path, damage: str):
    put(project / "a.txt", "old\n")
    save_snapshot(project)
    git_dir = repository(project).git.git_dir
    if damage == "objects":
        shutil.rmtree(git_dir / "objects")
        put(git_dir / "objects", "theirs")
    else:
        put(git_dir / damage, "[core\n")
    private = repository(project)
    snapshot = take_snapshot(private)
    aside = git_dir.parent / ".git.damaged-1"
    assert aside.exists()
    assert private.warning.startswith(
        "the repository of this project's checkpoints was damaged; a new one is begun. "
        f"The damaged one is {aside}"
    )
    put(project / "a.txt", "new\n")
    back(project, snapshot)
    assert (project / "a.txt").read_text() == "old\n"


def test_a_git_that_fails_leaves_a_sound_repository_in_place(project: Path, tmp_path: Path):
    put(project / "a.txt", "old\n")
    snapshot = save_snapshot(project)
    script = f'case "$*" in *write-tree*) echo odd >&2; exit 9;; esac; exec {REAL} "$@"'
    private = on(project, environ(fake(tmp_path / "bin", script)))
    with pytest.raises(CheckpointError, match=r"git write-tree failed \(9\): odd"):
        take_snapshot(private)
    with pytest.raises(CheckpointError, match="git"):
        take_snapshot(on(project, environ(fake(tmp_path / "bin", "exit 1"))))
    assert private.warning == ""
    put(project / "a.txt", "new\n")
    assert back(project, snapshot).written == ("a.txt",)
