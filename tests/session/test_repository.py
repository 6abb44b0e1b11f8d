"""Snapshots of a project's files in its private repository."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from alhena.session.checkpoints.records import CheckpointError, LostSnapshotError, NoGitError
from alhena.session.checkpoints.repository import (
    Repository,
    RepositorySettings,
    Snapshot,
    SnapshotLimits,
)
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
    undo,
)


def test_a_projects_own_repository_is_neither_read_nor_written(project: Path):
    git(project, "init", "-q")
    put(project / ".gitattributes", "*.txt text eol=crlf filter=bad ident\n")
    git(project, "config", "filter.bad.clean", f"touch {project}/filtered; cat")
    git(project, "config", "core.fsmonitor", f"touch {project}/monitored")
    put(project / "a.txt", "$Id$\nold\n")
    hook = put(project / ".git/hooks/pre-commit", f"#!/bin/sh\ntouch {project}/hooked\n")
    hook.chmod(0o755)
    git(project, "-c", "core.fsmonitor=false", "-c", "filter.bad.clean=cat", "add", "a.txt")
    own = {path: path.read_bytes() for path in project.glob(".git/**/*") if path.is_file()}
    snapshot = save_snapshot(project)
    put(project / "a.txt", "new\r\n")
    back(project, snapshot)
    assert (project / "a.txt").read_bytes() == b"$Id$\nold\n"
    assert {path: path.read_bytes() for path in project.glob(".git/**/*") if path.is_file()} == own
    assert sorted(path.name for path in project.iterdir()) == [".git", ".gitattributes", "a.txt"]


def test_variables_and_configuration_of_the_user_have_no_say(project: Path, tmp_path: Path):
    put(
        Path(os.environ["HOME"], ".gitconfig"),
        "[core]\n\tautocrlf = true\n[commit]\n\tgpgSign = true\n",
    )
    other = tmp_path / "other"
    environ = {
        **os.environ,
        "GIT_DIR": str(other),
        "GIT_INDEX_FILE": str(other / "index"),
        "GIT_WORK_TREE": str(tmp_path),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.bare",
        "GIT_CONFIG_VALUE_0": "true",
    }
    put(project / "a.txt", b"one\r\n")
    private = Repository(tmp_path / "history", project, environ)
    snapshot = take_snapshot(private)
    assert tuple(private.changes(EMPTY, snapshot.tree)) == ("a.txt",)
    put(project / "a.txt", b"two\n")
    restore(private, goal(snapshot))
    assert (project / "a.txt").read_bytes() == b"one\r\n"
    assert not other.exists()


def test_large_and_unreadable_things_are_left_out_and_said(project: Path):
    put(project / "large.bin", b"x" * 2_000)
    put(project / "small.txt")
    os.mkfifo(project / "pipe")
    snapshot = save_snapshot(project, limits=SnapshotLimits(file_bytes=1_000))
    assert snapshot.left_out == {"large.bin"}
    assert paths(project, snapshot.tree) == ("small.txt",)
    put(project / "large.bin", "small now\n")
    done = back(project, snapshot)
    assert (project / "large.bin").read_text() == "small now\n"
    assert done.left == (("large.bin", "the checkpoint leaves it out"),)


def test_more_names_than_a_pipe_holds_are_saved(project: Path):
    names = {f"{number:04}{'x' * 150}" for number in range(600)}
    for name in names:
        put(project / name, name)
    assert set(paths(project, save_snapshot(project).tree)) == names


def test_too_much_is_refused_before_it_is_copied(project: Path):
    for number in range(5):
        put(project / f"{number}.txt", b"x" * 100)
    with pytest.raises(CheckpointError, match="5 new or changed files"):
        save_snapshot(project, limits=SnapshotLimits(files=4))
    with pytest.raises(CheckpointError, match="MB of new"):
        save_snapshot(project, limits=SnapshotLimits(bytes=499))
    assert not list(Path(os.environ["HOME"], ".gemini/history/p/.git/objects").glob("pack/*.pack"))


def test_a_home_directory_that_would_hold_its_own_checkpoints_is_refused(project: Path):
    home = Path(os.environ["HOME"]).resolve()
    with pytest.raises(CheckpointError, match="contains the checkpoints themselves"):
        take_snapshot(Repository(home / ".gemini/history/h", home, os.environ))


def test_repositories_within_the_project_are_kept_as_files_and_never_harmed(project: Path):
    inner = project / "lib/inner"
    put(inner / "code.py", "old\n")
    put(inner / ".gitignore", "*.o\n")
    put(inner / "x.o")
    git(inner, "init", "-q")
    git(inner, "add", ".")
    git(inner, "commit", "-qm", "first")
    empty = project / "empty"
    empty.mkdir()
    git(empty, "init", "-q")
    put(empty / "new.txt", "n\n")
    git(project, "init", "-q")
    git(project, "submodule", "add", "-q", str(inner), "module")
    head = git(inner, "rev-parse", "HEAD")
    snapshot = save_snapshot(project)
    assert set(paths(project, snapshot.tree)) == {
        ".gitmodules",
        "empty/new.txt",
        "lib/inner/.gitignore",
        "lib/inner/code.py",
        "module/.gitignore",
        "module/code.py",
    }
    put(inner / "code.py", "new\n")
    put(inner / "more.py")
    put(project / "module/code.py", "new\n")
    save_snapshot(project)
    back(project, snapshot)
    assert (inner / "code.py").read_text() == "old\n"
    assert (project / "module/code.py").read_text() == "old\n"
    assert not (inner / "more.py").exists()
    assert (inner / "x.o").exists()
    assert git(inner, "rev-parse", "HEAD") == head
    assert git(inner, "status", "--porcelain") == ""
    assert git(empty, "status", "--porcelain") == "?? new.txt\n"


def test_a_worktree_is_a_project_like_any_other(project: Path, tmp_path: Path):
    put(project / "a.txt", "old\n")
    git(project, "init", "-q")
    git(project, "add", ".")
    git(project, "commit", "-qm", "first")
    put(project / ".git/info/exclude", "*.tmp\n")
    tree = tmp_path / "tree"
    git(project, "worktree", "add", "-q", str(tree))
    put(tree / "x.tmp")
    snapshot = save_snapshot(tree)
    assert paths(tree, snapshot.tree) == ("a.txt",)
    put(tree / "a.txt", "new\n")
    back(tree, snapshot)
    assert (tree / "a.txt").read_text() == "old\n"
    assert (tree / ".git").is_file()


def test_a_part_of_a_repository_keeps_to_its_rules_and_to_itself(project: Path):
    git(project, "init", "-q")
    put(project / ".gitignore", "node_modules/\n/packages/*/dist\n")
    part = project / "packages/a [x]"
    put(part / ".geminiignore", "*.key\n/only-here\n")
    for name in ("node_modules/m.js", "dist/d.js", "a.key", "only-here", "sub/only-here", "a.js"):
        put(part / name, "old\n")
    put(project / "packages/b/b.js", "old\n")
    snapshot = save_snapshot(part)
    assert paths(part, snapshot.tree) == (".geminiignore", "a.js", "sub/only-here")
    put(part / "a.js", "new\n")
    put(project / "packages/b/b.js", "new\n")
    back(part, snapshot)
    assert (part / "a.js").read_text() == "old\n"
    assert (project / "packages/b/b.js").read_text() == "new\n"
    (part / "a.js").unlink()
    (part / "sub/only-here").unlink()
    (part / ".geminiignore").unlink()
    back(part, save_snapshot(part))


def test_a_project_that_the_repository_around_it_ignores_stands_alone(project: Path):
    git(project, "init", "-q")
    put(project / ".gitignore", "*\n")
    put(project / "work/a.txt", "old\n")
    assert paths(project / "work", save_snapshot(project / "work").tree) == ("a.txt",)


def test_what_a_killed_process_has_left_is_cleared(project: Path):
    put(project / "a.txt", "one\n")
    save_snapshot(project)
    index = Path(os.environ["HOME"], ".gemini/history/p/.git/alhena-index")
    put(Path(f"{index}.lock"), b"half")
    put(project / "a.txt", "two\n")
    snapshot = save_snapshot(project)
    put(index, b"")  # as a machine that stopped may leave it
    put(project / "a.txt", "three\n")
    save_snapshot(project)
    back(project, snapshot)
    assert (project / "a.txt").read_text() == "two\n"


def test_two_at_once_wait_for_each_other(project: Path):
    put(project / "a.txt", "one\n")

    def work(number: int) -> None:
        for count in range(5):
            put(project / f"{number}.txt", f"{count}\n")
            save_snapshot(project)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [None] * 4
    assert len(paths(project, save_snapshot(project).tree)) == 5


def test_one_that_is_interrupted_stops_and_the_next_goes_on(project: Path):
    put(project / "a.txt")
    stop = threading.Event()
    stop.set()
    directory = Path(os.environ["HOME"], ".gemini/history/p")
    with pytest.raises(CheckpointError):
        take_snapshot(Repository(directory, project, os.environ, cancellation=stop))
    assert paths(project, save_snapshot(project).tree) == ("a.txt",)


def test_moments_that_nobody_needs_go_and_the_others_stay_whole(project: Path):
    snapshots: list[Snapshot] = []
    for number in range(5):
        put(project / "a.txt", f"{number}\n")
        snapshots.append(save_snapshot(project))
    private = repository(project)
    assert private.keep_only(lambda: [each.tree for each in snapshots[3:]], new_s=0) == 3
    private.collect()
    git_dir = private.git.git_dir
    git(git_dir, "--git-dir", str(git_dir), "prune", "--expire=now")
    back(project, snapshots[3])
    assert (project / "a.txt").read_text() == "3\n"
    for gone in snapshots[:3]:
        with pytest.raises(LostSnapshotError, match="not saved any more"):
            back(project, gone)
    assert private.warning == ""
    save_snapshot(project)


def test_where_there_is_no_git_that_is_what_is_said(project: Path, tmp_path: Path):
    environ = {**os.environ, "PATH": str(tmp_path)}
    with pytest.raises(NoGitError, match="git is not installed"):
        take_snapshot(Repository(tmp_path / "history", project, environ))


def test_a_full_disk_is_said_in_gits_words(project: Path, tmp_path: Path):
    fake = put(
        tmp_path / "bin/git", "#!/bin/sh\necho 'fatal: No space left on device' >&2\nexit 128\n"
    )
    fake.chmod(0o755)
    environ = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    with pytest.raises(CheckpointError, match="No space left on device"):
        take_snapshot(Repository(tmp_path / "history", project, environ))


def test_what_a_running_command_may_have_changed_before_it_was_saved_is_left_out(project: Path):
    for name in ("a", "b", "gone"):
        put(project / name, "old")
    save_snapshot(project)
    put(project / "a", "user's")
    since = os.lstat(project / "a").st_ctime_ns + 30_000_000
    while time.time_ns() < since:
        time.sleep(0.001)
    put(project / "b", "new")
    put(project / "made", "new")
    (project / "gone").unlink()
    around = RepositorySettings(changed_since=lambda: since)
    private = Repository(repository(project).directory, project, os.environ, around)
    snapshot = take_snapshot(private)
    assert snapshot.left_out == {"b", "made"}
    assert paths(project, snapshot.tree) == ("a", "gone")
    undone = undo(project, snapshot, save_snapshot(project).tree)
    assert dict(undone.left) == dict.fromkeys(("b", "made"), "the checkpoint leaves it out")
    assert (project / "gone").read_text() == "old"
    assert (project / "b").read_text() == "new"
