"""Checkpoints through the whole agent where something is lost, or cannot be kept."""

import asyncio
import os
import zlib
from pathlib import Path

import pytest

from alhena.agent import checkpointing
from alhena.events import CheckpointEvent
from alhena.session.checkpoints.git import content_name
from tests.agent.kit import turn, warnings
from tests.agent.test_checkpoints import checkpoint_files, checkpointed, shell, write
from tests.session.repositories import (
    put,
)
from tests.session.test_damage import with_junk
from tests.support.command import alhena, keyed
from tests.support.disk import with_own_mounts
from tests.support.scripted import ScriptedGenerator
from tests.support.server import ScriptedServer, call, chunk, sse, text


def saved_object(name: str) -> Path:
    """The file of an object of the only checkpoint repository."""
    (git_dir,) = Path(os.environ["HOME"]).glob(".gemini/history/*/.git")
    return git_dir / "objects" / name[:2] / name[2:]


def tree_below(name: str, directory: str) -> Path:
    """The file of the tree of a directory in another."""
    data = zlib.decompress(saved_object(name).read_bytes())
    start = data.index(f"40000 {directory}\0".encode()) + len(f"40000 {directory}\0")
    return saved_object(data[start : start + 20].hex())


def test_a_damaged_checkpoint_is_exit_1_and_the_damaged_repository_is_named(
    server: ScriptedServer, project: Path
):
    put(project / "a.txt", "old")
    put(project / "sub/b.txt", "old")
    command = call("run_shell_command", {"command": "echo new | tee a.txt sub/b.txt"}, id="c1")
    server.reply(sse(chunk(command, finish="STOP")), sse(text("done")))
    assert alhena("-y", "--skip-trust", "-p", "go", "--checkpointing", **keyed(server)).code == 0
    (listed,) = alhena("sessions", "checkpoints", "--json").json["checkpoints"]
    with_junk(tree_below(listed["tree"], "sub"))
    ran = alhena("sessions", "restore", "latest")
    assert ran.code == 1
    assert "was damaged; a new one is begun" in ran.err
    assert ".git.damaged-1" in ran.err
    assert (project / "a.txt").read_text() == "new\n"


def test_a_file_with_damaged_content_is_exit_1_and_named(server: ScriptedServer, project: Path):
    put(project / "a.txt", "old")
    put(project / "b.txt", "old b")
    command = call("run_shell_command", {"command": "echo new | tee a.txt b.txt"}, id="c1")
    server.reply(sse(chunk(command, finish="STOP")), sse(text("done")))
    assert alhena("-y", "--skip-trust", "-p", "go", "--checkpointing", **keyed(server)).code == 0
    with_junk(saved_object(content_name(b"old b")))
    ran = alhena("sessions", "restore", "latest")
    assert ran.code == 1
    assert "Left as it is: b.txt (its content in the checkpoint is damaged)" in ran.out
    assert "Put back: a.txt" in ran.out
    assert "The conversation is back at the checkpoint." in ran.out
    assert (project / "b.txt").read_text() == "new\n"


async def test_the_session_is_warned_when_a_damaged_repository_is_replaced(project: Path):
    generator = ScriptedGenerator(
        turn(shell("echo new > a.txt", "c1")),
        turn(shell("echo new > b.txt", "c2")),
        [text("Done.")],
    )
    async with checkpointed(generator) as running:
        told: list[str] = []
        async for event in running.run("go"):
            if isinstance(event, CheckpointEvent):
                (git_dir,) = Path(os.environ["HOME"]).glob(".gemini/history/*/.git")
                put(git_dir / "config", "[core\n")
            told += warnings([event])
        assert any("was damaged; a new one is begun" in each for each in told)
        assert (project / "b.txt").read_text() == "new\n"


FULL = """
import json, os, subprocess, sys
from pathlib import Path
from tests.support.command import alhena, keyed
from tests.support.server import ScriptedServer, call, chunk, sse, text

disk = Path(os.environ["HOME"], ".gemini", "history")
disk.mkdir(parents=True)
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "none", disk], check=True)
os.chdir(sys.argv[1])
Path("a.txt").write_text(os.urandom(400_000).hex())
edit = call("write_file", {"file_path": "a.txt", "content": "new"}, id="c1")
with ScriptedServer() as server:
    server.reply(sse(chunk(edit, finish="STOP")), sse(text("done")))
    ran = alhena("-y", "--skip-trust", "-p", "go", "--checkpointing", **keyed(server))
listed = alhena("sessions", "checkpoints")
print(json.dumps([ran.code, ran.err, Path("a.txt").read_text(), listed.out]))
"""


@pytest.mark.requirement("TERM-04")
def test_on_a_full_disk_an_edit_is_made_and_its_missing_checkpoint_is_named(
    home: Path, project: Path
):
    code, err, content, listed = with_own_mounts(FULL, project)
    assert (code, content) == (0, "new")
    assert "no checkpoint was made: " in err
    assert "No space left on device. Checkpoints need this path" in err
    assert listed == "This project has no checkpoints.\n"


async def test_beyond_its_size_a_repository_loses_older_checkpoints_but_not_the_last(
    project: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(checkpointing, "MAX_BYTES", 1)
    first: set[Path] = set()
    for content in ("one", "two"):
        generator = ScriptedGenerator(turn(write("a.txt", content, "c1")), [text("Done.")])
        async with checkpointed(generator) as running:
            async for _ in running.run("go"):
                pass
            now = set(checkpoint_files(project))
            while first & set(checkpoint_files(project)):  # it is tidied in the background
                await asyncio.sleep(0.01)
        first = first or now
    assert set(checkpoint_files(project)) == now - first
    assert len(now - first) == 1
