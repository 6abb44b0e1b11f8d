"""Trees of the shadow repository that are lost: going back goes on past them, and what the files
have now is mended before an edit takes it away."""

import os
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from alhena.session.errors import CheckpointError, LostMomentError
from alhena.session.loose import is_loose_and_whole, loose_object, put_loose
from alhena.session.restorer import Target
from alhena.session.shadow_files import DIRECTORY, EMPTY, Change, content_name
from alhena.session.shadow_trees import TREE, Entry, difference, made_of, trees
from tests.session.shadows import back, git, kept, put, shadow, state, undo
from tests.session.test_damage import (
    LOST,
    cut_short,
    in_one_pack,
    loose,
    objects,
    overwrite,
    with_junk,
)

Damage = Callable[[Path], None]


def tree_of(project: Path, tree: str, *names: str) -> Path:
    """The file of the tree at a path of a moment."""
    repository = shadow(project).git
    for name in names:
        there = trees(repository, (tree,))[tree]
        assert there is not None
        tree = there[name.encode()].content
    return objects(project) / tree[:2] / tree[2:]


def of_no_files(path: Path) -> None:
    overwrite(path, zlib.compress(b"tree 0\0"))


def emptied(path: Path) -> None:
    overwrite(path, b"")


DAMAGES = [with_junk, cut_short, emptied, of_no_files, Path.unlink]


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_in_a_damaged_directory_is_left_and_all_else_put_back(
    project: Path, damage: Damage
):
    for name in ("a", "sub/b", "sub/deep/c", "other/d"):
        put(project / name, "old\n")
    moment = kept(project)
    for name in ("a", "sub/b", "sub/deep/c", "other/d"):
        put(project / name, "new\n")
    put(project / "sub/deep/made")
    put(project / "other/made")
    damage(tree_of(project, moment.tree, "sub", "deep"))
    before = state(project / "sub/deep")
    done = back(project, moment)
    assert done.left == (("sub/deep/", LOST),)
    assert done.written == ("a", "other/d", "sub/b")
    assert done.removed == ("other/made",)
    assert state(project / "sub/deep") == before
    assert (project / "sub/b").read_text() == "old\n"


@pytest.mark.parametrize("became", ["file", "nothing"])
def test_what_has_the_place_of_a_damaged_directory_is_left(project: Path, became: str):
    put(project / "a", "old\n")
    put(project / "sub/b", "old\n")
    moment = kept(project)
    put(project / "a", "new\n")
    shutil.rmtree(project / "sub")
    if became == "file":
        put(project / "sub", "a file now\n")
    with_junk(tree_of(project, moment.tree, "sub"))
    before = {name: each for name, each in state(project).items() if name != "a"}
    done = back(project, moment)
    assert done.left == (("sub/", LOST),)
    assert {name: each for name, each in state(project).items() if name != "a"} == before
    assert (project / "a").read_text() == "old\n"


def test_a_file_does_not_take_the_place_of_a_directory_that_cannot_be_kept(project: Path):
    put(project / "sub", "a file\n")
    moment = kept(project)
    (project / "sub").unlink()
    put(project / "sub/b", "new\n")
    later = kept(project)
    with_junk(tree_of(project, later.tree, "sub"))
    assert back(project, moment).left == ()  # the files have it, so it was kept anew
    assert back(project, later).left == ()
    assert (project / "sub/b").read_text() == "new\n"


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_moment_of_which_nothing_is_left_is_told_as_that(project: Path, damage: Damage):
    put(project / "a", "old\n")
    moment = kept(project)
    put(project / "a", "new\n")
    damage(tree_of(project, moment.tree))
    with pytest.raises(LostMomentError, match=r"damaged|not kept any more"):
        back(project, moment)
    assert (project / "a").read_text() == "new\n"


@pytest.mark.parametrize("lost", ["start", "end"])
def test_a_turn_is_undone_as_far_as_its_trees_are_there(project: Path, lost: str):
    for name in ("a", "sub/b"):
        put(project / name, "old\n")
    start = kept(project)
    for name in ("a", "sub/b"):
        put(project / name, "new\n")
    end = kept(project)
    put(project / "sub/since", "mine\n")
    kept(project)  # what the files are at the end of the turn is known from nothing else now
    with_junk(tree_of(project, (start if lost == "start" else end).tree, "sub"))
    done = undo(shadow(project), Target(moment=start), end.tree)
    assert (project / "a").read_text() == "old\n"
    assert (project / "sub/b").read_text() == "new\n"
    assert done.left == (("sub/", LOST),)


