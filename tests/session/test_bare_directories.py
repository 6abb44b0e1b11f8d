"""Directories when files are put back: those that were there stay, as they are."""

import os
import shutil
from pathlib import Path

import pytest

from alhena.session.restorer import Target
from alhena.session.shadow_files import Limits, Snapshot
from tests.session.shadows import back, git, kept, put, restore, shadow
from tests.session.test_places import back as back_at
from tests.session.test_places import keep, places


def directories(project: Path) -> list[str]:
    found = (path for path in project.rglob("*") if path.is_dir() and ".git" not in path.parts)
    return sorted(str(path.relative_to(project)) for path in found)


def test_one_that_was_empty_stays_and_one_that_was_made_goes(project: Path):
    put(project / "a")
    (project / "f").mkdir()
    (project / "deep/er").mkdir(parents=True)
    moment = kept(project)
    for name in ("f/x", "deep/er/x", "made/y/x", "a.d/x"):
        put(project / name)
    assert back(project, moment).left == ()
    assert directories(project) == ["deep", "deep/er", "f"]


def test_one_that_has_become_empty_before_the_checkpoint_stays(project: Path):
    put(project / "f/x")
    put(project / "a")
    kept(project)
    (project / "f/x").unlink()
    moment = kept(project)
    put(project / "f/x")
    back(project, moment)
    assert directories(project) == ["f"]


def test_one_that_is_new_at_the_checkpoint_says_nothing_of_those_below_it(project: Path):
    put(project / "a")
    kept(project)
    put(project / "f/a")
    moment = kept(project)
    put(project / "f/made/x")
    back(project, moment)
    assert directories(project) == ["f"]


def test_one_of_ignored_or_large_files_stays_when_they_are_gone(project: Path):
    limits = Limits(file_bytes=1_000)
    put(project / ".gitignore", "*.log\nbuild/\n")
    put(project / "logs/a.log")
    put(project / "build/a")
    put(project / "large/a", b"x" * 2_000)
    moment = shadow(project, limits).snapshot()
    for name in ("logs", "build", "large"):
        shutil.rmtree(project / name)
        put(project / name / "x")
    restore(shadow(project, limits), Target(moment=moment, forced=frozenset(["build/x"])))
    assert directories(project) == ["build", "large", "logs"]


def test_one_in_a_part_of_a_repository_stays(project: Path):
    git(project, "init", "-q")
    part = put(project / "part/a").parent
    (part / "f").mkdir()
    (project / "outside").mkdir()
    moment = kept(part)
    assert shadow(part).listed(moment.bare) == {"f/"}
    put(part / "f/x")
    put(part / "made/x")
    back(part, moment)
    assert directories(part) == ["f"]


def test_where_a_part_of_a_repository_has_no_file_none_goes(project: Path):
    git(project, "init", "-q")
    part = project / "part"
    (part / "f").mkdir(parents=True)
    moment = kept(part)
    put(part / "f/x")
    assert back(part, moment).removed == ("f/x",)
    assert directories(part) == ["f"]


def test_one_in_another_root_stays(project: Path, tmp_path: Path):
    root = put(tmp_path / "root/a").parent
    (root / "f").mkdir()
    of = places(project, root)
    moment = keep(of)
    put(root / "f/x")
    put(root / "made/x")
    back_at(of, moment.places)
    assert directories(root) == ["f"]


@pytest.mark.parametrize("known", ["never", "no more"])
def test_where_it_is_not_known_which_were_there_none_goes(project: Path, known: str):
    put(project / "a")
    (project / "f").mkdir()
    moment = kept(project)
    if known == "never":
        moment = Snapshot(moment.tree)
    else:
        objects = shadow(project).git.place.git_dir / "objects"
        (objects / moment.bare[:2] / moment.bare[2:]).unlink()
    put(project / "f/x")
    put(project / "made/x")
    assert back(project, moment).removed == ("f/x", "made/x")
    assert directories(project) == ["f", "made"]


def test_one_in_which_everything_is_another_keeps_its_permissions(project: Path):
    put(project / "f/old").parent.chmod(0o700)
    moment = kept(project)
    (project / "f/old").unlink()
    put(project / "f/new")
    put(project / "f/other/x")
    back(project, moment)
    assert (project / "f").stat().st_mode & 0o777 == 0o700
    assert sorted(os.listdir(project / "f")) == ["old"]


def test_one_in_whose_place_a_file_comes_goes_and_the_one_around_it_stays(project: Path):
    put(project / "f/file").parent.chmod(0o700)
    put(project / "g", "old\n")
    moment = kept(project)
    (project / "f/file").unlink()
    put(project / "f/file/x/y")
    (project / "g").unlink()
    (project / "g").mkdir()
    assert back(project, moment).left == ()
    assert (project / "f/file").is_file()
    assert (project / "g").read_text() == "old\n"
    assert (project / "f").stat().st_mode & 0o777 == 0o700


def test_none_is_removed_through_a_symlink(project: Path, tmp_path: Path):
    outside = tmp_path / "outside"
    (outside / "g/file").mkdir(parents=True)
    put(project / "d/g/file")
    moment = kept(project)
    shutil.rmtree(project / "d")
    (project / "d").symlink_to(outside)
    put(project / ".gitignore", "d\n")
    assert [path for path, _ in back(project, moment).left] == ["d/g/file"]
    assert (outside / "g/file").is_dir()
