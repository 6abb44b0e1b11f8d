"""Bodies on their way out: whole, in pieces, once more, refused half way, given up half way."""

import asyncio
import json
import tracemalloc
from asyncio import StreamReader, StreamWriter

import pytest

from alhena.wire.content import Content, Part, text_content
from alhena.wire.encode import (
    EncodedContent,
    encode_request,
    request_body,
)
from alhena.wire.request import GenerateContentConfig, GenerateContentRequest
from tests.models.asking import api, chunks, listening, texts
from tests.support.server import ScriptedServer, sse, text


def request(*sizes: int, system: str = "") -> GenerateContentRequest:
    made = [
        Content(role=("user", "model")[index % 2], parts=(Part(text="é" * size),))
        for index, size in enumerate(sizes)
    ]
    config = GenerateContentConfig(
        system_instruction=text_content("user", system) if system else None
    )
    return GenerateContentRequest(
        model="gemini-2.5-pro",
        contents=tuple(map(EncodedContent, made)),
        config=config,
        prompt_id="p",
        session_id="s",
    )


LONG = request(*[40_000] * 41)
"""More than 3 MB."""


async def test_a_long_body_arrives_whole_time_after_time_on_one_connection(
    server: ScriptedServer,
) -> None:
    server.reply(sse(text("one")), sse(text("two")))
    ask = api(server.url)
    assert texts(await chunks(ask, LONG)) == ["one"]
    assert texts(await chunks(ask, LONG)) == ["two"]
    await ask.aclose()
    wanted = json.loads(encode_request(LONG))
    assert [received.json for received in server.requests] == [wanted, wanted]
    assert server.connections == 1


async def test_who_gives_up_while_a_body_is_sent_can_ask_again() -> None:
    taken: list[int] = []
    began = asyncio.Event()

    async def answer(reader: StreamReader, writer: StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if not taken:
            taken.append(0)
            began.set()
            await asyncio.Event().wait()  # reads no byte of the body
        lines = head.decode().lower().split("\r\n")
        (length,) = [int(line[15:]) for line in lines if line.startswith("content-length:")]
        taken.append(len(await reader.readexactly(length)))
        event = b'data: {"candidates":[{"content":{"parts":[{"text":"hi"}]}}]}\n\n'
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
            b"content-length: %d\r\n\r\n%b" % (len(event), event)
        )
        await writer.drain()

    async with listening(answer) as port:
        ask = api(f"http://127.0.0.1:{port}")
        first = asyncio.create_task(chunks(ask, request(*[1_000_000] * 9)))
        await began.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert texts(await chunks(ask, LONG)) == ["hi"]
        await ask.aclose()
    assert taken == [0, len(encode_request(LONG))]


async def test_joining_a_body_takes_a_small_part_of_its_size_in_memory(
    server: ScriptedServer,
) -> None:
    asked = request(*[20_000] * 401)
    body = request_body(asked)
    server.reply(sse(text("warm")), sse(text("ok")))
    ask = api(server.url)
    await chunks(ask)
    tracemalloc.start()
    try:
        for piece in body:
            assert piece
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(body) > 16_000_000
    assert peak < len(body) / 8
    assert texts(await chunks(ask, asked)) == ["ok"]
    await ask.aclose()
