"""The directory of a project's own data, and its creation."""

import errno
import fcntl
import multiprocessing
import os
import shutil
from pathlib import Path

import pytest

from alhena.config.home import (
    TakenError,
    claim_project_temp,
    claimed_project_temp,
    hand_over,
    link_namesake,
    project_temp,
    root_of,
)
from tests.support.patience import PATIENCE_S

A, B = Path("/a/app"), Path("/b/app")


@pytest.fixture
def environ(home: Path) -> dict[str, str]:
    return {"HOME": str(home)}


def write_mark(temp: Path, data: bytes) -> None:
    temp.mkdir(parents=True, exist_ok=True)
    (temp / ".project_root").write_bytes(data)


def test_who_comes_second_learns_it_and_gets_the_next_name(environ: dict[str, str]):
    temp = project_temp(environ, A)
    assert project_temp(environ, B) == temp  # neither has begun yet
    claim_project_temp(temp, B)
    with pytest.raises(TakenError, match="another project"):
        claim_project_temp(temp, A)
    assert claimed_project_temp(environ, A).name == "app-1"
    assert claimed_project_temp(environ, B) == temp
    assert sorted(os.listdir(temp)) == [".project_root"]


def _claims(environ: dict[str, str], project: Path, ready: "list[str]") -> None:
    ready.append(f"{claimed_project_temp(environ, project)}")


def test_of_many_who_come_at_once_each_has_a_directory_of_its_own(environ: dict[str, str]):
    write_mark(project_temp(environ, A), b"")  # nobody's
    projects = [Path(f"/{parent}/app") for parent in "abcdefgh"]
    context = multiprocessing.get_context("spawn")
    with context.Manager() as shared:
        given = shared.list()
        claiming = [
            context.Process(target=_claims, args=(environ, each, given)) for each in projects
        ]
        for process in claiming:
            process.start()
        for process in claiming:
            process.join(PATIENCE_S)
            assert process.exitcode == 0
        temps = list(given)
    assert len(set(temps)) == len(projects)
    assert {root_of(Path(each)) for each in temps} == set(map(str, projects))


@pytest.mark.parametrize("data", [b"", b"\n", b"\0" * 6, b"app", b"/a/a\0\0"])
def test_a_mark_that_names_no_folder_is_nobodys(environ: dict[str, str], data: bytes):
    temp = project_temp(environ, A)
    write_mark(temp, data)
    assert project_temp(environ, B) == temp
    claim_project_temp(temp, B)
    assert (temp / ".project_root").read_text(encoding="utf-8") == str(B)
    assert project_temp(environ, A) != temp


def test_a_project_keeps_its_directory_when_that_of_a_namesake_is_removed(environ: dict[str, str]):
    first = claimed_project_temp(environ, A)
    second = claimed_project_temp(environ, B)
    shutil.rmtree(first)
    assert project_temp(environ, B) == second
    assert project_temp(environ, A) == first


def test_a_directory_that_was_handed_over_is_found_by_the_new_name(environ: dict[str, str]):
    temp = claimed_project_temp(environ, A)
    other = claimed_project_temp(environ, Path("/x/web"))
    renamed = Path("/a/web")
    link_namesake(environ, renamed, temp)
    assert project_temp(environ, renamed).name == "web-2"  # it is still that of the other name
    hand_over(temp, str(A), renamed)
    assert project_temp(environ, renamed) == temp
    assert claimed_project_temp(environ, renamed) == temp
    assert project_temp(environ, Path("/x/web")) == other
    assert project_temp(environ, A).name == "app-1"
    with pytest.raises(TakenError):
        hand_over(temp, str(A), B)


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP, errno.EBADF, errno.ENOSYS])
def test_where_a_file_system_has_no_locks_projects_have_directories_as_well(
    environ: dict[str, str], code: int, monkeypatch: pytest.MonkeyPatch
):
    def refuse_lock(_descriptor: int, _operation: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", refuse_lock)
    assert claimed_project_temp(environ, A).name == "app"
    assert claimed_project_temp(environ, B).name == "app-1"


def test_a_failing_disk_is_told(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch):
    def failing(_descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        claimed_project_temp(environ, A)


def test_one_that_looks_free_and_cannot_be_had_is_not_asked_for_ever(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    taken = project_temp(environ, A)

    def lose_race(temp: Path, _project: Path) -> None:
        raise TakenError(errno.EEXIST, "it has become another project's", str(temp))

    monkeypatch.setattr("alhena.config.home.claim_project_temp", lose_race)
    with pytest.raises(TakenError):
        claimed_project_temp(environ, A)
    assert not taken.exists()
