"""Workspace roots beside the project: kept and put back as the project is, each file once."""

import os
import shutil
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from alhena.session.checkpoints.records import (
    Checkpoint,
    CheckpointError,
    CheckpointFiles,
    RootSnapshot,
    TooMuchError,
    directory_of,
)
from alhena.session.checkpoints.restore import Goal
from alhena.session.checkpoints.roots import Roots, Saved
from tests.session.repositories import git, put
from tests.session.test_repository_faults import REAL, environ, fake


def roots(project: Path, *others: Path, found: dict[str, str] | None = None) -> Roots:
    history = Path(os.environ["HOME"], ".gemini", "history", "p")
    return Roots(project, history, found or dict(os.environ), others)


def keep(of: Roots, *named: Path) -> Saved:
    with of.saved(named, threading.Event()) as saved:
        return saved


def back(of: Roots, snapshot: Iterable[RootSnapshot], stop: threading.Event | None = None):
    told: list[tuple[RootSnapshot, ...]] = []
    goals = [Goal(each, {}) for each in snapshot]
    done = of.restore(goals, stop or threading.Event(), told.append)
    return done, told[0]


def own(saved: Saved) -> list[Path]:
    """The roots that are kept for themselves."""
    return [directory_of(each.root) for each in saved.snapshots if each.root]


def failing_in(root: Path, tmp_path: Path) -> dict[str, str]:
    """An environment in which git fails for the files of a root while `tmp_path/now` exists."""
    script = f'[ -e {tmp_path}/now ] && [ "$GIT_WORK_TREE" = {root} ] && exit 9; exec {REAL} "$@"'
    put(tmp_path / "now")
    return environ(fake(tmp_path / "bin", script))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return put(tmp_path / "root/a.txt", "old\n").parent


def test_files_of_a_root_come_back_with_those_of_the_project(project: Path, root: Path):
    put(project / "p.txt", "old\n")
    put(root / "gone/b.txt", "old\n")
    of = roots(project, root)
    snapshot = keep(of)
    put(project / "p.txt", "new\n")
    put(root / "a.txt", "new\n")
    shutil.rmtree(root / "gone")
    put(root / "fresh.txt")
    done, before = back(of, snapshot.snapshots)
    assert (project / "p.txt").read_text() == "old\n"
    assert {path.name: path.read_text() for path in root.rglob("*.txt")} == {
        "a.txt": "old\n",
        "b.txt": "old\n",
    }
    assert done.written == ("p.txt", str(root / "a.txt"), str(root / "gone/b.txt"))
    assert done.removed == (str(root / "fresh.txt"),)
    assert done.left == ()
    back(of, before)
    assert (project / "p.txt").read_text() == "new\n"
    assert sorted(path.name for path in root.rglob("*.txt")) == ["a.txt", "fresh.txt"]
    assert sorted(path.name for path in root.iterdir()) == ["a.txt", "fresh.txt"]


def test_what_a_root_ignores_stays_unless_a_call_has_named_it(project: Path, root: Path):
    git(root, "init", "-q")
    put(root / ".gitignore", "*.env\ndata/\n")
    put(root / ".git/info/exclude", "*.key\n")
    for name in ("my.env", "other.env", "data/x", "a.key"):
        put(root / name, "old\n")
    of = roots(project, root)
    snapshot = keep(of, root / "my.env")
    for name in ("my.env", "other.env", "data/x", "a.key"):
        put(root / name, "new\n")
    put(root / ".gitignore", "")
    back(of, snapshot.snapshots)
    assert (root / "my.env").read_text() == "old\n"
    for name in ("other.env", "data/x", "a.key"):
        assert (root / name).read_text() == "new\n"


def test_a_hostile_repository_at_a_root_has_no_say(project: Path, root: Path, tmp_path: Path):
    git(root, "init", "-q")
    put(root / ".gitattributes", "*.txt text eol=crlf filter=bad ident\n")
    git(root, "config", "filter.bad.clean", f"touch {tmp_path}/ran; cat")
    git(root, "config", "filter.bad.smudge", f"touch {tmp_path}/ran; cat")
    git(root, "config", "core.fsmonitor", f"touch {tmp_path}/ran")
    git(root, "config", "core.worktree", "/")
    put(root / "a.txt", "$Id$\nold\n")
    inside = {each: each.read_bytes() for each in root.glob(".git/**/*") if each.is_file()}
    of = roots(project, root)
    snapshot = keep(of)
    put(root / "a.txt", "new\r\n")
    back(of, snapshot.snapshots)
    assert (root / "a.txt").read_bytes() == b"$Id$\nold\n"
    assert not (tmp_path / "ran").exists()
    assert inside == {each: each.read_bytes() for each in root.glob(".git/**/*") if each.is_file()}


