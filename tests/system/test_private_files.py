import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from alhena.errors import AlhenaError
from alhena.system.errors import FileError, FileTooLargeError
from alhena.system.private_files import PrivateFiles, change_file
from tests.support.disk import mode


def test_what_is_written_is_read_and_for_its_owner_only(project: Path) -> None:
    directory = project / "a" / "b"
    files = PrivateFiles(directory)
    assert files.read("x") is None
    old = os.umask(0)
    try:
        files.write("x", b"one")
        files.write("x", b"two")
    finally:
        os.umask(old)
    assert files.read("x") == b"two"
    assert mode(directory / "x") == 0o600
    assert mode(directory) == 0o700
    assert os.listdir(directory) == ["x"]


def test_a_file_that_others_could_read_is_closed_to_them_when_it_is_written(project: Path) -> None:
    (project / "x").write_bytes(b"old")
    (project / "x").chmod(0o644)
    PrivateFiles(project).write("x", b"new")
    assert mode(project / "x") == 0o600


def test_the_old_bytes_stand_until_the_new_ones_are_whole(project: Path) -> None:
    files = PrivateFiles(project)
    files.write("x", b"old")
    code = (
        "import os, signal, sys\n"
        "import alhena.system.private_files as module\n"
        "from pathlib import Path\n"
        "def die(*_): os.kill(os.getpid(), signal.SIGKILL)\n"
        "module.synchronise = die\n"
        "module.PrivateFiles(Path(sys.argv[1])).write('x', b'new')\n"
    )
    ran = subprocess.run([sys.executable, "-c", code, str(project)], check=False)
    assert ran.returncode == -9
    assert files.read("x") == b"old"
    assert {mode(path) for path in project.iterdir()} == {0o600}
    files.write("x", b"new")
    assert files.read("x") == b"new"


def test_who_reads_while_it_is_written_sees_all_of_the_old_file(project: Path) -> None:
    files = PrivateFiles(project)
    files.write("x", b"the old login")
    with (project / "x").open("rb") as reading:
        assert reading.read(3) == b"the"
        files.write("x", b"new")
        assert reading.read() == b" old login"
    assert files.read("x") == b"new"


def test_a_symlink_stays_one(project: Path) -> None:
    (project / "kept").mkdir()
    (project / "home").mkdir()
    (project / "home" / "x").symlink_to("../kept/real")
    files = PrivateFiles(project / "home")
    files.write("x", b"new")
    assert (project / "home" / "x").is_symlink()
    assert (project / "kept" / "real").read_bytes() == b"new"
    assert mode(project / "kept" / "real") == 0o600


@pytest.mark.parametrize("kind", ["directory", "fifo", "large"])
def test_what_is_no_small_file_is_refused_and_not_waited_for(project: Path, kind: str) -> None:
    path = project / "x"
    if kind == "directory":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.write_bytes(b"x" * (1024 * 1024 + 1))
    with pytest.raises(FileError, match="x"):
        PrivateFiles(project).read("x")


def test_a_write_that_fails_leaves_nothing_behind(project: Path) -> None:
    (project / "x").mkdir()
    with pytest.raises(AlhenaError):
        PrivateFiles(project).write("x", b"new")
    assert os.listdir(project) == ["x"]


def test_a_file_where_the_directory_should_be_is_an_error(project: Path) -> None:
    (project / "home").write_bytes(b"")
    files = PrivateFiles(project / "home")
    with pytest.raises(FileError):
        files.write("x", b"new")
    with pytest.raises(FileError), files.hold("x"):
        raise AssertionError("there can be no lock")


def test_removing_says_whether_there_was_one(project: Path) -> None:
    files = PrivateFiles(project)
    files.write("x", b"1")
    assert files.remove("x")
    assert not files.remove("x")
    assert files.read("x") is None


def test_only_one_holds_the_lock_and_nobody_waits(project: Path) -> None:
    files = PrivateFiles(project / "home")
    with files.hold("x") as first, files.hold("x") as second:
        assert (first, second) == (True, False)
    with files.hold("x") as again:
        assert again
    assert os.listdir(project / "home") == []


def test_what_fails_under_the_lock_comes_out_and_ends_the_lock(project: Path) -> None:
    files = PrivateFiles(project)
    with pytest.raises(ValueError, match="inside"), files.hold("x"):
        raise ValueError("inside")
    with files.hold("x") as again:
        assert again


def test_nothing_is_written_that_could_not_be_read_again(project: Path) -> None:
    files = PrivateFiles(project)
    files.write("x", b"1234", 4)
    assert files.read("x", 4) == b"1234"
    with pytest.raises(FileTooLargeError, match="larger than 4 bytes"):
        files.write("x", b"12345", 4)
    assert files.read("x") == b"1234"
    with pytest.raises(FileTooLargeError, match="larger than 3 bytes"):
        files.read("x", 3)


def test_who_waits_for_a_lock_has_it_when_the_other_is_done(project: Path) -> None:
    files = PrivateFiles(project)
    had: list[bool] = []

    def wait() -> None:
        with files.hold("x", patience_s=60) as held:
            had.append(held)

    waiting = threading.Thread(target=wait)
    with files.hold("x") as first:
        waiting.start()
        with files.hold("x") as second:
            assert (first, second) == (True, False)
    waiting.join()
    assert had == [True]


def test_what_a_writer_left_that_was_killed_is_taken_away_by_the_next(project: Path) -> None:
    left = project / ".alhena-0123456789abcdef.tmp"
    left.write_bytes(b"half")
    os.utime(left, (1, 1))
    PrivateFiles(project).write("file", b"whole")
    assert [each.name for each in project.iterdir()] == ["file"]


CRLF = [
    b'{\r\n  "a": 1\r\n}\r\n',
    b"one\r\ntwo",
    b'{\r\n  // why\r\n  "ui": {\r\n    "theme": "Ayu"\r\n  }\r\n}',
]


@pytest.mark.parametrize("data", CRLF)
def test_a_file_with_crlf_keeps_its_line_ends(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(data)
    seen: list[bytes] = []

    def change(given: bytes) -> bytes:
        seen.append(given)
        return b"new\n" + given

    change_file(path, change, "not changed")
    assert seen == [data.replace(b"\r\n", b"\n")]
    assert path.read_bytes() == b"new\r\n" + data


@pytest.mark.parametrize("data", [b"one\ntwo\n", b"one\r\ntwo\n", b"", b"one"])
def test_other_line_ends_are_left_to_who_changes_them(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(data)
    change_file(path, lambda given: given + b"x\n", "not changed")
    assert path.read_bytes() == data + b"x\n"
