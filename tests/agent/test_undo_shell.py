"""Undo of file changes by shell commands: the model's and the person's own."""

import asyncio
from pathlib import Path

from alhena.agent.runner import SessionRunner
from tests.agent.test_checkpoints import checkpointed, shell, turn
from tests.agent.test_undo import files_left, put, undone
from tests.support.scripted import ScriptedGenerator
from tests.support.server import text

CHANGES = (
    "echo new > a.txt; rm gone.txt; mkdir -p made/deep; echo x > made/deep/b.txt; "
    "mv run.sh moved.sh; ln -s a.txt link; chmod +x tool"
)


def before(project: Path) -> None:
    for name in ("a.txt", "gone.txt", "run.sh", "tool"):
        put(project / name, f"old {name}")
    (project / "run.sh").chmod(0o755)


def is_as_before(project: Path) -> bool:
    names = {"a.txt", "gone.txt", "run.sh", "tool"}
    return (
        {path.name for path in project.iterdir()} == names
        and all((project / name).read_text() == f"old {name}" for name in names)
        and [name for name in sorted(names) if (project / name).stat().st_mode & 0o100]
        == ["run.sh"]
    )


async def type_command(running: SessionRunner, command: str) -> None:
    """As `!command` is carried out."""
    async for _ in running.call("run_shell_command", {"command": command}):
        pass


async def test_all_that_a_command_of_the_model_has_done_is_taken_back(project: Path):
    before(project)
    generator = ScriptedGenerator(turn(shell(CHANGES, "c1")), [text("Done.")])
    async with checkpointed(generator) as running:
        await running.ask("go")
        assert files_left(await undone(running)) == {}
        assert is_as_before(project)


async def test_a_command_of_the_persons_own_is_a_turn_that_is_taken_back_alone(project: Path):
    before(project)
    generator = ScriptedGenerator(turn(shell("echo model > m.txt", "c1")), [text("Done.")])
    async with checkpointed(generator) as running:
        await running.ask("go")
        (project / "m.txt").unlink()
        await type_command(running, CHANGES)
        await type_command(running, "true")  # changes nothing, and uses up no undo
        assert files_left(await undone(running)) == {}
        assert is_as_before(project)
        assert len(running.checkpoints.list()) == 4


async def test_what_a_command_left_running_does_later_is_not_the_turns(project: Path):
    put(project / "a.txt", "old")
    late = "(while [ ! -e go ]; do sleep 0.01; done; echo late > late.txt; touch done) &"
    generator = ScriptedGenerator(turn(shell(f"{late} echo new > a.txt", "c1")), [text("Done.")])
    async with checkpointed(generator) as running:
        await running.ask("go")
        put(project / "go", "")
        while not (project / "done").exists():
            await asyncio.sleep(0.01)
        assert files_left(await undone(running)) == {}
        assert (project / "a.txt").read_text() == "old"
        assert (project / "late.txt").exists()
        await running.checkpoints.restore("1")
        assert sorted(path.name for path in project.iterdir()) == ["a.txt"]


async def test_what_a_command_does_to_ignored_files_stays_and_so_do_empty_directories(
    project: Path,
):
    put(project / ".gitignore", "*.env\n")
    put(project / "my.env", "old")
    (project / "empty").mkdir()
    command = "echo new > my.env; rmdir empty; mkdir other; echo new > a.txt"
    generator = ScriptedGenerator(turn(shell(command, "c1")), [text("Done.")])
    async with checkpointed(generator) as running:
        await running.ask("go")
        await undone(running)
    assert (project / "my.env").read_text() == "new\n"
    assert sorted(path.name for path in project.iterdir()) == [".gitignore", "my.env", "other"]
