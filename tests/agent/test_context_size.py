"""Size of the context before a request: counted and estimated tokens."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from alhena.errors import AlhenaError, ServerFaultError
from alhena.events import ContextWindowWillOverflowEvent
from alhena.wire.content import Blob, EncodedContent, Part
from tests.agent.kit import agent, conforming, events_of
from tests.agent.test_compression import LONG, SNAPSHOT, compression_events, set_to, used
from tests.support.scripted import ScriptedGenerator
from tests.support.server import text

WIDE = "\u4e2d"


class Counting(ScriptedGenerator):
    """Counts tokens as it likes."""

    def __init__(self, *turns: Any, count: int | Exception = 5) -> None:
        super().__init__(*turns)
        self.count = count
        self.counted: list[int] = []

    async def count_tokens(self, contents: Sequence[EncodedContent], *, model: str) -> int:
        self.counted.append(len(contents))
        if isinstance(self.count, Exception):
            raise self.count
        return self.count


@pytest.mark.parametrize(
    ("count", "error"),
    [(5, None), (2_000_000, "context_window_will_overflow"), (ServerFaultError("no"), None)],
)
async def test_the_service_counts_what_can_only_be_guessed(count: Any, error: str | None):
    generator = Counting(used(1, "seen"), count=count)
    film = Part(inline_data=Blob(mime_type="video/webm", data="AAAA" * 5_000_000))
    found: list[str] = []
    async with agent(generator) as running:
        try:
            async for _ in running.run("what is that?", attached=[film]):
                pass
        except AlhenaError as problem:
            found.append(problem.kind)
    assert found == ([] if error is None else [error])
    assert generator.counted == [3]


async def test_nothing_is_counted_where_an_estimate_will_do():
    generator = Counting(used(1, "one"), used(1, "two"), used(550_000, "three"))
    async with agent(generator) as running:
        await running.ask("first")
        await running.ask("second")
        await running.ask("x" * 200_000)
    assert generator.counted == []


@pytest.mark.parametrize("threshold", [0.5, 0.0])
async def test_a_prompt_is_not_refused_and_nothing_compressed_for_it_by_an_estimate(
    threshold: float,
):
    generator = Counting(used(1_000, "one"), used(2_000, "two"), used(3_000, "3"), count=300_000)
    async with agent(generator, settings=set_to(threshold)) as running:
        await running.ask("first " + LONG)
        events, error = await events_of(running, WIDE * 800_000)
        assert error is None
        assert compression_events(events) == []
        assert generator.counted == [2]
        await running.ask("third")
    assert len(generator.requests) == 3
    assert generator.counted == [2]


@pytest.mark.parametrize("count", [1_200_000, ServerFaultError("no")])
async def test_a_prompt_larger_than_the_window_is_an_error_and_leaves_nothing_behind(count: Any):
    generator = Counting(used(1_000, "one"), used(1_000, "two"), count=count)
    async with agent(generator) as running:
        await running.ask("first")
        before = running.history
        events, error = await events_of(running, WIDE * 800_000)
        assert isinstance(error, AlhenaError)
        assert error.kind == "context_window_will_overflow"
        assert "1,048,576" in str(error)
        assert any(isinstance(event, ContextWindowWillOverflowEvent) for event in events)
        assert running.history == before
        assert await running.ask("again") == "two"


async def test_a_session_that_goes_on_knows_what_the_service_counted_last(project: Path):
    generator = ScriptedGenerator(used(1_000, "one"), used(600_000, "two"))
    async with agent(generator) as running:
        await running.ask("first " + LONG)
        await running.ask("second")
        session_id = running.session_id
    later = ScriptedGenerator([text(SNAPSHOT)], [text(SNAPSHOT)], used(2_000, "three"))
    async with agent(later, resume=session_id) as running:
        events, error = await events_of(running, "third")
    assert error is None
    (event,) = compression_events(events)
    assert event.status == "compressed"
    assert event.original_tokens == pytest.approx(600_000, rel=0.01)
    assert conforming(later)
    again = ScriptedGenerator(used(3_000, "four"))
    async with agent(again, resume=session_id) as running:
        events, error = await events_of(running, "fourth")
    assert (error, compression_events(events)) == (None, [])
