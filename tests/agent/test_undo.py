"""/undo: what a turn has changed is taken back, and nothing of anybody else's."""

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from alhena.agent.restoring import Restored
from alhena.agent.runner import SessionRunner
from alhena.config.home import project_temp
from alhena.errors import InterruptedRunError
from alhena.events import WarningEvent
from alhena.session.store import open_store
from tests.agent.kit import events_of
from tests.agent.test_checkpoint_faults import with_git
from tests.agent.test_checkpoints import checkpoint_files, checkpointed, shell, turn, write
from tests.support.scripted import ScriptedGenerator
from tests.support.server import text


def put(path: Path, content: str) -> None:
    path.write_text(content, encoding="utf-8")


def files_left(undone: Restored | None) -> dict[str, str]:
    assert undone is not None
    assert undone.files is not None
    return dict(undone.files.left)


async def undone(running: SessionRunner) -> Restored:
    done = await running.checkpoints.undo()
    assert done is not None
    return done


async def test_what_the_person_has_done_since_stays(project: Path):
    put(project / "a.txt", "old")
    put(project / "mine.txt", "old")
    put(project / "both.txt", "old")
    generator = ScriptedGenerator(
        turn(
            write("a.txt", "new", "c1"),
            write("both.txt", "new", "c2"),
            shell("echo made > made.txt; rm gone.txt", "c3"),
        ),
        [text("Done.")],
    )
    put(project / "gone.txt", "there")
    async with checkpointed(generator) as running:
        await running.ask("go")
        put(project / "mine.txt", "my later work")
        put(project / "later.txt", "my later file")
        put(project / "both.txt", "my change of its change")
        done = await undone(running)
    assert files_left(done) == {"both.txt": "it has changed since that turn"}
    assert {path.name: path.read_text() for path in project.glob("*.txt")} == {
        "a.txt": "old",
        "gone.txt": "there",
        "mine.txt": "my later work",
        "later.txt": "my later file",
        "both.txt": "my change of its change",
    }


async def test_what_is_already_as_it_was_is_no_conflict(project: Path):
    put(project / "a.txt", "old")
    generator = ScriptedGenerator(turn(write("a.txt", "new", "c1")), [text("Done.")])
    async with checkpointed(generator) as running:
        await running.ask("go")
        put(project / "a.txt", "old")
        assert files_left(await undone(running)) == {}
        assert (project / "a.txt").read_text() == "old"


async def test_a_turn_that_changed_nothing_uses_up_no_undo(project: Path):
    generator = ScriptedGenerator(
        turn(write("a.txt", "new", "c1")),
        [text("Done.")],
        turn(shell("true", "c2")),
        [text("Nothing.")],
    )
    async with checkpointed(generator) as running:
        await running.ask("go")
        await running.ask("look")
        put(project / "mine.txt", "mine")
        await undone(running)
        assert not (project / "a.txt").exists()
        assert (project / "mine.txt").exists()
        assert await running.checkpoints.undo() is None


async def test_a_turn_that_was_interrupted_ends_where_it_ended(project: Path):
    generator = ScriptedGenerator(
        turn(shell("echo new > a.txt; touch ready; sleep 100", "c1")), [text("Done.")]
    )
    put(project / "a.txt", "old")
    async with checkpointed(generator) as running:
        going = asyncio.create_task(events_of(running, "go"))
        while not (project / "ready").exists():
            await asyncio.sleep(0.01)
        running.interrupt()
        _, error = await going
        assert isinstance(error, InterruptedRunError)
        put(project / "mine.txt", "mine")
        await undone(running)
    assert (project / "a.txt").read_text() == "old"
    assert (project / "mine.txt").exists()


