import os
import resource
import stat
import threading
from pathlib import Path

import pytest

from alhena.system.errors import ChangedFileError, DiskFullError, FileError, WriteFailureError
from alhena.system.files import read_whole
from alhena.system.replacement import replace_file
from tests.support.disk import descriptors, file_size_limit

LIMIT = 10_000_000


class CancelledAt(threading.Event):
    """Set from the n-th time on that somebody looks."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.left = times

    def is_set(self) -> bool:
        self.left -= 1
        return self.left < 0


class Intruder(threading.Event):
    """Writes the file whenever somebody looks whether it is set, which it never is."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def is_set(self) -> bool:
        self.path.write_text("theirs", encoding="utf-8")
        return False


def old_file(project: Path, content: bytes = b"old") -> tuple[Path, bytes]:
    path = project / "a.txt"
    path.write_bytes(content)
    return path, read_whole(path, LIMIT)[1]


@pytest.mark.requirement("TOOLS-09")
def test_a_full_disk_leaves_the_old_content_and_no_rest(project: Path) -> None:
    path, before = old_file(project)
    opened = descriptors()
    with file_size_limit(1000), pytest.raises(DiskFullError, match=r"a\.txt"):
        replace_file(path, b"x" * 5000, expected=before, limit=LIMIT)
    with file_size_limit(1000), pytest.raises(DiskFullError):
        replace_file(project / "n/e/w.txt", b"x" * 5000, expected=None, limit=LIMIT)
    assert path.read_bytes() == b"old"
    assert os.listdir(project) == ["a.txt"]
    assert descriptors() <= opened


@pytest.mark.parametrize("existed", [True, False])
def test_cancelled_at_any_point_it_is_the_old_file_or_the_new(project: Path, existed: bool) -> None:
    data = b"x" * 3_500_000
    outcomes: set[bool] = set()
    for times in range(8):
        path, before = old_file(project) if existed else (project / "sub/a.txt", None)
        try:
            replace_file(path, data, expected=before, limit=LIMIT, cancellation=CancelledAt(times))
        except WriteFailureError:
            outcomes.add(False)
            assert path.read_bytes() == b"old" if existed else os.listdir(project) == []
        else:
            outcomes.add(True)
            assert path.read_bytes() == data
            assert os.listdir(path.parent) == ["a.txt"]
            path.unlink()
            if not existed:
                path.parent.rmdir()
    assert outcomes == {True, False}


def test_a_file_made_meanwhile_is_not_overwritten(project: Path) -> None:
    path = project / "a.txt"

    with pytest.raises(ChangedFileError):
        replace_file(path, b"mine", expected=None, limit=LIMIT, cancellation=Intruder(path))
    assert path.read_text(encoding="utf-8") == "theirs"
    assert os.listdir(project) == ["a.txt"]


def test_a_change_during_the_write_is_noticed(project: Path) -> None:
    path, before = old_file(project)

    with pytest.raises(ChangedFileError):
        replace_file(path, b"mine", expected=before, limit=LIMIT, cancellation=Intruder(path))
    assert path.read_text(encoding="utf-8") == "theirs"


def test_a_touched_file_with_the_same_bytes_counts_as_unchanged(project: Path) -> None:
    path, before = old_file(project)
    path.write_bytes(b"old")
    os.utime(path, (1, 1))
    replace_file(path, b"new", expected=before, limit=LIMIT)
    assert path.read_bytes() == b"new"


def test_owner_mode_and_extended_attributes_stay(project: Path) -> None:
    path, before = old_file(project)
    path.chmod(0o751)
    if os.geteuid() == 0:
        os.chown(path, 12345, 23456)
    os.setxattr(path, "user.mark", b"kept")
    was = path.stat()
    replace_file(path, b"new", expected=before, limit=LIMIT)
    now = path.stat()
    assert (now.st_uid, now.st_gid) == (was.st_uid, was.st_gid)
    assert stat.S_IMODE(now.st_mode) == 0o751
    assert os.getxattr(path, "user.mark") == b"kept"
    assert now.st_ino != was.st_ino


def test_a_directory_that_becomes_a_link_is_not_followed(project: Path) -> None:
    (project / "sub").mkdir()
    (project.parent / "outside").mkdir()
    real = project / "sub/a.txt"
    (project / "sub").rmdir()
    (project / "sub").symlink_to("../outside")
    with pytest.raises(FileError, match="not a directory"):
        replace_file(real, b"x", expected=None, limit=LIMIT)
    assert os.listdir(project.parent / "outside") == []


