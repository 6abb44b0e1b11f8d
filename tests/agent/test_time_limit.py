"""A run's limit of time bounds what runs and what is waited for."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from alhena import tool
from alhena.agent.limits import TimeLimitError
from alhena.agent.run import EventStream
from alhena.errors import InterruptedRunError
from alhena.events import Event, RetryEvent
from alhena.models.errors import RateLimitError
from alhena.models.retry import RetryingGenerator, RetryPolicy
from alhena.tools.builtin.ask_user import Answers, Ask
from alhena.tools.contract import Question
from alhena.wire.request import GenerateContentRequest
from alhena.wire.response import GenerateContentResponse
from tests.agent.kit import agent, conforming, events_of, of, turn
from tests.agent.test_budget import STARTED, ledger, text_with_usage, update
from tests.support.agents import scripted_agent
from tests.support.scripted import Script, ScriptedGenerator
from tests.support.server import call, chunk

SOON = 0.2


class Stuck(ScriptedGenerator):
    """Answers as the script has it, and then goes on for ever."""

    def __init__(self, *turns: Script) -> None:
        super().__init__(*turns)
        self.stuck = asyncio.Event()

    async def stream(
        self, request: GenerateContentRequest
    ) -> AsyncIterator[GenerateContentResponse]:
        self.requests.append(request)
        for item in self.turns.pop(0):
            yield msgspec.convert(item, GenerateContentResponse)
        self.stuck.set()
        await asyncio.Event().wait()


def stops_once(ready: asyncio.Event) -> Ask:
    """A person who wants a run to go on until it is `ready` to be ended."""

    async def ask(_questions: tuple[Question, ...]) -> Answers | None:
        return {0: "Stop" if ready.is_set() else "Continue"}

    return ask


async def drain_run(run: EventStream, events: list[Event]) -> None:
    async for event in run:
        events.append(event)


async def test_an_answer_that_takes_too_long_is_ended_and_what_came_of_it_stays(project: Path):
    generator = Stuck([chunk({"text": "So far"})])
    ask = stops_once(generator.stuck)
    async with agent(generator, max_seconds=SOON, ask=ask) as running:
        events, error = await events_of(running, "go")
        assert isinstance(error, TimeLimitError)
        assert (error.exit_code, events[-1].reason) == (53, "time_limit")
        parts = [part.text for content in running.history[-2:] for part in content.parts]
    assert parts == ["go", "So far", "\n[The user interrupted the answer here.]"]


async def test_a_tool_that_takes_too_long_is_cancelled_and_its_call_answered(project: Path):
    ended: list[str] = []
    begun = asyncio.Event()

    @tool
    async def wait() -> str:
        """Waits."""
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("wait")
        return ""

    generator = ScriptedGenerator(turn(call("wait", {})))
    async with agent(generator, tools=[wait], max_seconds=SOON, ask=stops_once(begun)) as running:
        events, error = await events_of(running, "go")
        assert isinstance(error, TimeLimitError)
        assert events[-1].reason == "time_limit"
        assert ended == ["wait"]
        assert running.history[-1].parts[0].function_response is not None
    assert conforming(generator)


async def test_a_wait_that_does_not_fit_ends_the_run_before_it_is_announced(project: Path):
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    error = RateLimitError("slow down", status=429)
    error.retry_after_s = 500.0
    inner = ScriptedGenerator([error], text_with_usage("late"))
    retrying = RetryingGenerator(inner, RetryPolicy(max_wait_s=5_000), sleep=sleep)
    async with scripted_agent(generator=retrying, max_seconds=400) as running:
        events, found = await events_of(running, "go")
    assert isinstance(found, TimeLimitError)
    assert "the limit of 400 seconds" in found.message
    assert "slow down" in found.message
    assert (waits, of(events, RetryEvent), len(inner.requests)) == ([], [], 1)


async def test_a_wait_that_fits_is_waited(project: Path):
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    inner = ScriptedGenerator([RateLimitError("slow down", status=429)], text_with_usage("late"))
    retrying = RetryingGenerator(inner, RetryPolicy(), sleep=sleep)
    async with scripted_agent(generator=retrying, max_seconds=10_000) as running:
        assert await running.ask("go") == "late"
    assert len(waits) == 1


@pytest.mark.parametrize("answers", [["Stop"], ["Continue", "Stop"], [None]])
async def test_somebody_is_asked_while_the_answer_goes_on(project: Path, answers: list[str | None]):
    asked: list[Question] = []

    async def ask(questions: tuple[Question, ...]) -> Answers | None:
        answer = answers[len(asked)]
        asked.extend(questions)
        return None if answer is None else {0: answer}

    generator = Stuck([chunk({"text": "So far"})])
    async with agent(generator, max_seconds=SOON, ask=ask) as running:
        _, error = await events_of(running, "go")
    assert isinstance(error, TimeLimitError)
    assert len(asked) == len(answers)


async def test_who_interrupts_is_told_that_and_not_the_limit(project: Path):
    generator = Stuck([chunk({"text": "So far"})])
    async with agent(generator, max_seconds=10_000) as running:
        run = running.run("go")
        events = [await anext(run)]
        assert running.interrupt()
        with pytest.raises(InterruptedRunError):
            await drain_run(run, events)
    assert events[-1].reason == "interrupted"


async def test_time_that_people_take_ends_nothing():
    clock = [0.0]
    account = ledger(clock, max_seconds=SOON)
    account.feed(STARTED)
    account.feed(update("a", "awaiting_approval"))
    clock[0] = 1_000.0
    watching = asyncio.ensure_future(account.overrun())
    await asyncio.sleep(0)
    assert not watching.done()
    account.feed(update("a", "scheduled"))
    await asyncio.sleep(0)
    assert not watching.done()
    clock[0] += SOON
    assert isinstance(await watching, TimeLimitError)
