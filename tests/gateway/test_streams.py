"""Streams on their way: slow clients, clients that leave, silence, and the end of time."""

import asyncio
import json
from typing import Any

import pytest
from msgspec.structs import replace

from alhena.models.errors import QuotaError, RateLimitError
from tests.gateway.kit import LIMITS, client, gateway
from tests.gateway.sources import HeldGenerator
from tests.support.scripted import ScriptedGenerator
from tests.support.server import chunk, text

MESSAGES: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}
ANTHROPIC = ("/v1/messages", {"model": "c", "max_tokens": 9, "stream": True, **MESSAGES})
OPENAI = ("/v1/chat/completions", {"model": "g", "stream": True, **MESSAGES})
RESPONSES = ("/v1/responses", {"model": "g", "stream": True, "input": "hi"})
CONTENTS = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
GOOGLE = ("/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse", CONTENTS)
ALL = pytest.mark.parametrize(("path", "body"), [ANTHROPIC, OPENAI, RESPONSES, GOOGLE])


async def raw_request(port: int, path: str, body: Any, **limits: int) -> Any:
    """A connection on which a request has been sent, by hand."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, **limits)
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(data)}\r\n\r\n"
    writer.write(head.encode() + data)
    await writer.drain()
    return reader, writer


async def closed(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    await asyncio.gather(writer.wait_closed(), return_exceptions=True)


@ALL
async def test_a_client_that_leaves_in_the_middle_closes_the_stream_behind(path: str, body: Any):
    generator = HeldGenerator()
    async with gateway(generator) as running:
        reader, writer = await raw_request(running.port, path, body)
        await reader.readuntil(b"xxxx")
        assert generator.running == 1
        await closed(writer)
        await generator.closed.wait()
        assert generator.running == 0
        entry = (await running.logged())[0]
    assert (entry["status"], entry["outcome"]) == (200, "client gone")


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_before_the_answer_begins_ends_the_request(stream: bool):
    generator = HeldGenerator(chunks=0)
    path, body = ANTHROPIC
    async with gateway(generator) as running:
        _, writer = await raw_request(running.port, path, body | {"stream": stream})
        await generator.asked.wait()
        await closed(writer)
        await generator.closed.wait()
        entry = (await running.logged())[0]
    assert (entry["status"], entry["outcome"]) == (499, "client gone")


async def test_a_client_that_reads_slowly_holds_the_stream_behind_it():
    size, chunks = 100_000, 400
    generator = HeldGenerator(chunks, size)
    path, body = OPENAI
    async with gateway(generator) as running:
        reader, writer = await raw_request(running.port, path, body, limit=1024)
        held = -1
        while generator.given != held:
            held = generator.given
            for _ in range(2000):
                await asyncio.sleep(0)
        assert 0 < generator.given < chunks // 2
        generator.go.set()
        count = 0
        while data := await reader.read(1 << 20):
            count += data.count(b"x")
            if b"[DONE]" in data:
                break
        assert count >= size * chunks
        await closed(writer)


async def test_a_client_that_takes_nothing_is_given_up():
    generator = HeldGenerator(400, 100_000)
    path, body = OPENAI
    async with gateway(generator, limits=replace(LIMITS, stall_s=0.05)) as running:
        _, writer = await raw_request(running.port, path, body, limit=1024)
        await generator.closed.wait()
        entry = (await running.logged())[0]
        await closed(writer)
    assert entry["outcome"] == "client stalled"
    assert generator.given < 400


async def test_a_long_silence_is_bridged_by_pings():
    generator = HeldGenerator()
    quick = replace(LIMITS, ping_s=0.01)
    async with gateway(generator, limits=quick) as running:
        quiet = b": still at work"
        pings = ((ANTHROPIC, b"event: ping"), (OPENAI, quiet), (RESPONSES, quiet))
        for (path, body), ping in pings:
            generator.go.clear()
            reader, writer = await raw_request(running.port, path, body)
            await reader.readuntil(b"xxxx")
            for _ in range(2):
                await reader.readuntil(ping)
            generator.go.set()
            await reader.readuntil(b"\r\n0\r\n\r\n")
            await closed(writer)


async def test_a_ping_does_not_break_what_the_clients_read():
    generator = HeldGenerator()
    async with gateway(generator, limits=replace(LIMITS, ping_s=0.01)) as running:
        asking = raw_request(running.port, "/v1beta/models/m:streamGenerateContent", CONTENTS)
        reader, writer = await asking
        await reader.readuntil(b"xxxx")
        await reader.readuntil(b"1\r\n\n\r\n")
        generator.go.set()
        await reader.readuntil(b"0\r\n\r\n")
        await closed(writer)


@ALL
async def test_an_answer_that_takes_too_long_ends_in_the_dialect(path: str, body: Any):
    generator = HeldGenerator()
    limits = replace(LIMITS, total_s=0.2)
    async with gateway(generator, limits=limits) as running, client(running) as http:
        answer = await http.post(path, json=body)
        assert answer.status_code == 200
        assert "longer than 0.2 s" in answer.text.split("xxxx")[1]
        await generator.closed.wait()
        assert (await running.logged())[0]["outcome"] == "timeout"
        generator.chunks = 0
        late = await http.post(path, json=body)
    assert late.status_code == 504
    assert "longer than 0.2 s" in late.text


async def test_an_error_in_the_middle_has_the_form_of_each_dialect():
    def turn() -> list[Any]:
        return [chunk({"text": "half"}), QuotaError("no more today", retry_after_s=3)]

    generator = ScriptedGenerator(turn(), turn(), turn(), turn())
    async with gateway(generator) as running, client(running) as http:
        texts = [
            (await http.post(path, json=body)).text for path, body in (ANTHROPIC, OPENAI, GOOGLE)
        ]
        array = await http.post(GOOGLE[0].removesuffix("?alt=sse"), json=CONTENTS)
    last = [text.strip().split("\n\n")[-1] for text in texts]
    assert last[0].startswith("event: error\ndata: ")
    assert json.loads(last[0].partition("data: ")[2]) == {
        "type": "error",
        "error": {"type": "rate_limit_error", "message": "no more today"},
    }
    error = {"message": "no more today", "type": "rate_limit_error", "param": None}
    assert json.loads(last[1].removeprefix("data: ")) == {
        "error": {**error, "code": "rate_limit_exceeded"}
    }
    told = {"error": {"code": 429, "message": "no more today", "status": "RESOURCE_EXHAUSTED"}}
    assert json.loads(last[2].removeprefix("data: ")) == told
    assert array.json()[1] == told
    assert array.json()[0]["candidates"][0]["content"]["parts"] == [{"text": "half"}]


async def test_an_error_before_the_first_chunk_has_a_status_and_the_wait():
    generator = ScriptedGenerator([RateLimitError("slow down", retry_after_s=2.4)])
    async with gateway(generator) as running, client(running) as http:
        answer = await http.post(ANTHROPIC[0], json=ANTHROPIC[1])
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "3")


async def test_without_alt_sse_geminis_stream_is_one_json_array():
    turns = [[text("a", None), text("b")], [text("a", None), text("b")]]
    async with gateway(ScriptedGenerator(*turns)) as running, client(running) as http:
        array = await http.post(GOOGLE[0].removesuffix("?alt=sse"), json=CONTENTS)
        events = await http.post(GOOGLE[0], json=CONTENTS)
    pieces = [item["candidates"][0]["content"]["parts"][0]["text"] for item in array.json()]
    assert pieces == ["a", "b"]
    assert array.headers["content-type"].startswith("application/json")
    assert events.headers["content-type"].startswith("text/event-stream")
    assert events.text.count("data: ") == 2


async def test_an_ill_made_call_is_an_error_and_no_empty_answer():
    turn = [chunk(finish="MALFORMED_FUNCTION_CALL")]
    async with gateway(ScriptedGenerator(turn, turn)) as running, client(running) as http:
        whole = await http.post(ANTHROPIC[0], json=ANTHROPIC[1] | {"stream": False})
        streamed = await http.post(ANTHROPIC[0], json=ANTHROPIC[1])
    assert whole.status_code == 502
    assert "MALFORMED_FUNCTION_CALL" in whole.json()["error"]["message"]
    assert "event: error" in streamed.text
    assert "message_stop" not in streamed.text


@ALL
async def test_the_log_counts_the_bytes_of_a_stream(path: str, body: Any):
    pieces = [chunk({"text": "one "}), chunk({"text": "two "}), text("three")]
    async with gateway(ScriptedGenerator(pieces)) as running, client(running) as http:
        answer = await http.post(path, json=body)
        entry = (await running.logged())[0]
    assert entry["bytesOut"] == len(answer.content)
    assert entry["firstByteMs"] > 0
