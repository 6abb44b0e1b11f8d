"""Servers behind a URL that mean no good, on the loopback: what is not said of one is done as a good
server of streamable HTTP does it."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec


class Asked(msgspec.Struct, frozen=True):
    """A request as it arrived; `message` is its body, {} without one."""

    method: str
    head: bytes
    message: dict[str, Any]

    @property
    def what(self) -> str:
        """The method of the protocol."""
        return self.message.get("method", self.method)


Write = Callable[[bytes], Awaitable[None]]
Speak = Callable[[Asked, Write], Awaitable[None]]


class Bad:
    """Replies by method (`any` for all), and the requests received."""

    def __init__(self, **speaks: Speak) -> None:
        self.speaks = {name.replace("_", "/"): speak for name, speak in speaks.items()}
        self.asked: list[Asked] = []
        self.url = ""

    async def take(self, asked: Asked, write: Write) -> None:
        """Answers one request."""
        self.asked.append(asked)
        speak = self.speaks.get(asked.what) or self.speaks.get("any") or good
        await speak(asked, write)


@asynccontextmanager
async def listening(bad: Bad) -> AsyncIterator[Bad]:
    """Serves on a free port until the block is left."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async def write(data: bytes) -> None:
            writer.write(data)
            await writer.drain()

        try:
            head = await reader.readuntil(b"\r\n\r\n")
            lines = head.lower().split(b"\r\n")
            size = next((int(line[15:]) for line in lines if line[:15] == b"content-length:"), 0)
            body = await reader.readexactly(size)
            method = head.split(b" ", 1)[0].decode()
            await bad.take(Asked(method, head, json.loads(body) if body else {}), write)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.create_task(serve(reader, writer)))

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    bad.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    try:
        yield bad
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def head(status: str, *lines: str) -> bytes:
    return "\r\n".join((f"HTTP/1.1 {status}", *lines, "Connection: close", "", "")).encode()


JSON = "Content-Type: application/json"
EVENTS = "Content-Type: text/event-stream"


def whole(body: bytes, *lines: str, status: str = "200 OK") -> Speak:
    """A complete answer."""

    async def speak(_asked: Asked, write: Write) -> None:
        await write(head(status, *lines, f"Content-Length: {len(body)}") + body)

    return speak


async def good(asked: Asked, write: Write) -> None:
    """Answers as a good server."""
    match asked.what:
        case "initialize":
            result: dict[str, Any] = {
                "protocolVersion": asked.message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "bad", "version": "1"},
            }
        case "tools/list":
            poke = {"name": "poke", "inputSchema": {"type": "object"}}
            result = {"tools": [poke]}
        case "tools/call":
            result = {"content": [{"type": "text", "text": "poked"}]}
        case "GET":
            await write(head("405 Method Not Allowed", "Content-Length: 0"))
            return
        case _:
            await write(head("202 Accepted", "Content-Length: 0"))
            return
    body = json.dumps({"jsonrpc": "2.0", "id": asked.message["id"], "result": result}).encode()
    await write(head("200 OK", JSON, f"Content-Length: {len(body)}") + body)


async def silence(_asked: Asked, _write: Write) -> None:
    await asyncio.sleep(3600)


def begins(*lines: str, status: str = "200 OK", then: bytes = b"") -> Speak:
    """The head of an answer, some bytes, and nothing more."""

    async def speak(_asked: Asked, write: Write) -> None:
        await write(head(status, *lines) + then)
        await asyncio.sleep(3600)

    return speak


def endless(first: bytes, again: bytes, *, pause_s: float = 0.0) -> Speak:
    """The same bytes again and again."""

    async def speak(_asked: Asked, write: Write) -> None:
        await write(first)
        while True:
            await write(again)
            await asyncio.sleep(pause_s)

    return speak


def raw(data: bytes) -> Speak:
    """These bytes and the end."""

    async def speak(_asked: Asked, write: Write) -> None:
        await write(data)

    return speak


def bomb() -> bytes:
    """A gigabyte of zeros, packed."""
    return gzip.compress(bytes(50_000_000), 1) * 20


def events(*messages: object) -> Speak:
    """These as one stream of events."""
    body = b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in messages)
    return whole(body, EVENTS)


def answered(result: object) -> Speak:
    """A result of any shape."""

    async def speak(asked: Asked, write: Write) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": asked.message["id"], "result": result})
        await whole(body.encode(), JSON)(asked, write)

    return speak