@pytest.mark.parametrize("packed", [True, False])
def test_trees_of_what_the_files_are_now_are_kept_anew(project: Path, packed: bool):
    part = put(project / "part/sub/b", "old\n").parent.parent
    git(project, "init", "-q")  # so that the moment is a part of what git has in its index
    put(part / "sub/same/c", "same\n")
    moment = kept(part)
    put(part / "sub/b", "new\n")
    now = kept(part)
    if packed:
        pack = in_one_pack(part)
        data = pack.read_bytes()
        # Both are deltas, or the one of the other: the whole pack but the files of blobs goes.
        overwrite(pack, data[:12] + b"\xff" * (len(data) - 12))
        put(part / "sub/b", "old\n")
        for content in ("old\n", "same\n"):
            put_loose(objects(part).parent, content.encode(), "blob")
        put(part / "sub/b", "new\n")
    else:
        for names in (("sub", "same"), ("sub",), ()):
            with_junk(tree_of(part, now.tree, *names))
    again = kept(part, "sub/b")
    assert again.tree == now.tree
    assert again.left_out == ()
    put(part / "sub/b", "newer\n")
    put(part / "sub/same/c", "changed\n")
    assert back(part, again).left == ()
    assert (part / "sub/b").read_text() == "new\n"
    assert (part / "sub/same/c").read_text() == "same\n"
    if not packed:
        assert back(part, moment).left == ()


@pytest.mark.parametrize("damage", DAMAGES[:-1])
@pytest.mark.parametrize("where", ["content", "directory", "top", "of another file"])
def test_damage_is_mended_before_an_edit_takes_away_what_it_is_mended_with(
    project: Path, where: str, damage: Damage
):
    put(project / "sub/a", "old\n")
    put(project / "sub/b", "other\n")
    first = kept(project)
    damaged = {
        "content": loose(project, "old\n"),
        "directory": tree_of(project, first.tree, "sub"),
        "top": tree_of(project, first.tree),
        "of another file": loose(project, "other\n"),
    }
    damage(damaged[where])
    if where == "of another file":  # it is met when the first damage is
        damage(damaged["content"])
    moment = kept(project, "sub/a")  # as before an edit of sub/a
    put(project / "sub/a", "new\n")
    put(project / "sub/b", "new\n")
    done = back(project, moment)
    assert done.left == ()
    assert (project / "sub/a").read_text() == "old\n"
    assert (project / "sub/b").read_text() == "other\n"


def test_damage_in_a_pack_is_mended_before_an_edit_too(project: Path):
    put(project / "a", "old\n")
    put(project / "b", "other\n")
    kept(project)
    pack = in_one_pack(project)
    data = pack.read_bytes()
    place = data.index(zlib.compress(b"old\n"))
    overwrite(pack, data[:place] + b"\xff" * 8 + data[place + 8 :])
    moment = kept(project, "a")
    put(project / "a", "new\n")
    assert back(project, moment).left == ()
    assert (project / "a").read_text() == "old\n"


def test_what_nobody_can_mend_is_on_record_as_left_out(project: Path):
    put(project / "a", "old\n")
    put(project / "b", "old b\n")
    kept(project, "a")
    with_junk(loose(project, "old\n"))
    (objects(project) / content_name(b"old\n")[:2]).chmod(0o500)
    if os.geteuid() == 0:  # whom no mode stops
        path = loose(project, "old\n")
        path.unlink()
        path.mkdir()
    moment = kept(project, "a", "b", "nothing/there")
    assert moment.left_out == ("a",)
    assert (project / "a").read_text() == "old\n"


def test_where_nothing_is_damaged_no_content_is_kept_anew(project: Path):
    put(project / "sub/a", "old\n")
    kept(project)
    before = {path: path.stat().st_ino for path in objects(project).rglob("*")}
    kept(project, "sub/a", "sub", "none", "sub/a/none")
    assert {path: path.stat().st_ino for path in objects(project).rglob("*")} == before


