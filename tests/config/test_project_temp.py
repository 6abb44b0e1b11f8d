"""Which directory keeps what belongs to a project, and how it becomes the project's."""

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
from tests.session.kit import header_of, write
from tests.support.patience import PATIENCE_S

A, B = Path("/a/app"), Path("/b/app")


@pytest.fixture
def environ(home: Path) -> dict[str, str]:
    return {"HOME": str(home)}


def marked(temp: Path, data: bytes) -> None:
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
    marked(project_temp(environ, A), b"")  # nobody's
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
    marked(temp, data)
    assert project_temp(environ, B) == temp
    claim_project_temp(temp, B)
    assert (temp / ".project_root").read_text(encoding="utf-8") == str(B)
    assert project_temp(environ, A) != temp


@pytest.mark.parametrize("gone", [True, False])
def test_without_a_mark_a_directory_is_the_project_of_its_sessions(
    environ: dict[str, str], gone: bool
):
    temp = claimed_project_temp(environ, A)
    (temp / "sessions").mkdir()
    write(temp / "sessions" / "s.jsonl", header_of(A))
    mark = temp / ".project_root"
    mark.unlink() if gone else mark.write_bytes(b"")
    assert project_temp(environ, B).name == "app-1"
    with pytest.raises(TakenError):
        claim_project_temp(temp, B)
    assert project_temp(environ, A) == temp
    claim_project_temp(temp, A)
    assert mark.read_text(encoding="utf-8") == str(A)


def test_without_a_mark_it_is_that_of_the_last_session_that_can_be_read(environ: dict[str, str]):
    sessions = project_temp(environ, A) / "sessions"
    sessions.mkdir(parents=True)
    for number, project in enumerate((A, B)):
        path = write(sessions / f"s{number}.jsonl", header_of(project))
        os.utime(path, (number, number))
    (sessions / "damaged.jsonl").write_bytes(b"\0" * 100)
    (sessions / "deep.jsonl").write_bytes(b"[" * 5_000)
    (sessions / "odd.jsonl").write_bytes(b'{"type":"session","project":"\xff"}\n')
    os.mkfifo(sessions / "fifo.jsonl")
    assert root_of(sessions.parent) == str(B)


def test_a_project_keeps_its_directory_when_that_of_a_namesake_is_removed(environ: dict[str, str]):
    first = claimed_project_temp(environ, A)
    second = claimed_project_temp(environ, B)
    shutil.rmtree(first)
    assert project_temp(environ, B) == second
    assert project_temp(environ, A) == first


def test_a_folder_whose_name_ends_in_a_blank_has_one_directory(environ: dict[str, str]):
    odd = Path("/a/app ")
    assert claimed_project_temp(environ, odd) == claimed_project_temp(environ, odd)
    (claimed_project_temp(environ, odd) / ".project_root").write_text("/a/app\n", encoding="utf-8")
    assert root_of(project_temp(environ, A)) == str(A)


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
