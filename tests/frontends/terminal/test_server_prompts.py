"""Prompts of MCP servers as commands, their resources after an @."""

from pathlib import Path
from typing import Any

from alhena.config.settings import settings_of
from alhena.frontends.terminal.conversation import Conversation
from alhena.frontends.terminal.dialogs.approval import request_blocks
from alhena.tools.contract import McpConfirmation
from tests.frontends.terminal.kit import ListScreen, text_of
from tests.frontends.terminal.test_asking import request
from tests.frontends.terminal.test_conversation import sitting
from tests.mcp.kit import kitchen
from tests.support.scripted import ScriptedGenerator
from tests.support.server import text


def with_kitchen() -> dict[str, Any]:
    return {"settings": settings_of({"mcpServers": {"k": kitchen()}}, "test")}


async def answered(conversation: Conversation, screen: ListScreen, said: str, shown: str) -> None:
    conversation.submit(said)
    await screen.until(lambda: shown in screen.text)


async def test_a_prompt_of_a_server_is_a_command_and_goes_to_the_model_filled_in(
    project: Path,
) -> None:
    screen = ListScreen()
    generator = ScriptedGenerator([text("one")], [text("two")])
    async with sitting(generator, screen, **with_kitchen()) as conversation:
        await answered(conversation, screen, "hello", "|one|")
        await answered(conversation, screen, '/review my.py --focus="the tests"', "|two|")
        assert "> /review my.py" in screen.text
    sent = generator.seen(1)[-1]["parts"]
    assert sent == [{"text": 'Review "my.py", above all the tests.'}]


async def test_a_prompt_without_what_it_needs_is_told_and_not_sent(project: Path) -> None:
    screen = ListScreen()
    generator = ScriptedGenerator([text("one")])
    async with sitting(generator, screen, **with_kitchen()) as conversation:
        await answered(conversation, screen, "hello", "|one|")
        conversation.submit("/review")
        await screen.until(lambda: "Missing required argument(s): --file" in screen.text)
    assert len(generator.requests) == 1


async def test_a_resource_behind_an_at_goes_with_the_prompt(project: Path) -> None:
    screen = ListScreen()
    generator = ScriptedGenerator([text("one")], [text("two")])
    async with sitting(generator, screen, **with_kitchen()) as conversation:
        await answered(conversation, screen, "hello", "|one|")
        await answered(conversation, screen, "what is there? @k:kitchen://menu", "|two|")
    sent = generator.seen(1)[-1]["parts"]
    assert [part["text"] for part in sent] == [
        "what is there? @k:kitchen://menu",
        "\nContent from @k:kitchen://menu:\n",
        "soup\n",
    ]


def test_a_question_shows_what_the_server_says_and_what_of_it_changed() -> None:
    details = McpConfirmation(
        title="t",
        server_name="s",
        tool_name="pay",
        tool_display_name="pay",
        tool_description="Pays.\u202e" + "x" * 3000,
        server=("npx -y pay\x1b[2J", "in sub", "TOKEN", "NODE_OPTIONS=${X_TOKEN}"),
        changed="--- approved\n+++ now\n@@ -1,1 +1,1 @@\n-Pays.\n+Pays all.",
    )
    shown = text_of(request_blocks(request(details)))
    assert "What the server says of it:\n    Pays.\\u202exxx" in shown
    assert "The server is:\n    npx -y pay" in shown
    assert "\n    with in sub, TOKEN, NODE_OPTIONS=${X_TOKEN}\n" in shown
    assert "\x1b" not in shown
    assert "1,006 characters more" in shown
    assert "! It has changed since it was approved:" in shown
    assert "+ Pays all." in shown
