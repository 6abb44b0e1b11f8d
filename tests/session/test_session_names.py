"""Only what is called as a session is one: nothing else is listed, resumed, or removed."""

import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.config.home import claimed_project_temp
from alhena.session.journal import is_begun
from alhena.session.records import (
    SUFFIX,
    VERSION,
    NoSessionError,
    SessionError,
    is_damaged_end,
    is_made_id,
    is_session_id,
    new_session_id,
    session_of,
)
from alhena.session.store import Retention, open_store, prune
from tests.agent.kit import agent
from tests.session.kit import HEADER, header_of, turns, write
from tests.support.command import alhena, keyed
from tests.support.scripted import ScriptedGenerator
from tests.support.server import ScriptedServer, sse, text

ODD = [
    "",
    ".",
    "..",
    "...",
    ".hidden",
    "-rf",
    "sessions",
    "Sessions",
    "checkpoints",
    "tool-outputs",
    "a b",
    "a.b",
    "*",
    "[a]",
    "a\nb",
    "ä",
    "a" * 201,
    "٣",
]


@pytest.fixture
def temp(project: Path) -> Path:
    """The directory of a project with everything that can be there."""
    temp = claimed_project_temp(os.environ, project)
    for name in ("sessions", "checkpoints", "tool-outputs", "other"):
        (temp / name).mkdir(parents=True)
        (temp / name / "keep.txt").write_text("kept", encoding="utf-8")
    return temp


def everything(temp: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(temp)): path.read_bytes() for path in temp.rglob("*") if path.is_file()
    }


@pytest.mark.parametrize("name", [name for name in ODD if len(name) < 200])
def test_a_file_that_is_not_called_as_a_session_is_none_and_is_never_removed(temp: Path, name: str):
    write(temp / "sessions" / f"{name}{SUFFIX}", *turns(1))
    os.utime(temp / "sessions" / f"{name}{SUFFIX}", (0, 0))
    before = everything(temp)
    store = open_store(temp)
    assert store.summaries() == ()
    with pytest.raises(NoSessionError):
        store.resume(name, "1")
    with pytest.raises(NoSessionError):
        store.delete(name)
    assert prune(store, Retention(max_age_s=1, max_count=1, min_s=0), "", lambda: 1e9) == ()
    for words in (("sessions", "delete", name), (f"--delete-session={name}",)):
        assert alhena(*words).code in (2, 42)
    assert everything(temp) == before


@pytest.mark.parametrize("name", ["other", "keep", "sessions-1"])
def test_a_session_that_is_called_like_something_else_takes_nothing_else_along(
    temp: Path, name: str
):
    before = everything(temp)
    write(temp / "sessions" / f"{name}{SUFFIX}", *turns(1))
    assert alhena("sessions", "delete", name).code == 0
    assert everything(temp) == before


def test_a_pattern_deletes_nothing(temp: Path):
    sessions = temp / "sessions"
    write(sessions / f"a{SUFFIX}", *turns(1))
    for name in ("a.damaged-1", "b.damaged-1", "*.damaged-1"):
        (sessions / name).write_bytes(b"damaged")
    before = everything(temp)
    for name in ("*", "?", "[a]", "a*"):
        assert alhena("sessions", "delete", name).code == 42
        with pytest.raises(NoSessionError):
            open_store(temp).delete(name)
    assert everything(temp) == before


def test_a_session_takes_its_own_damaged_ends_along_and_no_others(temp: Path):
    sessions = temp / "sessions"
    write(sessions / f"a{SUFFIX}", *turns(1))
    own = ("a.damaged-1", "a.damaged-12")
    others = (
        "ab.damaged-1",
        "a.damaged-",
        "a.damaged-x",
        "a.damaged-1.bak",
        "a.damaged-1.damaged-2",
    )
    for name in (*own, *others):
        (sessions / name).write_bytes(b"damaged")
    open_store(temp).delete("a")
    assert {path.name for path in sessions.iterdir()} == {*others, "keep.txt"}


