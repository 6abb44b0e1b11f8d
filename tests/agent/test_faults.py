"""R6 and WIRE-18: whatever happens between this end and the model, the conversation stays whole."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from random import Random

import pytest

from alhena import tool
from alhena.agent.runner import SessionRunner
from alhena.errors import AlhenaError, ModelError
from alhena.events import (
    ContentEvent,
    Event,
    RetryEvent,
    RunFinishedEvent,
    ToolCallRequestEvent,
    ToolCallResponseEvent,
)
from alhena.http.client import Timeouts
from alhena.models.generator import ContentGenerator
from alhena.models.retry import RetryingGenerator, RetryPolicy
from alhena.policy.model import ApprovalMode
from alhena.wire.content import MODEL
from tests.agent import faulty
from tests.agent.faulty import Play, StrictModel
from tests.models.asking import api, listening, response
from tests.support.agents import scripted_agent

POLICY = RetryPolicy()
SEEDS = range(60)
GROUPS = [SEEDS[start : start + 20] for start in range(0, len(SEEDS), 20)]

BROKEN = (
    "unfinished",
    "error object",
    "bad json",
    "no events",
    "only thoughts",
    "malformed call",
    "no output left",
)
HTML = response(b"<!doctype html><title>Sign in</title>", content_type="text/html")
ANSWER_AS_JSON = response(b'[{"candidates": []}]', content_type="application/json")
ERROR_AS_STREAM = faulty.refused(503, "UNAVAILABLE", "try later").replace(b"503 Refused", b"200 OK")
OTHER_TYPES = (HTML, ANSWER_AS_JSON, ERROR_AS_STREAM)
REFUSALS: dict[int, str] = {
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}


def refusal(random: Random) -> Play:
    status = random.choice([429, 500, 503])
    details = (faulty.RETRY_INFO,) if random.random() < 0.5 else ()
    headers = {"retry_after": "9"} if random.random() < 0.3 else {}
    return faulty.instead(faulty.refused(status, REFUSALS[status], "not now", *details, **headers))


FAULTS: tuple[Callable[[Random], Play], ...] = (
    lambda random: faulty.ending_after(random.randrange(6)),
    lambda random: faulty.ending_after(random.randrange(6), reset=True),
    lambda random: faulty.ending_within(random.random()),
    lambda random: faulty.silent_after(random.randrange(6)),
    lambda random: faulty.changed(lambda events: faulty.doubled(events, random.randrange(9))),
    lambda _: faulty.changed(lambda events: [x for e in events for x in (faulty.METADATA, e)]),
    lambda random: faulty.broken_off(random.choice(BROKEN), random),
    refusal,
    lambda random: faulty.instead(random.choice(OTHER_TYPES)),
    lambda _: faulty.hung_up,
    lambda _: faulty.instead(faulty.refused(499, "CANCELLED", "gone", faulty.RETRY_INFO)),
)
SILENCE = 3
FOR_GOOD = len(FAULTS) - 1
"""The fault after which nothing is sent again."""


def planned(seed: int) -> tuple[Random, dict[int, Play], bool]:
    """One to three faults in a row, or one that never ends, from one of the first requests on; and
    whether the run has to survive them."""
    random = Random(seed)
    make = FAULTS[seed % len(FAULTS)]
    first = random.randrange(faulty.STEPS)
    count = random.choice([1, 1, 1, 2, 3, 30])
    survivable = count <= 3 and seed % len(FAULTS) != FOR_GOOD
    return random, {first + number: make(random) for number in range(count)}, survivable


class Told:
    """Result of a run."""

    def __init__(self, events: list[Event], error: AlhenaError | None) -> None:
        self.error = error
        self.retries = [event for event in events if isinstance(event, RetryEvent)]
        self.calls = [e.call_id for e in events if isinstance(e, ToolCallRequestEvent)]
        self.responses = [e.call_id for e in events if isinstance(e, ToolCallResponseEvent)]
        self.text = next(e.text for e in events if isinstance(e, RunFinishedEvent))
        self.kept = ""
        for event in events:
            if isinstance(event, ContentEvent):
                self.kept += event.text
            elif isinstance(event, ToolCallRequestEvent) or (
                isinstance(event, RetryEvent) and event.retract
            ):
                self.kept = ""


async def told(running: SessionRunner, prompt: str, interrupt_at: int | None = None) -> Told:
    """Runs a prompt; with `interrupt_at`, somebody interrupts when so many events have come."""
    events: list[Event] = []
    try:
        async for event in running.run(prompt):
            events.append(event)
            if len(events) == interrupt_at:
                running.interrupt()
    except AlhenaError as error:
        return Told(events, error)
    return Told(events, None)


@asynccontextmanager
async def session(
    model: StrictModel, noted: list[str], retry: Callable[[ContentGenerator], RetryingGenerator]
) -> AsyncIterator[SessionRunner]:
    """An agent that talks to `model`, with a tool that keeps the keys it is called with."""

    @tool
    def note(key: str) -> str:
        """Keeps a key."""
        noted.append(key)
        return f"kept {key}"

    async with listening(model.serve) as port:
        service = api(f"http://127.0.0.1:{port}", timeouts=Timeouts(idle=model.patience_s))
        settings = {"generator": retry(service), "approval_mode": ApprovalMode.YOLO}
        name = "gemini-3-flash-preview" if model.signed else "gemini-2.5-flash"
        async with scripted_agent(model=name, tools=[note], **settings) as running:
            yield running
        await service.aclose()


def in_turns(three: list[str]) -> list[str]:
    """Notes of two parallel calls in the first turn and one call in the second."""
    return [*sorted(three[:2]), *three[2:]]


async def survive(seed: int) -> None:
    """Runs a prompt through the faults of a seed, and another one behind them."""
    random, faults, survivable = planned(seed)
    idle = 0.3 if seed % len(FAULTS) == SILENCE else 60.0
    model = StrictModel(
        signed=random.random() < 0.5,
        faults=faults,
        patience_s=idle,
        identified=random.random() < 0.7,
    )
    noted: list[str] = []
    waits: list[float] = []

    async def pause(seconds: float) -> None:
        waits.append(seconds)

    def retry(service: ContentGenerator) -> RetryingGenerator:
        return RetryingGenerator(service, POLICY, sleep=pause, chance=random.random)

    async with session(model, noted, retry) as running:
        first = await told(running, "Prompt one")
        asked, waited = len(model.bodies), tuple(waits)
        model.mend()
        after_first = running.history
        second = await told(running, "Prompt two")

    assert not model.violations
    assert asked <= faulty.STEPS + POLICY.max_attempts
    assert [round(wait, 3) for wait in waited] == [event.delay_s for event in first.retries]
    assert sum(waited) <= POLICY.max_wait_s
    assert len(noted) == len(set(noted)), "a call was carried out twice"
    assert sorted(first.calls) == sorted(first.responses)
    assert not any(a.role == b.role == MODEL for a, b in pairwise(after_first))
    assert second.error is None
    assert second.text.endswith("All is well.")
    assert [key[1:] for key in in_turns(noted[-3:])] == [".0.a", ".0.b", ".1.a"]
    if first.error is None:
        if model.half_called < POLICY.broken_attempts:  # else it is taken for its way to answer
            assert in_turns(noted[:3]) == ["1.0.a", "1.0.b", "1.1.a"]
        assert first.kept == first.text
        turns = [content for content in after_first[2:] if content.role == MODEL]
        assert len(turns) == faulty.STEPS
        return
    assert not survivable
    assert not isinstance(first.error, ModelError) or first.error.attempts == len(waited) + 1


@pytest.mark.requirement("WIRE-18")
@pytest.mark.parametrize("seeds", GROUPS, ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
async def test_faults_end_in_one_whole_answer_or_a_typed_error(seeds: range):
    for seed in seeds:
        try:
            await survive(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error


async def interrupted(seed: int) -> None:
    """Runs a prompt through the faults of a seed, is interrupted, and runs another one."""
    random, faults, _ = planned(seed)
    model = StrictModel(signed=random.random() < 0.5, faults=faults, patience_s=60)
    noted: list[str] = []

    async def pause(_seconds: float) -> None:
        await asyncio.sleep(0)

    def retry(service: ContentGenerator) -> RetryingGenerator:
        return RetryingGenerator(service, POLICY, sleep=pause, chance=random.random)

    async with session(model, noted, retry) as running:
        first = await told(running, "Prompt one", interrupt_at=random.randrange(1, 25))
        model.mend()
        second = await told(running, "Prompt two")
    assert not model.violations
    assert sorted(first.calls) == sorted(first.responses)
    assert len(noted) == len(set(noted)), "a call was carried out twice"
    assert second.error is None
    assert second.text.endswith("All is well.")


@pytest.mark.parametrize("seeds", GROUPS[:2], ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
async def test_an_interrupt_between_faults_leaves_a_whole_conversation(seeds: range):
    for seed in seeds:
        if seed % len(FAULTS) == SILENCE:
            continue  # nobody waits for a minute of silence here
        try:
            await interrupted(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
