"""Connections that break while they are written to, and answers that wait for one another."""

import asyncio
import json
import logging
import socket
import struct
from collections.abc import AsyncGenerator
from typing import Any

from msgspec.structs import replace

from alhena.errors import NetworkError
from alhena.wire.request import GenerateContentRequest
from alhena.wire.response import GenerateContentResponse
from tests.gateway.kit import LIMITS, Running, client, gateway
from tests.gateway.sources import HeldGenerator, said
from tests.gateway.test_streams import ANTHROPIC, OPENAI, closed, raw_request


class Breaking(HeldGenerator):
    """Streams a chunk, breaks the connection of its client, and streams on without a pause."""

    def __init__(self) -> None:
        super().__init__()
        self.client: socket.socket | None = None

    async def stream(
        self, request: GenerateContentRequest
    ) -> AsyncGenerator[GenerateContentResponse, None]:
        try:
            yield said("xxxx")
            await self.go.wait()
            assert self.client is not None
            self.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.client.close()
            for _ in range(200):
                yield said("xxxx")
            yield said("", "STOP")
        finally:
            self.closed.set()


async def begun(running: Running, path: str, body: Any) -> socket.socket:
    """A connection whose answer has begun, as a socket outside the loop."""
    loop = asyncio.get_running_loop()
    raw = socket.create_connection(("127.0.0.1", running.port))
    raw.setblocking(False)
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(data)}\r\n\r\n"
    await loop.sock_sendall(raw, head.encode() + data)
    seen = b""
    while b"xxxx" not in seen:
        seen += await loop.sock_recv(raw, 65536)
    return raw


async def test_nothing_is_written_to_a_connection_that_has_broken():
    generator = Breaking()
    async with gateway(generator) as running, client(running) as http:
        generator.client = await begun(running, *OPENAI)
        generator.go.set()
        await generator.closed.wait()
        entry = (await running.logged())[0]
        assert (await http.get("/healthz")).status_code == 200
    assert entry["outcome"] == "client gone"
    assert [line for line in running.lines if "level" in line] == []


async def test_what_the_loop_has_to_say_goes_into_the_log_while_the_gateway_runs():
    warned = logging.getLogger("asyncio")
    async with gateway(HeldGenerator()) as running:
        warned.warning("socket.send() raised %s.", "exception")
        assert running.lines == [{"level": "warning", "message": "socket.send() raised exception."}]
    warned.warning("later")
    assert len(running.lines) == 1


class Queued(HeldGenerator):
    """One answer of so many bytes, then one that fails, or is streamed when `go` is set."""

    def __init__(self, *, fails: bool) -> None:
        super().__init__()
        self.fails = fails
        self.second = asyncio.Event()

    async def generate(self, request: GenerateContentRequest) -> GenerateContentResponse:
        return said("x" * 6_000_000, "STOP")

    async def stream(
        self, request: GenerateContentRequest
    ) -> AsyncGenerator[GenerateContentResponse, None]:
        self.second.set()
        await self.go.wait()
        if self.fails:
            raise NetworkError("it is gone", remedy="none")
        yield said("second", "STOP")


async def queued(*, fails: bool) -> bytes:
    """Bytes read by a client that sends two requests at once and reads when a ping of the second
    answer has long waited for the first to be taken."""
    path, body = ANTHROPIC
    generator = Queued(fails=fails)
    async with gateway(generator, limits=replace(LIMITS, ping_s=0.01)) as running:
        first = body | {"stream": False}
        reader, writer = await raw_request(running.port, path, first, limit=65536)
        data = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(data)}\r\n\r\n"
        writer.write(head.encode() + data)
        await generator.second.wait()
        await asyncio.sleep(0.05)
        generator.go.set()
        await asyncio.sleep(0.05)
        seen = b""
        while not seen.endswith((b"0\r\n\r\n", b"}}")) or seen.count(b"HTTP/1.1 ") < 2:
            data = await reader.read(1 << 20)
            assert data, seen[-300:]
            seen += data
        await closed(writer)
    return seen[seen.rindex(b"HTTP/1.1 ") :]


async def test_an_answer_that_fails_while_its_ping_waits_begins_all_the_same():
    answer = await queued(fails=True)
    assert answer.startswith(b"HTTP/1.1 502 ")
    assert b"cannot be reached" in answer


async def test_an_answer_whose_ping_waited_begins_once_and_is_whole():
    answer = await queued(fails=False)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.count(b"event: message_start") == 1
    assert b"second" in answer
    assert b"message_stop" in answer