def test_differences_are_those_that_git_sees(project: Path):
    for number in range(60):
        put(project / f"d{number % 7}/e{number % 3}/{number}", f"{number}\n")
    put(project / "sub/x", "x\n")
    put(project / "sub.txt", "sorted behind the directory's name\n")
    put(project / "sub-", "-\n").chmod(0o755)
    put(project / os.fsdecode(b"odd\xff\n"), "odd\n")
    os.symlink("nowhere", project / "link")
    old = kept(project).tree
    for number in range(0, 60, 7):
        (project / f"d{number % 7}/e{number % 3}/{number}").unlink()
    shutil.rmtree(project / "sub")
    put(project / "sub", "a file\n")
    (project / "sub-").chmod(0o644)
    (project / "link").unlink()
    put(project / "link/now", "a directory\n")
    new = kept(project).tree
    repository = shadow(project).git
    for one, other in ((old, new), (new, old), (EMPTY, old), (new, EMPTY)):
        listed = repository.run(
            ("diff-tree", "-r", "-z", "--raw", "--no-renames", "--full-index", one, other)
        ).split(b"\0")[:-1]
        changes = {
            Change(os.fsdecode(path), *head.decode().removeprefix(":").split()[:4])
            for head, path in zip(listed[::2], listed[1::2], strict=True)
        }
        found = difference(repository, one, other)
        assert set(found.changes) == changes
        assert len(found.changes) == len(changes)
        assert found.lost == frozenset()


def test_trees_are_made_as_git_makes_them(project: Path):
    for name in ("sub/x", "sub.txt", "sub-", "sub0/deep/y", "a/b/c/d/e/f"):
        put(project / name, f"{name}\n")
    tree = kept(project).tree
    repository = shadow(project).git
    listed = repository.run(("ls-tree", "-r", "-z", tree)).split(b"\0")[:-1]
    files = [
        (path, Entry(head.split()[0].decode(), head.split()[2].decode()))
        for head, _, path in (each.partition(b"\t") for each in listed)
    ]
    made = made_of(files)
    assert tree in made
    directories = repository.run(("ls-tree", "-r", "-t", "-d", "-z", tree)).split(b"\0")[:-1]
    assert set(made) == {tree, *(each.split()[2].decode() for each in directories)}
    assert set(made_of(())) == {EMPTY}


@pytest.mark.parametrize("name", ["..", ".git", ".GIT", "a/b", ""])
def test_names_that_no_file_has_are_not_gone_into(project: Path, name: str):
    put(project / "a", "old\n")
    kept(project)
    git_dir = objects(project).parent
    content = content_name(b"old\n")
    data = b"100644 %s\0%s" % (name.encode(), bytes.fromhex(content))
    put_loose(git_dir, data, TREE)
    top = b"%s sub\0%s" % (DIRECTORY.encode(), bytes.fromhex(content_name(data, TREE)))
    put_loose(git_dir, top, TREE)
    found = difference(shadow(project).git, EMPTY, content_name(top, TREE))
    assert (found.changes, found.lost) == ((), {"sub/"})


@pytest.mark.parametrize("tail", [b"", b"\0", b"more"])
def test_an_object_is_whole_when_it_can_be_read_to_its_end_and_no_further(
    tmp_path: Path, tail: bytes
):
    (tmp_path / "objects").mkdir()
    data = os.urandom(3 << 20) + bytes(5 << 20)
    name = content_name(data)
    assert not is_loose_and_whole(tmp_path, name)
    put_loose(tmp_path, data, "blob")
    path = tmp_path / "objects" / name[:2] / name[2:]
    overwrite(path, path.read_bytes() + tail)
    assert is_loose_and_whole(tmp_path, name) is (not tail)
    assert loose_object(tmp_path, name, "blob") == (None if tail else data)
    assert loose_object(tmp_path, name, TREE) is None


