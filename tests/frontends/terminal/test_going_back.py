"""`/restore` and `/undo`: what a person sees, and what the model hears of it."""

from pathlib import Path

import pytest

from alhena.config.settings import CheckpointingSettings, GeneralSettings, Settings
from alhena.policy.model import ApprovalMode
from tests.agent.kit import conforming
from tests.frontends.terminal.kit import ListScreen
from tests.frontends.terminal.test_conversation import calling, finished, sitting
from tests.support.scripted import Script, ScriptedGenerator
from tests.support.server import text

ON = {
    "settings": Settings(
        general=GeneralSettings(checkpointing=CheckpointingSettings(enabled=True))
    ),
    "approval_mode": ApprovalMode.YOLO,
}


def writing(content: str) -> Script:
    args = {"file_path": "a.txt", "content": content}
    return calling("write_file", args, id=f"c-{content}")


@pytest.mark.requirement("CHAT-07")
async def test_restore_lists_goes_back_and_proposes_the_call_again(project: Path):
    (project / "a.txt").write_text("old", encoding="utf-8")
    screen = ListScreen("Yes, this once")
    generator = ScriptedGenerator(writing("new"), [text("Done.")], [text("Done again.")])
    async with sitting(generator, screen, **ON) as conversation:
        shown = await finished(conversation, screen, "go", "/restore", "/restore 1")
    assert "1 checkpoint, newest first" in shown
    assert "before Write a.txt  " in shown
    assert "Put back: a.txt" in shown
    assert "The files before this restore are kept in: " in shown
    assert shown.index("Put back: a.txt") < shown.index("|Done again.|")
    assert len(screen.menus) == 1
    assert (project / "a.txt").read_text() == "new"
    assert generator.seen(2) == generator.seen(1)
    assert conforming(generator)


async def test_a_proposal_may_be_refused(project: Path):
    screen = ListScreen(None)
    generator = ScriptedGenerator(writing("new"), [text("Done.")], [text("All right.")])
    async with sitting(generator, screen, **ON) as conversation:
        shown = await finished(conversation, screen, "go", "/restore latest", "another way")
    assert "|All right.|" in shown
    assert not (project / "a.txt").exists()
    assert conforming(generator)


async def test_undo_says_what_it_did_and_the_model_is_told_with_the_next_prompt(project: Path):
    screen = ListScreen()
    generator = ScriptedGenerator(writing("new"), [text("Done.")], [text("I see.")])
    async with sitting(generator, screen, **ON) as conversation:
        shown = await finished(conversation, screen, "go", "/undo", "/undo", "well?")
    assert "Removed: a.txt" in shown
    assert "Nothing to undo: this session has edited no file." in shown
    assert not (project / "a.txt").exists()
    note, prompt = (part["text"] for part in generator.seen(2)[-1]["parts"])
    assert note.startswith("[The user has undone the changes of an earlier turn.")
    assert "a.txt" in note
    assert prompt == "well?"


async def test_without_checkpoints_both_say_so(project: Path):
    screen = ListScreen()
    async with sitting(ScriptedGenerator(), screen) as conversation:
        shown = await finished(conversation, screen, "/restore", "/restore x", "/undo")
    assert "No checkpoints." in shown
    assert "✗ There is no checkpoint 'x'" in shown
    assert "Nothing to undo: this session has edited no file." in shown


async def test_what_a_name_hides_is_shown(project: Path):
    screen = ListScreen()
    odd = "a\x1b[31m\u202e.txt"
    args = {"file_path": odd, "content": "x"}
    generator = ScriptedGenerator(calling("write_file", args, id="c"), [text("Done.")])
    async with sitting(generator, screen, **ON) as conversation:
        shown = await finished(conversation, screen, "go", "/restore", "/undo")
    assert "Removed: " in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown


async def test_what_the_person_changed_since_is_left_and_named(project: Path):
    screen = ListScreen()
    generator = ScriptedGenerator(writing("new"), [text("Done.")], [text("I see.")])
    async with sitting(generator, screen, **ON) as conversation:
        conversation.submit("go")
        await screen.until(lambda: "2 turns" in screen.text)
        (project / "a.txt").write_text("mine", encoding="utf-8")
        shown = await finished(conversation, screen, "/undo", "well?")
    assert "None of the last turn's edits were undone." in shown
    assert "Left as it is: a.txt (it has changed since that turn)" in shown
    assert (project / "a.txt").read_text() == "mine"
    assert [part["text"] for part in generator.seen(2)[-1]["parts"]] == ["well?"]


async def test_what_should_be_done_instead_is_told_at_once(project: Path):
    screen = ListScreen("No, and say why", "write b.txt")
    generator = ScriptedGenerator(writing("new"), [text("Done.")], [text("As you like.")])
    async with sitting(generator, screen, **ON) as conversation:
        shown = await finished(conversation, screen, "go", "/restore latest")
    assert "|As you like.|" in shown
    assert "write b.txt" in str(generator.seen(2)[-1])
    assert not (project / "a.txt").exists()
    assert conforming(generator)


async def test_where_nothing_is_said_instead_nothing_is_sent(project: Path):
    screen = ListScreen("No, and say why", "")
    generator = ScriptedGenerator(writing("new"), [text("Done.")])
    async with sitting(generator, screen, **ON) as conversation:
        shown = await finished(conversation, screen, "go", "/restore latest")
    assert len(generator.requests) == 2
    assert "Without the policy of the checkpoint: allowed" in shown
    assert "default policies" not in shown
