"""What a person changes of a session, and what is shown of it."""

import os

from alhena.policy.model import ApprovalMode
from tests.frontends.terminal.kit import ListScreen
from tests.frontends.terminal.test_conversation import finished, sitting
from tests.support.scripted import ScriptedGenerator
from tests.support.server import text


async def test_modes_go_round_and_yolo_apart():
    screen = ListScreen()
    async with sitting(ScriptedGenerator(), screen) as conversation:
        seen = [screen.status.mode]
        for _ in range(3):
            conversation.next_mode()
            seen.append(screen.status.mode)
        assert seen == ["default", "autoEdit", "plan", "default"]
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
        assert "/quit, /exit" in shown
        assert "read_file" in shown
        assert "rules hold in mode default" in shown
        assert "No hooks are configured." in shown
        assert conversation.agent.session_id not in shown  # it was another one's
        assert "Unknown command /nop." in shown


async def test_clearing_forgets_the_conversation_and_its_counts():
    generator = ScriptedGenerator([text("one")], [text("two")])
    screen = ListScreen()
    async with sitting(generator, screen) as conversation:
        first = conversation.agent.session_id
        await finished(conversation, screen, "remember", "!echo noted")
        assert conversation.agent.session_id != first
        assert conversation.totals.requests == 0
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