def test_a_root_within_the_project_is_kept_once(project: Path):
    inner = put(project / "lib/a.txt", "old\n").parent
    deep = put(inner / "deep/b.txt", "old\n").parent
    of = roots(project, deep, inner)
    snapshot = keep(of, deep / "b.txt")
    assert own(snapshot) == []
    assert snapshot.snapshots[0].paths == ("lib/deep/b.txt",)
    put(deep / "b.txt", "new\n")
    done, _ = back(of, snapshot.snapshots)
    assert done.written == ("lib/deep/b.txt",)


@pytest.mark.parametrize("rules", [".gitignore", ".geminiignore"])
def test_a_root_that_the_project_leaves_out_is_kept_for_itself(project: Path, rules: str):
    put(project / rules, "/vendor/*\n")
    put(project / "p.txt", "old\n")
    inner = put(project / "vendor/own/a.txt", "old\n").parent
    other = put(project / "vendor/other/a.txt", "old\n")
    of = roots(project, inner)
    snapshot = keep(of)
    assert own(snapshot) == [inner]
    for path in (project / "p.txt", inner / "a.txt", other):
        put(path, "new\n")
    put(project / rules, "")  # now the project has it, too
    later = keep(of)
    assert own(later) == []
    done, before = back(of, snapshot.snapshots)
    assert {each.root for each in before} == {"", inner.as_uri()}
    assert (inner / "a.txt").read_text() == "old\n"
    assert other.read_text() == "new\n"
    assert [path for path, _ in done.left] == ["vendor/other/a.txt"]
    back(of, before)
    assert (inner / "a.txt").read_text() == "new\n"
    assert (project / "p.txt").read_text() == "new\n"


@pytest.mark.parametrize("repository", [True, False])
def test_a_root_around_the_project_leaves_the_project_to_itself(tmp_path: Path, repository: bool):
    root = tmp_path / "around"
    project = put(root / "pro [j]ect /p.txt", "old\n").parent
    if repository:
        git(root, "init", "-q")
    put(root / ".gitignore", "!*\n")
    put(root / "a.txt", "old\n")
    of = roots(project, root)
    snapshot = keep(of, project / "p.txt", root / "a.txt")
    assert own(snapshot) == [root]
    assert [each.paths for each in snapshot.snapshots] == [("p.txt",), ("a.txt",)]
    put(project / "p.txt", "new\n")
    put(project / "q.txt", "new\n")
    put(root / "a.txt", "new\n")
    done, before = back(of, snapshot.snapshots)
    assert (done.written, done.removed) == (("p.txt", str(root / "a.txt")), ("q.txt",))
    assert done.left == ()
    back(of, before)
    assert (project / "p.txt").read_text() == "new\n"
    assert (root / "a.txt").read_text() == "new\n"


@pytest.mark.parametrize("became", ["symlink", "file", "far away"])
def test_a_root_that_cannot_be_had_is_left_and_the_rest_put_back(
    project: Path, tmp_path: Path, became: str
):
    root = put(tmp_path / "disk/other/a.txt", "old\n").parent
    put(project / "p.txt", "old\n")
    of = roots(project, root)
    snapshot = keep(of)
    shutil.rmtree(root.parent)
    put(project / "p.txt", "new\n")
    if became != "far away":
        root.parent.mkdir()
    if became == "symlink":
        put(tmp_path / "theirs/a.txt", "theirs\n")
        root.symlink_to(tmp_path / "theirs")
    elif became == "file":
        put(root, "theirs\n")
    done, _ = back(of, snapshot.snapshots)
    assert (project / "p.txt").read_text() == "old\n"
    (left,) = done.left
    assert left[0] == str(root)
    if became == "symlink":
        assert (tmp_path / "theirs/a.txt").read_text() == "theirs\n"
    elif became == "far away":
        assert left[1].endswith("No such file or directory")
        assert not root.parent.exists()


def test_a_root_that_is_gone_keeps_nothing_from_being_kept(project: Path, root: Path):
    put(project / "p.txt", "old\n")
    of = roots(project, root)
    shutil.rmtree(root)
    snapshot = keep(of)
    assert own(snapshot) == []
    ((which, error),) = snapshot.problems
    assert (which, error.message) == (root, "it is no directory any more.")
    put(root / "made.txt")
    back(of, snapshot.snapshots)
    assert (root / "made.txt").exists()  # what was not kept is not judged


