"""Skills at the terminal."""

import json
from pathlib import Path

import pytest

from tests.agent.serving import instruction
from tests.frontends.terminal.kit import ListScreen
from tests.frontends.terminal.test_conversation import calling, sitting
from tests.frontends.terminal.test_server_prompts import answered
from tests.skills.test_files import written
from tests.support.scripted import ScriptedGenerator
from tests.support.server import text


@pytest.mark.requirement("EXT-03")
async def test_a_skill_is_asked_about_once_and_skills_are_listed(home: Path, project: Path) -> None:
    path = written(home / ".gemini" / "skills", "good")
    wanted = calling("activate_skill", {"name": "good"}, id="1")
    again = calling("read_file", {"absolute_path": str(path)}, id="2")
    generator = ScriptedGenerator(wanted, again, [text("Done.")])
    screen = ListScreen("Yes, this once")
    async with sitting(generator, screen) as conversation:
        await answered(conversation, screen, "go", "|Done.|")
        await answered(conversation, screen, "/skills", "does good")
        await answered(conversation, screen, "/help", "Skills  ")
        assert "@generalist" in screen.text
        written(path.parents[1], "new", "---\nname: new\ndescription: a new one\n---\n")
        await answered(conversation, screen, "/skills reload", "a new one")
        await answered(conversation, screen, "/skills lost", "Usage: /skills list")
        await answered(conversation, screen, "/skills disable lost", "There is no skill lost")
    assert len(screen.menus) == 1
    assert str(path) in screen.text
    calls = [each["parts"][0]["functionResponse"] for each in generator.seen(2)[-3::2]]
    assert [each["name"] for each in calls] == ["activate_skill", "read_file"]
    assert ["Do it." in each["response"]["output"] for each in calls] == [True, True]


@pytest.mark.requirement("EXT-03")
async def test_a_skill_is_turned_off_and_on_for_the_session_and_later_ones(
    home: Path, project: Path
) -> None:
    written(home / ".gemini" / "skills", "good")
    settings = home / ".gemini" / "settings.json"
    settings.write_text('{"skills": {"disabled": ["other"]}}', encoding="utf-8")
    generator = ScriptedGenerator([text("A.")], [text("B.")], [text("C.")])
    screen = ListScreen()
    async with sitting(generator, screen) as conversation:
        await answered(conversation, screen, "go", "|A.|")
        await answered(conversation, screen, "/skills disable good", "good is disabled")
        assert json.loads(settings.read_text())["skills"]["disabled"] == ["other", "good"]
        await answered(conversation, screen, "go", "|B.|")
        await answered(conversation, screen, "/skills enable good", "good is enabled")
        assert json.loads(settings.read_text())["skills"]["disabled"] == ["other"]
        await answered(conversation, screen, "go", "|C.|")
    told = ["<name>good</name>" in instruction(generator, each) for each in range(3)]
    assert told == [True, False, True]
