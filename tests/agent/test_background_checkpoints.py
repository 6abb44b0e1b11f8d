"""Checkpoints as a terminal makes them: in the background, with no prompt waiting for them."""

import os
import shutil
from pathlib import Path

import msgspec
import pytest

from alhena.agent import checkpointing
from alhena.agent.runner import SessionRunner
from alhena.config.settings import Settings
from alhena.events import WarningEvent
from tests.agent.kit import events_of
from tests.agent.test_checkpoint_faults import with_git
from tests.agent.test_checkpoints import checkpoint_files, checkpointed, shell, turn, write
from tests.agent.test_undo import files_left, put, undone
from tests.support.scripted import ScriptedGenerator
from tests.support.server import text

LEFT_OUT = "the checkpoint leaves it out"


def at_terminal(generator: ScriptedGenerator, **options: object) -> SessionRunner:
    return checkpointed(generator, settings=Settings(), checkpoints=True, **options)


def slow_git(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A file as long as which git only waits, and an environment with that git."""
    mark = tmp_path / "slow"
    mark.touch()
    real = shutil.which("git") or "git"
    return mark, with_git(tmp_path, f'while [ -e {mark} ]; do sleep 0.01; done; exec {real} "$@"')


async def test_no_edit_waits_for_git(project: Path, tmp_path: Path):
    put(project / "a.txt", "old")
    mark, environ = slow_git(tmp_path)
    generator = ScriptedGenerator(
        turn(write("a.txt", "new", "c1"), write("sub/b.txt", "new", "c2")), [text("Done.")]
    )
    async with at_terminal(generator, environ=environ) as running:
        await running.ask("go")
        assert files_left(await undone(running)) == {}
        assert (project / "a.txt").read_text() == "old"
        assert not (project / "sub").exists()
        mark.unlink()


async def test_a_command_in_a_large_folder_does_not_wait_and_what_is_lost_is_named(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(checkpointing, "MAX_WAITED_FILES", 0)
    for name in ("a.txt", "b.txt", "c.txt"):
        put(project / name, "old")
    mark, environ = slow_git(tmp_path)
    generator = ScriptedGenerator(
        turn(write("a.txt", "new", "c1"), shell("echo new > b.txt; echo x > made.txt", "c2")),
        [text("Done.")],
    )
    async with at_terminal(generator, environ=environ) as running:
        _, error = await events_of(running, "go")
        assert error is None
        assert mark.exists()  # git has not done anything yet
        mark.unlink()
        assert files_left(await undone(running)) == {"b.txt": LEFT_OUT, "made.txt": LEFT_OUT}
        assert (project / "a.txt").read_text() == "old"
        assert (project / "b.txt").read_text() == "new\n"


async def test_a_command_in_a_small_folder_waits_for_its_snapshot(project: Path):
    put(project / "a.txt", "old")
    generator = ScriptedGenerator(turn(shell("echo new > a.txt", "c1")), [text("Done.")])
    async with at_terminal(generator) as running:
        events, _ = await events_of(running, "go")
        assert not [event for event in events if isinstance(event, WarningEvent)]
        assert files_left(await undone(running)) == {}
    assert (project / "a.txt").read_text() == "old"


async def test_what_a_person_does_during_a_turn_that_only_edits_is_not_undone(project: Path):
    put(project / "mine.txt", "old")

    def approve(_request: object) -> bool:
        put(project / "mine.txt", "my work")
        return True

    generator = ScriptedGenerator(
        turn(write("a.txt", "new", "c1"), write("b.txt", "new", "c2")), [text("Done.")]
    )
    options = {"approve": approve, "approval_mode": "default"}
    async with at_terminal(generator, **options) as running:
        await running.ask("go")
        assert files_left(await undone(running)) == {}
    assert [path.name for path in project.iterdir()] == ["mine.txt"]
    assert (project / "mine.txt").read_text() == "my work"


@pytest.mark.parametrize("later", [False, True])
async def test_edits_of_a_killed_process_are_undone(project: Path, later: bool):
    put(project / "a.txt", "old")
    first = ScriptedGenerator(turn(write("a.txt", "new", "c1")), [text("Done.")])
    async with at_terminal(first) as running:
        await running.ask("go")
        session_id = running.session_id
    (path,) = checkpoint_files(project)
    saved = msgspec.json.decode(path.read_bytes())
    for name in ("ended", "commitHash", "notes"):  # as if it had been killed in the call
        saved.pop(name, None)
    path.write_bytes(msgspec.json.encode(saved))
    second = ScriptedGenerator(turn(write("b.txt", "new", "c2")), [text("Done.")])
    async with at_terminal(second, resume=session_id) as running:
        if later:
            await running.ask("more")
            await undone(running)
            assert (project / "a.txt").read_text() == "new"
        assert files_left(await undone(running)) == {}
    assert (project / "a.txt").read_text() == "old"
    assert not (project / "b.txt").exists()


async def test_a_damaged_content_is_named_and_the_file_stays(project: Path):
    put(project / "a.txt", "old")
    generator = ScriptedGenerator(turn(write("a.txt", "new", "c1")), [text("Done.")])
    async with at_terminal(generator) as running:
        await running.ask("go")
        (checkpoint,) = (each for _, each in running.checkpoints.list())
        assert checkpoint.saved is not None
        name = checkpoint.saved["a.txt"].name
        (git_dir,) = Path(os.environ["HOME"]).glob(".gemini/history/*/.git")
        (git_dir / "objects" / name[:2] / name[2:]).write_bytes(b"junk")
        reason = "its content in the checkpoint is damaged"
        assert files_left(await undone(running)) == {"a.txt": reason}
    assert (project / "a.txt").read_text() == "new"
