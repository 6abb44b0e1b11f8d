"""`/chat`: what a person keeps under a name, and takes up again."""

import json
from pathlib import Path

import pytest

from alhena.frontends.terminal import commands
from alhena.frontends.terminal.completion.completer import PromptCompleter
from alhena.policy.model import ApprovalMode
from tests.agent.kit import conforming
from tests.frontends.terminal.kit import ListScreen
from tests.frontends.terminal.test_conversation import calling, finished, sitting
from tests.support.scripted import ScriptedGenerator
from tests.support.server import text
from tests.tracing.kit import data_of


def said(generator: ScriptedGenerator, turn: int) -> str:
    return json.dumps(generator.seen(turn), ensure_ascii=False)


async def test_a_conversation_goes_on_from_where_it_was_saved_as_often_as_one_likes(project: Path):
    generator = ScriptedGenerator(*([text(f"Answer {n}.")] for n in range(4)))
    screen = ListScreen()
    async with sitting(generator, screen) as conversation:
        first = conversation.agent.session_id
        shown = await finished(
            conversation,
            screen,
            "I like green",
            "/chat save My colours",
            "now blue",
            "/chat resume My colours",
            "and then?",
            "/chat resume My colours",
            "or then?",
            "/chat list",
        )
    assert "Saved as 'My colours'." in shown
    assert shown.count("'My colours' continues as a new session.") == 2
    assert f"The previous conversation: alhena --resume {first}" in shown
    assert "1 saved conversation, newest first" in shown
    assert "now blue" in said(generator, 1)
    for turn in (2, 3):
        assert "I like green" in said(generator, turn)
        assert "now blue" not in said(generator, turn)
    assert "and then?" not in said(generator, 3)
    assert conforming(generator)


async def test_what_was_said_is_shown_when_it_goes_on():
    generator = ScriptedGenerator([text("The first answer.")], [text("Other.")])
    screen = ListScreen()
    async with sitting(generator, screen) as conversation:
        for each in ("words of mine", "/chat save x", "/clear", "other", "/chat resume x"):
            conversation.submit(each)
        await screen.until(lambda: "as a new session" in screen.text)
    behind = screen.text[screen.text.index("|Other.|") :]
    assert behind.index("> words of mine") < behind.index("The first answer.")


async def test_a_name_is_replaced_only_when_that_is_said():
    generator = ScriptedGenerator([text("One.")], [text("Two.")])
    screen = ListScreen()
    async with sitting(generator, screen) as conversation:
        shown = await finished(
            conversation, screen, "first", "/chat save x", "second", "/chat save x",
            "/chat save x --replace", "/chat delete x", "/chat delete x", "/chat resume x",
            "/chat list",
        )  # fmt: skip
    assert "A conversation is saved as 'x' already" in shown
    assert shown.count("Saved as 'x'.") == 2
    assert "'x' is deleted. Its session stays." in shown
    assert shown.count("No conversation is saved as 'x'") == 2
    assert "No saved conversations. Save this one with /chat save NAME" in shown


async def test_what_cannot_be_saved_says_why():
    screen = ListScreen()
    async with sitting(ScriptedGenerator(), screen) as conversation:
        shown = await finished(
            conversation, screen, "/chat save x", "/chat save", "/chat what", "/chat share"
        )
    assert "Nothing was said yet." in shown
    assert shown.count("Usage: /chat list") == 2
    assert "Nothing to share yet." in shown


async def test_a_session_that_could_not_be_recorded_says_why(project: Path, home: Path):
    screen = ListScreen()
    generator = ScriptedGenerator([text("One.")])
    async with sitting(generator, screen) as conversation:
        sessions = next((home / ".gemini" / "tmp").iterdir()) / "sessions"
        sessions.write_text("in the way", encoding="utf-8")
        shown = await finished(conversation, screen, "first", "/chat save x", "/chat share")
    assert shown.count("! This session is not recorded: ") == 1
    assert shown.count("✗ This session is not recorded: ") == 2


