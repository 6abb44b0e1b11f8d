"""Custom commands at the terminal."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from alhena.commands import CommandFolder
from alhena.frontends.terminal.completion.completer import PromptCompleter
from alhena.frontends.terminal.conversation import Conversation
from tests.commands.test_files import written
from tests.frontends.terminal.kit import ListScreen
from tests.frontends.terminal.test_conversation import sitting
from tests.frontends.terminal.test_server_prompts import answered, with_kitchen
from tests.support.scripted import ScriptedGenerator
from tests.support.server import text


@asynccontextmanager
async def having(
    folder: Path, generator: ScriptedGenerator, screen: ListScreen, **options: object
) -> AsyncGenerator[Conversation]:
    async with sitting(generator, screen, **options) as conversation:
        conversation.prompts.load([CommandFolder(name="user", folder=folder)])
        yield conversation


@pytest.mark.requirement("EXT-01")
@pytest.mark.parametrize("answer", ["Yes, this once", None])
async def test_the_person_is_asked_about_what_a_command_runs(
    project: Path, tmp_path: Path, answer: str | None
) -> None:
    written(tmp_path, "say.toml", 'prompt = "[!{touch made.txt && echo {{args}}}]"')
    screen = ListScreen(answer)
    generator = ScriptedGenerator([text("Done.")])
    async with having(tmp_path, generator, screen) as conversation:
        shown = "|Done.|" if answer else "cannot be run. Blocked command"
        await answered(conversation, screen, "/say it's", shown)
    assert (project / "made.txt").exists() == bool(answer)
    assert "> /say it's" in screen.text
    asked = [each["parts"][0]["text"] for each in generator.seen(0)[-1:]] if answer else []
    assert asked == (["[it's]"] if answer else [])


async def test_commands_are_listed_helped_completed_and_found_anew(
    project: Path, tmp_path: Path
) -> None:
    written(tmp_path, "say.toml", 'prompt = "p"\ndescription = "says it"')
    written(tmp_path, "bad.toml", "prompt = ")
    written(tmp_path, "review.toml", 'prompt = "my own review"')
    screen = ListScreen()
    generator = ScriptedGenerator([text("one")], [text("two")])
    async with having(tmp_path, generator, screen, **with_kitchen()) as conversation:
        await answered(conversation, screen, "/commands", "says it")
        assert "broken: Invalid command 'bad'" in screen.text
        await answered(conversation, screen, "hello", "|one|")
        await answered(conversation, screen, "/help", "/k.review")
        await answered(conversation, screen, "/review", "|two|")
        assert generator.seen(1)[-1]["parts"][0]["text"] == "my own review"
        completer = PromptCompleter(project)
        completer.session = conversation
        found = completer.get_completions(Document("/sa"), CompleteEvent())
        assert [(each.text, each.display_meta_text) for each in found] == [("/say ", "says it")]
        await answered(conversation, screen, "/new:one", "Unknown command /new:one")
        written(tmp_path, "new/one.toml")
        await answered(conversation, screen, "/commands reload", "/new:one ")
        await answered(conversation, screen, "/commands lost", "Usage: /commands list")
        await answered(conversation, screen, "/reviev", "Did you mean /review?")
    assert len(generator.requests) == 2
