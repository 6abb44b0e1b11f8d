"""A submitted prompt is shown at once, and so are its errors."""

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from alhena.config.effective_settings import open_place
from alhena.config.settings import Settings
from alhena.frontends.shared.current_settings import SessionFolder
from alhena.frontends.shared.mentions import missing_words
from alhena.frontends.terminal.conversation import Conversation
from alhena.frontends.terminal.drawing.lines import Block, Lines
from alhena.frontends.terminal.drawing.view import View
from tests.frontends.terminal.kit import ListScreen, text_of
from tests.frontends.terminal.test_conversation import finished, sitting
from tests.support.agents import scripted_agent
from tests.support.scripted import ScriptedGenerator
from tests.support.server import text


async def test_a_prompt_stands_above_the_files_that_are_read_for_it(project: Path):
    (project / "a.txt").write_text("inside\n", encoding="utf-8")
    screen = ListScreen()
    async with sitting(ScriptedGenerator([text("I see.")]), screen) as conversation:
        shown = await finished(conversation, screen, "look at @a.txt")
    assert shown.index("> look at @a.txt") < shown.index("✓ Read a.txt") < shown.index("I see.")
    assert shown.count("> look at @a.txt") == 1


async def test_paths_that_are_not_there_are_told_in_one_line():
    screen = ListScreen()
    prompt = " ".join(f"@gone{n}" for n in range(9))
    async with sitting(ScriptedGenerator([text("I see.")]), screen) as conversation:
        shown = await finished(conversation, screen, prompt)
    told = "! @gone0, @gone1, @gone2, @gone3, @gone4 and 4 more: there are no such files; sent as text."
    assert shown.count("no such file") == 1
    assert told in shown
    assert missing_words(["x"]) == "@x: there is no such file; sent as text."


class BrokenScreen(ListScreen):
    """Cannot show the help."""

    def update(self, view: View, blocks: Iterable[Block] = ()) -> None:
        super().update(view, blocks)
        if "Commands" in self.text:
            raise ZeroDivisionError("a defect")


async def test_a_command_that_fails_by_a_defect_ends_the_session_with_it():
    screen = BrokenScreen()
    folder = SessionFolder(lambda: open_place(Path.cwd(), os.environ))
    conversation = Conversation(screen, lambda: 0.0, folder)
    settings = {"generator": ScriptedGenerator(), "settings": Settings()}
    async with scripted_agent(approve=conversation.approve, **settings) as agent:
        asyncio.get_running_loop().call_soon(conversation.submit, "/help")
        with pytest.raises(ZeroDivisionError, match="a defect"):
            await conversation.run(agent)
    conversation.submit("/help")  # nobody is there to carry it out


async def test_what_is_sent_after_leaving_is_dropped():
    generator = ScriptedGenerator()
    screen = ListScreen()
    async with sitting(generator, screen) as conversation:
        conversation.leave()
        for each in ("hello", "/help", "!touch x"):
            conversation.submit(each)
    assert generator.requests == []
    assert screen.text == ""


async def test_rules_for_runs_without_a_person_are_not_listed():
    screen = ListScreen()
    async with sitting(ScriptedGenerator(), screen) as conversation:
        rules = conversation.toolset.authority.engine.rules
        assert any(rule.interactive is False for rule in rules)
        shown = await finished(conversation, screen, "/policies")
        held = [
            rule
            for rule in rules
            if rule.interactive is not False and (not rule.modes or "default" in rule.modes)
        ]
    assert f"{len(held)} rules in default mode, highest priority first" in shown
    assert "deny      all calls of ask_user" not in shown


async def test_of_the_tools_nothing_is_listed_for_words_that_ask_for_nothing():
    screen = ListScreen()
    async with sitting(ScriptedGenerator(), screen) as conversation:
        assert "read_file" in await finished(conversation, screen, "/tools")
        screen.blocks.clear()
        shown = await finished(conversation, screen, "/tools foo")
    assert "Usage: /tools or /tools desc" in shown
    assert "read_file" not in shown


async def test_an_answer_of_chat_goes_on_below_its_beginning():
    screen = ListScreen()
    async with sitting(ScriptedGenerator(), screen) as conversation:
        await finished(conversation, screen, "/chat what is this")
    answers = [each for each in screen.blocks if "/chat save" in text_of([each])]
    assert [each.fold for each in answers if isinstance(each, Lines)] == [True]
