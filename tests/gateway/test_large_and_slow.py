"""Requests that are large, answers that are slow to begin, and clients that are slow to read."""

import asyncio
import json
from typing import Any

from msgspec.structs import replace

from alhena.errors import ServerFaultError
from alhena.gateway.access_log import LogEntry
from alhena.gateway.dialects import MAX_MESSAGES
from alhena.gateway.server import StallWatch, note_stall
from tests.gateway.kit import LIMITS, client, gateway
from tests.gateway.sources import HeldGenerator
from tests.gateway.test_streams import ANTHROPIC, GOOGLE, OPENAI, closed, raw_request
from tests.support.scripted import ScriptedGenerator
from tests.support.server import text


async def test_too_many_messages_are_refused_in_each_dialect():
    many: dict[str, Any] = {"messages": [{"role": "user", "content": "x"}] * (MAX_MESSAGES + 1)}
    contents = [{"role": "user", "parts": [{"text": "x"}]}] * (MAX_MESSAGES + 1)
    google = GOOGLE[0].replace(":streamGenerate", ":generate")
    async with gateway(ScriptedGenerator()) as running, client(running) as http:
        for path, body in (
            (ANTHROPIC[0], {"model": "c", "max_tokens": 9, **many}),
            (OPENAI[0], {"model": "g", **many}),
            (google, {"contents": contents}),
        ):
            answer = await http.post(path, json=body)
            assert answer.status_code == 400
            assert "20001 messages" in answer.json()["error"]["message"]


async def test_a_large_body_is_read_beside_the_loop_and_answered():
    messages = [{"role": "user", "content": "x" * 20}] * 10_000
    generator = ScriptedGenerator([text("fine")])
    async with gateway(generator) as running, client(running) as http:
        asked = {"model": "c", "max_tokens": 9, "messages": messages}
        answer = await http.post(ANTHROPIC[0], content=json.dumps(asked).encode())
        assert answer.json()["content"][0]["text"] == "fine"
        assert len(generator.requests[0].contents[0].content.parts) == 10_000
        bad = await http.post(ANTHROPIC[0], json={**asked, "max_tokens": 0})
    assert bad.status_code == 400


async def test_a_stream_begins_with_pings_when_the_model_is_long_in_coming():
    generator = HeldGenerator(chunks=0)
    async with gateway(generator, limits=replace(LIMITS, ping_s=0.01)) as running:
        for (path, body), ping in ((ANTHROPIC, b"event: ping"), (OPENAI, b": still at work")):
            generator.go.clear()
            reader, writer = await raw_request(running.port, path, body)
            head = await reader.readuntil(b"\r\n\r\n")
            assert b" 200 " in head
            assert b"text/event-stream" in head
            await reader.readuntil(ping)
            generator.go.set()
            rest = await reader.readuntil(b"\r\n0\r\n\r\n")
            assert b"HTTP/1.1" not in rest
            await closed(writer)


async def test_what_fails_behind_the_first_ping_is_told_in_the_stream():
    class Failing(HeldGenerator):
        async def stream(self, request: Any) -> Any:
            await self.go.wait()
            raise ServerFaultError("it failed", status=500)
            yield

    generator = Failing()
    async with gateway(generator, limits=replace(LIMITS, ping_s=0.01)) as running:
        reader, writer = await raw_request(running.port, *ANTHROPIC)
        await reader.readuntil(b"event: ping")
        generator.go.set()
        rest = await reader.readuntil(b"\r\n0\r\n\r\n")
        await closed(writer)
        entry = (await running.logged())[0]
    assert b"event: error" in rest
    assert b"it failed" in rest
    assert (entry["status"], entry["outcome"]) == (200, "upstream")


class Waiting(asyncio.WriteTransport):
    """A transport with so many bytes that wait."""

    size = 100

    def get_write_buffer_size(self) -> int:
        return self.size


class Clock:
    """Timers that a test lets run out."""

    def __init__(self) -> None:
        self.due: list[Any] = []

    def call_later(self, delay: float, call: Any, *args: Any) -> asyncio.TimerHandle:
        self.due.append((call, args))
        return asyncio.TimerHandle(delay, call, args, asyncio.get_running_loop())

    def run_out(self) -> None:
        call, args = self.due.pop(0)
        call(*args)


async def test_a_client_that_takes_a_little_is_waited_for_and_one_that_takes_nothing_is_not():
    clock: Any = Clock()
    transport, given_up = Waiting(), list[bool]()
    StallWatch(clock, transport, 1.0, lambda: given_up.append(True))
    for size in (99, 98, 50):
        transport.size = size
        clock.run_out()
    assert given_up == []
    clock.run_out()
    assert given_up == [True]
    assert clock.due == []


def test_the_log_says_of_an_answer_sent_whole_that_its_client_did_not_take_it():
    entry = LogEntry(id="1", time="now", method="POST", path="/", status=200)
    lines: list[str] = []
    note_stall(entry, None)
    assert (entry.outcome, lines) == ("client stalled", [])
    note_stall(entry, lines.append)
    assert json.loads(lines[0])["outcome"] == "client stalled"
