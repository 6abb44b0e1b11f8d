"""The file of a session goes, or is changed, while the session is at work: the run ends for it."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Never

import pytest

from alhena.events import WarningEvent
from alhena.session.journal import Disk, Journal, read_session
from alhena.session.records import JournalError
from alhena.session.replay import Replay
from alhena.system.files import synchronise
from tests.agent.kit import agent, events_of
from tests.session.kit import replay_journal, turns, write
from tests.support.command import alhena
from tests.support.scripted import ScriptedGenerator
from tests.support.server import Received, Reply, ScriptedServer, call, chunk, sse, text

Act = Callable[[Path], None]


def unlink(path: Path) -> None:
    path.unlink()


def put_a_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def put_a_fifo(path: Path) -> None:
    path.rename(path.with_name("moved"))
    os.mkfifo(path)


def put_a_copy(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").rename(path)


def move(path: Path) -> None:
    path.rename(path.with_name("moved"))


def cut(path: Path) -> None:
    os.truncate(path, 100)


def add_to(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"foreign\n")


def remove_the_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


ACTS = [unlink, put_a_directory, put_a_fifo, put_a_copy, move, cut, add_to, remove_the_folder]


class Meddling(ScriptedServer):
    """Does something to the file of the session when the `at`-th request arrives."""

    def __init__(self, home: Path, act: Act, at: int) -> None:
        super().__init__()
        self.sessions = home / ".gemini" / "tmp" / "project" / "sessions"
        self.act = act
        self.at = at

    def take(self, received: Received) -> Reply:
        reply = super().take(received)
        if len(self.requests) == self.at:
            (path,) = self.sessions.glob("*.jsonl")
            self.act(path)
        return reply

    def run(self, calls: int) -> tuple[int, str]:
        """A run that writes so many files, one a turn: its exit code, and what it says."""
        for number in range(calls):
            args = {"file_path": f"{number}.txt", "content": "x"}
            part = call("write_file", args, id=f"c{number}")
            self.reply(sse(chunk(part, finish="STOP")))
        self.reply(sse(text("fine")))
        environ = {"GEMINI_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": self.url}
        ran = alhena("-y", "--skip-trust", "-p", "go", **environ)
        return ran.code, ran.err


@pytest.mark.parametrize("act", ACTS)
def test_a_run_whose_record_is_lost_changes_nothing_more(home: Path, project: Path, act: Act):
    with Meddling(home, act, at=2) as server:
        code, said = server.run(3)
        assert len(server.requests) == 2
    assert code == 1
    assert "the session cannot be recorded" in said
    assert sorted(path.name for path in project.iterdir()) == ["0.txt"]


@pytest.mark.parametrize("act", ACTS)
def test_a_record_that_is_lost_at_the_very_end_is_exit_1_and_said_once(
    home: Path, project: Path, act: Act
):
    with Meddling(home, act, at=2) as server:
        code, said = server.run(1)
    assert code == 1
    assert said.count("the session cannot be recorded") == 1
    assert "RuntimeWarning" not in said
    assert len(said.splitlines()) == 1


def test_what_is_left_of_a_cut_record_is_not_written_to(home: Path, project: Path):
    def to_its_first_line(path: Path) -> None:
        path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])

    with Meddling(home, to_its_first_line, at=3) as server:
        code, said = server.run(3)
        (path,) = server.sessions.glob("*.jsonl")
    assert code == 1
    assert f"alhena --resume {path.stem}" in said
    replay, extent = replay_journal(path)
    assert (extent.lines, extent.damage) == (1, None)
    assert replay.header is not None


async def test_an_embedding_program_is_told_once_and_can_close(home: Path):
    class Removing(ScriptedGenerator):
        async def aclose(self) -> None:
            assert not list(home.glob(".gemini/tmp/*/sessions/*.jsonl"))

    generator = Removing([text("one")], [text("two")])
    async with agent(generator) as running:
        await running.ask("first")
        (path,) = home.glob(".gemini/tmp/*/sessions/*.jsonl")
        path.unlink()
        events, error = await events_of(running, "second")
        assert isinstance(error, JournalError)
        assert not [event for event in events if isinstance(event, WarningEvent)]
    # closing adds no warning: they are errors here


async def test_a_file_that_is_put_back_is_gone_on_with(home: Path):
    async with agent(ScriptedGenerator([text("one")], [text("two")], [text("three")])) as running:
        await running.ask("first")
        (path,) = home.glob(".gemini/tmp/*/sessions/*.jsonl")
        elsewhere = path.with_name("elsewhere")
        path.rename(elsewhere)
        _, error = await events_of(running, "second")
        assert isinstance(error, JournalError)
        elsewhere.rename(path)
        assert await running.ask("third") == "three"
    replay, extent = replay_journal(path)
    assert extent.damage is None
    assert replay.prompts == 3


def test_a_damaged_end_is_on_the_disk_beside_before_it_is_cut_off(tmp_path: Path):
    path = write(tmp_path / "s.jsonl", *turns(1))
    with path.open("ab") as file:
        file.write(b"torn")
    done: list[tuple[str, bytes]] = []

    def name_of(descriptor: int) -> str:
        return Path(os.readlink(f"/proc/self/fd/{descriptor}")).name

    def note_sync(descriptor: int) -> None:
        synchronise(descriptor)
        name = name_of(descriptor)
        done.append((f"sync {name}", (tmp_path / name).read_bytes()[-4:]))

    def note_truncation(descriptor: int, length: int) -> None:
        done.append((f"cut {name_of(descriptor)}", b""))
        os.ftruncate(descriptor, length)

    disk = Disk(synchronise=note_sync, truncate=note_truncation)
    journal, _, _ = Journal.reopen(path, lambda path: read_session(path, Replay().feed), disk)
    journal.drop()
    steps = [("sync s.damaged-1", b"torn"), ("cut s.jsonl", b""), ("sync s.jsonl", b'"}\n')]
    assert [
        (what, data[-len(end) :] if end else data)
        for (what, data), (_, end) in zip(done, steps, strict=True)
    ] == steps


def _full(*_arguments: object) -> Never:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    "disk",
    [Disk(write=_full), Disk(synchronise=_full), Disk(truncate=_full)],
    ids=["write", "synchronise", "truncate"],
)
def test_a_damaged_end_that_cannot_be_set_aside_is_left_as_it_is(tmp_path: Path, disk: Disk):
    path = write(tmp_path / "s.jsonl", *turns(1))
    with path.open("ab") as file:
        file.write(b"torn")
    before = path.read_bytes()

    with pytest.raises(JournalError, match="ENOSPC"):
        Journal.reopen(path, lambda path: read_session(path, Replay().feed), disk)
    assert path.read_bytes() == before
    assert not list(tmp_path.glob("*.damaged-*"))
