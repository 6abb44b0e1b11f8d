"""Requests the gateway refuses: too large, too many, too slow."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from tests.gateway.kit import LIMITS, Running, client, gateway
from tests.gateway.sources import HeldGenerator
from tests.gateway.test_streams import ANTHROPIC, CONTENTS, GOOGLE, OPENAI, closed, raw_request
from tests.support.patience import PATIENCE_S
from tests.support.scripted import ScriptedGenerator
from tests.support.server import text
from tests.support.steady import skip

PLAIN_GOOGLE = ("/v1beta/models/gemini-2.5-flash:generateContent", CONTENTS)


def large(size: int) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "x" * size}]}


@pytest.mark.parametrize(
    ("path", "status", "where"),
    [
        ("/v1/messages", 413, ("error", "type", "request_too_large")),
        ("/v1/chat/completions", 413, ("error", "code", "request_too_large")),
        (PLAIN_GOOGLE[0], 413, ("error", "status", "INVALID_ARGUMENT")),
    ],
)
async def test_a_body_that_is_too_large_is_refused_and_the_connection_lives(
    path: str, status: int, where: tuple[str, str, str]
):
    limits = replace(LIMITS, body_bytes=10_000)
    generator = ScriptedGenerator([text("fine")])
    async with gateway(generator, limits=limits) as running, client(running) as http:
        refused = await http.post(path, json=large(20_000))
        assert refused.status_code == status
        holder, field, value = where
        assert refused.json()[holder][field] == value
        assert "larger than 10000 bytes" in refused.json()[holder]["message"]
        assert (await http.post(ANTHROPIC[0], json=large(100))).status_code == 200
    assert len(generator.requests) == 1


async def test_a_body_without_a_length_is_counted_as_it_comes():
    limits = replace(LIMITS, body_bytes=10_000)

    async def pieces() -> Any:
        for _ in range(4):
            yield b" " * 5000

    async with gateway(ScriptedGenerator(), limits=limits) as running, client(running) as http:
        refused = await http.post("/v1/messages", content=pieces())
    assert refused.status_code == 413


async def test_a_body_far_too_large_is_not_even_read():
    limits = replace(LIMITS, body_bytes=1000)
    async with gateway(ScriptedGenerator(), limits=limits) as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(
            b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9999999\r\n\r\n"
        )
        assert b" 413 " in await reader.readline()
        await closed(writer)


async def test_a_body_that_comes_too_slowly_is_given_up():
    limits = replace(LIMITS, body_idle_s=0.05)
    async with gateway(ScriptedGenerator(), limits=limits) as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(
            b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n{"
        )
        assert b" 408 " in await reader.readline()
        await closed(writer)


async def test_a_body_that_trickles_is_given_up_too():
    limits = replace(LIMITS, body_s=0.1)
    async with gateway(ScriptedGenerator(), limits=limits) as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(
            b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999\r\n\r\n"
        )
        answer = asyncio.ensure_future(reader.readline())
        while not answer.done():
            writer.write(b" ")
            await asyncio.sleep(0.005)
        assert b" 408 " in answer.result()
        await closed(writer)


@pytest.mark.parametrize("start", [b"", b"GET /healthz HTTP/1.1\r\nho"])
async def test_a_head_that_does_not_come_closes_the_connection(start: bytes):
    limits = replace(LIMITS, head_s=0.05)
    async with gateway(ScriptedGenerator(), limits=limits) as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(start)
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readuntil(b"\r\n")
        await closed(writer)


async def test_a_second_head_on_a_connection_has_its_limit_too():
    limits = replace(LIMITS, head_s=PATIENCE_S)
    async with gateway(ScriptedGenerator(), limits=limits) as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        await reader.readuntil(b'"ok"}')
        writer.write(b"GET /hea")
        await asyncio.sleep(0.05)
        skip(PATIENCE_S)
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readuntil(b"\r\n")
        await closed(writer)


async def test_a_long_answer_is_not_taken_for_a_slow_head():
    generator = HeldGenerator()
    async with gateway(generator, limits=replace(LIMITS, head_s=PATIENCE_S)) as running:
        reader, writer = await raw_request(running.port, *OPENAI)
        await reader.readuntil(b"xxxx")
        skip(PATIENCE_S)
        await asyncio.sleep(0.05)
        generator.go.set()
        await reader.readuntil(b"[DONE]")
        await closed(writer)


async def test_more_requests_than_are_answered_at_a_time_are_told_to_come_back():
    generator = HeldGenerator(chunks=0)
    limits = replace(LIMITS, concurrent=2)
    async with gateway(generator, limits=limits) as running, client(running) as http:
        held = [asyncio.create_task(_posted(http, OPENAI)) for _ in range(2)]
        while generator.running < 2:
            await asyncio.sleep(0.001)
        refusals = [await _posted(http, one) for one in (ANTHROPIC, OPENAI, GOOGLE)]
        assert [answer.status_code for answer in refusals] == [529, 429, 429]
        assert [answer.headers["retry-after"] for answer in refusals] == ["1"] * 3
        assert refusals[0].json()["error"]["type"] == "overloaded_error"
        assert refusals[1].json()["error"]["type"] == "rate_limit_error"
        assert refusals[2].json()["error"]["status"] == "RESOURCE_EXHAUSTED"
        generator.go.set()
        assert [(await one).status_code for one in held] == [200, 200]
        assert (await _posted(http, OPENAI)).status_code == 200


async def test_bodies_that_are_held_together_have_a_limit():
    generator = HeldGenerator(chunks=0)
    limits = replace(LIMITS, bodies_bytes=12_000)
    async with gateway(generator, limits=limits) as running, client(running) as http:
        held = asyncio.create_task(http.post("/v1/messages", json=large(8000)))
        await generator.asked.wait()
        refused = await http.post("/v1/messages", json=large(8000))
        assert refused.status_code == 529
        generator.go.set()
        assert (await held).status_code == 200
        assert (await http.post("/v1/messages", json=large(8000))).status_code == 200


async def test_two_hundred_streams_at_once_arrive_whole():
    generator = HeldGenerator(chunks=50)
    generator.go.set()

    async def one(running: Running) -> int:
        reader, writer = await raw_request(running.port, *OPENAI)
        data = await reader.readuntil(b"data: [DONE]\n\n")
        await closed(writer)
        return data.count(b"xxxx")

    async with gateway(generator) as running:
        counts = await asyncio.gather(*(one(running) for _ in range(200)))
    assert counts == [50] * 200


async def test_stopping_lets_an_answer_under_way_come_to_its_end():
    generator = HeldGenerator()
    async with gateway(generator, limits=replace(LIMITS, stop_s=PATIENCE_S)) as running:
        reader, writer = await raw_request(running.port, *OPENAI)
        await reader.readuntil(b"xxxx")
        asyncio.get_running_loop().call_later(0.05, generator.go.set)
    data = await reader.read()
    assert b"[DONE]" in data
    await closed(writer)


async def test_an_answer_that_does_not_end_is_cut_when_the_time_to_stop_is_over():
    generator = HeldGenerator()
    async with gateway(generator) as running:
        reader, writer = await raw_request(running.port, *OPENAI)
        await reader.readuntil(b"xxxx")
    assert generator.running == 0
    assert b"[DONE]" not in await reader.read()
    assert not [line for line in running.lines if "traceback" in line]
    await closed(writer)


async def _posted(http: Any, asked: tuple[str, Any]) -> Any:
    path, body = asked
    return await http.post(path, json=body)
