"""Files on their way back to what they were: all of them, and nothing that is not theirs."""

import os
from pathlib import Path

from alhena.session.checkpoints.repository import Snapshot, SnapshotLimits
from tests.session.repositories import (
    back,
    git,
    goal,
    paths,
    put,
    repository,
    restore,
    save_snapshot,
    state,
)


def test_files_come_back_as_they_were_whatever_became_of_them(project: Path):
    put(project / "kept.txt")
    put(project / "changed.txt", "old\n")
    put(project / "gone/deep/er.txt", "deep\n")
    put(project / "run.sh", "#!/bin/sh\n").chmod(0o755)
    (project / "link").symlink_to("changed.txt")
    (project / "dangling").symlink_to("/nowhere/at all")
    put(project / "becomes a directory", "file\n")
    put(project / "becomes-file/inner.txt", "inner\n")
    put(project / os.fsdecode(b"odd\xff\n:(top)name"), b"\0\xff\r\n")
    put(project / ":(glob)*", "magic\n")
    put(project / "crlf.txt", b"a\r\nb\n")
    before = state(project)
    snapshot = save_snapshot(project)
    put(project / "changed.txt", "new\n")
    (project / "gone/deep/er.txt").unlink()
    (project / "gone/deep").rmdir()
    (project / "run.sh").chmod(0o644)
    (project / "link").unlink()
    put(project / "link", "a file now")
    (project / "dangling").unlink()
    (project / "dangling").symlink_to("kept.txt")
    (project / "becomes a directory").unlink()
    put(project / "becomes a directory/x/y.txt")
    (project / "becomes-file/inner.txt").unlink()
    (project / "becomes-file").rmdir()
    put(project / "becomes-file", "a file now")
    (project / os.fsdecode(b"odd\xff\n:(top)name")).unlink()
    put(project / "made/new.txt")
    put(project / "crlf.txt", b"a\nb\n")
    after = state(project)
    done = back(project, snapshot)
    assert done.left == ()
    assert state(project) == before
    assert not (project / "made").exists()
    assert back(project, Snapshot(done.before)).left == ()
    assert state(project) == after


def test_ignored_files_are_left_out_and_stay(project: Path):
    git(project, "init", "-q")
    put(Path(os.environ["HOME"], ".config/git/ignore"), "*.swp\n")
    put(project / ".git/info/exclude", "private/\n")
    put(project / ".gitignore", "*.log\nbuild/\n")
    put(project / ".geminiignore", "/secrets\n")
    for name in ("a.log", "build/x", "private/x", "a.swp", "secrets", "sub/secrets", "a.py"):
        put(project / name, "old\n")
    snapshot = save_snapshot(project)
    assert paths(project, snapshot.tree) == (
        ".geminiignore",
        ".gitignore",
        "a.py",
        "sub/secrets",
    )
    for name in ("a.log", "build/x", "private/x", "a.swp", "secrets", "a.py", "build/y"):
        put(project / name, "new\n")
    back(project, snapshot)
    assert (project / "a.py").read_text() == "old\n"
    for name in ("a.log", "build/x", "private/x", "a.swp", "secrets", "build/y"):
        assert (project / name).read_text() == "new\n"


def test_an_ignored_file_that_a_call_names_is_kept_and_comes_back(project: Path):
    put(project / ".gitignore", "*.env\n")
    put(project / "my.env", "KEY=1\n")
    snapshot = save_snapshot(project, "my.env", "new.env", ".git/config", "behind/../x")
    put(project / "my.env", "KEY=2\n")
    put(project / "new.env")
    back(project, snapshot, "my.env", "new.env")
    assert (project / "my.env").read_text() == "KEY=1\n"
    assert not (project / "new.env").exists()


def test_a_file_that_has_grown_large_is_not_lost_when_its_old_content_comes_back(project: Path):
    limits = SnapshotLimits(file_bytes=1_000)
    put(project / "a.bin", b"small")
    snapshot = save_snapshot(project, limits=limits)
    put(project / "a.bin", b"x" * 5_000)
    done = restore(repository(project, limits), goal(snapshot))
    assert (project / "a.bin").read_bytes() == b"small"
    restore(repository(project, limits), goal(Snapshot(done.before)))
    assert (project / "a.bin").read_bytes() == b"x" * 5_000


def test_a_file_that_changes_while_files_are_put_back_is_left_alone(project: Path):
    put(project / "a.txt", "old\n")
    put(project / "b.txt", "old\n")
    snapshot = save_snapshot(project)
    put(project / "a.txt", "new\n")
    put(project / "b.txt", "new\n")
    put(project / "c.txt", "new\n")

    def change(_before: Snapshot) -> None:
        put(project / "b.txt", "newer\n")
        put(project / "c.txt", "newer\n")

    done = restore(repository(project), goal(snapshot), record=change)
    assert (project / "a.txt").read_text() == "old\n"
    assert (project / "b.txt").read_text() == "newer\n"
    assert (project / "c.txt").read_text() == "newer\n"
    assert sorted(path for path, _ in done.left) == ["b.txt", "c.txt"]


def test_nothing_is_written_through_a_symlink_out_of_the_project(project: Path, tmp_path: Path):
    outside = tmp_path / "outside"
    put(outside / "a.txt", "theirs\n")
    put(project / "dir/a.txt", "old\n")
    snapshot = save_snapshot(project)
    (project / "dir/a.txt").unlink()
    (project / "dir").rmdir()
    (project / "dir").symlink_to(outside)
    done = back(project, snapshot)
    assert done.left == ()
    assert (outside / "a.txt").read_text() == "theirs\n"
    assert (project / "dir/a.txt").read_text() == "old\n"


def test_a_file_that_only_its_owner_may_read_comes_back_as_one(project: Path):
    put(project / "key.pem", "secret\n").chmod(0o600)
    put(project / "a.txt", "old\n")
    save_snapshot(project)
    put(project / "a.txt", "new\n")
    snapshot = save_snapshot(project)
    (project / "key.pem").unlink()
    (project / "a.txt").unlink()
    save_snapshot(project)
    done = back(project, snapshot)
    assert done.left == ()
    assert (project / "key.pem").read_text() == "secret\n"
    assert (project / "key.pem").stat().st_mode & 0o777 == 0o600
    assert (project / "a.txt").stat().st_mode & 0o044