@pytest.mark.parametrize("cut", [False, True])
async def test_in_a_resumed_session_one_turn_is_taken_back(project: Path, cut: bool):
    generator = ScriptedGenerator(
        turn(write("a.txt", "one", "c1")),
        [text("One.")],
        turn(write("a.txt", "again", "c1")),
        [text("Again.")],
    )
    async with checkpointed(generator, approve=lambda _request: True) as running:
        await running.ask("one")
        await running.checkpoints.restore("1")
        async for _ in running.checkpoints.propose():
            pass
        session_id = running.session_id
    journal = Path(open_store(project_temp(os.environ, project)).find(session_id).path)
    if cut:
        lines = journal.read_bytes().splitlines(keepends=True)
        first = next(i for i, line in enumerate(lines) if b'"type":"prompt"' in line)
        journal.write_bytes(b"".join(lines[:first]))
    second = ScriptedGenerator(turn(write("b.txt", "two", "c1")), [text("Two.")])
    async with checkpointed(second, resume=session_id) as running:
        await running.ask("two")
        await undone(running)
        assert not (project / "b.txt").exists()
        assert (project / "a.txt").exists()
        ids = {each.prompt_id for _, each in running.checkpoints.list() if each.kind == "call"}
        assert len(ids) == 3


async def test_what_was_gone_back_behind_is_not_undone(project: Path):
    generator = ScriptedGenerator(
        turn(write("a.txt", "one", "c1")),
        [text("One.")],
        turn(write("a.txt", "two", "c2"), write("b.txt", "two", "c3")),
        [text("Two.")],
    )
    async with checkpointed(generator) as running:
        await running.ask("one")
        await running.ask("two")
        await running.checkpoints.restore("3")
        assert (project / "a.txt").read_text() == "two"
        assert files_left(await undone(running)) == {}
        assert (project / "a.txt").read_text() == "one"
        await running.checkpoints.restore("1")
        assert await running.checkpoints.undo() is None


async def test_an_ignored_file_that_a_second_call_names_is_not_lost(project: Path):
    put(project / ".gitignore", "*.env\n")
    put(project / "my.env", "KEY=1")
    generator = ScriptedGenerator(
        turn(write("a.txt", "new", "c1"), write("my.env", "KEY=2", "c2")), [text("Done.")]
    )
    async with checkpointed(generator) as running:
        await running.ask("go")
        assert (project / "my.env").read_text() == "KEY=2"
        await undone(running)
    assert (project / "my.env").read_text() == "KEY=1"
    assert not (project / "a.txt").exists()


async def test_what_a_person_calls_is_a_turn_of_its_own(project: Path):
    generator = ScriptedGenerator(turn(write("a.txt", "new", "c1")), [text("Done.")])
    async with checkpointed(generator) as running:
        await running.ask("go")
        async for _ in running.call("write_file", {"file_path": "b.txt", "content": "x"}):
            pass
        await undone(running)
        assert not (project / "b.txt").exists()
        assert (project / "a.txt").exists()
        await undone(running)
        assert not (project / "a.txt").exists()


async def test_a_turn_whose_end_cannot_be_kept_says_so(project: Path, tmp_path: Path):
    real = shutil.which("git") or "git"
    mark = tmp_path / "broken"
    script = f'[ -e {mark} ] && {{ echo "fatal: no" >&2; exit 1; }}; exec {real} "$@"'
    environ = with_git(tmp_path, script)
    generator = ScriptedGenerator(turn(shell(f"touch {mark}", "c1")), [text("Done.")])
    async with checkpointed(generator, environ=environ) as running:
        events, error = await events_of(running, "go")
    assert error is None
    (warning,) = [event.message for event in events if isinstance(event, WarningEvent)]
    assert "the end of this turn is not kept" in warning


async def test_an_undo_that_was_broken_off_is_finished_by_saying_it_again(project: Path):
    generator = ScriptedGenerator(
        turn(write("a.txt", "new", "c1")),
        [text("One.")],
        turn(write("b.txt", "new", "c2")),
        [text("Two.")],
    )
    async with checkpointed(generator) as running:
        await running.ask("one")
        await running.ask("two")
        await undone(running)
        put(project / "b.txt", "new")  # as if it had been killed before it got there
        (path,) = (each for each in checkpoint_files(project) if "-restore" in each.name)
        put(path, path.read_text().replace('"kind":', '"underWay":true,"kind":'))
        assert files_left(await undone(running)) == {}
        assert (project / "a.txt").exists()
        assert not (project / "b.txt").exists()
        await undone(running)
        assert not (project / "a.txt").exists()
