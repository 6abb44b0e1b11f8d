"""Workspace roots of a project that cannot be kept itself, or has lost what it was."""

import os
import shutil
import threading
from pathlib import Path

import pytest

from alhena.session.checkpoints import Checkpoint
from alhena.session.errors import CheckpointError, LostMomentError, NoGitError, TooMuchError
from alhena.session.places import Places
from alhena.session.shadow_files import Limits
from tests.session.shadows import put
from tests.session.test_damage import with_junk
from tests.session.test_damaged_trees import tree_of
from tests.session.test_places import back, keep, own, places


@pytest.fixture
def home() -> Path:
    return Path(os.environ["HOME"]).resolve()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return put(tmp_path / "root/a.txt", "old\n").parent


def test_where_the_project_is_too_much_its_other_roots_are_kept(home: Path, root: Path):
    put(home / "p.txt", "old\n")
    inner = put(home / "work/b.txt", "old\n").parent
    of = places(home, root, inner)
    moment = keep(of, root / "a.txt", inner / "b.txt", home / "p.txt")
    ((which, error),) = moment.problems
    assert (which, type(error)) == (home, TooMuchError)
    assert {directory.name for directory in own(moment)} == {"root", "work"}
    assert {each.paths for each in moment.places} == {("a.txt",), ("b.txt",)}
    assert keep(of).problems == ()  # which is not tried again
    for path in (home / "p.txt", root / "a.txt", inner / "b.txt"):
        put(path, "new\n")
    done, before = back(of, moment.places)
    assert set(done.written) == {str(root / "a.txt"), str(inner / "b.txt")}
    assert done.left == ()
    assert done.before.tree == ""
    assert (home / "p.txt").read_text() == "new\n"
    back(of, before)
    assert (root / "a.txt").read_text() == (inner / "b.txt").read_text() == "new\n"


def test_what_the_project_cannot_be_kept_for_may_pass(project: Path, root: Path):
    put(project / "p.txt")
    os.mkfifo(project / ".gitignore")
    of = places(project, root)
    moment = keep(of)
    ((which, error),) = moment.problems
    assert which == project
    assert "no regular file" in error.message
    assert own(moment) == [root]
    (project / ".gitignore").unlink()
    assert [each.root for each in keep(of).places] == ["", root.as_uri()]


def test_a_project_that_has_too_many_files_keeps_no_root_from_being_kept(
    project: Path, root: Path, home: Path
):
    for number in range(3):
        put(project / f"{number}.txt")
    of = Places(project, home / "h", dict(os.environ), (root,), Limits(files=2))
    assert own(keep(of)) == [root]
    (project / "0.txt").unlink()
    assert own(keep(of)) == [root]


def test_where_nothing_can_be_kept_what_may_pass_is_told_rather_than_what_does_not(
    home: Path, root: Path
):
    of = places(home, root)
    os.mkfifo(root / ".gitignore")
    for _ in range(2):
        with pytest.raises(CheckpointError, match="no regular file") as told:
            keep(of)
        assert type(told.value) is CheckpointError
    (root / ".gitignore").unlink()
    assert own(keep(of)) == [root]


def test_where_nothing_will_ever_be_kept_that_is_told_each_time(
    project: Path, home: Path, root: Path
):
    alone = places(home)
    gone = places(project, root, found={"PATH": "", "HOME": str(home)})
    for _ in range(2):
        with pytest.raises(TooMuchError, match="holds the checkpoints themselves"):
            keep(alone)
        with pytest.raises(NoGitError):
            keep(gone)


def test_nobody_else_is_at_work_on_a_root_of_a_project_that_cannot_be_kept(home: Path, root: Path):
    of = places(home, root)
    keep(of)  # from here on the project is not tried any more
    stop = threading.Event()
    done: list[str] = []

    def tidy() -> None:
        try:
            places(home, root).tidy(tuple, stop)
        except CheckpointError:
            done.append("stopped")
        done.append("over")

    thread = threading.Thread(target=tidy)
    with of.kept((), stop) as kept:
        thread.start()
        thread.join(0.3)
        assert done == []
        found = [("one", Checkpoint().having(kept.places))]
        stop.set()
        thread.join()
    assert done == ["stopped", "over"]
    stop.clear()
    of.tidy(lambda: found, stop)
    repository = of.repository(root.as_uri(), stop)
    assert repository.held == {kept.places[0].tree}
    of.tidy(tuple, stop)
    assert not repository.directory.exists()


def test_a_project_that_is_gone_is_not_passed_over(project: Path, root: Path):
    of = places(project, root)
    keep(of)
    shutil.rmtree(project)
    with pytest.raises(CheckpointError):
        keep(of)


def test_where_the_moment_of_the_project_is_lost_the_roots_are_put_back(project: Path, root: Path):
    put(project / "p.txt", "old\n")
    of = places(project, root)
    moment = keep(of)
    put(project / "p.txt", "new\n")
    put(root / "a.txt", "new\n")
    with_junk(tree_of(project, moment.places[0].tree))
    done, before = back(of, moment.places)
    assert done.written == (str(root / "a.txt"),)
    ((which, why),) = done.left
    assert which == str(project)
    assert "not kept any more" in why or "damaged" in why
    assert (project / "p.txt").read_text() == "new\n"
    assert [each.root for each in before] == [root.as_uri()]
    shutil.rmtree(of.repository(root.as_uri(), threading.Event()).directory)
    with pytest.raises(LostMomentError):
        back(of, moment.places)
