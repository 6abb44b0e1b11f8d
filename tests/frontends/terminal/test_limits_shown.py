"""Limits and loops at the terminal: the person decides, and sees what it cost."""

from pathlib import Path

import pytest

from tests.agent.kit import conforming
from tests.frontends.terminal.kit import ListScreen
from tests.frontends.terminal.test_conversation import calling, finished, sitting
from tests.support.scripted import ScriptedGenerator
from tests.support.server import text


@pytest.mark.parametrize("answer", ["Continue", "Stop", None])
async def test_the_person_is_asked_whether_a_loop_goes_on(project: Path, answer: str | None):
    looks = [calling("list_directory", {"path": "."})] * 14
    generator = ScriptedGenerator(*looks, [text("Done at last.")])
    screen = ListScreen(answer)
    async with sitting(generator, screen) as conversation:
        shown = await finished(conversation, screen, "look")
    assert shown.count("It was asked to stop once") == 1
    assert ("Done at last." in shown) is (answer == "Continue")
    assert ("Loop detected, stopping execution" in shown) is (answer != "Continue")
    assert conforming(generator)


async def test_the_person_is_asked_for_more_tokens(project: Path):
    used = {"promptTokenCount": 900, "candidatesTokenCount": 100, "totalTokenCount": 1000}
    looks = [
        [{**calling("list_directory", {"path": ".", "n": n})[0], "usageMetadata": used}]
        for n in range(3)
    ]
    generator = ScriptedGenerator(*looks, [text("Done at last.")])
    screen = ListScreen("Continue")
    async with sitting(generator, screen, max_tokens=2_000) as conversation:
        shown = await finished(conversation, screen, "look")
    assert "reached the limit of 2,000 tokens" in shown
    assert "Done at last." in shown


@pytest.mark.parametrize(("served", "cost"), [("", "about $0.75 "), ("m", "not known")])
async def test_stats_say_what_it_cost_where_that_is_known(served: str, cost: str, project: Path):
    used = {"promptTokenCount": 1_000_000, "candidatesTokenCount": 0, "totalTokenCount": 1_000_000}
    answer = text("Hello.") | {"usageMetadata": used} | ({"modelVersion": served} if served else {})
    screen = ListScreen()
    async with sitting(ScriptedGenerator([answer]), screen) as conversation:
        conversation.submit("hi")
        await screen.until(lambda: "1 turn" in screen.text)
        shown = await finished(conversation, screen, "/stats")
    assert cost in shown
