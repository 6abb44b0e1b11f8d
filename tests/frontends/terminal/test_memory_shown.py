"""`/memory`: what the session was told, and reading it anew."""

from pathlib import Path

import pytest

from tests.frontends.terminal.kit import ListScreen
from tests.frontends.terminal.test_conversation import finished, sitting
from tests.memory.kit import put
from tests.support.scripted import ScriptedGenerator
from tests.support.server import text


@pytest.mark.requirement("MEM-01")
async def test_memory_is_shown_listed_and_read_anew(home: Path):
    put(home, ".gemini/GEMINI.md", "first wish @./more.md")
    put(home, ".gemini/more.md", "more \x1b[31mwishes")
    screen = ListScreen()
    generator = ScriptedGenerator([text("one")])
    async with sitting(generator, screen) as conversation:
        conversation.submit("/memory")
        await screen.until(lambda: "Memory Files" in screen.text)
        assert "first wish <!-- Imported from: ./more.md -->" in screen.text
        assert "\x1b" not in screen.text
        assert "have changed" not in screen.text
        put(home, ".gemini/GEMINI.md", "second wish")
        conversation.submit("/memory")
        await screen.until(lambda: "The files have changed." in screen.text)
        conversation.submit("/memory refresh")
        await screen.until(lambda: screen.text.count("Memory Files") == 3)
        assert "Reloaded: " in screen.text
        conversation.submit("/memory list")
        await screen.until(lambda: screen.text.count("Memory Files") == 4)
        assert "second wish" not in screen.text
        assert screen.text.count("L global: ") == 4
        assert screen.text.count("The files have changed.") == 1
        conversation.submit("/memory lose")
        await finished(conversation, screen, "hello")
        assert (
            "Usage: /memory show, /memory list, /memory refresh or /memory add FACT" in screen.text
        )
    instruction = generator.requests[0].config.system_instruction
    assert "second wish" in instruction.parts[0].text


async def test_without_files_it_says_so():
    screen = ListScreen()
    async with sitting(ScriptedGenerator(), screen) as conversation:
        assert "No memory files." in await finished(conversation, screen, "/memory")
