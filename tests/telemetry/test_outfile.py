"""The file that several writers append to."""

import os
import stat
from pathlib import Path

import pytest

from alhena.telemetry.options import installation_id
from alhena.telemetry.telemetry import OutFile
from tests.support.disk import descriptors


def test_directories_are_made_and_the_file_is_the_users_own(tmp_path: Path):
    path = tmp_path / "a" / "b" / "out.log"
    file = OutFile(path)
    file.append(b"{}\n")
    file.close()
    assert path.read_bytes() == b"{}\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_is_there_stays_as_it_is(tmp_path: Path):
    path = tmp_path / "out.log"
    path.write_bytes(b"{}\n")
    path.chmod(0o644)
    file = OutFile(path)
    file.append(b"[]\n")
    file.close()
    assert path.read_bytes() == b"{}\n[]\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_piece_behind_one_that_was_cut_short_stands_on_a_line_of_its_own(tmp_path: Path):
    path = tmp_path / "out.log"
    path.write_bytes(b'{"half": ')
    file = OutFile(path)
    file.append(b"{}\n")
    file.append(b"{}\n")
    file.close()
    assert path.read_bytes() == b'{"half": \n{}\n{}\n'


def test_writers_that_take_turns_do_not_overwrite_each_other(tmp_path: Path):
    first, second = OutFile(tmp_path / "out.log"), OutFile(tmp_path / "out.log")
    for number in range(3):
        first.append(b"a%d\n" % number)
        second.append(b"b%d\n" % number)
    first.close()
    second.close()
    assert (tmp_path / "out.log").read_bytes() == b"a0\nb0\na1\nb1\na2\nb2\n"


def test_a_fifo_a_directory_and_a_device_are_refused_at_once(tmp_path: Path):
    os.mkfifo(tmp_path / "fifo")
    before = descriptors()
    for path in (tmp_path / "fifo", tmp_path, Path("/dev/null")):
        with pytest.raises(OSError, match=r"not a regular file|directory"):
            OutFile(path)
    assert descriptors() <= before


def test_a_closed_file_says_that_it_cannot_be_written(tmp_path: Path):
    file = OutFile(tmp_path / "out.log")
    file.close()
    with pytest.raises(OSError, match="descriptor"):
        file.append(b"{}\n")


def test_the_installations_id_is_made_once_and_kept(tmp_path: Path):
    path = tmp_path / "home" / "installation_id"
    made, problem = installation_id(path)
    assert (len(made), problem) == (36, "")
    assert installation_id(path) == (made, "")
    assert path.read_text(encoding="ascii") == made
    assert [item.name for item in path.parent.iterdir()] == ["installation_id"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_id_that_another_program_made_is_taken(tmp_path: Path):
    (tmp_path / "installation_id").write_text("0f0f\n", encoding="ascii")
    assert installation_id(tmp_path / "installation_id") == ("0f0f", "")


def test_an_empty_file_gets_an_id(tmp_path: Path):
    path = tmp_path / "installation_id"
    path.write_bytes(b" \n")
    made, problem = installation_id(path)
    assert problem == ""
    assert path.read_text(encoding="ascii") == made


@pytest.mark.parametrize("content", [b"\xff\xfe", b"x" * 1000])
def test_an_id_that_is_none_is_left_alone_and_told_of(tmp_path: Path, content: bytes):
    path = tmp_path / "installation_id"
    path.write_bytes(content)
    made, problem = installation_id(path)
    assert len(made) == 36
    assert str(path) in problem
    assert path.read_bytes() == content


def test_where_no_id_can_be_kept_the_session_has_one_of_its_own(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"")
    first, problem = installation_id(tmp_path / "file" / "installation_id")
    assert "Not a directory" in problem
    assert first != installation_id(tmp_path / "file" / "installation_id")[0]


@pytest.mark.parametrize("linked", ["a/b/out.log", "a/b", "a"])
def test_no_link_in_the_working_directory_is_followed(tmp_path: Path, linked: str):
    work, away = tmp_path / "work", tmp_path / "away"
    (away / "b").mkdir(parents=True)
    (away / "b" / "out.log").write_bytes(b"mine")
    link = work / linked
    link.parent.mkdir(parents=True)
    link.symlink_to(away / Path(linked).relative_to("a"))
    before = descriptors()
    with pytest.raises(OSError, match="a symbolic link"):
        OutFile(work / "a" / "b" / "out.log", work)
    assert descriptors() <= before
    assert (away / "b" / "out.log").read_bytes() == b"mine"


def test_directories_in_the_working_directory_are_made(tmp_path: Path):
    file = OutFile(tmp_path / "a" / "b" / "out.log", tmp_path)
    file.append(b"{}\n")
    file.close()
    assert (tmp_path / "a" / "b" / "out.log").read_bytes() == b"{}\n"
    assert stat.S_IMODE((tmp_path / "a" / "b" / "out.log").stat().st_mode) == 0o600
