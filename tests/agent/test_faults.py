"""R6 and WIRE-18: whatever happens between this end and the model, the conversation stays whole."""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from itertools import pairwise
from random import Random
from typing import Any

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
from alhena.http import Timeouts
from alhena.models.generator import ContentGenerator
from alhena.models.retry import RetryingGenerator, RetryPolicy
from alhena.policy.model import ApprovalMode
from alhena.wire.conformance.json_body import check_json
from alhena.wire.content import MODEL
from alhena.wire.errors import Severity
from tests.models.asking import api, listening, read_request, response
from tests.support.agents import scripted_agent
from tests.support.server import call, chunk

STEPS = 3
SIGNATURE = "c2lnbmF0dXJl"
ANSWER = ("All ", "is ", "well.")

Play = Callable[["StrictModel", asyncio.StreamWriter, list[bytes]], Awaitable[bool]]
"""Answers with events, or fails to; whether the connection can take another request."""


class StrictModel:
    """`faults` maps the number of a request (from 0) to what happens instead of its answer. With
    `signed` calls have to be; without `identified` they have no ids. `patience_s`: how long its
    client bears silence. `half_called` counts answers that ended in good order before all of their
    calls were there."""

    def __init__(
        self,
        *,
        signed: bool,
        faults: dict[int, Play],
        patience_s: float,
        identified: bool = True,
    ) -> None:
        self.identified = identified
        self.half_called = 0
        self.signed = signed
        self.patience_s = patience_s
        self.faults = faults
        self.bodies: list[dict[str, Any]] = []
        self.violations: list[str] = []
        self.released = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers the requests of one connection."""
        while True:
            _, _, body = await read_request(reader)
            number = len(self.bodies)
            self.bodies.append(json.loads(body))
            found = check_json(self.bodies[-1], needs_signatures=self.signed)
            wrong = [str(item) for item in found if item.level is Severity.ERROR]
            if wrong:
                self.violations += wrong
                writer.write(
                    refusal_answer(400, "INVALID_ARGUMENT", "Request contains an invalid one.")
                )
                continue
            play = self.faults.get(number, whole)
            if not await play(self, writer, self.answer(self.bodies[-1])):
                return

    def mend(self) -> None:
        """From now on nothing fails."""
        self.faults.clear()
        self.released.set()

    def answer(self, body: dict[str, Any]) -> list[bytes]:
        """The events that the conversation so far is answered with."""
        prompts, step = 0, 0
        for content in body["contents"]:
            if content["role"] == "user" and _says(content, "Prompt"):
                prompts, step = prompts + 1, 0
            elif content["role"] == "model" and any("functionCall" in p for p in content["parts"]):
                step += 1
        return [event(item) for item in self._chunks(prompts, step)]

    def _chunks(self, prompt: int, step: int) -> list[dict[str, Any]]:
        thought = chunk({"text": "**Plan** what next", "thought": True})
        extra = {"thoughtSignature": SIGNATURE} if self.signed else {}
        if step >= STEPS - 1:
            texts = [chunk({"text": piece}) for piece in ANSWER]
            return [thought, *texts, chunk({"text": ""}, finish="STOP")]
        keys = ("a", "b") if step == 0 else ("a",)
        calls = [
            chunk(
                call(
                    "note",
                    {"key": f"{prompt}.{step}.{key}"},
                    id=f"{prompt}-{step}-{key}" if self.identified else None,
                    **(extra if position == 0 else {}),
                )
            )
            for position, key in enumerate(keys)
        ]
        return [thought, chunk({"text": "Looking. "}), *calls, chunk(finish="STOP")]


def event(value: Any) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\r\n\r\n"


def refusal_answer(status: int, name: str, message: str, *details: Any, **headers: str) -> bytes:
    body = {"error": {"code": status, "status": name, "message": message, "details": details}}
    headers = {"content_type": "application/json"} | headers
    return response(json.dumps(body).encode(), status=f"{status} Refused", **headers)


async def whole(_: StrictModel, writer: asyncio.StreamWriter, events: list[bytes]) -> bool:
    """The whole answer."""
    writer.write(response(b"".join(events)))
    return True


def begin(writer: asyncio.StreamWriter, data: bytes) -> None:
    """The start of an answer of unknown length."""
    head = (
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    writer.write(head.encode())
    if data:
        writer.write(b"%x\r\n%s\r\n" % (len(data), data))


def ending_after(count: int, *, reset: bool = False) -> Play:
    """The connection ends behind `count` events."""

    async def play(_: StrictModel, writer: asyncio.StreamWriter, events: list[bytes]) -> bool:
        begin(writer, b"".join(events[: count % len(events)]))
        await writer.drain()
        if reset:
            sock: socket.socket = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        return False

    return play


def ending_within(share: float) -> Play:
    """The connection ends anywhere, within an event or a character."""

    async def play(_: StrictModel, writer: asyncio.StreamWriter, events: list[bytes]) -> bool:
        data = b"".join(events[:-1]) + events[-1]
        begin(writer, data[: int(len(data) * share)])
        return False

    return play


def silent_after(count: int) -> Play:
    """Nothing comes any more behind `count` events; at 0 not even a head."""

    async def play(self: StrictModel, writer: asyncio.StreamWriter, events: list[bytes]) -> bool:
        if count:
            begin(writer, b"".join(events[: count % len(events)]))
        await self.released.wait()
        return False

    return play


def change_events(change: Callable[[list[bytes]], list[bytes]]) -> Play:
    """Other events than those of the answer, in an orderly response."""

    async def play(self: StrictModel, writer: asyncio.StreamWriter, events: list[bytes]) -> bool:
        sent = b"".join(change(events))
        if b"functionCall" in sent and b"finishReason" not in sent and b"error" not in sent:
            self.half_called += 1
        writer.write(response(sent))
        return True

    return play


def instead(data: bytes) -> Play:
    """Another response."""

    async def play(_: StrictModel, writer: asyncio.StreamWriter, events: list[bytes]) -> bool:
        del events
        writer.write(data)
        return True

    return play


async def hung_up(_: StrictModel, writer: asyncio.StreamWriter, events: list[bytes]) -> bool:
    """The connection ends without a byte."""
    del events
    with suppress(ConnectionError):
        writer.close()
    return False


def _says(content: dict[str, Any], word: str) -> bool:
    return any(str(part.get("text", "")).startswith(word) for part in content["parts"])


RETRY_INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7.5s"}
METADATA = event({"usageMetadata": {"promptTokenCount": 3}, "modelVersion": "m"})


def send_twice(events: list[bytes], position: int) -> list[bytes]:
    """With one event sent twice."""
    at = position % len(events)
    return [*events[:at], events[at], *events[at:]]


def broken_off(kind: str, random: Random) -> Play:
    """An answer that came and was none, by the name of what is wrong with it."""
    at = random.randrange(1, 4)
    error = event({"error": {"code": 503, "status": "UNAVAILABLE", "message": "overloaded"}})
    ends = {
        "unfinished": lambda events: events[: min(at + 1, len(events) - 1)],
        "error object": lambda events: [*events[:at], error],
        "bad json": lambda events: [*events[:at], b'data: {"candidates": [\r\n\r\n'],
        "no events": lambda _: [],
        "only thoughts": lambda events: [events[0], event(chunk(finish="STOP"))],
        "malformed call": lambda events: [
            *events[:at],
            event(chunk(finish="MALFORMED_FUNCTION_CALL")),
        ],
        "no output left": lambda _: [event(chunk(finish="MAX_TOKENS"))],
    }
    return change_events(ends[kind])


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
ERROR_AS_STREAM = refusal_answer(503, "UNAVAILABLE", "try later").replace(b"503 Refused", b"200 OK")
OTHER_TYPES = (HTML, ANSWER_AS_JSON, ERROR_AS_STREAM)
REFUSALS: dict[int, str] = {
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}


def refusal(random: Random) -> Play:
    status = random.choice([429, 500, 503])
    details = (RETRY_INFO,) if random.random() < 0.5 else ()
    headers = {"retry_after": "9"} if random.random() < 0.3 else {}
    return instead(refusal_answer(status, REFUSALS[status], "not now", *details, **headers))


FAULTS: tuple[Callable[[Random], Play], ...] = (
    lambda random: ending_after(random.randrange(6)),
    lambda random: ending_after(random.randrange(6), reset=True),
    lambda random: ending_within(random.random()),
    lambda random: silent_after(random.randrange(6)),
    lambda random: change_events(lambda events: send_twice(events, random.randrange(9))),
    lambda _: change_events(lambda events: [x for e in events for x in (METADATA, e)]),
    lambda random: broken_off(random.choice(BROKEN), random),
    refusal,
    lambda random: instead(random.choice(OTHER_TYPES)),
    lambda _: hung_up,
    lambda _: instead(refusal_answer(499, "CANCELLED", "gone", RETRY_INFO)),
)
SILENCE = 3
FOR_GOOD = len(FAULTS) - 1
"""The fault after which nothing is sent again."""


def plan_faults(seed: int) -> tuple[Random, dict[int, Play], bool]:
    """One to three faults in a row, or one that never ends, from one of the first requests on; and
    whether the run has to survive them."""
    random = Random(seed)
    make = FAULTS[seed % len(FAULTS)]
    first = random.randrange(STEPS)
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


async def run_and_read(
    running: SessionRunner, prompt: str, interrupt_at: int | None = None
) -> Told:
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
    random, faults, survivable = plan_faults(seed)
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
        first = await run_and_read(running, "Prompt one")
        asked, waited = len(model.bodies), tuple(waits)
        model.mend()
        after_first = running.history
        second = await run_and_read(running, "Prompt two")

    assert not model.violations
    assert asked <= STEPS + POLICY.max_attempts
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
        assert len(turns) == STEPS
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


async def interrupt_run(seed: int) -> None:
    """Runs a prompt through the faults of a seed, is interrupted, and runs another one."""
    random, faults, _ = plan_faults(seed)
    model = StrictModel(signed=random.random() < 0.5, faults=faults, patience_s=60)
    noted: list[str] = []

    async def pause(_seconds: float) -> None:
        await asyncio.sleep(0)

    def retry(service: ContentGenerator) -> RetryingGenerator:
        return RetryingGenerator(service, POLICY, sleep=pause, chance=random.random)

    async with session(model, noted, retry) as running:
        first = await run_and_read(running, "Prompt one", interrupt_at=random.randrange(1, 25))
        model.mend()
        second = await run_and_read(running, "Prompt two")
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
            await interrupt_run(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
