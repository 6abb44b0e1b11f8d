"""A person and an agent over a screen in memory: what is sent, asked, queued and stopped."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from alhena.config.effective_settings import open_place
from alhena.config.settings import Settings
from alhena.errors import ServerFaultError
from alhena.frontends.shared.current_settings import SessionFolder
from alhena.frontends.terminal.conversation import Conversation
from tests.agent.kit import conforming
from tests.frontends.terminal.kit import ListScreen
from tests.support.agents import scripted_agent
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, chunk, text


def calling(name: str, args: dict[str, Any], **extra: Any) -> list[dict[str, Any]]:
    return [chunk(call(name, args, **extra), finish="STOP")]


class Held(ScriptedGenerator):
    """A model that begins its first answer and goes on when `go` is set."""

    def __init__(self, *turns: Any) -> None:
        super().__init__(*turns)
        self.reached = asyncio.Event()
        self.go = asyncio.Event()

    async def stream(self, request: Any) -> AsyncGenerator[Any]:
        first = not self.reached.is_set()
        async for item in super().stream(request):
            yield item
            if first:
                self.reached.set()
                await self.go.wait()


@asynccontextmanager
async def sitting(
    generator: ScriptedGenerator,
    screen: ListScreen,
    *,
    policy: tuple[str, ...] = (),
    **settings: Any,
) -> AsyncGenerator[Conversation]:
    folder = SessionFolder(lambda: open_place(Path.cwd(), os.environ))
    conversation = Conversation(screen, lambda: 0.0, folder)
    options = {"generator": generator, "settings": Settings(), "ask": conversation.ask}
    made = dict(**(options | {"edit": conversation.edit} | settings))
    async with scripted_agent(approve=conversation.approve, policy=policy, **made) as agent:
        work = asyncio.create_task(conversation.run(agent))
        await asyncio.sleep(0)
        try:
            yield conversation
        finally:
            conversation.leave()
            await work


async def finished(conversation: Conversation, screen: ListScreen, *texts: str) -> str:
    """Printed text once these have been processed."""
    for each in texts:
        conversation.submit(each)
    conversation.submit("/clear")
    await screen.until(lambda: "Started a new conversation." in screen.text)
    return screen.text


async def test_what_is_sent_while_the_model_answers_waits_and_is_shown_as_queued():
    generator = Held([text("Slow", None), text(" answer.")], [text("Next.")])
    screen = ListScreen()
    async with sitting(generator, screen) as conversation:
        conversation.submit("slow")
        await generator.reached.wait()
        conversation.submit("then this")
        assert screen.status.queued == ("then this",)
        conversation.submit("/stats")
        await screen.until(lambda: "tool calls" in screen.text)
        assert "Next." not in screen.text
        assert conversation.view.busy_since is not None
        generator.go.set()
        await screen.until(lambda: "Next." in screen.text)
        assert screen.status.queued == ()


async def test_a_change_is_made_after_a_yes_and_shown_before_it(project: Path):
    args = {"file_path": "a.txt", "content": "new\n"}
    generator = ScriptedGenerator(calling("write_file", args, id="1"), [text("Done.")])
    screen = ListScreen("Yes, this once")
    async with sitting(generator, screen) as conversation:
        shown = await finished(conversation, screen, "write")
    assert (project / "a.txt").read_text(encoding="utf-8") == "new\n"
    assert shown.index("? New file") < shown.index("+ new") < shown.index("✓ Write a.txt")
    assert shown.count("+ new") == 1
    assert "Edits need approval" in shown


async def test_a_no_is_told_to_the_model_with_its_reason(project: Path):
    args = {"file_path": "a.txt", "content": "new\n"}
    generator = ScriptedGenerator(calling("write_file", args, id="1"), [text("I see.")])
    screen = ListScreen("No, and say why", "use tabs")
    async with sitting(generator, screen) as conversation:
        await finished(conversation, screen, "write")
    assert not (project / "a.txt").exists()
    assert "use tabs" in str(generator.seen(1)[-1])
    assert "■ Write a.txt · rejected: use tabs" in screen.text
    assert "|I see.|" in screen.text


@pytest.mark.parametrize(
    "answers", [["No, and say why", ""], ["No, and say why", None], [None]], ids=str
)
async def test_a_no_without_words_ends_the_turn(project: Path, answers: list[str | None]):
    args = {"file_path": "a.txt", "content": "new\n"}
    generator = ScriptedGenerator(calling("write_file", args, id="1"), [text("I see.")])
    screen = ListScreen(*answers)
    async with sitting(generator, screen) as conversation:
        await finished(conversation, screen, "write")
        assert len(generator.requests) == 1
        assert screen.text.count("■ Stopped. What should be done instead?") == 1
    assert not (project / "a.txt").exists()


async def test_always_is_shown_with_what_it_allows_and_is_not_asked_again(project: Path):
    generator = ScriptedGenerator(
        calling("run_shell_command", {"command": "touch one"}, id="1"),
        calling("run_shell_command", {"command": "touch two"}, id="2"),
        [text("Done.")],
    )
    screen = ListScreen("Session: ")
    async with sitting(generator, screen) as conversation:
        await finished(conversation, screen, "touch them")
    labels = [each.label for each in screen.menus[0].options]
    assert any("touch" in label for label in labels if label.startswith("Session: "))
    assert len(screen.menus) == 1
    assert (project / "two").exists()


async def test_an_approval_for_good_is_there_in_the_next_session(home: Path, project: Path):
    generator = ScriptedGenerator(
        calling("run_shell_command", {"command": "touch one"}, id="1"), [text("Done.")]
    )
    screen = ListScreen("Save for all sessions")
    async with sitting(generator, screen) as conversation:
        await finished(conversation, screen, "touch it")
    saved = (home / ".gemini" / "policies" / "auto-saved.toml").read_text(encoding="utf-8")
    assert "touch" in saved
    generator = ScriptedGenerator(
        calling("run_shell_command", {"command": "touch two"}, id="1"), [text("Done.")]
    )
    screen = ListScreen()
    async with sitting(generator, screen) as conversation:
        await finished(conversation, screen, "touch another")
    assert (project / "two").exists()


async def test_a_proposal_can_be_changed_in_an_editor(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf "by hand\\n" > "$1"\n', encoding="utf-8")
    editor.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(editor))
    args = {"file_path": "a.txt", "content": "by machine\n"}
    generator = ScriptedGenerator(calling("write_file", args, id="1"), [text("I see.")])
    screen = ListScreen("Edit it first", "Yes, this once")
    async with sitting(generator, screen) as conversation:
        shown = await finished(conversation, screen, "write")
    assert (project / "a.txt").read_text(encoding="utf-8") == "by hand\n"
    assert shown.index("+ by machine") < shown.index("+ by hand")
    assert "by hand" in str(generator.seen(1)[-1])


async def test_an_editor_that_fails_is_told_and_the_question_comes_again(
    project: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("EDITOR", "/no/such/editor")
    args = {"file_path": "a.txt", "content": "by machine\n"}
    generator = ScriptedGenerator(calling("write_file", args, id="1"), [text("I see.")])
    screen = ListScreen("Edit it first", None)
    async with sitting(generator, screen) as conversation:
        shown = await finished(conversation, screen, "write")
    assert len(screen.menus) == 2
    assert "/no/such/editor could not be started" in shown
    assert not (project / "a.txt").exists()


async def test_questions_of_the_model_are_answered_by_choice_and_in_words():
    questions = [
        {
            "question": "Which?",
            "header": "h",
            "options": [{"label": "A"}, {"label": "B"}],
            "multiSelect": True,
        },
        {"question": "Sure?", "header": "s", "type": "yesno"},
        {"question": "Name?", "header": "n", "type": "text"},
        {"question": "Else?", "header": "e", "options": [{"label": "A"}, {"label": "B"}]},
    ]
    generator = ScriptedGenerator(
        calling("ask_user", {"questions": questions}, id="1"), [text("Thanks.")]
    )
    screen = ListScreen(["A", "B"], "Yes", "Ada", "Something else", "C")
    async with sitting(generator, screen) as conversation:
        shown = await finished(conversation, screen, "ask me")
    assert '"0":"A, B","1":"Yes","2":"Ada","3":"C"' in str(generator.seen(1)[-1])
    questions = ("? Which?  (1 of 4)\n  A, B", "? Sure?  (2 of 4)\n  Yes")
    for question in (*questions, "? Name?  (3 of 4)\n  Ada", "? Else?  (4 of 4)\n  C"):
        assert question in shown
    assert "✓ Ask Which?, Sure?, Name?, Else? (A, B, Yes, Ada, C)" in shown


async def test_a_dismissed_question_stops_the_turn_and_the_next_one_says_so():
    questions = [{"question": "Name?", "header": "n", "type": "text"}]
    generator = ScriptedGenerator(
        calling("ask_user", {"questions": questions}, id="1"), [text("Fine.")]
    )
    screen = ListScreen(None)
    async with sitting(generator, screen) as conversation:
        shown = await finished(conversation, screen, "ask me", "and now?")
    assert "? Name?\n  no answer" in shown
    assert shown.index("Stopped. What should be done instead?") < shown.index("Fine.")
    assert "dismissed" in str(generator.seen(1))


async def test_an_interruption_keeps_what_was_done_and_the_conversation_goes_on(project: Path):
    generator = Held([text("I begin", None), text(" to")], [text("Fine.")])
    screen = ListScreen()
    async with sitting(generator, screen) as conversation:
        conversation.submit("long")
        await generator.reached.wait()
        await screen.until(lambda: "I begin" in conversation.view.open_text)
        assert conversation.interrupt()
        await screen.until(lambda: "■ Stopped by you." in screen.text)
        assert "|I begin|" in screen.text
        assert conversation.view.busy_since is None or not conversation.view.calls
        conversation.submit("go on")
        await screen.until(lambda: "|Fine.|" in screen.text)
        assert not conversation.interrupt()
    assert conforming(generator)


async def test_an_interruption_takes_an_open_question_away(project: Path):
    args = {"file_path": "a.txt", "content": "x"}
    generator = ScriptedGenerator(calling("write_file", args, id="1"), [text("Fine.")])
    screen = ListScreen()
    async with sitting(generator, screen) as conversation:
        conversation.submit("write")
        await screen.waiting.wait()
        conversation.interrupt()
        await screen.until(lambda: "■ Stopped by you." in screen.text)
        conversation.submit("and now?")
        await screen.until(lambda: "|Fine.|" in screen.text)
    assert not (project / "a.txt").exists()
    assert conforming(generator)


async def test_leaving_stops_what_runs_and_drops_what_waits():
    generator = Held([text("I begin", None), text(" to")])
    screen = ListScreen()
    async with sitting(generator, screen) as conversation:
        conversation.submit("long")
        await generator.reached.wait()
        conversation.submit("never sent")
    assert screen.closed
    assert len(generator.requests) == 1


async def test_an_error_is_shown_once_and_ends_nothing():
    generator = ScriptedGenerator([ServerFaultError("the server is on fire.")], [text("Fine.")])
    screen = ListScreen()
    async with sitting(generator, screen) as conversation:
        shown = await finished(conversation, screen, "one", "two")
    assert shown.count("The server is on fire") == 1
    assert "|Fine.|" in shown


@pytest.mark.requirement("CLI-02")
async def test_files_behind_an_at_sign_go_with_the_prompt(project: Path):
    (project / "my file.txt").write_text("inside it\n", encoding="utf-8")
    generator = ScriptedGenerator([text("I see.")])
    screen = ListScreen()
    async with sitting(generator, screen) as conversation:
        shown = await finished(conversation, screen, r"look at @my\ file.txt and @gone.txt.")
    parts = [part["text"] for part in generator.seen(0)[-1]["parts"]]
    assert parts[0] == r"look at @my\ file.txt and @gone.txt."
    assert parts[1] == "\n--- Content from referenced files ---\n"
    assert "inside it" in parts[2]
    assert parts[2].endswith("--- End of content ---")
    assert "@gone.txt: there is no such file" in shown
    assert "✓ Read my file.txt (6 lines)" in shown
    assert conforming(generator)


async def test_a_file_that_the_policy_keeps_back_is_not_sent(project: Path):
    (project / "a.txt").write_text("secret", encoding="utf-8")
    (project / "p.toml").write_text(
        '[[rule]]\ntoolName = "read_many_files"\ndecision = "deny"\npriority = 1\n'
        'argsPattern = "a.txt"\n',
        encoding="utf-8",
    )
    generator = ScriptedGenerator([text("I see.")])
    screen = ListScreen()
    async with sitting(generator, screen, policy=("p.toml",)) as conversation:
        await finished(conversation, screen, "look at @a.txt")
    assert "secret" not in str(generator.seen(0))
    assert "✗ Read a.txt · Tool execution denied by policy." in screen.text


@pytest.mark.requirement("CLI-02")
async def test_a_command_of_the_person_runs_at_once_and_the_model_hears_of_it(project: Path):
    generator = ScriptedGenerator([ServerFaultError("no.")], [text("I see.")], [text("Yes.")])
    screen = ListScreen()
    async with sitting(generator, screen) as conversation:
        shown = await finished(
            conversation, screen, "!echo hello; touch x; exit 3", "failing", "working", "later"
        )
    assert "hello" in shown
    assert "✗ Shell echo hello; touch x; exit 3 · exit 3" in shown
    assert screen.menus == []
    assert (project / "x").exists()
    note = (
        "I ran the following shell command:\n```sh\necho hello; touch x; exit 3\n```\n\n"
        "This produced the following result:\n```\nhello\n```"
    )
    assert [part["text"] for part in generator.seen(1)[-1]["parts"]] == [note, "working"]
    assert [part["text"] for part in generator.seen(2)[-1]["parts"]] == ["later"]
    assert conforming(generator)


async def test_a_command_of_the_person_is_denied_where_a_rule_denies_it(project: Path):
    (project / "p.toml").write_text(
        '[[rule]]\ntoolName = "run_shell_command"\ncommandPrefix = "touch"\n'
        'decision = "deny"\npriority = 1\n',
        encoding="utf-8",
    )
    generator = ScriptedGenerator([text("I see.")])
    screen = ListScreen()
    async with sitting(generator, screen, policy=("p.toml",)) as conversation:
        await finished(conversation, screen, "!touch x")
    assert not (project / "x").exists()
    assert "denied" in screen.text
