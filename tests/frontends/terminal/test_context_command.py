"""The parts of the context window, by size: /context."""

from pathlib import Path

import pytest

from alhena.config.settings import ModelSection, PriceSettings, Settings
from alhena.display_text import money
from tests.frontends.terminal.kit import ListScreen
from tests.frontends.terminal.test_conversation import calling, sitting
from tests.support.scripted import ScriptedGenerator
from tests.support.server import chunk

USAGE = {"promptTokenCount": 5_000, "candidatesTokenCount": 10, "totalTokenCount": 5_010}


async def test_context_names_the_parts_of_the_window_and_the_largest(
    home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
):
    (project / "big.txt").write_text("four words and more\n" * 1_000, encoding="utf-8")
    (project / "GEMINI.md").write_text("remember this " * 300, encoding="utf-8")
    (home / ".gemini").mkdir()
    (home / ".gemini" / "GEMINI.md").write_text("and this " * 300, encoding="utf-8")
    monkeypatch.setenv("GEMINI_CLI_TRUST_WORKSPACE", "true")
    answer = [chunk({"text": "Done."}, finish="STOP", usage=USAGE)]
    generator = ScriptedGenerator(
        calling("read_file", {"file_path": "big.txt"}, id="1"), answer, answer
    )
    screen = ListScreen()
    async with sitting(generator, screen) as conversation:
        conversation.submit("/context")
        conversation.submit("read it " * 1_000)
        conversation.submit("/context")
        await screen.until(lambda: screen.text.count("Largest") == 2)
    _, before, behind = screen.text.split("Context: ")
    assert "estimated; the service has counted nothing yet" in before
    assert behind.splitlines()[0] == "5,001 of 1,048,576 tokens (0.5%)"
    assert "5,000 counted by the service, 1 estimated since" in behind
    rows = {
        name: int(tokens.replace(",", ""))
        for tokens, _, name in (
            (*row.split(None, 3)[:2], row.split(None, 3)[3])
            for row in behind.partition("Largest")[0].splitlines()[3:]
        )
    }
    assert list(rows)[:5] == ["System prompt", "Tools", "Memory", "Conversation", "Results"]
    assert rows["Memory"] > 1_000
    assert 4_000 < rows["Results"] < 6_000
    assert 2_000 < rows["Conversation"] < 3_000
    largest = [row for row in behind.partition("Largest")[2].splitlines() if "%" in row]
    assert any(row.endswith("result: read_file big.txt") for row in largest[:3])
    assert sum(row.endswith("/GEMINI.md") for row in largest) == 2
    assert any("prompt: read it read it" in row for row in largest)
    sizes = [int(row.split()[0].replace(",", "")) for row in largest]
    assert sizes == sorted(sizes, reverse=True)


async def test_context_says_what_each_part_costs(project: Path):
    price = PriceSettings(input=1.0, output=4.0, cached=0.1)
    settings = Settings(model=ModelSection(prices={"*": price}))
    answer = [chunk({"text": "Done."}, finish="STOP", usage={**USAGE, "promptTokenCount": 500_000})]
    screen = ListScreen()
    async with sitting(ScriptedGenerator(answer), screen, settings=settings) as conversation:
        conversation.submit("word " * 100_000)
        conversation.submit("/context")
        await screen.until(lambda: "Largest" in screen.text)
    _, _, told = screen.text.partition("Context: ")
    assert "$0.50 a request, $0.050 where the cache has it" in told
    (row,) = [row for row in told.splitlines() if row.endswith("  Conversation")]
    tokens, _, shown, _ = row.split()
    assert shown == money(int(tokens.replace(",", "")) / 1_000_000)
