"""Going back when contents of the shadow repository are lost: what can be is put back, the rest is
named, and nothing is overwritten that could not come back."""

import os
import threading
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from alhena.session.errors import CheckpointError
from alhena.session.restorer import Restoration, Target
from alhena.session.shadow_files import Snapshot, content_name
from tests.session.shadows import back, git, kept, put, restore, shadow, undo
from tests.session.test_shadow_faults import REAL, environ, fake, on

LOST = "what it was is damaged in the checkpoint"


def objects(project: Path) -> Path:
    return shadow(project).git.place.git_dir / "objects"


def loose(project: Path, content: str) -> Path:
    name = content_name(content.encode())
    return objects(project) / name[:2] / name[2:]


def overwrite(path: Path, data: bytes) -> None:
    path.chmod(0o644)
    path.write_bytes(data)


def in_one_pack(project: Path) -> Path:
    shadow(project).collect()
    (pack,) = (objects(project) / "pack").glob("*.pack")
    return pack


def with_junk(path: Path) -> None:
    overwrite(path, b"junk\n")


def cut_short(path: Path) -> None:
    overwrite(path, path.read_bytes()[:-6])


def of_another(path: Path) -> None:
    overwrite(path, zlib.compress(b"blob 6\0other\n"))


def written(project: Path, word: str) -> None:
    for number in range(1, 7):
        put(project / f"f{number}", f"{word}{number}\n")


@pytest.mark.parametrize("damage", [with_junk, cut_short, of_another, Path.unlink, None])
def test_each_file_but_that_whose_content_is_lost_is_put_back_and_all_are_named(
    project: Path, damage: Callable[[Path], None] | None
):
    written(project, "old")
    moment = kept(project)
    written(project, "new")
    put(project / "extra")
    if damage is None:
        pack = in_one_pack(project)
        data = pack.read_bytes()
        place = data.index(zlib.compress(b"old4\n"))
        overwrite(pack, data[:place] + b"\xff" * 8 + data[place + 8 :])
    else:
        damage(loose(project, "old4\n"))
    done = back(project, moment)
    assert {path.name: path.read_text() for path in project.iterdir()} == {
        **{f"f{number}": f"old{number}\n" for number in (1, 2, 3, 5, 6)},
        "f4": "new4\n",
    }
    assert done.written == ("f1", "f2", "f3", "f5", "f6")
    assert done.removed == ("extra",)
    assert done.left == (("f4", LOST),)


@pytest.mark.parametrize("packed", [True, False])
def test_what_files_have_now_is_kept_anew_before_it_is_overwritten(project: Path, packed: bool):
    put(project / "a", "old\n")
    moment = kept(project)
    put(project / "a", "new\n")
    put(project / "same", "same\n")
    os.symlink("nowhere", project / "link")
    later = kept(project)
    if packed:
        pack = in_one_pack(project)
        for content in (b"new\n", b"same\n", b"nowhere"):
            data = pack.read_bytes()
            place = data.index(zlib.compress(content))
            overwrite(pack, data[:place] + b"\xff" * 8 + data[place + 8 :])
    else:
        for content in ("new\n", "same\n", "nowhere"):
            with_junk(loose(project, content))
    assert back(project, moment).left == ()
    assert (project / "a").read_text() == "old\n"
    assert back(project, later).left == ()
    assert {path.name: path.read_text() for path in (project / "a", project / "same")} == {
        "a": "new\n",
        "same": "same\n",
    }
    assert os.readlink(project / "link") == "nowhere"


def test_damage_that_was_met_is_not_taken_over_by_later_checkpoints(project: Path):
    put(project / "a", "old\n")
    put(project / "same", "same\n")
    moment = kept(project)
    put(project / "a", "new\n")
    with_junk(loose(project, "old\n"))
    with_junk(loose(project, "same\n"))
    assert back(project, moment).left == (("a", LOST),)
    put(project / "a", "old\n")
    later = kept(project)
    put(project / "a", "newer\n")
    put(project / "same", "changed\n")
    assert back(project, later).left == ()
    assert (project / "a").read_text() == "old\n"
    assert (project / "same").read_text() == "same\n"
    assert back(project, moment).left == ()


def test_a_file_that_cannot_be_kept_is_not_overwritten(project: Path, tmp_path: Path):
    put(project / "a", "old\n")
    moment = kept(project)
    put(project / "a", "new\n")
    put(project / "extra", "new\n")
    (project / "gone").mkdir()
    there = '"$GIT_DIR/objects/$(printf %.2s "$name")/${name#??}"'
    says = f'while read -r name; do rm -f {there}; echo "$name missing"; done'
    script = f'case "$*" in *cat-file*--batch*) {says};; *) exec {REAL} "$@";; esac'
    repository = on(project, environ(fake(tmp_path / "bin", script)))
    done = restore(repository, Target(moment=moment))
    assert sorted(done.left) == [
        ("a", "what it is now cannot be kept"),
        ("extra", "what it is now cannot be kept"),
    ]
    assert (project / "a").read_text() == (project / "extra").read_text() == "new\n"


