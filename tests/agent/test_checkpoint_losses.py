"""Checkpoints through the whole agent where something is lost, or cannot be kept."""

import os
import zlib
from pathlib import Path

from alhena.agent.checkpointing import Checkpoints
from alhena.events import CheckpointEvent
from alhena.session.shadow_files import content_name
from tests.agent.kit import events_of, turn, warnings
from tests.agent.test_checkpoints import checkpointed, shell, write
from tests.session.shadows import put
from tests.session.test_damage import with_junk
from tests.support.command import alhena, keyed
from tests.support.scripted import ScriptedGenerator
from tests.support.server import ScriptedServer, call, chunk, sse, text


def kept_object(name: str) -> Path:
    """The file of an object of the only shadow repository that there is."""
    (git_dir,) = Path(os.environ["HOME"]).glob(".gemini/history/*/.git")
    return git_dir / "objects" / name[:2] / name[2:]


def tree_below(name: str, directory: str) -> Path:
    """The file of the tree of a directory in another."""
    data = zlib.decompress(kept_object(name).read_bytes())
    start = data.index(f"40000 {directory}\0".encode()) + len(f"40000 {directory}\0")
    return kept_object(data[start : start + 20].hex())


async def test_undo_brings_back_an_edit_whose_old_content_was_damaged_before_it(project: Path):
    put(project / "a.txt", "old")
    put(project / "sub/b.txt", "old b")
    generator = ScriptedGenerator(
        turn(write("c.txt", "new", "c1")),
        [text("One.")],
        turn(write("a.txt", "new", "c2"), write("sub/b.txt", "new", "c3")),
        [text("Two.")],
    )
    async with checkpointed(generator) as running:
        await running.ask("one")
        ((_, checkpoint),) = running.checkpoints.list()
        with_junk(kept_object(content_name(b"old")))
        with_junk(tree_below(checkpoint.commit_hash, "sub"))
        events, _ = await events_of(running, "two")
        assert warnings(events) == []
        done = await running.checkpoints.undo()
        assert done is not None
        assert done.files is not None
        assert done.files.left == ()
        assert (project / "a.txt").read_text() == "old"
        assert (project / "sub/b.txt").read_text() == "old b"


async def test_an_edit_that_cannot_be_taken_back_is_told_before_it(project: Path):
    put(project / "a.txt", "old")
    generator = ScriptedGenerator(
        turn(write("c.txt", "new", "c1")), turn(write("a.txt", "new", "c2")), [text("Done.")]
    )
    async with checkpointed(generator) as running:
        taken: list[str] = []
        async for event in running.run("go"):
            if isinstance(event, CheckpointEvent):
                taken.append(event.name)
                if len(taken) == 1:
                    path = kept_object(content_name(b"old"))
                    path.unlink()
                    path.mkdir()  # nothing can be put there
            taken += warnings([event])
        (_, told, _) = taken
        assert told == "what a.txt was cannot be kept: nothing will bring that back"
        assert (project / "a.txt").read_text() == "new"


def test_going_back_past_a_damaged_directory_is_exit_1_and_names_it(
    server: ScriptedServer, project: Path
):
    put(project / "a.txt", "old")
    put(project / "sub/b.txt", "old")
    command = call("run_shell_command", {"command": "echo new | tee a.txt sub/b.txt"}, id="c1")
    server.reply(sse(chunk(command, finish="STOP")), sse(text("done")))
    assert alhena("-y", "-p", "go", "--checkpointing", **keyed(server)).code == 0
    (listed,) = alhena("sessions", "checkpoints", "--json").json["checkpoints"]
    with_junk(tree_below(listed["tree"], "sub"))
    ran = alhena("sessions", "restore", "latest")
    assert ran.code == 1
    assert "Left as it is: sub/ (what it was is damaged in the checkpoint)" in ran.out
    assert "Put back: a.txt" in ran.out
    assert "The conversation is what it was then." in ran.out
    assert (project / "a.txt").read_text() == "old"
    assert (project / "sub/b.txt").read_text() == "new\n"


async def test_in_a_home_directory_the_other_roots_are_kept_and_that_is_said(
    home: Path, tmp_path: Path
):
    root = put(tmp_path / "other/a.txt", "old").parent
    put(home / "p.txt", "old")
    generator = ScriptedGenerator(
        turn(write(f"{root}/a.txt", "new", "c1")),
        turn(shell(f"echo new > {root}/b.txt; echo new > p.txt", "c2")),
        [text("Done.")],
    )
    given = {"cwd": home, "include_directories": (str(root),)}
    async with checkpointed(generator, **given) as running:
        events, error = await events_of(running, "go")
        assert error is None
        (told,) = warnings(events)
        assert told.startswith(f"the files in {home} are not part of checkpoints: ")
        assert [each.tree for each in events if isinstance(each, CheckpointEvent)] == ["", ""]
        done = await running.checkpoints.restore("1")
        assert done.files is not None
        assert done.files.written == (f"{root}/a.txt",)
        assert done.files.removed == (f"{root}/b.txt",)
        assert (home / "p.txt").read_text() == "new\n"
        await running.checkpoints.restore(done.kept)
        assert (root / "b.txt").read_text() == "new\n"
        assert await running.checkpoints.undo() is not None
        assert sorted(path.name for path in root.iterdir()) == ["a.txt"]
        assert (root / "a.txt").read_text() == "old"
        assert await running.checkpoints.undo() is None
    again = Checkpoints(home, os.environ, "", lambda _event: None)
    assert {each.commit_hash for _, each in again.files.all()} == {""}
