"""Checkpoints through the whole agent: made before edits, gone back to, proposed again."""

import os
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from alhena.agent.restoring import UNDONE
from alhena.config.home import project_temp
from alhena.config.settings import CheckpointingSettings, GeneralSettings, Settings
from alhena.errors import InputError
from alhena.events import CheckpointEvent, RunFinishedEvent, WarningEvent
from alhena.policy.model import ApprovalMode
from alhena.session.checkpoints.records import NoCheckpointError
from tests.agent.kit import agent, conforming, events_of, turn
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, text

ON = Settings(general=GeneralSettings(checkpointing=CheckpointingSettings(enabled=True)))


def checkpointed(generator: ScriptedGenerator, **options: Any):
    return agent(generator, **{"settings": ON, "approval_mode": ApprovalMode.YOLO, **options})


def write(name: str, content: str, call_id: str) -> dict[str, Any]:
    return call("write_file", {"file_path": name, "content": content}, id=call_id)


def shell(command: str, call_id: str) -> dict[str, Any]:
    return call("run_shell_command", {"command": command}, id=call_id)


def checkpoint_files(project: Path) -> list[Path]:
    directory = project_temp(os.environ, project) / "checkpoints"
    return sorted(directory.glob("*.json")) if directory.exists() else []


@pytest.mark.requirement("CHAT-07")
async def test_a_checkpoint_ties_files_conversation_and_call_together(project: Path):
    (project / "a.txt").write_text("old", encoding="utf-8")
    generator = ScriptedGenerator(turn(write("a.txt", "new", "c1")), [text("Done.")])
    async with checkpointed(generator) as running:
        events, error = await events_of(running, "change a.txt")
        assert error is None
        (made,) = [event for event in events if isinstance(event, CheckpointEvent)]
        ((name, checkpoint),) = running.checkpoints.list()
        assert name == made.name
        assert name.endswith("Z-a.txt-write_file")
        assert checkpoint.tool_call is not None
        assert checkpoint.tool_call.args == {"file_path": "a.txt", "content": "new"}
        assert checkpoint.saved is not None
        assert list(checkpoint.saved) == ["a.txt"]
        restored = await running.checkpoints.restore(name)
        assert (project / "a.txt").read_text() == "old"
        assert restored.files is not None
        assert restored.files.written == ("a.txt",)
        assert restored.conversation
        assert restored.proposed == ("write_file",)
        last = running.history[-1].parts[0].function_response
        assert last is not None
        assert last.response == {"error": UNDONE}
    (file,) = (each for each in checkpoint_files(project) if "write_file" in each.name)
    assert set(msgspec.json.decode(file.read_bytes())) >= {"toolCall", "commitHash", "messageId"}


async def test_the_call_is_proposed_again_and_the_model_goes_on_from_there(project: Path):
    asked: list[str] = []

    def approve(request: Any) -> bool:
        asked.append(request.call_id)
        return True

    generator = ScriptedGenerator(
        turn(shell("echo kept > b.txt", "c0"), write("a.txt", "new", "c1")),
        [text("Done.")],
        [text("Done again.")],
    )
    async with checkpointed(generator, approve=approve) as running:
        await running.ask("change a.txt")
        assert asked == []
        restored = await running.checkpoints.restore("2")
        assert not (project / "a.txt").exists()
        assert (project / "b.txt").read_text() == "kept\n"
        assert restored.proposed == ("write_file",)
        events = [event async for event in running.checkpoints.propose()]
        last = events[-1]
        assert isinstance(last, RunFinishedEvent)
        assert last.text == "Done again."
        assert asked == ["c1"]  # although nothing else is asked about in this mode
        assert (project / "a.txt").read_text() == "new"
    assert generator.seen(2) == generator.seen(1)
    assert conforming(generator)


async def test_a_proposal_that_is_refused_goes_no_further(project: Path):
    generator = ScriptedGenerator(turn(write("a.txt", "new", "c1")), [text("Done.")], [text("Ok.")])
    async with checkpointed(generator, approve=lambda _request: False) as running:
        await running.ask("change a.txt")
        await running.checkpoints.restore("latest")
        async for _ in running.checkpoints.propose():
            pass
        assert not (project / "a.txt").exists()
        assert len(generator.requests) == 2
        assert await running.ask("then not") == "Ok."
        with pytest.raises(InputError, match="no call"):
            async for _ in running.checkpoints.propose():
                pass
    assert conforming(generator)


async def test_going_back_can_itself_be_taken_back(project: Path):
    generator = ScriptedGenerator(
        turn(write("a.txt", "one", "c1")),
        [text("One.")],
        turn(write("a.txt", "two", "c2")),
        [text("Two.")],
        [text("Hm.")],
    )
    async with checkpointed(generator) as running:
        await running.ask("one")
        await running.ask("two")
        whole = running.history
        (project / "mine.txt").write_text("the user's", encoding="utf-8")
        await running.checkpoints.restore("1")
        assert not (project / "a.txt").exists()
        assert not (project / "mine.txt").exists()
        before, _ = running.checkpoints.list()[-1]
        restored = await running.checkpoints.restore(before)
        assert restored.files is not None
        assert sorted(restored.files.written) == ["a.txt", "mine.txt"]
        assert (project / "a.txt").read_text() == "two"
        assert (project / "mine.txt").read_text() == "the user's"
        assert running.history == whole
        assert await running.ask("and?") == "Hm."
    assert conforming(generator)


