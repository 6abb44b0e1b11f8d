"""Workspace roots of a project that cannot be kept itself, or has lost what it was."""

import os
import shutil
import threading
from pathlib import Path

import pytest

from alhena.session.checkpoints.records import (
    Checkpoint,
    CheckpointError,
    GitFailedError,
    LostSnapshotError,
    NoGitError,
    TooMuchError,
)
from alhena.session.checkpoints.repository import Limits
from alhena.session.checkpoints.roots import Roots
from tests.session.repositories import put
from tests.session.test_damage import objects, with_junk
from tests.session.test_repository_faults import REAL, environ, fake
from tests.session.test_roots import back, keep, own, roots


@pytest.fixture
def home() -> Path:
    return Path(os.environ["HOME"]).resolve()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return put(tmp_path / "root/a.txt", "old\n").parent


def test_where_the_project_is_too_much_its_other_roots_are_kept(home: Path, root: Path):
    put(home / "p.txt", "old\n")
    inner = put(home / "work/b.txt", "old\n").parent
    of = roots(home, root, inner)
    snapshot = keep(of, root / "a.txt", inner / "b.txt", home / "p.txt")
    ((which, error),) = snapshot.problems
    assert (which, type(error)) == (home, TooMuchError)
    assert {directory.name for directory in own(snapshot)} == {"root", "work"}
    assert {each.paths for each in snapshot.snapshots} == {("a.txt",), ("b.txt",)}
    assert keep(of).problems == ()  # which is not tried again
    for path in (home / "p.txt", root / "a.txt", inner / "b.txt"):
        put(path, "new\n")
    done, before = back(of, snapshot.snapshots)
    assert set(done.written) == {str(root / "a.txt"), str(inner / "b.txt")}
    assert done.left == ()
    assert done.before == ""
    assert (home / "p.txt").read_text() == "new\n"
    back(of, before)
    assert (root / "a.txt").read_text() == (inner / "b.txt").read_text() == "new\n"


def failing_in(root: Path, tmp_path: Path) -> dict[str, str]:
    """An environment in which git fails for the files of a root while `tmp_path/now` exists."""
    script = f'[ -e {tmp_path}/now ] && [ "$GIT_WORK_TREE" = {root} ] && exit 9; exec {REAL} "$@"'
    put(tmp_path / "now")
    return environ(fake(tmp_path / "bin", script))


def test_a_failure_for_the_project_alone_may_pass(project: Path, root: Path, tmp_path: Path):
    put(project / "p.txt")
    of = roots(project, root, found=failing_in(project, tmp_path))
    snapshot = keep(of)
    ((which, error),) = snapshot.problems
    assert which == project
    assert "failed (9)" in error.message
    assert own(snapshot) == [root]
    (tmp_path / "now").unlink()
    assert [each.root for each in keep(of).snapshots] == ["", root.as_uri()]


def test_a_project_that_has_too_many_files_keeps_no_root_from_being_kept(
    project: Path, root: Path, home: Path
):
    for number in range(3):
        put(project / f"{number}.txt")
    of = Roots(project, home / "h", dict(os.environ), (root,), Limits(files=2))
    assert own(keep(of)) == [root]
    (project / "0.txt").unlink()
    assert own(keep(of)) == [root]


def test_where_nothing_can_be_kept_what_may_pass_is_told_rather_than_what_does_not(
    home: Path, root: Path, tmp_path: Path
):
    of = roots(home, root, found=failing_in(root, tmp_path))
    for _ in range(2):
        with pytest.raises(GitFailedError, match="failed"):
            keep(of)
    (tmp_path / "now").unlink()
    assert own(keep(of)) == [root]


def test_where_nothing_will_ever_be_kept_that_is_told_each_time(
    project: Path, home: Path, root: Path
):
    alone = roots(home)
    gone = roots(project, root, found={"PATH": "", "HOME": str(home)})
    for _ in range(2):
        with pytest.raises(TooMuchError, match="contains the checkpoints themselves"):
            keep(alone)
        with pytest.raises(NoGitError):
            keep(gone)


def test_nobody_else_is_at_work_on_a_root_of_a_project_that_cannot_be_kept(home: Path, root: Path):
    of = roots(home, root)
    keep(of)  # from here on the project is not tried any more
    stop = threading.Event()
    done: list[str] = []

    def tidy() -> None:
        try:
            roots(home, root).tidy(tuple, stop)
        except CheckpointError:
            done.append("stopped")
        done.append("over")

    thread = threading.Thread(target=tidy)
    with of.saved((), stop) as saved:
        thread.start()
        thread.join(0.3)
        assert done == []
        found = [("one", Checkpoint().having(saved.snapshots))]
        stop.set()
        thread.join()
    assert done == ["stopped", "over"]
    stop.clear()
    of.tidy(lambda: found, stop)
    repository = of.repository(root.as_uri(), stop)
    assert repository.held() == {saved.snapshots[0].tree}
    of.tidy(tuple, stop)
    assert not repository.directory.exists()


def test_a_project_that_is_gone_is_not_passed_over(project: Path, root: Path):
    of = roots(project, root)
    keep(of)
    shutil.rmtree(project)
    with pytest.raises(CheckpointError):
        keep(of)


def test_where_the_moment_of_the_project_is_lost_the_roots_are_put_back(project: Path, root: Path):
    put(project / "p.txt", "old\n")
    of = roots(project, root)
    snapshot = keep(of)
    put(project / "p.txt", "new\n")
    put(root / "a.txt", "new\n")
    tree = snapshot.snapshots[0].tree
    with_junk(objects(project) / tree[:2] / tree[2:])
    done, before = back(of, snapshot.snapshots)
    assert done.written == (str(root / "a.txt"),)
    ((which, why),) = done.left
    assert which == str(project)
    assert "not saved any more" in why or "damaged" in why
    assert (project / "p.txt").read_text() == "new\n"
    assert [each.root for each in before] == [root.as_uri()]
    shutil.rmtree(of.repository(root.as_uri(), threading.Event()).directory)
    put(root / "a.txt", "new\n")
    with pytest.raises(LostSnapshotError):
        back(of, snapshot.snapshots)