def test_a_session_with_an_id_of_its_own_takes_its_directory_along(temp: Path):
    session_id = new_session_id()
    write(temp / "sessions" / f"{session_id}{SUFFIX}", *turns(1))
    before = everything(temp)
    (temp / session_id / "plans").mkdir(parents=True)
    (temp / session_id / "plans" / "plan.md").write_text("do", encoding="utf-8")
    open_store(temp).delete(session_id)
    assert everything(temp).keys() == before.keys() - {f"sessions/{session_id}{SUFFIX}"}
    assert not (temp / session_id).exists()


def test_a_directory_that_is_a_link_is_not_followed(temp: Path, tmp_path: Path):
    session_id = new_session_id()
    write(temp / "sessions" / f"{session_id}{SUFFIX}", *turns(1))
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("x", encoding="utf-8")
    (temp / session_id).symlink_to(tmp_path / "precious")
    open_store(temp).delete(session_id)
    assert (tmp_path / "precious" / "file").exists()


@pytest.mark.parametrize("kind", ["fifo", "directory", "link"])
def test_what_is_no_file_is_not_deleted_as_a_session(temp: Path, kind: str):
    path = temp / "sessions" / f"a{SUFFIX}"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to(temp / "other" / "keep.txt")
    with pytest.raises(SessionError):
        open_store(temp).delete("a")
    assert os.path.lexists(path)
    assert (temp / "other" / "keep.txt").exists()


def test_ids_that_are_made_are_names_of_sessions():
    for _ in range(20):
        made = new_session_id()
        assert is_session_id(made)
        assert is_made_id(made)
    for name in ODD:
        assert not is_session_id(name)
        assert not is_made_id(name)


@given(st.text(max_size=12))
def test_a_name_of_a_session_is_one_component_of_a_path_and_no_pattern(name: str):
    found = session_of(name + SUFFIX)
    assert found in (None, name)
    if found is not None:
        assert os.path.normpath(f"/t/{found}") == f"/t/{found}"
        assert Path("/t", found).parent == Path("/t")
        assert not set(found) & set("*?[]./\\\0")
        assert not is_damaged_end(name + SUFFIX, found)


FOREIGN = {
    "backup": b"x\n",
    "notes": b"",
    "log": b'{"type":"session","at":"2026","version":1}\n',
    "table": b'{"type":"session","at":"2026","is":"' + b"y" * 100_000 + b'"}\n',
}
"""Foreign files beside sessions, under names that sessions could have."""


def test_files_that_do_not_begin_as_a_session_are_not_removed_and_do_not_count(temp: Path):
    sessions = temp / "sessions"
    for number, (name, data) in enumerate(FOREIGN.items()):
        (sessions / f"{name}{SUFFIX}").write_bytes(data)
        os.utime(sessions / f"{name}{SUFFIX}", (number, number))
    write(sessions / f"own{SUFFIX}", *turns(1))
    os.utime(sessions / f"own{SUFFIX}", (50, 50))
    crowded = Retention(max_age_s=None, max_count=2, min_s=0)
    before = everything(temp)
    assert prune(open_store(temp), crowded, "", lambda: 1e9) == ()
    assert everything(temp) == before
    old = Retention(max_age_s=1, max_count=None, min_s=0)
    assert prune(open_store(temp), old, "", lambda: 1e9) == ("own",)
    assert everything(temp).keys() == before.keys() - {f"sessions/own{SUFFIX}"}