async def test_undo_takes_back_the_edits_of_the_last_turn_and_then_those_before(project: Path):
    generator = ScriptedGenerator(
        turn(write("a.txt", "one", "c1")),
        [text("One.")],
        turn(write("a.txt", "two", "c2"), write("new/b.txt", "b", "c3")),
        [text("Two.")],
        [text("Nothing to do.")],
    )
    async with checkpointed(generator) as running:
        await running.ask("one")
        await running.ask("two")
        await running.ask("three")
        said = running.history
        undone = await running.checkpoints.undo()
        assert undone is not None
        assert (project / "a.txt").read_text() == "one"
        assert not (project / "new").exists()
        assert await running.checkpoints.undo() is not None
        assert not (project / "a.txt").exists()
        assert await running.checkpoints.undo() is None
        assert running.history == said


async def test_a_session_without_a_record_keeps_its_conversation_in_the_checkpoint(project: Path):
    generator = ScriptedGenerator(turn(write("a.txt", "one", "c1")), [text("One.")])
    async with checkpointed(generator, record=False) as running:
        await running.ask("one")
        restored = await running.checkpoints.restore("1")
        assert restored.conversation
        assert "One." not in str(running.history)


async def test_without_the_setting_nothing_is_kept(project: Path):
    generator = ScriptedGenerator(turn(write("a.txt", "new", "c1")), [text("Done.")])
    async with checkpointed(generator, settings=Settings()) as running:
        await running.ask("go")
        assert running.checkpoints.list() == ()
        with pytest.raises(NoCheckpointError):
            await running.checkpoints.restore("latest")
        assert await running.checkpoints.undo() is None
    assert not (Path(os.environ["HOME"]) / ".gemini" / "history").exists()


async def test_without_git_edits_are_undone_and_one_warning_says_that_commands_are_not(
    project: Path, tmp_path: Path
):
    bare = tmp_path / "bin"
    bare.mkdir()
    for shell_name in ("sh", "bash"):
        shutil.copy(shutil.which(shell_name) or f"/bin/{shell_name}", bare / shell_name)
    environ = {**os.environ, "PATH": str(bare)}
    (project / "a.txt").write_text("old", encoding="utf-8")
    generator = ScriptedGenerator(
        turn(write("a.txt", "new", "c1"), shell("echo x > c.txt", "c2")),
        turn(write("b.txt", "new", "c3"), shell("echo x > d.txt", "c4")),
        [text("Done.")],
    )
    async with checkpointed(generator, environ=environ) as running:
        events, error = await events_of(running, "go")
        assert error is None
        (warning,) = [event.message for event in events if isinstance(event, WarningEvent)]
        assert "cannot be restored: git is not installed" in warning
        undone = await running.checkpoints.undo()
    assert undone is not None
    assert undone.files is not None
    assert [reason for _, reason in undone.files.left] == ["there is no snapshot from before that"]
    assert (project / "a.txt").read_text() == "old"
    assert sorted(path.name for path in project.iterdir()) == ["a.txt", "c.txt", "d.txt"]


async def test_a_checkpoint_of_the_reference_is_listed_and_gone_back_to(project: Path):
    generator = ScriptedGenerator(
        turn(shell("echo new > a.txt", "c1")), [text("Done.")], [text("Hi.")]
    )
    async with checkpointed(generator) as running:
        await running.ask("go")
        ((_, made),) = running.checkpoints.list()
        assert made.commit_hash
        theirs = (
            project_temp(os.environ, project)
            / "checkpoints"
            / "2025-06-22T10-00-00_000Z-a.txt-write_file.json"
        )
        theirs.write_text(
            msgspec.json.encode(
                {
                    "history": [{"id": 1, "type": "user", "text": "change it"}],
                    "clientHistory": [
                        {"role": "user", "parts": [{"text": "change it"}]},
                        {"role": "model", "parts": [{"text": "I will."}]},
                    ],
                    "toolCall": {
                        "name": "write_file",
                        "args": {"file_path": "a.txt", "content": "x"},
                    },
                    "commitHash": made.commit_hash,
                    "filePath": "a.txt",
                }
            ).decode(),
            encoding="utf-8",
        )
        restored = await running.checkpoints.restore(theirs.name)
        assert restored.tool_call == {
            "name": "write_file",
            "args": {"file_path": "a.txt", "content": "x"},
        }
        assert not (project / "a.txt").exists()
        assert await running.ask("hello") == "Hi."
    assert [content["role"] for content in generator.seen(2)] == ["user", "model", "user"]
    assert "change it" in str(generator.seen(2)[0])


async def test_other_directories_of_the_workspace_are_no_part_of_it_and_that_is_said_once(
    project: Path, tmp_path: Path
):
    outside, inside = tmp_path / "other", project / "lib"
    for root in (outside, inside):
        root.mkdir()
        (root / "a.txt").write_text("old", encoding="utf-8")
    generator = ScriptedGenerator(
        turn(write(f"{outside}/a.txt", "new", "c1")),
        turn(write("lib/a.txt", "new", "c2")),
        [text("Done.")],
    )
    given = {"include_directories": (str(outside), str(inside))}
    async with checkpointed(generator, **given) as running:
        events, _ = await events_of(running, "go")
        warnings = [event.message for event in events if isinstance(event, WarningEvent)]
        assert warnings == [f"the files in {outside} are not part of checkpoints"]
        await running.checkpoints.restore("1")
    assert (outside / "a.txt").read_text() == "new"
    assert (inside / "a.txt").read_text() == "old"
