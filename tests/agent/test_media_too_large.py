"""Media in results of tools that need more than the model takes: words stand for them, and the
session goes on."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from alhena.errors import AlhenaError, ServerFaultError
from alhena.events import OutputsMaskedEvent
from alhena.wire.content import EncodedContent
from tests.agent.kit import agent, conforming, events_of, of
from tests.agent.test_compression import LONG, compression_events
from tests.agent.test_refused_as_too_large import refusal_script
from tests.support.media import pdf
from tests.support.scripted import Script, ScriptedGenerator
from tests.support.server import call, chunk, text

TOO_MUCH = 1_200_000


class CountingDocuments(ScriptedGenerator):
    """Counts every document as more than the model takes; words as a quarter of their bytes."""

    async def count_tokens(self, contents: Sequence[EncodedContent], *, model: str) -> int:
        raws = [bytes(entry.raw) for entry in contents]
        words = sum(len(raw) for raw in raws if b"application/pdf" not in raw) // 4
        return words + TOO_MUCH * sum(raw.count(b"application/pdf") for raw in raws)


class CountingNothing(ScriptedGenerator):
    """Is asked in vain."""

    async def count_tokens(self, contents: Sequence[EncodedContent], *, model: str) -> int:
        raise ServerFaultError("no")


@pytest.fixture
def document(project: Path) -> None:
    (project / "d.pdf").write_bytes(pdf(b"x" * 30_000))


def read(number: int = 1) -> Script:
    made = call("read_file", {"absolute_path": "d.pdf"}, id=f"c{number}")
    return [chunk(made, finish="STOP", usage={"promptTokenCount": 9_000})]


def replaces_document(contents: Any) -> bool:
    """True if a text replaces the document completely."""
    sent = str(contents)
    return "A pdf file of 30,030 bytes was here." in sent and "eHh4" not in sent


@pytest.mark.parametrize("model", ["gemini-2.5-pro", "gemini-3-pro-preview"])
async def test_a_result_whose_media_are_counted_above_the_window_is_told_in_words(
    document: None, model: str
):
    generator = CountingDocuments(read(), text_of("too long"), text_of("hi"))
    async with agent(generator, model=model) as running:
        events, error = await events_of(running, "What does d.pdf say?")
        assert error is None
        assert replaces_document(generator.seen(1))
        (event,) = compression_events(events)
        assert event.status == "content_truncated"
        assert event.original_tokens > TOO_MUCH > 100_000 > event.new_tokens
        assert await running.ask("hello") == "hi"
    assert replaces_document(generator.seen(2))
    assert conforming(generator)


async def test_a_session_that_ends_with_such_a_result_goes_on(document: None):
    generator = CountingDocuments(text_of("one"), read())
    async with agent(generator, max_turns=1) as running:
        await running.ask("first " + LONG)
        _, error = await events_of(running, "What does d.pdf say?")
        assert isinstance(error, AlhenaError)
        assert error.kind == "turn_limit"
        session_id = running.session_id
    later = CountingDocuments(text_of("three"))
    async with agent(later, resume=session_id) as running:
        events, error = await events_of(running, "and now?")
    assert error is None
    assert replaces_document(later.seen(0))
    assert LONG in str(later.seen(0))  # nothing else had to go
    (event,) = of(events, OutputsMaskedEvent)
    assert event.results == 1
    again = CountingDocuments(text_of("four"))
    async with agent(again, resume=session_id) as running:
        assert await running.ask("once more") == "four"
    assert replaces_document(again.seen(0))
    assert conforming(later)
    assert conforming(again)


async def test_media_that_the_service_refuses_are_told_in_words_and_the_run_goes_on(
    document: None,
):
    generator = CountingNothing(
        text_of("one"), read(), refusal_script(TOO_MUCH, 1_048_576), text_of("two")
    )
    async with agent(generator) as running:
        await running.ask("first " + LONG)
        events, error = await events_of(running, "What does d.pdf say?")
    assert error is None
    assert replaces_document(generator.seen(-1))
    assert LONG in str(generator.seen(-1))
    assert compression_events(events) == []
    assert conforming(generator)


def text_of(words: str) -> Script:
    return [text(words)]
