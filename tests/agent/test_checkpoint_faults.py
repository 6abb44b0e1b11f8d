"""Checkpoints when things go wrong: interruptions, kills, full disks, other hands."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from alhena import tool
from alhena.agent.restoring import UNDONE
from alhena.agent.runner import SessionRunner
from alhena.config.home import project_history, project_temp
from alhena.errors import InterruptedRunError
from alhena.events import Event, ToolCallResponseEvent, ToolCallUpdateEvent, WarningEvent
from alhena.session.checkpoints.records import (
    Checkpoint,
    CheckpointedCall,
    CheckpointError,
    CheckpointFiles,
    objects_of,
)
from alhena.session.checkpoints.repository import Repository
from alhena.session.store import open_store
from alhena.tools.contract import Kind
from tests.agent.kit import conforming, events_of
from tests.agent.test_checkpoints import checkpointed, shell, turn, write
from tests.session.kit import replay_journal
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, text


def with_git(tmp_path: Path, script: str) -> dict[str, str]:
    """An environment in which git is this script."""
    path = tmp_path / "bin" / "git"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return {**os.environ, "PATH": f"{path.parent}:{os.environ['PATH']}"}


async def test_an_interruption_while_files_are_kept_ends_the_call_before_it_began(
    project: Path, tmp_path: Path
):
    environ = with_git(tmp_path, "exec sleep 100")
    generator = ScriptedGenerator(turn(shell("echo new > a.txt", "c1")), [text("Ok.")])
    events: list[Event] = []

    async def collect(running: SessionRunner) -> None:
        async for event in running.run("go"):
            events.append(event)

    def states() -> list[str]:
        return [event.status for event in events if isinstance(event, ToolCallUpdateEvent)]

    async with checkpointed(generator, environ=environ) as running:
        task = asyncio.create_task(collect(running))
        while "scheduled" not in states():
            await asyncio.sleep(0.01)
        assert running.interrupt()
        with pytest.raises(InterruptedRunError):
            await task
        (answer,) = [event for event in events if isinstance(event, ToolCallResponseEvent)]
        assert answer.status == "cancelled"
        assert "executing" not in states()
        assert not (project / "a.txt").exists()
        assert await running.ask("and now?") == "Ok."
    assert conforming(generator)


async def test_a_full_disk_is_said_once_and_the_edits_go_on(project: Path, tmp_path: Path):
    environ = with_git(tmp_path, "echo 'fatal: write error: No space left on device' >&2; exit 128")
    generator = ScriptedGenerator(
        turn(shell("echo new > a.txt", "c1"), shell("echo new > b.txt", "c2")), [text("Done.")]
    )
    async with checkpointed(generator, environ=environ) as running:
        events, error = await events_of(running, "go")
    assert error is None
    (warning,) = [event.message for event in events if isinstance(event, WarningEvent)]
    assert "No space left on device" in warning
    assert (project / "b.txt").read_text() == "new\n"


async def test_a_home_directory_is_too_much_and_that_is_said_once(home: Path, monkeypatch: Any):
    monkeypatch.chdir(home)
    generator = ScriptedGenerator(
        turn(shell("echo new > a.txt", "c1"), shell("echo new > b.txt", "c2")), [text("Done.")]
    )
    async with checkpointed(generator, cwd=home) as running:
        events, error = await events_of(running, "go")
    assert error is None
    (warning,) = [event.message for event in events if isinstance(event, WarningEvent)]
    assert warning.startswith("what commands change in this session cannot be restored: ")
    assert (home / "b.txt").exists()


@pytest.mark.requirement("SCHED-08")
async def test_the_request_of_a_call_names_its_checkpoint(project: Path):
    async with checkpointed(ScriptedGenerator()) as running:
        calling = running.call("write_file", {"file_path": "a.txt", "content": "x"})
        async for _ in calling:
            pass
        ((name, checkpoint),) = running.checkpoints.list()
        reading = running.call("read_file", {"absolute_path": "a.txt"})
        async for _ in reading:
            pass
    assert calling.completed is not None
    assert calling.completed.request.checkpoint == name
    assert checkpoint.call_id == calling.call_id
    assert reading.completed is not None
    assert reading.completed.request.checkpoint is None


async def test_results_that_stand_are_kept_and_what_is_killed_midway_is_of_unknown_outcome(
    project: Path,
):
    seen: list[tuple[tuple[str, ...], str]] = []

    @tool(kind=Kind.EXECUTE)
    def effect(name: str) -> str:
        """Does something.

        Args:
            name: what.
        """
        path = open_store(project_temp(os.environ, project)).find("latest").path
        replay, _ = replay_journal(Path(path))  # as another process would find it now
        ends = replay.pending_responses()
        seen.append((replay.unknown_calls(), str(ends)))
        return f"did {name}"

    generator = ScriptedGenerator(
        turn(shell("echo stands > s.txt", "c0"), call("effect", {"name": "x"}, id="c1")),
        [text("Done.")],
        [text("Again.")],
    )
    approve = {"approve": lambda _request: True}
    async with checkpointed(generator, tools=[effect], **approve) as running:
        await running.ask("go")
        restored = await running.checkpoints.restore("2")
        assert restored.proposed == ("effect",)
        first, second = (part.function_response for part in running.history[-1].parts)
        assert first is not None
        assert "Exit Code: 0" in str(first.response)
        assert second is not None
        assert second.response == {"error": UNDONE}
        async for _ in running.checkpoints.propose():
            pass
    assert [unknown for unknown, _ in seen] == [("effect",), ("effect",)]
    assert all("Exit Code: 0" in ends for _, ends in seen)
    assert conforming(generator)


def test_what_is_no_checkpoint_is_passed_over(tmp_path: Path):
    files = CheckpointFiles(tmp_path)
    name = files.write("good", Checkpoint(commit_hash="c"))
    (tmp_path / "bad.json").write_text("{", encoding="utf-8")
    (tmp_path / "other.json").write_text("[1]", encoding="utf-8")
    (tmp_path / "dir.json").mkdir()
    (tmp_path / "link.json").symlink_to("good.json")
    assert [each for each, _ in files.all()] == [name]


def test_a_call_that_has_no_form_as_json_is_said_and_a_stray_surrogate_is_none(tmp_path: Path):
    files = CheckpointFiles(tmp_path)
    name = files.write("odd", Checkpoint(tool_call=CheckpointedCall("t", {"a": "x\ud800"})))
    call = files.read(name).tool_call
    assert call is not None
    assert call.args["a"].startswith("x")
    with pytest.raises(CheckpointError, match="no form as JSON"):
        files.write("worse", Checkpoint(tool_call=CheckpointedCall("t", {"a": object()})))
    assert files.names() == (name,)


QUIET = """
import asyncio, sys
from alhena import Agent

