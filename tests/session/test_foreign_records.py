"""Files among the sessions, and lines in them, that no run has written: one never stops others."""

import os
import zlib
from pathlib import Path

import msgspec
import pytest

from alhena.config.home import claimed_project_temp
from alhena.session.checkpoints.records import CheckpointError, CheckpointFiles
from alhena.session.records import Prompted, SessionError, line_of
from alhena.session.store import SessionStore, project_store
from alhena.wire.content import USER
from tests.session.kit import AT, contents, header_of, replay_journal, says, write
from tests.support.command import alhena, keyed
from tests.support.server import ScriptedServer, sse, text

ODD_TEXT = b"\xff"
DEEP = 200_000


@pytest.fixture
def store(project: Path) -> SessionStore:
    claimed_project_temp(os.environ, project)
    store = project_store(os.environ, project)
    store.directory.mkdir()
    return store


def seal_line(body: bytes, chain: int) -> bytes:
    """A line with the checksum of whatever is in it."""
    return b'%b,"crc":"%08x"}\n' % (body, zlib.crc32(body, chain))


def good(store: SessionStore, project: Path, name: str = "good") -> Path:
    said = (Prompted(at=AT, text="before"), contents(0, says(USER, "before")))
    return write(store.path(name), header_of(project), *said)


def odd_header(project: Path) -> bytes:
    line, _ = line_of(header_of(project), 0)
    return seal_line(
        line.split(b',"crc"')[0].replace(b'"writer":"1"', b'"writer":"%b"' % ODD_TEXT), 0
    )


def test_a_header_that_is_no_text_stops_no_other_session(
    store: SessionStore, project: Path, server: ScriptedServer
):
    good(store, project)
    store.path("odd").write_bytes(odd_header(project))
    ran = alhena("sessions", "list")
    assert ran.code == 0
    assert "1. before" in ran.out
    assert "odd" not in ran.out
    server.reply(sse(text("new")), sse(text("old")))
    assert alhena("-p", "hi", **keyed(server)).out == "new\n"
    assert alhena("--resume", "good", "-p", "hi", **keyed(server)).out == "old\n"
    for command in (("sessions", "show"), ("sessions", "export"), ("sessions", "delete")):
        refused = alhena(*command, "odd")
        assert refused.code == 42
        assert "odd.jsonl does not begin as a session does" in refused.err
    assert store.path("odd").read_bytes() == odd_header(project)


def test_a_line_that_is_no_text_ends_what_can_be_trusted(
    store: SessionStore, project: Path, server: ScriptedServer
):
    path = good(store, project)
    whole = path.read_bytes()
    body = b'{"type":"prompt","at":"","text":"%b"' % ODD_TEXT
    path.write_bytes(whole + seal_line(body, replay_journal(path)[1].chain))
    assert replay_journal(path)[1].end == len(whole)
    for command in ("show", "export"):
        ran = alhena("sessions", command, "good")
        assert ran.code == 0
        assert "before" in ran.out
    server.reply(sse(text("fine")))
    ran = alhena("--resume", "good", "-p", "more", **keyed(server))
    assert ran.out == "fine\n"
    assert "of its end were moved to" in ran.err
    assert store.path("good").with_name("good.damaged-1").read_bytes().startswith(body)


def test_a_line_that_is_nested_too_deeply_is_refused_and_left(store: SessionStore, project: Path):
    path = good(store, project)
    nest = msgspec.Raw(b'{"parts":[{"functionResponse":{"name":"f","response":{"x":%b}}}]}')
    deep = bytes(nest) % (b"[" * DEEP + b"]" * DEEP)
    with path.open("ab") as file:
        body = b'{"type":"contents","at":"","keep":1,"contents":[%b]' % deep
        file.write(seal_line(body, replay_journal(path)[1].chain))
    good(store, project, "other")
    before = path.read_bytes()
    with pytest.raises(SessionError, match="nested too deeply"):
        store.resume("good", "1")
    assert path.read_bytes() == before
    assert sorted(item.session_id for item in store.summaries()) == ["good", "other"]
    assert alhena("--resume", "good", "-p", "go").code == 42
    assert alhena("sessions", "list").code == 0


@pytest.mark.parametrize("data", [b'{"sessionId":"\xff"}', b"[" * DEEP])
def test_a_checkpoint_that_cannot_be_read_stops_no_other(store: SessionStore, data: bytes):
    files = CheckpointFiles(store.directory.parent / "checkpoints")
    files.directory.mkdir()
    (files.directory / "odd.json").write_bytes(data)
    (files.directory / "good.json").write_bytes(b"{}")
    assert [name for name, _ in files.all()] == ["good"]
    with pytest.raises(CheckpointError, match="is no checkpoint"):
        files.read("odd")
