"""Checkpoints of workspace roots beside the project, through the whole agent and its commands."""

import os
import shutil
from pathlib import Path

import msgspec
import pytest

from alhena.config.home import project_history, project_temp
from tests.agent.kit import agent, events_of, turn, warnings
from tests.agent.test_checkpoints import checkpointed, shell, write
from tests.session.repositories import (
    put,
)
from tests.session.test_roots import failing_in
from tests.support.command import alhena
from tests.support.scripted import ScriptedGenerator
from tests.support.server import ScriptedServer, call, chunk, sse, text


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return put(tmp_path / "other/a.txt", "old").parent


def edits(project: Path, root: Path) -> ScriptedGenerator:
    put(project / "p.txt", "old")
    put(root / "b.txt", "old")
    return ScriptedGenerator(
        turn(write(f"{root}/a.txt", "new", "c1")),
        turn(shell(f"echo new > {root}/b.txt; echo new > {root}/made.txt", "c2")),
        turn(write("p.txt", "new", "c3")),
        [text("Done.")],
    )


def contents(root: Path) -> dict[str, str]:
    return {path.name: path.read_text().strip() for path in root.glob("*.txt")}


@pytest.mark.requirement("CHAT-07")
async def test_an_edit_in_another_root_can_be_gone_back_from(project: Path, root: Path):
    generator = edits(project, root)
    async with checkpointed(generator, include_directories=(str(root),)) as running:
        events, error = await events_of(running, "go")
        assert error is None
        assert warnings(events) == []
        names = [name for name, _ in running.checkpoints.list()]
        assert names[0].endswith("Z-a.txt-write_file")
        done = await running.checkpoints.restore(names[1])
        assert contents(root) == {"a.txt": "new", "b.txt": "old"}
        assert contents(project) == {"p.txt": "old"}
        assert done.files is not None
        assert done.files.written == ("p.txt", f"{root}/b.txt")
        assert done.files.removed == (f"{root}/made.txt",)
        await running.checkpoints.restore(done.kept)
        assert contents(root) == {"a.txt": "new", "b.txt": "new", "made.txt": "new"}
        await running.checkpoints.restore(names[0])
        assert contents(root) == {"a.txt": "old", "b.txt": "old"}


async def test_undo_takes_back_what_a_turn_has_done_in_another_root(project: Path, root: Path):
    generator = edits(project, root)
    async with checkpointed(generator, include_directories=(str(root),)) as running:
        await running.ask("go")
        put(root / "mine.txt", "mine")
        put(root / "b.txt", "changed since")
        done = await running.checkpoints.undo()
        assert done is not None
        assert done.files is not None
        assert dict(done.files.left) == {f"{root}/b.txt": "it has changed since that turn"}
        assert contents(root) == {"a.txt": "old", "b.txt": "changed since", "mine.txt": "mine"}
        assert contents(project) == {"p.txt": "old"}
        assert await running.checkpoints.undo() is None


async def test_a_turn_that_changed_nothing_but_another_root_is_undone(project: Path, root: Path):
    put(root / "keep.env", "old")
    put(root / ".gitignore", "*.env\n")
    generator = ScriptedGenerator(
        turn(write(f"{root}/keep.env", "new", "c1")),
        [text("One.")],
        turn(shell(f"rm -rf {root}", "c2")),
        [text("Two.")],
    )
    async with checkpointed(generator, include_directories=(str(root),)) as running:
        await running.ask("one")
        put(root / "b.txt", "mine")
        await running.ask("two")
        assert not root.exists()
        assert await running.checkpoints.undo() is not None
        assert contents(root) == {"a.txt": "old", "b.txt": "mine"}
        put(root / "keep.env", "new")  # ignored, and no call of that turn has named it
        assert await running.checkpoints.undo() is not None
        assert (root / "keep.env").read_text() == "old"
        assert (root / "b.txt").read_text() == "mine"
        assert await running.checkpoints.undo() is None


async def test_the_end_of_a_turn_that_was_killed_is_the_next_checkpoint(project: Path, root: Path):
    generator = edits(project, root)
    async with checkpointed(generator, include_directories=(str(root),)) as running:
        await running.ask("go")
        name, made = running.checkpoints.list()[0]
        path = project_temp(os.environ, project) / "checkpoints" / f"{name}.json"
        bare = tuple(msgspec.structs.replace(each, after="") for each in made.roots)
        when = path.stat()
        put(path, msgspec.json.encode(msgspec.structs.replace(made, after="", roots=bare)))
        os.utime(path, ns=(when.st_atime_ns, when.st_mtime_ns))
        done = await running.checkpoints.undo()
    assert done is not None
    assert contents(root) == {"a.txt": "old", "b.txt": "old"}
    assert contents(project) == {"p.txt": "old"}


async def test_why_a_root_is_not_kept_is_said_once_and_the_project_is_kept(
    project: Path, root: Path, tmp_path: Path
):
    generator = edits(project, root)
    environ = failing_in(root, tmp_path)
    given = {"environ": environ, "include_directories": (str(root),)}
    async with checkpointed(generator, **given) as running:
        events, _ = await events_of(running, "go")
        (told,) = warnings(events)
        assert told.startswith(f"the files in {root} are not part of checkpoints: ")
        assert "failed (9)" in told
        await running.checkpoints.restore("1")
        assert contents(project) == {"p.txt": "old"}
        assert contents(root)["a.txt"] == "new"


async def test_where_checkpoints_are_off_a_root_costs_nothing(project: Path, root: Path):
    generator = ScriptedGenerator(turn(write(f"{root}/a.txt", "new", "c1")), [text("Done.")])
    async with agent(generator, include_directories=(str(root),)) as running:
        await running.ask("go")
    assert not project_history(os.environ, project_temp(os.environ, project)).exists()


def test_the_commands_cover_the_roots_of_the_session(
    server: ScriptedServer, project: Path, root: Path
):
    keys = {"GEMINI_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": server.url}
    edit = call("write_file", {"file_path": f"{root}/a.txt", "content": "new"}, id="c1")
    server.reply(sse(chunk(edit, finish="STOP")), sse(text("done")))
    more = ("--checkpointing", "--include-directories", str(root))
    assert alhena("-y", "-p", "go", *more, **keys).code == 0
    assert (root / "a.txt").read_text() == "new"
    (listed,) = alhena("sessions", "checkpoints", "--json").json["checkpoints"]
    assert listed["paths"] == [f"{root}/a.txt"]
    restored = alhena("sessions", "restore", "latest", "--json").json
    assert restored["written"] == [f"{root}/a.txt"]
    assert (root / "a.txt").read_text() == "old"
    assert f"Put back: {root}/a.txt" in alhena("sessions", "restore", restored["kept"]).out
    assert (root / "a.txt").read_text() == "new"
    shutil.rmtree(root)
    assert alhena("sessions", "restore", "1").code == 0
    assert (root / "a.txt").read_text() == "old"