def test_files_that_do_not_begin_as_a_session_are_taken_for_none(temp: Path, project: Path):
    sessions = temp / "sessions"
    for name, data in FOREIGN.items():
        (sessions / f"{name}{SUFFIX}").write_bytes(data)
        os.utime(sessions / f"{name}{SUFFIX}", (1e9, 1e9))
    damaged = new_session_id()
    (sessions / f"{damaged}{SUFFIX}").write_bytes(b"\0" * 100)
    write(sessions / f"own{SUFFIX}", header_of(project), *turns(1)[1:])
    os.utime(sessions / f"own{SUFFIX}", (5, 5))
    os.utime(sessions / f"{damaged}{SUFFIX}", (4, 4))
    listed = alhena("sessions", "list", "--json").json
    assert {each["sessionId"] for each in listed["sessions"]} == {"own", damaged}
    before = everything(temp)
    store = open_store(temp)
    assert store.find("latest").session_id == "own"
    for name in ("backup", "log", "table"):
        with pytest.raises(NoSessionError):
            store.resume(name, "1")
        with pytest.raises(NoSessionError):
            store.delete(name)
        for command in ("show", "export", "delete"):
            assert alhena("sessions", command, name).code == 42
    assert everything(temp) == before


def test_going_on_with_the_last_session_begins_one_where_there_are_only_other_files(
    temp: Path, server: ScriptedServer
):
    (temp / "sessions" / f"log{SUFFIX}").write_bytes(b"x\n")
    server.reply(sse(text("fine")))
    assert alhena("--resume", "-p", "go", **keyed(server)).out == "fine\n"
    assert (temp / "sessions" / f"log{SUFFIX}").read_bytes() == b"x\n"


@pytest.mark.parametrize("data", [b"", b"\0" * 100, b"x\n"])
def test_a_file_with_an_id_of_a_session_goes_whatever_has_become_of_it(temp: Path, data: bytes):
    session_id = new_session_id()
    (temp / "sessions" / f"{session_id}{SUFFIX}").write_bytes(data)
    old = Retention(max_age_s=1, max_count=None, min_s=0)
    assert prune(open_store(temp), old, "", lambda: 1e10) == (session_id,)


def test_a_session_of_a_later_version_is_one(temp: Path):
    later = msgspec.structs.replace(HEADER, version=VERSION + 1)
    path = write(temp / "sessions" / f"later{SUFFIX}", later)
    assert is_begun(path)
    assert not is_begun(temp / "sessions")
    assert not is_begun(temp / "gone")


def test_a_session_begins_with_the_id_that_was_given_and_no_other_takes_it(
    server: ScriptedServer, project: Path
) -> None:
    server.reply(sse(text("one")), sse(text("two")))
    begun = alhena("-p", "hi", "--session-id", "nightly_17", "-o", "json", **keyed(server))
    assert (begun.code, begun.json["session_id"]) == (0, "nightly_17")
    again = alhena("-p", "hi", "--session-id", " nightly_17 ", **keyed(server))
    assert (again.code, again.out) == (42, "")
    assert "there is a session nightly_17 already. Continue with it by --resume" in again.err
    resumed = alhena("-p", "more", "--resume", "nightly_17", **keyed(server))
    assert (resumed.code, resumed.out) == (0, "two\n")
    assert "hi" in str(server.requests[1].json["contents"])


@pytest.mark.parametrize("name", [*ODD, "latest", "../up"])
def test_what_can_be_no_id_of_a_session_ends_the_run_before_anything_is_asked(
    server: ScriptedServer, name: str
) -> None:
    ran = alhena("-p", "hi", f"--session-id={name}", **keyed(server))
    assert (ran.code, ran.out, server.requests) == (42, "", [])
    assert "is no id for a session" in ran.err


async def test_a_session_that_is_cleared_has_an_id_of_its_own(project: Path) -> None:
    generator = ScriptedGenerator([text("one")], [text("two")])
    async with agent(generator, session_id="mine") as running:
        await running.ask("hi")
        assert running.session_id == "mine"
        await running.clear()
        await running.ask("hi")
        assert is_made_id(running.session_id)


def test_an_old_session_has_its_id() -> None:
    ran = alhena("-p", "hi", "--resume", "--session-id", "a", "-m", "demo")
    assert (ran.code, "--resume contradicts --session-id" in ran.err) == (2, True)
