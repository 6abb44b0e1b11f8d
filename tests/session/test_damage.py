"""Restoring with a damaged repository: files with lost contents are left and named, and no file is
overwritten unless its present content is saved."""

import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from alhena.session.checkpoints.git import content_name
from alhena.session.checkpoints.records import LostSnapshotError
from alhena.session.checkpoints.repository import Snapshot
from tests.session.repositories import (
    back,
    goal,
    put,
    repository,
    restore,
    save_snapshot,
    undo,
)
from tests.session.test_repository_faults import REAL, environ, fake, on

LOST = "its content in the checkpoint is damaged"


def objects(project: Path) -> Path:
    return repository(project).git.git_dir / "objects"


def loose(project: Path, content: str) -> Path:
    name = content_name(content.encode())
    return objects(project) / name[:2] / name[2:]


def overwrite(path: Path, data: bytes) -> None:
    path.chmod(0o644)
    path.write_bytes(data)


def in_one_pack(project: Path) -> Path:
    repository(project).collect()
    (pack,) = (objects(project) / "pack").glob("*.pack")
    return pack


def with_junk(path: Path) -> None:
    overwrite(path, b"junk\n")


def cut_short(path: Path) -> None:
    overwrite(path, path.read_bytes()[:-6])


def of_another(path: Path) -> None:
    overwrite(path, zlib.compress(b"blob 6\0other\n"))


def write_session(project: Path, word: str) -> None:
    for number in range(1, 7):
        put(project / f"f{number}", f"{word}{number}\n")


@pytest.mark.parametrize("damage", [with_junk, cut_short, of_another, Path.unlink, None])
def test_each_file_but_that_whose_content_is_lost_is_put_back_and_all_are_named(
    project: Path, damage: Callable[[Path], None] | None
):
    write_session(project, "old")
    snapshot = save_snapshot(project)
    write_session(project, "new")
    put(project / "extra")
    if damage is None:
        pack = in_one_pack(project)
        data = pack.read_bytes()
        place = data.index(zlib.compress(b"old4\n"))
        overwrite(pack, data[:place] + b"\xff" * 8 + data[place + 8 :])
    else:
        damage(loose(project, "old4\n"))
    done = back(project, snapshot)
    assert {path.name: path.read_text() for path in project.iterdir()} == {
        **{f"f{number}": f"old{number}\n" for number in (1, 2, 3, 5, 6)},
        "f4": "new4\n",
    }
    assert done.written == ("f1", "f2", "f3", "f5", "f6")
    assert done.removed == ("extra",)
    assert done.left == (("f4", LOST),)


def test_a_turn_is_undone_as_far_as_its_contents_are_there(project: Path):
    write_session(project, "old")
    start = save_snapshot(project)
    write_session(project, "new")
    end: Snapshot = save_snapshot(project)
    with_junk(loose(project, "old4\n"))
    done = undo(project, start, end.tree)
    assert done.left == (("f4", LOST),)
    assert (project / "f5").read_text() == "old5\n"


def test_a_file_whose_present_content_cannot_be_read_back_is_not_overwritten(project: Path):
    put(project / "a", "old\n")
    snapshot = save_snapshot(project)
    put(project / "a", "new\n")
    put(project / "extra", "new too\n")
    put(project / "b", "new\n")
    save_snapshot(project)
    for content in ("new\n", "new too\n"):
        with_junk(loose(project, content))
    done = back(project, snapshot)
    why = "its present content cannot be saved"
    assert sorted(done.left) == [("a", why), ("b", why), ("extra", why)]
    assert (project / "a").read_text() == "new\n"


@pytest.mark.parametrize("damage", [with_junk, cut_short, Path.unlink])
def test_a_snapshot_with_a_damaged_tree_is_lost_and_the_repository_set_aside(
    project: Path, damage: Callable[[Path], None]
):
    put(project / "a", "old\n")
    snapshot = save_snapshot(project)
    put(project / "a", "new\n")
    damage(objects(project) / snapshot.tree[:2] / snapshot.tree[2:])
    with pytest.raises(LostSnapshotError, match=r"was damaged; a new one is begun.*damaged-1"):
        back(project, snapshot)
    assert (project / "a").read_text() == "new\n"
    later = save_snapshot(project)
    put(project / "a", "newer\n")
    assert back(project, later).written == ("a",)


def test_notes_that_are_damaged_keep_a_snapshot_from_being_restored(project: Path):
    put(project / ".gitignore", "data/\n")
    put(project / "data/x", "precious\n")
    snapshot = save_snapshot(project)
    put(project / ".gitignore", "")
    with_junk(objects(project) / snapshot.notes[:2] / snapshot.notes[2:])
    with pytest.raises(LostSnapshotError, match="the notes of the checkpoint are damaged"):
        back(project, snapshot)
    assert (project / "data/x").read_text() == "precious\n"


def test_a_git_that_fails_while_contents_are_read_changes_no_file(project: Path, tmp_path: Path):
    put(project / "a", "old\n")
    snapshot = save_snapshot(project)
    repository(project).collect()  # what has a file of its own is read without git
    put(project / "a", "new\n")
    script = f'case "$*" in *--batch*) kill -9 $$;; esac; exec {REAL} "$@"'
    done = restore(on(project, environ(fake(tmp_path / "bin", script))), goal(snapshot))
    assert done.left == (("a", "its content in the checkpoint is damaged"),)
    assert (project / "a").read_text() == "new\n"
    assert back(project, snapshot).written == ("a",)