def test_without_the_list_of_what_was_left_out_nothing_is_removed(project: Path):
    put(project / ".gitignore", "data/\n")
    put(project / "data/x", "precious\n")
    put(project / "a", "old\n")
    moment = kept(project, "named")
    put(project / ".gitignore", "")
    put(project / "a", "new\n")
    put(project / "named", "new\n")
    put(project / "extra", "new\n")
    with_junk(objects(project) / moment.ignored[:2] / moment.ignored[2:])
    done = back(project, moment, "named")
    assert (project / "a").read_text() == "old\n"
    assert (project / "data/x").read_text() == "precious\n"
    assert done.removed == ("named",)
    why = "the list of what the checkpoint leaves out is damaged"
    assert done.left == (("data/x", why), ("extra", why))


def test_where_rules_cannot_be_put_back_nothing_is_removed_that_they_may_have_left_out(
    project: Path,
):
    put(project / "sub/.gitignore", "data/\n")
    put(project / "a", "old\n")
    moment = kept(project)
    put(project / "sub/.gitignore", "#\n")
    put(project / "sub/data/x", "since\n")
    put(project / "extra", "new\n")
    with_junk(loose(project, "data/\n"))
    done = back(project, moment)
    assert done.removed == ("extra",)
    assert (project / "sub/data/x").read_text() == "since\n"
    assert done.left == (
        ("sub/.gitignore", LOST),
        ("sub/data/x", "what it was left out by could not be put back"),
    )


def failing(project: Path, tmp_path: Path, command: str) -> Restoration:
    """What comes of going back when a command of git's fails once files change."""
    for name in ("a", "b"):
        put(project / name, "old\n")
    moment = kept(project)
    in_one_pack(project)
    for name in ("a", "b", "extra"):
        put(project / name, "new\n")
    script = f'[ -e {tmp_path}/now ] && case "$*" in *{command}*) exit 9;; esac; exec {REAL} "$@"'
    repository = on(project, environ(fake(tmp_path / "bin", script)))
    return restore(repository, Target(moment=moment), lambda _before: put(tmp_path / "now"))


def test_what_git_fails_at_once_files_change_is_left_and_the_rest_is_done(
    project: Path, tmp_path: Path
):
    done = failing(project, tmp_path, "check-ignore")
    assert done.written == ("a", "b")
    assert done.left == (("extra", "git check-ignore failed (9): "),)


def test_when_git_fails_before_any_file_has_changed_that_is_said(project: Path, tmp_path: Path):
    with pytest.raises(CheckpointError, match="failed"):
        failing(project, tmp_path, "-")
    assert (project / "a").read_text() == (project / "extra").read_text() == "new\n"


def test_an_interruption_once_files_change_is_too_late(project: Path):
    put(project / "a", "old\n")
    moment = kept(project)
    put(project / "a", "new\n")
    put(project / "extra", "new\n")
    stop = threading.Event()
    repository = on(project, dict(os.environ), cancellation=stop)
    done = restore(repository, Target(moment=moment), lambda _before: stop.set())
    assert (done.written, done.removed, done.left) == (("a",), ("extra",), ())


def test_what_was_not_there_goes_before_anything_is_written(project: Path, tmp_path: Path):
    put(project / "a", "old\n")
    moment = kept(project)
    put(project / "a", "new\n")
    put(project / "fills the disk", "new\n")
    put(project / ".gitignore", "fills*\n")
    script = f'case "$*" in *--batch) ls {project} > {tmp_path}/seen;; esac; exec {REAL} "$@"'
    repository = on(project, environ(fake(tmp_path / "bin", script)))
    assert (
        restore(repository, Target(moment=moment, forced=frozenset(["fills the disk"]))).left == ()
    )
    assert (tmp_path / "seen").read_text() == "a\n"
    assert (project / "a").read_text() == "old\n"


def test_a_turn_is_undone_as_far_as_its_contents_are_there(project: Path):
    written(project, "old")
    start = kept(project)
    written(project, "new")
    end: Snapshot = kept(project)
    with_junk(loose(project, "old4\n"))
    done = undo(shadow(project), Target(moment=start), end.tree)
    assert done.left == (("f4", LOST),)
    assert (project / "f5").read_text() == "old5\n"


def test_a_repository_with_damage_is_git_s_still(project: Path):
    put(project / "a", "old\n")
    moment = kept(project)
    with_junk(loose(project, "old\n"))
    put(project / "copy", "old\n")
    put(project / "a", "new\n")
    assert back(project, moment).left == ()
    assert (project / "a").read_text() == "old\n"
    git(project, "--git-dir", str(shadow(project).git.place.git_dir), "fsck", "--full", "--strict")