def test_what_is_too_much_is_given_up_and_the_rest_kept(project: Path):
    home = Path(os.environ["HOME"]).resolve()
    put(project / "p.txt", "old\n")
    of = roots(project, home)
    snapshot = keep(of)
    ((which, error),) = snapshot.problems
    assert which == home
    assert error.message.endswith("contains the checkpoints themselves.")
    again = keep(of)
    assert again.problems == ()
    assert len(again.snapshots) == 1


def test_where_the_project_is_too_much_nothing_is_kept(root: Path):
    home = Path(os.environ["HOME"]).resolve()
    of = roots(home, root)
    with pytest.raises(TooMuchError, match="contains the checkpoints themselves"):
        keep(of)


def test_two_projects_that_share_a_root_do_not_share_what_is_kept(
    project: Path, root: Path, tmp_path: Path
):
    other = put(tmp_path / "other/q.txt").parent
    theirs = Roots(other, tmp_path / "history", dict(os.environ), (root,))
    mine = roots(project, root)
    snapshot = keep(mine)
    put(root / "a.txt", "between\n")
    second = keep(theirs)
    put(root / "a.txt", "new\n")
    theirs.tidy(tuple, threading.Event())
    back(mine, snapshot.snapshots)
    assert (root / "a.txt").read_text() == "old\n"
    done, _ = back(theirs, second.snapshots)
    ((which, why),) = done.left
    assert which == str(root)
    assert "are not saved any more" in why


def test_what_no_checkpoint_needs_of_a_root_is_let_go(project: Path, root: Path):
    of = roots(project, root)
    stop = threading.Event()
    first = keep(of)
    put(root / "a.txt", "new\n")
    second = keep(of)
    found = [("two", Checkpoint().having(second.snapshots))]
    of.tidy(lambda: found, stop)
    repository = of.repository(root.as_uri(), stop)
    assert repository.held() == {second.snapshots[1].tree}
    assert first.snapshots[1].tree != second.snapshots[1].tree
    found.clear()
    of.tidy(lambda: found, stop)
    assert list((repository.directory.parent).iterdir()) == []
    assert not keep(of).problems


def test_a_root_whose_moment_is_lost_is_left_and_named(project: Path, root: Path):
    put(project / "p.txt", "old\n")
    of = roots(project, root)
    snapshot = keep(of)
    put(project / "p.txt", "new\n")
    put(root / "a.txt", "new\n")
    shutil.rmtree(of.repository(root.as_uri(), threading.Event()).directory)
    done, _ = back(of, snapshot.snapshots)
    assert (project / "p.txt").read_text() == "old\n"
    assert (root / "a.txt").read_text() == "new\n"
    ((which, why),) = done.left
    assert which == str(root)
    assert "are not saved any more" in why


def test_an_interruption_before_anything_has_changed_changes_nothing(project: Path, root: Path):
    put(project / "p.txt", "old\n")
    of = roots(project, root)
    snapshot = keep(of)
    put(project / "p.txt", "new\n")
    put(root / "a.txt", "new\n")
    stop = threading.Event()
    told: list[object] = []
    stop.set()
    with pytest.raises(CheckpointError, match="interrupted"):
        of.restore([Goal(each, {}) for each in snapshot.snapshots], stop, told.append)
    assert told == []
    assert (project / "p.txt").read_text() == (root / "a.txt").read_text() == "new\n"


def test_names_of_all_kinds_can_be_roots(project: Path, tmp_path: Path):
    root = tmp_path / os.fsdecode(b"odd\xff %41#?\n")
    put(root / "a.txt", "old\n")
    of = roots(project, root)
    snapshot = keep(of)
    put(root / "a.txt", "new\n")
    assert directory_of(snapshot.snapshots[1].root) == root
    back(of, snapshot.snapshots)
    assert (root / "a.txt").read_text() == "old\n"
    for bad in ("relative", "file://relative", "file:///a/../b", "https:///x", "file:///a/"):
        with pytest.raises(CheckpointError):
            directory_of(bad)


def test_a_checkpoint_of_a_root_that_can_be_none_is_none(tmp_path: Path):
    files = CheckpointFiles(tmp_path / "checkpoints")
    good = files.write("good", Checkpoint(roots=(RootSnapshot(root=tmp_path.as_uri()),)))
    files.write("bad", Checkpoint(roots=(RootSnapshot(root="file:///a/../b"),)))
    assert [name for name, _ in files.all()] == [good]