def test_a_file_one_may_not_read_or_that_is_none_is_no_file_to_replace(project: Path) -> None:
    os.mkfifo(project / "fifo")
    with pytest.raises(FileError, match="FIFO"):
        replace_file(project / "fifo", b"x", expected=None, limit=LIMIT)
    assert stat.S_ISFIFO((project / "fifo").stat().st_mode)


def linked_file(project: Path, content: bytes) -> tuple[Path, Path, bytes]:
    path, before = old_file(project, content)
    (project / "sub").mkdir(exist_ok=True)
    other = project / "sub/b.txt"
    other.hardlink_to(path)
    return path, other, before


@pytest.mark.requirement("TOOLS-09")
@pytest.mark.parametrize("data", [b"", b"new", b"longer than the old content"])
def test_a_file_with_several_names_shows_the_new_content_under_all_of_them(
    project: Path, data: bytes
) -> None:
    path, other, before = linked_file(project, b"old content")
    (project / "c.txt").hardlink_to(path)
    path.chmod(0o4751)
    os.setxattr(path, "user.mark", b"kept")
    was, opened = path.stat(), descriptors()
    assert replace_file(path, data, expected=before, limit=LIMIT) == 2
    assert path.read_bytes() == other.read_bytes() == data
    now = other.stat()
    assert (now.st_ino, now.st_nlink, now.st_mode) == (was.st_ino, 3, was.st_mode)
    assert os.getxattr(path, "user.mark") == b"kept"
    assert sorted(os.listdir(project)) == ["a.txt", "c.txt", "sub"]
    assert descriptors() <= opened


@pytest.mark.requirement("TOOLS-09")
@pytest.mark.parametrize("size", [10, 900, 5000])
def test_a_full_disk_leaves_the_old_content_under_all_names(project: Path, size: int) -> None:
    path, other, before = linked_file(project, b"o" * size)
    with file_size_limit(1000), pytest.raises(DiskFullError, match="the old content was kept"):
        replace_file(path, b"x" * 6000, expected=before, limit=LIMIT)
    assert path.read_bytes() == other.read_bytes() == b"o" * size
    assert sorted(os.listdir(project)) == ["a.txt", "sub"]


def test_old_content_that_cannot_be_put_back_stands_beside_the_file(project: Path) -> None:
    path, other, before = linked_file(project, b"old content")

    class Shrinking(threading.Event):
        """Leaves no room for more than two bytes once the old content was put aside."""

        def is_set(self) -> bool:
            if any(p.stat().st_size for p in project.glob(".alhena-*.old")):
                resource.setrlimit(resource.RLIMIT_FSIZE, (2, resource.RLIM_INFINITY))
            return False

    with file_size_limit(1000), pytest.raises(WriteFailureError) as caught:
        replace_file(path, b"new content", expected=before, limit=LIMIT, cancellation=Shrinking())
    (aside,) = project.glob(".alhena-*.old")
    assert aside.read_bytes() == b"old content"
    assert stat.S_IMODE(aside.stat().st_mode) == 0o600
    assert str(aside) in str(caught.value)
    assert other.read_bytes() == b"old content"  # two bytes of each were written


def test_a_linked_file_is_left_alone_when_it_changes_or_the_write_is_cancelled(
    project: Path,
) -> None:
    outcomes: set[str] = set()
    for times in range(7):
        path, other, before = linked_file(project, b"o" * 2_500_000)
        try:
            replace_file(
                path, b"new", expected=before, limit=LIMIT, cancellation=CancelledAt(times)
            )
            assert other.read_bytes() == b"new"
            outcomes.add("written")
        except WriteFailureError:
            assert path.read_bytes() == other.read_bytes() == b"o" * 2_500_000
            outcomes.add("cancelled")
        assert sorted(os.listdir(project)) == ["a.txt", "sub"]
        other.unlink()
    assert outcomes == {"written", "cancelled"}


@pytest.mark.parametrize("content", ["theirs", "old content"])
def test_a_linked_file_whose_name_leads_elsewhere_meanwhile_is_left_alone(
    project: Path, content: str
) -> None:
    path, other, before = linked_file(project, b"old content")

    class Renamer(threading.Event):
        def is_set(self) -> bool:
            (project / "new").write_text(content, encoding="utf-8")
            (project / "new").rename(path)
            return False

    with pytest.raises(ChangedFileError):
        replace_file(path, b"mine", expected=before, limit=LIMIT, cancellation=Renamer())
    assert path.read_text(encoding="utf-8") == content
    assert other.read_bytes() == b"old content"
    assert sorted(os.listdir(project)) == ["a.txt", "sub"]
