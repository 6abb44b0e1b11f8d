"""The shadow repository among broken programs, odd files and damage."""

import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from alhena.session.errors import CheckpointError, TooMuchError
from alhena.session.restorer import Target
from alhena.session.shadow import ShadowRepository
from alhena.session.shadow_files import Around
from alhena.session.shadow_git import GitPlace, ShadowGit, search_path
from tests.session.shadows import back, git, kept, put, restore, shadow

REAL = shutil.which("git") or "git"


def fake(directory: Path, script: str) -> Path:
    path = put(directory / "git", f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return directory


def environ(directory: Path) -> dict[str, str]:
    return {**os.environ, "PATH": f"{directory}:{os.environ['PATH']}"}


def on(project: Path, found: dict[str, str], **options: Any) -> ShadowRepository:
    directory = Path(os.environ["HOME"], ".gemini", "history", "p")
    return ShadowRepository(directory, project, found, **options)


def place(project: Path, tmp_path: Path) -> GitPlace:
    return GitPlace(tmp_path / "h/.git", tmp_path / "h/.git/i", project)


HANGS = "exec 1>&- 2>&-; exec sleep 300"


def test_git_that_closes_its_output_and_hangs_is_given_up(project: Path, tmp_path: Path):
    path = {"PATH": str(fake(tmp_path / "bin", HANGS)) + ":" + os.environ["PATH"]}
    hung = ShadowGit(place(project, tmp_path), path, patience_s=0.3)
    with pytest.raises(TooMuchError, match=r"git write-tree takes longer than"):
        hung.run(("write-tree",))


def test_git_that_hangs_can_be_interrupted(project: Path, tmp_path: Path):
    stop = threading.Event()
    started = tmp_path / "started"
    found = environ(fake(tmp_path / "bin", f"touch {started}; {HANGS}"))
    repository = on(project, found, cancellation=stop)
    failures: list[CheckpointError] = []

    def work() -> None:
        try:
            repository.snapshot()
        except CheckpointError as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    while not started.exists():
        thread.join(0.01)
    stop.set()
    thread.join()
    assert failures[0].message == "it was interrupted."


@pytest.mark.parametrize("stop", [True, False])
def test_contents_that_never_come_are_waited_for_in_vain_not_for_ever(
    project: Path, tmp_path: Path, stop: bool
):
    moment_of = put(project / "a.txt", "old\n")
    moment = kept(project)
    moment_of.write_text("new\n", encoding="utf-8")
    now = tmp_path / "now"
    script = (
        f'for a; do [ "$a" = --batch ] && [ -e {now} ] && exec sleep 300; done; exec {REAL} "$@"'
    )
    cancellation = threading.Event()
    repository = on(project, environ(fake(tmp_path / "bin", script)), cancellation=cancellation)
    if not stop:
        repository.git = ShadowGit(repository.git.place, environ(tmp_path / "bin"), patience_s=0.5)
    with pytest.raises(CheckpointError, match="interrupted" if stop else "takes longer"):
        restore(
            repository,
            Target(moment=moment),
            lambda _before: (put(now), cancellation.set() if stop else None),
        )
    assert moment_of.read_text() == "new\n"


def test_an_interruption_before_anything_has_changed_changes_nothing(project: Path):
    put(project / "a.txt", "old\n")
    moment = kept(project)
    put(project / "a.txt", "new\n")
    stop = threading.Event()
    stop.set()
    with pytest.raises(CheckpointError, match="interrupted"):
        restore(on(project, dict(os.environ), cancellation=stop), Target(moment=moment))
    assert (project / "a.txt").read_text() == "new\n"


@pytest.mark.parametrize("name", [".gitignore", ".gitattributes", ".geminiignore"])
def test_a_fifo_in_the_place_of_rules_is_refused_at_once(project: Path, name: str):
    os.mkfifo(project / name)
    with pytest.raises(CheckpointError, match=rf"{name} is no regular file"):
        shadow(project).snapshot()


def test_a_fifo_in_the_place_of_the_users_excludes_is_refused_at_once(project: Path):
    os.mkfifo(project.parent / "rules")
    put(
        Path(os.environ["HOME"], ".gitconfig"),
        f"[core]\n\texcludesFile = {project.parent}/rules\n",
    )
    with pytest.raises(CheckpointError, match="rules is no regular file"):
        shadow(project).snapshot()
    put(Path(os.environ["HOME"], ".gitconfig"), "[core]\n\texcludesFile = /dev/null\n")
    assert shadow(project).snapshot().tree


def test_a_fifo_further_down_is_found_when_git_waits_for_it(project: Path):
    put(project / "sub/deep/a.txt")
    os.mkfifo(project / "sub/deep/.gitignore")
    with pytest.raises(CheckpointError, match=r"sub/deep/\.gitignore is no regular file"):
        shadow(project).snapshot()


def test_a_fifo_that_was_waited_for_once_is_not_waited_for_again(project: Path, tmp_path: Path):
    os.mkfifo(put(project / "sub/deep/a.txt").parent / ".gitignore")
    around = Around()
    with pytest.raises(CheckpointError, match=r"sub/deep/\.gitignore is no regular file"):
        on(project, dict(os.environ), around=around).snapshot()
    unasked = environ(fake(tmp_path / "bin", f"touch {tmp_path}/asked; exit 1"))
    with pytest.raises(CheckpointError, match=r"sub/deep/\.gitignore is no regular file"):
        on(project, unasked, around=around).snapshot()
    assert not (tmp_path / "asked").exists()
    (project / "sub/deep/.gitignore").unlink()
    assert on(project, dict(os.environ), around=around).snapshot().tree


@pytest.mark.parametrize("name", [".gitignore", ".gitattributes", ".geminiignore"])
def test_a_directory_in_the_place_of_rules_says_nothing(project: Path, name: str):
    put(project / name / "a.txt")
    put(project / "sub" / name / "a.txt")
    tree = shadow(project).snapshot().tree
    assert shadow(project).paths(tree) == (f"{name}/a.txt", f"sub/{name}/a.txt")


def test_no_program_of_the_project_is_taken_for_git(project: Path, tmp_path: Path):
    mark = tmp_path / "ran"
    for inside in ("bin", ".venv/bin", "node_modules/.bin"):
        fake(project / inside, f"touch {mark}")
    (tmp_path / "alias").symlink_to(project / "bin")
    entries = [project / "bin", project / ".venv/bin", tmp_path / "alias", Path("bin")]
    entries.append(project / "x/../node_modules/.bin")
    found = {**os.environ, "PATH": ":".join([*map(str, entries), "", os.environ["PATH"]])}
    put(project / "a.txt")
    repository = on(project, found)
    assert "a.txt" in repository.paths(repository.snapshot().tree)
    assert not mark.exists()


def test_neither_is_one_of_the_repository_around_it_or_of_everybody(project: Path, tmp_path: Path):
    mark = tmp_path / "ran"
    git(project, "init", "-q")
    fake(project / "bin", f"touch {mark}")
    fake(tmp_path / "open", f"touch {mark}").chmod(0o777)
    part = put(project / "part/a.txt").parent
    path = f"{project}/bin:{tmp_path}/open:{os.environ['PATH']}"
    on(part, {**os.environ, "PATH": path}).snapshot()
    assert not mark.exists()
    assert search_path({"PATH": path}, ()).split(":")[0] == f"{project}/bin"


@pytest.mark.parametrize(
    "script",
    ["exit 0", "echo nonsense", "printf 'a\\0b\\0c\\0'", r"printf '\377\376\001\200\033\n\303'"],
)
def test_a_program_that_is_not_git_is_told_as_that(project: Path, tmp_path: Path, script: str):
    put(project / "a.txt")
    with pytest.raises(CheckpointError) as told:
        on(project, environ(fake(tmp_path / "bin", script))).snapshot()
    assert "git" in told.value.message
    assert "list_directory" not in str(told.value)
    kept(project)
    with pytest.raises(CheckpointError) as told:
        on(project, environ(tmp_path / "bin")).snapshot()
    assert "answer of git's" in told.value.message
    assert "git --version" in str(told.value)


def test_a_file_in_the_place_of_the_directory_is_named(project: Path):
    history = put(Path(os.environ["HOME"], ".gemini", "history"), "a file")
    with pytest.raises(CheckpointError) as told:
        shadow(project).snapshot()
    assert told.value.message == f"{history}: Not a directory."
    assert "list_directory" not in str(told.value)


@pytest.mark.parametrize("damage", ["gone", "empty", "garbage", "config", "refs"])
def test_a_repository_that_lacks_its_head_is_mended(project: Path, damage: str):
    put(project / "a.txt", "old\n")
    moment = kept(project)
    repository = shadow(project).git.place.git_dir
    if damage == "gone":
        (repository / "HEAD").unlink()
    elif damage == "config":
        (repository / "config").unlink()
    elif damage == "refs":
        shutil.rmtree(repository / "refs")
    else:
        put(repository / "HEAD", "" if damage == "empty" else "\0\0\0")
    put(project / "a.txt", "new\n")
    kept(project)
    back(project, moment)
    assert (project / "a.txt").read_text() == "old\n"


@pytest.mark.parametrize("damage", ["file", "config", "objects"])
def test_one_that_cannot_be_mended_is_moved_aside(project: Path, damage: str):
    put(project / "a.txt", "old\n")
    kept(project)
    repository = shadow(project).git.place.git_dir
    if damage == "file":
        shutil.rmtree(repository)
        put(repository, "theirs")
    elif damage == "objects":
        shutil.rmtree(repository / "objects")
        put(repository / "objects", "theirs")
    else:
        (repository / "HEAD").unlink()
        put(repository / "config", "[core\n")
    moment = kept(project)
    assert (repository.parent / ".git.damaged-1").exists()
    put(project / "a.txt", "new\n")
    back(project, moment)
    assert (project / "a.txt").read_text() == "old\n"
