"""What git cannot read for want of memory is not damaged: it is read without git, or stays."""

import os
from pathlib import Path

import pytest

from alhena.session.errors import CheckpointError
from alhena.session.loose import discard_loose
from alhena.session.restorer import Target
from alhena.session.shadow_files import content_name
from tests.session.shadows import back, kept, put, restore
from tests.session.test_damage import LOST, in_one_pack, loose, objects, with_junk
from tests.session.test_shadow_faults import REAL, environ, fake, on

STARVED = "echo 'fatal: Out of memory, malloc failed (tried to allocate 31457280 bytes)' >&2"
ENDS = [f"{STARVED}; exit 128", "kill -9 $$"]


def reading_nothing(tmp_path: Path, end: str) -> dict[str, str]:
    """An environment in which git lists and writes, but gives no contents."""
    script = f"""
        for each in "$@"; do
            if [ "$each" = --batch ]; then {end}; fi
        done
        exec {REAL} "$@"
    """
    return environ(fake(tmp_path / "bin", script))


@pytest.mark.parametrize("end", [*ENDS, "exit 1"])
def test_what_is_a_file_of_its_own_is_put_back_without_git(project: Path, tmp_path: Path, end: str):
    put(project / "big", "old\n" * 1_000)
    moment = kept(project)
    put(project / "big", "new\n")
    done = restore(on(project, reading_nothing(tmp_path, end)), Target(moment=moment))
    assert (done.written, done.left) == (("big",), ())
    assert (project / "big").read_text() == "old\n" * 1_000


@pytest.mark.parametrize("end", ENDS)
def test_what_is_packed_is_left_for_another_time_and_not_called_damaged(
    project: Path, tmp_path: Path, end: str
):
    put(project / "big", "old\n")
    moment = kept(project)
    in_one_pack(project)
    put(project / "big", "new\n")
    with pytest.raises(CheckpointError, match="git cat-file failed"):
        restore(on(project, reading_nothing(tmp_path, end)), Target(moment=moment))
    assert (project / "big").read_text() == "new\n"
    assert back(project, moment).written == ("big",)
    assert (project / "big").read_text() == "old\n"


def test_what_is_damaged_is_called_that_whatever_git_has_the_means_for(
    project: Path, tmp_path: Path
):
    put(project / "a", "old\n")
    put(project / "b", "old too\n")
    moment = kept(project)
    put(project / "a", "new\n")
    put(project / "b", "new\n")
    with_junk(loose(project, "old\n"))
    done = restore(on(project, reading_nothing(tmp_path, "exit 1")), Target(moment=moment))
    assert (done.written, done.left) == (("b",), (("a", LOST),))


def test_only_what_is_damaged_is_removed_from_the_repository(project: Path):
    for name in ("whole", "damaged", "closed"):
        put(project / name)
        (project / name).write_text(f"{name}\n")
    kept(project)
    with_junk(loose(project, "damaged\n"))
    closed = loose(project, "closed\n")
    closed.unlink()
    closed.mkdir()  # cannot be read, whoever asks
    for name in ("whole", "damaged", "closed"):
        discard_loose(objects(project).parent, content_name(f"{name}\n".encode()))
    found = {each: os.path.lexists(loose(project, f"{each}\n")) for each in ("whole", "damaged")}
    assert found == {"whole": True, "damaged": False}
    assert closed.exists()
