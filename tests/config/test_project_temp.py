"""The directory of a project's own data, and its creation."""

import errno
import fcntl
import multiprocessing
import os
import shutil
import stat
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
from tests.tools.files import unprivileged

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


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP, errno.EBADF, errno.ENOSYS])
def test_where_a_file_system_has_no_locks_projects_have_directories_as_well(
    environ: dict[str, str], code: int, monkeypatch: pytest.MonkeyPatch
):
    def refused(_descriptor: int, _operation: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", refused)
    assert claimed_project_temp(environ, A).name == "app"
    assert claimed_project_temp(environ, B).name == "app-1"


@pytest.mark.parametrize("kind", [stat.S_IFDIR, stat.S_IFREG])
def test_where_a_file_system_cannot_synchronise_they_have_them_too(
    environ: dict[str, str], kind: int, monkeypatch: pytest.MonkeyPatch
):
    synchronise = os.fsync

    def refused(descriptor: int) -> None:
        if stat.S_IFMT(os.fstat(descriptor).st_mode) == kind:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        synchronise(descriptor)

    monkeypatch.setattr(os, "fsync", refused)
    temp = claimed_project_temp(environ, A)
    hand_over(temp, str(A), B)
    assert root_of(temp) == str(B)


def test_a_failing_disk_is_told(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch):
    def failing(_descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        claimed_project_temp(environ, A)


def test_a_directory_that_a_person_has_linked_elsewhere_is_found(
    environ: dict[str, str], home: Path, tmp_path: Path
):
    temp = project_temp(environ, A)
    big = tmp_path / "big" / "alhena-app"
    marked(big, str(A).encode())
    temp.parent.mkdir(parents=True)
    temp.symlink_to(big)
    assert project_temp(environ, A) == temp
    assert claimed_project_temp(environ, B).name == "app-1"
    second = Path("/c/app")
    (home / ".gemini/tmp/app-2").symlink_to(os.path.relpath(big.with_name("other"), temp.parent))
    marked(big.with_name("other"), str(second).encode())
    assert project_temp(environ, second).name == "app-2"


def test_links_of_links_lead_to_the_directory_and_those_in_a_circle_nowhere(
    environ: dict[str, str],
):
    temp = claimed_project_temp(environ, Path("/x/web"))
    hand_over(temp, "/x/web", A)
    temp.with_name("app").symlink_to("site")
    temp.with_name("site").symlink_to("web")
    assert project_temp(environ, A) == temp
    temp.with_name("api").symlink_to("api")
    assert claimed_project_temp(environ, Path("/a/api")).name == "api-1"


def test_directories_that_cannot_be_listed_are_asked_by_their_names(
    environ: dict[str, str], home: Path
):
    for number in range(3):
        marked(home / ".gemini/tmp" / (f"app-{number}" if number else "app"), b"/other/app")
    marked(home / ".gemini/tmp/app-3", str(B).encode())
    base = home / ".gemini/tmp"
    if os.geteuid() == 0:
        os.chown(base, 65534, 65534)
    base.chmod(0o300)
    with unprivileged(home / ".gemini"):
        assert project_temp(environ, B).name == "app-3"
        assert claimed_project_temp(environ, A).name == "app-4"
        assert claimed_project_temp(environ, A).name == "app-4"
    base.chmod(0o700)


def test_one_that_looks_free_and_cannot_be_had_is_not_asked_for_ever(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    taken = project_temp(environ, A)

    def lost(temp: Path, _project: Path) -> None:
        raise TakenError(errno.EEXIST, "it has become another project's", str(temp))

    monkeypatch.setattr("alhena.config.home.claim_project_temp", lost)
    with pytest.raises(TakenError):
        claimed_project_temp(environ, A)
    assert not taken.exists()


def test_a_folder_whose_name_ends_in_a_newline_is_not_the_one_without(environ: dict[str, str]):
    odd = Path("/a/app\n")
    temps = [claimed_project_temp(environ, each) for each in (odd, A, odd, A)]
    assert [each.name for each in temps] == ["app", "app-1", "app", "app-1"]
    assert root_of(temps[0]) == str(odd)