def test_a_commit_of_another_program_is_gone_back_to_as_far_as_it_is_there(project: Path):
    for name in ("a", "sub/b"):
        put(project / name, "old\n")
    moment = kept(project)
    git_dir = objects(project).parent
    commit = git(project, "--git-dir", str(git_dir), "commit-tree", "-m", "x", moment.tree).strip()
    for name in ("a", "sub/b"):
        put(project / name, "new\n")
    with_junk(tree_of(project, moment.tree, "sub"))
    done = back(project, type(moment)(commit))
    assert (done.written, done.left) == (("a",), (("sub/", LOST),))
    put(project / "a", "new\n")
    with_junk(tree_of(project, moment.tree))
    with pytest.raises(CheckpointError, match="damaged"):
        back(project, type(moment)(commit))


def test_a_moment_whose_file_a_crash_has_emptied_keeps_nothing_from_being_packed(project: Path):
    moments = [kept(put(project / "a", f"{number}\n").parent) for number in range(3)]
    repository = shadow(project)
    refs = repository.git.place.git_dir / "refs" / "alhena"
    for moment in moments[:2]:
        put(refs / moment.tree, "")
    with pytest.raises(CheckpointError):
        repository.collect()
    assert repository.keep_only(lambda: [each.tree for each in moments[1:]]) == 1
    assert {path.name: path.read_text() for path in refs.iterdir()} == {
        each.tree: f"{each.tree}\n" for each in moments[1:]
    }
    repository.collect()
    put(refs / moments[2].tree, "")
    kept(project)  # what is a moment again is held again
    assert (refs / moments[2].tree).read_text() == f"{moments[2].tree}\n"


def test_a_moment_whose_file_is_gone_is_held_again_if_it_is_there(project: Path):
    moments = [kept(put(project / "a", f"{number}\n").parent) for number in range(3)]
    refs = objects(project).parent / "refs" / "alhena"
    for moment in moments[:2]:
        (refs / moment.tree).unlink()
    with_junk(tree_of(project, moments[0].tree))
    for path in objects(project).glob("??/*"):
        os.utime(path, (5, 5))
    wanted = [*(each.tree for each in moments), "f" * 40, "../../x", f"{moments[0].tree}\nx", ""]
    assert shadow(project).keep_only(lambda: wanted) == 0
    assert {path.name for path in refs.iterdir()} == {each.tree for each in moments[1:]}
    shadow(project).collect()
    assert back(project, moments[1]).written == ("a",)
    assert (project / "a").read_text() == "1\n"


@pytest.mark.parametrize("packed", [True, False])
def test_a_damaged_list_of_what_is_left_out_is_not_taken_over(project: Path, packed: bool):
    put(project / ".gitignore", "data/\n")
    put(project / "data/x", "precious\n")
    (project / "bare").mkdir()
    first = kept(project)
    lists = {first.ignored: b"data/\0", first.bare: b"bare/\0"}
    if packed:
        pack = in_one_pack(project)
        for content in lists.values():
            data = pack.read_bytes()
            place = data.index(zlib.compress(content))
            overwrite(pack, data[:place] + b"\xff" * 8 + data[place + 8 :])
    else:
        for name in lists:
            with_junk(objects(project) / name[:2] / name[2:])
    moment = kept(project)
    assert (moment.ignored, moment.bare) == (first.ignored, first.bare)
    put(project / ".gitignore", "")
    put(project / "extra", "new\n")
    put(project / "bare/extra", "new\n")
    done = back(project, moment)
    assert set(done.removed) == {"extra", "bare/extra"}
    assert done.left == (("data/x", "the checkpoint leaves it out"),)
    assert (project / "bare").is_dir()


def test_a_list_that_is_there_is_made_young_again(project: Path):
    put(project / ".gitignore", "data/\n")
    put(project / "data/x")
    name = kept(project).ignored
    path = objects(project) / name[:2] / name[2:]
    os.utime(path, (5, 5))
    kept(project)
    assert path.stat().st_mtime > 5


def test_moments_that_another_git_has_put_together_go_as_well(project: Path):
    moments = [kept(put(project / "a", f"{number}\n").parent) for number in range(3)]
    repository = shadow(project)
    git_dir = repository.git.place.git_dir
    git(project, "--git-dir", str(git_dir), "pack-refs", "--all")
    assert repository.keep_only(lambda: [moments[2].tree]) == 2
    listed = git(project, "--git-dir", str(git_dir), "for-each-ref", "--format=%(refname)")
    assert listed.split() == [f"refs/alhena/{moments[2].tree}"]