async def test_one_that_cannot_go_on_leaves_the_session_and_nothing_else(project: Path, home: Path):
    screen = ListScreen()
    generator = ScriptedGenerator([text("One.")], [text("Two.")])
    rules = project / "rules.toml"
    rules.write_text("", encoding="utf-8")
    async with sitting(generator, screen, policy=(str(rules),)) as conversation:
        first = conversation.agent.session_id
        for each in ("first", "/chat save x"):
            conversation.submit(each)
        await screen.until(lambda: "Saved as 'x'." in screen.text)
        sessions = next((home / ".gemini" / "tmp").iterdir()) / "sessions"
        begun = list(sessions.iterdir())
        rules.write_text("broken", encoding="utf-8")
        for each in ("/chat resume x", "second"):
            conversation.submit(each)
        await screen.until(lambda: "|Two.|" in screen.text)
        assert conversation.agent.session_id == first
    assert "rules.toml" in screen.text
    assert list(sessions.iterdir()) == begun
    assert "first" in said(generator, 1)


async def test_taken_up_before_anything_was_said_it_names_no_session_before():
    screen = ListScreen()
    generator = ScriptedGenerator([text("One.")])
    async with sitting(generator, screen) as conversation:
        await finished(conversation, screen, "first", "/chat save x")
    again = ListScreen()
    async with sitting(ScriptedGenerator(), again) as conversation:
        shown = await finished(conversation, again, "/chat resume x")
    assert "'x' continues as a new session." in shown
    assert "The previous conversation" not in shown


async def test_a_session_that_is_not_recorded_says_so():
    screen = ListScreen()
    generator = ScriptedGenerator([text("One.")])
    async with sitting(generator, screen, record=False) as conversation:
        shown = await finished(conversation, screen, "first", "/chat save x")
    assert "This session is not recorded." in shown


async def test_a_conversation_is_shared_as_a_document(project: Path):
    generator = ScriptedGenerator([text("An answer.")])
    screen = ListScreen()
    async with sitting(generator, screen) as conversation:
        shown = await finished(
            conversation, screen, "a question", "/chat share said.md", "/chat share said.json",
            "/chat share said.md", "/chat share", "/chat share a\0b.md", "/chat share said.html",
        )  # fmt: skip
    written = (project / "said.md").read_text(encoding="utf-8")
    assert "a question" in written
    assert "An answer." in written
    assert (project / "said.md").stat().st_mode & 0o777 == 0o600
    assert json.loads((project / "said.json").read_bytes())
    page = data_of((project / "said.html").read_bytes())
    said = [page["steps"][item]["text"] for item in page["talk"]]
    assert (page["view"], said) == ("conversation", ["a question", "An answer."])
    assert shown.count("Cannot write") == 2
    assert len(list(project.glob("conversation-*.md"))) == 1


@pytest.mark.parametrize("typed", ["col", "colours of", "of mi", "colours  of", "pink of"])
async def test_names_are_completed(project: Path, typed: str):
    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document

    screen = ListScreen()
    async with sitting(ScriptedGenerator([text("One.")]), screen) as conversation:
        await finished(conversation, screen, "first", "/chat save colours of mine")
        completer = PromptCompleter(project)
        completer.session = conversation
        line = f"/chat resume {typed}"
        found = list(completer.get_completions(Document(line), CompleteEvent()))
    whole = [line[: len(line) + each.start_position] + each.text for each in found]
    assert whole == (["/chat resume colours of mine"] if typed in "colours of mine" else [])


EXPECTED = {
    "/help": "Commands and keys",
    "/tools": "read_file",
    "/mcp": "No MCP servers. Add one with alhena mcp add",
    "/memory": "No memory files.",
    "/policies": "rules in yolo mode, highest priority first",
    "/stats": "tokens out",
    "/compress": "Nothing to compress.",
    "/chat": "No saved conversations. Save this one with /chat save NAME",
    "/restore": "No checkpoints.",
}


@pytest.mark.requirement("CLI-02")
async def test_every_command_answers_and_files_and_shell_commands_reach_the_model(project: Path):
    (project / "note.txt").write_text("the note's words", encoding="utf-8")
    screen = ListScreen()
    generator = ScriptedGenerator(calling("ls", {"dir_path": "."}), [text("Seen.")])
    options = {"approval_mode": ApprovalMode.YOLO}
    async with sitting(generator, screen, **options) as conversation:
        shown = await finished(
            conversation, screen, *EXPECTED, "!echo from-the-shell", "look at @note.txt"
        )
        for name, answer in EXPECTED.items():
            assert answer in shown, name
        assert "from-the-shell" in said(generator, 0)
        assert "the note's words" in said(generator, 0)
        assert "|Seen.|" in shown
        conversation.submit("/quit")
        await screen.until(lambda: screen.closed)
    assert commands.find_command("/quit") is not None
