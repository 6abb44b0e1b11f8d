"""Changes that a person makes to a session, and their display."""

import asyncio
import os
from pathlib import Path

from alhena.config.settings import settings_of
from alhena.frontends.terminal.drawing.lines import Lines
from alhena.policy.model import ApprovalMode
from tests.frontends.terminal.kit import ListScreen, text_of
from tests.frontends.terminal.test_conversation import finished, sitting
from tests.mcp.kit import odd
from tests.support.scripted import ScriptedGenerator
from tests.support.server import call, chunk, text


async def test_modes_go_round_and_yolo_apart():
    screen = ListScreen()
    async with sitting(ScriptedGenerator(), screen) as conversation:
        seen = [screen.status.mode]
        for _ in range(3):
            conversation.next_mode()
            seen.append(screen.status.mode)
        assert seen == ["default", "auto_edit", "plan", "default"]
        conversation.toggle_yolo()
        assert screen.status.mode == ApprovalMode.YOLO
        conversation.toggle_yolo()
        assert screen.status.mode == ApprovalMode.DEFAULT
        conversation.toggle_yolo()
        conversation.next_mode()
        assert screen.status.mode == ApprovalMode.DEFAULT


async def test_commands_tell_of_the_session():
    screen = ListScreen()
    async with sitting(ScriptedGenerator([text("hi")]), screen) as conversation:
        shown = await finished(
            conversation,
            screen,
            "hello",
            "/help",
            "/tools",
            "/policies",
            "/hooks",
            "/stats",
            "/nop",
        )
        assert "Commands" in shown
        assert "Leave (also /exit)" in shown
        assert "read_file" in shown
        assert "rules in default mode" in shown
        assert "No hooks. Add one with the setting hooks." in shown
        assert conversation.agent.session_id not in shown  # it was another one's
        assert "Unknown command /nop." in shown


async def test_all_about_the_tools_is_shown_whole():
    screen = ListScreen()
    async with sitting(ScriptedGenerator(), screen) as conversation:
        await finished(conversation, screen, "/tools", "/tools desc")
    listed, told = (each for each in screen.blocks if "read_file" in text_of([each]))
    assert isinstance(listed, Lines)
    assert isinstance(told, Lines)
    assert (listed.fold, listed.clip) == (told.fold, told.clip) == (True, False)


async def test_a_tool_that_is_hidden_has_its_title_still():
    screen = ListScreen()
    async with sitting(ScriptedGenerator(), screen) as conversation:
        conversation.agent.toolset.registry.hide(["exit_plan_mode"])
        assert conversation.agent.toolset.registry.get("exit_plan_mode") is None
        assert conversation.view.titles["exit_plan_mode"] == "Plan"
        assert conversation.view.titles.get("nothing", "nothing") == "nothing"
        assert "read_file" in list(conversation.view.titles)


async def test_clearing_forgets_the_conversation_and_its_counts():
    generator = ScriptedGenerator([text("one")], [text("two")])
    screen = ListScreen()
    async with sitting(generator, screen) as conversation:
        first = conversation.agent.session_id
        await finished(conversation, screen, "remember", "!echo noted")
        assert conversation.agent.session_id != first
        assert conversation.view.totals.requests == 0
        conversation.submit("what?")
        await screen.until(lambda: "|two|" in screen.text)
    assert "remember" not in str(generator.seen(1))
    assert "noted" not in str(generator.seen(1))


async def test_the_foot_names_where_how_and_who():
    screen = ListScreen()
    async with sitting(ScriptedGenerator(), screen, environ=dict(os.environ)) as conversation:
        assert conversation.agent.model == screen.status.model
        assert screen.status.cwd.endswith("/project")
        assert screen.status.mode == "default"


async def planned(screen: ListScreen) -> tuple[ScriptedGenerator, str]:
    """A session in plan mode whose model has a plan; what it heard, and the mode it led to."""
    generator = ScriptedGenerator(
        [chunk(call("exit_plan_mode", {"plan": "# Do it\n\nNow."}, id="1"), finish="STOP")],
        [text("I see.")],
    )
    async with sitting(generator, screen) as conversation:
        for _ in range(2):
            conversation.next_mode()
        assert screen.status.mode == "plan"
        conversation.submit("plan it")
        await screen.until(lambda: "|I see.|" in screen.text)
        return generator, screen.status.mode


async def test_a_plan_is_shown_and_approved_with_the_mode_that_follows():
    screen = ListScreen("Yes, and edit files")
    generator, mode = await planned(screen)
    assert "? Plan (plan-1.md)\n\n|# Do it\n\nNow.|\n" in screen.text
    assert mode == "auto_edit"
    assert "Plan approved" in str(generator.seen(1)[-1])


async def test_a_plan_is_refused_with_a_reason_that_the_model_hears():
    screen = ListScreen("No, and say why", "first the tests")
    generator, mode = await planned(screen)
    assert mode == "plan"
    assert "first the tests" in str(generator.seen(1)[-1])


async def test_a_prompt_that_waits_for_a_server_says_so_and_esc_sends_it(project: Path):
    generator = ScriptedGenerator([text("without it")])
    screen = ListScreen()
    made = settings_of({"mcpServers": {"slow": odd(project, {"silent": True})}}, "test")
    async with sitting(generator, screen, cwd=project, settings=made) as conversation:
        assert not conversation.send_at_once()
        conversation.submit("!echo $((40 + 2)) needs no server")
        await screen.until(lambda: "42 needs no server" in screen.text)
        conversation.submit("go")
        await screen.until(lambda: "Waiting for MCP servers: slow (10 s at most" in screen.text)
        while not conversation.send_at_once():
            await asyncio.sleep(0)
        await screen.until(lambda: "without it" in screen.text)
