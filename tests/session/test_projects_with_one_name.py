"""Projects whose folders are called alike, and projects that were moved."""

import os
from pathlib import Path

import pytest

from alhena.config.home import claimed_project_temp, project_temp
from alhena.session.checkpoints.records import Checkpoint, CheckpointFiles, NoCheckpointError
from alhena.session.records import ForeignError
from alhena.session.store import project_store
from alhena.wire.content import USER
from tests.agent.kit import agent
from tests.agent.test_checkpoints import checkpointed, turn
from tests.agent.test_checkpoints import write as writes
from tests.session.kit import contents, header_of, says, write
from tests.support.command import alhena, keyed
from tests.support.scripted import ScriptedGenerator
from tests.support.server import ScriptedServer, sse, text


@pytest.fixture
def a(tmp_path: Path) -> Path:
    return folder(tmp_path / "a" / "app")


@pytest.fixture
def b(tmp_path: Path) -> Path:
    return folder(tmp_path / "b" / "app")


def folder(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


def titles(project: Path) -> list[str]:
    return [item.title for item in project_store(os.environ, project).summaries()]


def told(generator: ScriptedGenerator) -> str:
    return str(generator.seen(0))


async def test_sessions_that_begin_side_by_side_are_kept_apart(a: Path, b: Path):
    of_a, of_b = ScriptedGenerator([text("A.")]), ScriptedGenerator([text("B.")])
    async with agent(of_a, cwd=a) as first, agent(of_b, cwd=b) as second:
        await second.ask("said in b")
        await first.ask("said in a")
    assert (titles(a), titles(b)) == (["said in a"], ["said in b"])
    again = ScriptedGenerator([text("ok")])
    async with agent(again, cwd=b, resume="latest") as running:
        await running.ask("go on")
    assert "said in b" in told(again)
    assert "said in a" not in told(again)


async def test_checkpoints_of_namesakes_are_kept_apart(
    a: Path, b: Path, monkeypatch: pytest.MonkeyPatch
):
    (a / "only_a.txt").write_text("a", encoding="utf-8")
    (b / "only_b.txt").write_text("b", encoding="utf-8")
    of_a = ScriptedGenerator(turn(writes("x.txt", "of a", "c1")), [text("Done.")])
    of_b = ScriptedGenerator(turn(writes("x.txt", "of b", "c1")), [text("Done.")])
    async with checkpointed(of_a, cwd=a) as first, checkpointed(of_b, cwd=b) as second:
        assert first.checkpoints.list() == ()
        await second.ask("in b")
        await first.ask("in a")
    monkeypatch.chdir(b)
    restored = alhena("sessions", "restore", "latest")
    assert restored.code == 0, restored.err
    assert [each.name for each in b.iterdir()] == ["only_b.txt"]
    assert sorted(each.name for each in a.iterdir()) == ["only_a.txt", "x.txt"]


def astray(a: Path, b: Path) -> Path:
    """A session of `a` among those of `b`."""
    temp = claimed_project_temp(os.environ, b)
    (temp / "sessions").mkdir()
    return write(
        temp / "sessions" / "astray.jsonl", header_of(a), contents(0, says(USER, "whispered"))
    )


def test_a_session_of_another_project_is_told_and_not_gone_on_with(
    a: Path, b: Path, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
):
    path = astray(a, b)
    before = path.read_bytes()
    monkeypatch.chdir(b)
    said = alhena("sessions", "list").out
    assert f"Not listed, for they are of other projects: astray ({a})" in said
    server.reply(sse(text("fresh")))
    assert alhena("--resume", "-p", "go on", **keyed(server)).out == "fresh\n"
    assert "whispered" not in str(server.requests[-1].json)
    refused = alhena("--resume", "astray", "-p", "go on", **keyed(server))
    assert refused.code == 42
    assert f"the session astray is of another project: {a}." in refused.err
    place = project_temp(os.environ, a) / "sessions"
    assert (
        f"Use it in that folder; if that was moved here: alhena sessions adopt {a}." in refused.err
    )
    assert path.read_bytes() == before
    place.mkdir(parents=True)
    path.rename(place / path.name)
    assert project_store(os.environ, a).find("latest").session_id == "astray"


def test_a_folder_has_many_names(a: Path, tmp_path: Path):
    link = tmp_path / "link"
    link.symlink_to(a)
    temp = claimed_project_temp(os.environ, a)
    (temp / "sessions").mkdir()
    write(temp / "sessions" / "s.jsonl", header_of(link))
    project_store(os.environ, a).resume("s", "1").journal.close()


@pytest.mark.parametrize("noted", [True, False])
async def test_a_checkpoint_of_another_project_changes_no_file(
    a: Path, b: Path, noted: bool, monkeypatch: pytest.MonkeyPatch
):
    generator = ScriptedGenerator(turn(writes("x.txt", "of a", "c1")), [text("Done.")])
    async with checkpointed(generator, cwd=a) as running:
        await running.ask("in a")
    temp = project_temp(os.environ, a)
    (temp / ".project_root").write_text(str(b), encoding="utf-8")  # as if both had it
    (made,) = (temp / "checkpoints").glob("*.json")
    if not noted:
        data = made.read_text(encoding="utf-8")
        assert f'"project":"{a}",' in data
        made.write_text(data.replace(f'"project":"{a}",', ""), encoding="utf-8")
    (b / "own.txt").write_text("b", encoding="utf-8")
    monkeypatch.chdir(b)
    refused = alhena("sessions", "restore", made.stem)
    assert refused.code == 42
    assert f"is of another project: {a}." in refused.err
    assert alhena("sessions", "restore", "latest").code == 42
    said = alhena("sessions", "checkpoints").out
    assert said.startswith("This project has no checkpoints.\n")
    assert f"Not listed, for they are of other projects: {made.stem} ({a})\n" in said
    async with checkpointed(ScriptedGenerator(), cwd=b) as running:
        assert running.checkpoints.list() == ()
        with pytest.raises(ForeignError):
            await running.checkpoints.restore(made.stem)
        for name in ("1", "latest"):
            with pytest.raises(NoCheckpointError):
                await running.checkpoints.restore(name)
    assert [each.name for each in b.iterdir()] == ["own.txt"]


async def test_the_latest_checkpoint_is_the_latest_of_the_project(
    a: Path, b: Path, monkeypatch: pytest.MonkeyPatch
):
    generator = ScriptedGenerator(turn(writes("x.txt", "of a", "c1")), [text("Done.")])
    async with checkpointed(generator, cwd=a) as running:
        await running.ask("in a")
    files = CheckpointFiles(project_temp(os.environ, a) / "checkpoints")
    (own,) = files.names()
    foreign = files.write("of-b", Checkpoint(project=str(b)))
    monkeypatch.chdir(a)
    (listed,) = alhena("sessions", "checkpoints", "--json").json["checkpoints"]
    assert listed["name"] == own
    said = alhena("sessions", "checkpoints").out
    assert f"Not listed, for they are of other projects: {foreign} ({b})\n" in said
    restored = alhena("sessions", "restore", "latest")
    assert restored.code == 0, restored.err
    assert list(a.iterdir()) == []


def moved(server: ScriptedServer, old: Path, new: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(old)
    server.reply(sse(text("one")))
    assert alhena("-p", "before the move", **keyed(server)).code == 0
    new.parent.mkdir(exist_ok=True)
    old.rename(new)
    monkeypatch.chdir(new)


@pytest.mark.parametrize("name", ["app", "web"])
def test_a_project_that_was_moved_can_be_gone_on_with(
    a: Path, tmp_path: Path, server: ScriptedServer, name: str, monkeypatch: pytest.MonkeyPatch
):
    new = tmp_path / "c" / name
    moved(server, a, new, monkeypatch)
    said = alhena("sessions", "list").out
    assert f"There are some of folders that are gone: {a}\n" in said
    assert "alhena sessions adopt FOLDER" in said
    assert alhena("sessions", "adopt", str(a)).out.startswith("Sessions of this project (1)")
    server.reply(sse(text("two")))
    assert alhena("--resume", "-p", "after it", **keyed(server)).out == "two\n"
    assert "before the move" in str(server.requests[-1].json)
    assert alhena("sessions", "adopt", str(a)).code == 0  # it is so already
    moved(server, new, tmp_path / "d" / "app", monkeypatch)  # and once more
    assert alhena("sessions", "adopt", str(new)).code == 0
    assert titles(tmp_path / "d" / "app") == ["before the move", "before the move"]


def test_what_belongs_to_a_folder_that_is_there_is_not_taken(
    a: Path, b: Path, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(a)
    server.reply(sse(text("one")), sse(text("two")))
    alhena("-p", "in a", **keyed(server))
    monkeypatch.chdir(b)
    refused = alhena("sessions", "adopt", str(a))
    assert refused.code == 42
    assert f"{a} is still there" in refused.err
    alhena("-p", "in b", **keyed(server))
    a.rename(a.with_name("gone"))
    assert alhena("sessions", "adopt", "../../a/app").code == 0
    assert titles(b) == ["in a", "in b"]


def test_a_session_astray_of_a_folder_that_was_moved_here_is_adopted(
    a: Path, b: Path, monkeypatch: pytest.MonkeyPatch
):
    astray(a, b)
    a.rmdir()
    monkeypatch.chdir(b)
    with pytest.raises(ForeignError, match="is of another project") as caught:
        project_store(os.environ, b).resume("astray", "1")
    assert f"alhena sessions adopt {a}" in str(caught.value)
    assert alhena("sessions", "adopt", str(a)).code == 0
    assert titles(b) == [""]
    project_store(os.environ, b).resume("astray", "1").journal.close()