async def main():
    async with Agent("demo", approval_mode="yolo") as agent:
        async for _ in agent.session.call("write_file", {"file_path": "a.txt", "content": "x"}):
            pass

asyncio.run(main())
print(*(name for name in sys.modules if "checkpoint" in name))
"""


def test_where_they_are_off_nothing_of_them_is_loaded(project: Path):
    ran = subprocess.run([sys.executable, "-c", QUIET], capture_output=True, text=True, check=True)
    assert (project / "a.txt").read_text() == "x"
    assert ran.stdout == "\n"


async def test_what_the_checkpoints_of_a_deleted_session_held_is_let_go(project: Path):
    directory = project_history(os.environ, project_temp(os.environ, project))
    repository = Repository(directory, project, os.environ)
    deleted: frozenset[str] = frozenset()
    for number in range(3):
        generator = ScriptedGenerator(turn(write("a.txt", f"{number}", "c1")), [text("Done.")])
        async with checkpointed(generator) as running:
            await running.ask("go")
            kept = objects_of(running.checkpoints.list())
            while (deleted - kept) & repository.object_names():
                await asyncio.sleep(0.01)
            assert kept <= repository.object_names()
            session_id = running.session_id
        for ref in (directory / ".git/refs/alhena").iterdir():  # what is new stays for an hour
            os.utime(ref, (0, 0))
        open_store(project_temp(os.environ, project)).delete(session_id)
        deleted |= kept
