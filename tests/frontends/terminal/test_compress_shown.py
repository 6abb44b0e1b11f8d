"""Compression at the terminal: what a person asks for, and what is said of what happened."""

import re

import pytest

from alhena.events import CompressedEvent, OutputsMaskedEvent
from tests.agent.test_compression import LONG, SNAPSHOT, used
from tests.frontends.terminal.kit import ListScreen, played
from tests.frontends.terminal.test_conversation import finished, sitting
from tests.support.scripted import ScriptedGenerator
from tests.support.server import text


@pytest.mark.requirement("CLI-02")
@pytest.mark.parametrize("name", ["compress", "summarize", "compact"])
async def test_a_person_compresses_the_conversation_and_is_told_what_became_of_it(name: str):
    generator = ScriptedGenerator(
        used(1, "one"), used(1, "two"), [text(SNAPSHOT)], [text(SNAPSHOT)], [text("three")]
    )
    screen = ListScreen()
    async with sitting(generator, screen) as conversation:
        shown = await finished(
            conversation, screen, "/compress", f"first {LONG}", "second", f"/{name}", "third"
        )
    assert "Nothing to compress." in shown
    assert "Chat history compressed from" in shown
    assert SNAPSHOT in str(generator.seen(-1)[2]["parts"][0]["text"])


async def test_a_compression_that_fails_says_why():
    screen = ListScreen()
    generator = ScriptedGenerator(
        used(1, "one"), used(1, "two"), *[[text(SNAPSHOT.replace("foxes", LONG * 2))]] * 2
    )
    async with sitting(generator, screen) as conversation:
        shown = await finished(conversation, screen, f"first {LONG}", "second", "/compress")
    assert (
        "Chat history compression failed: compression was not beneficial, the summary is no shorter."
        in shown
    )


async def test_what_a_compression_asks_the_model_is_in_the_statistics_and_said_once():
    screen = ListScreen()
    generator = ScriptedGenerator(
        used(1_000, "one"), used(2_000, "two"), used(40_000, SNAPSHOT), used(50_000, SNAPSHOT)
    )
    async with sitting(generator, screen) as conversation:
        for each in (f"first {LONG}", "second", "/compress"):
            conversation.submit(each)
        await screen.until(lambda: "Chat history compressed" in screen.text)
        shown = await finished(conversation, screen, "/stats")
    assert re.search(r"requests +4 ", shown)
    assert re.search(r"tokens in +93,000 ", shown)
    assert shown.count("Chat history compressed") == 1


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("compressed", "Chat history compressed from 9,000 to 1,000 tokens."),
        (
            "content_truncated",
            "! Chat history no longer fitted; the oldest parts were left",
        ),
        (
            "failed_empty_summary",
            "! Chat history compression failed: the model returned no summary.",
        ),
        (
            "failed_request",
            "! Chat history compression failed: the request for a summary failed: down.",
        ),
    ],
)
def test_what_happens_by_itself_is_said_between_the_blocks(status: str, words: str):
    reason = "down." if status == "failed_request" else ""
    event = CompressedEvent(original_tokens=9_000, new_tokens=1_000, status=status, reason=reason)
    assert words in played(event)[1]


def test_masked_results_are_counted_and_a_subagents_conversation_is_named():
    masked = OutputsMaskedEvent(results=1, original_tokens=9, new_tokens=1)
    assert "Of 1 old tool result the model has a preview" in played(masked)[1]
    event = CompressedEvent(original_tokens=9, new_tokens=1, status="compressed", role="subagent")
    assert "A subagent's chat history compressed" in played(event)[1]
