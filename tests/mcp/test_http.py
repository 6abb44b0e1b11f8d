"""Servers behind URLs: the SDK's own over both transports, and bad ones on the loopback."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from alhena.mcp import http
from alhena.mcp.connection import McpError
from alhena.mcp.server import ServerState
from tests.mcp.bad_http import head
from tests.mcp.kit import SERVED, Rig, called, rigged, served, tool
from tests.support.ports import reserved_port

Speak = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(scope="module")
def streamable() -> Iterator[str]:
    with reserved_port() as port, served("streamable-http", port) as url:
        yield url


@pytest.fixture(scope="module")
def sse() -> Iterator[str]:
    with reserved_port() as port, served("sse", port) as url:
        yield url


@asynccontextmanager
async def speaking(speak: Speak) -> AsyncIterator[str]:
    """A server that answers each request with what `speak` writes; its URL."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            await speak(head, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        server.close()


@asynccontextmanager
async def raw(directory: Path, script: dict[str, Any], how: str) -> AsyncIterator[Rig]:
    """A server of a few lines, connected."""
    file = directory / "script.json"
    file.write_text(json.dumps(script), encoding="utf-8")
    with reserved_port() as port:
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(SERVED / "raw_http.py"), str(file), str(port), how
        )
        try:
            entry = {"httpUrl": f"http://127.0.0.1:{port}/mcp"}
            async with rigged({"k": entry}, directory) as rig:
                while rig.server("k").state is not ServerState.CONNECTED:
                    rig.server("k").start()  # it may not have listened yet
                    await asyncio.sleep(0.05)
                yield rig
        finally:
            process.kill()
            await process.wait()


@pytest.mark.requirement("MCP-01")
@pytest.mark.parametrize("key", ["httpUrl", "url"])
async def test_streamable_http(streamable: str, project: Path, key: str) -> None:
    async with rigged({"k": {key: f"{streamable}/mcp"}}, project) as rig:
        assert (await called(rig, "echo", {"text": "x"})).display == "echo: x"
        assert (await called(rig, "roots")).display == project.as_uri()
        assert (await called(rig, "slow", {"steps": 2})).display == "done"


@pytest.mark.requirement("MCP-01")
@pytest.mark.parametrize("entry", [{"type": "sse"}, {}])
async def test_sse_named_or_found_out(sse: str, project: Path, entry: dict[str, str]) -> None:
    async with rigged({"k": {"url": f"{sse}/sse", **entry}}, project) as rig:
        assert (await called(rig, "echo", {"text": "x"})).display == "echo: x"
        assert (await called(rig, "norm", {"point": {"x": 1, "y": 2}})).display == "3"


async def test_headers_are_sent_with_variables_in_them(project: Path) -> None:
    heard: list[bytes] = []

    async def speak(request: bytes, writer: asyncio.StreamWriter) -> None:
        heard.append(request)
        writer.write(head("404 Not Found", "Content-Length: 0"))
        await writer.drain()

    async with speaking(speak) as url:
        entry = {"httpUrl": url, "headers": {"X-Key": "key-$WHO"}}
        async with rigged({"k": entry}, project, environ={"WHO": "me", "PATH": ""}) as rig:
            assert rig.warnings == ["MCP server 'k': it answered with HTTP 404."]
    assert b"x-key: key-me" in heard[0].lower()


async def test_one_that_wants_to_know_who_asks_is_told_apart(project: Path) -> None:
    async def speak(_request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(
            head("401 Unauthorized", 'WWW-Authenticate: Bearer realm="x"', "Content-Length: 0")
        )
        await writer.drain()

    async with speaking(speak) as url:
        for key in ("httpUrl", "url"):
            async with rigged({"k": {key: url}}, project) as rig:
                assert rig.server("k").state is ServerState.NEEDS_AUTH
                assert rig.server("k").challenge == 'Bearer realm="x"'
                assert rig.warnings == [
                    "MCP server 'k' needs you to sign in: alhena mcp auth k (or /mcp auth k)"
                ]


async def test_an_auth_shows_who_asks(project: Path) -> None:
    heard: list[bytes] = []

    async def speak(request: bytes, writer: asyncio.StreamWriter) -> None:
        heard.append(request)
        writer.write(head("403 Forbidden", "Content-Length: 0"))
        await writer.drain()

    async with speaking(speak) as url:
        entry = {"httpUrl": url}
        auth = httpx2.BasicAuth("me", "pw")
        async with rigged({"k": entry}, project, auth=lambda _name, _server: auth) as rig:
            assert rig.server("k").state is ServerState.DISCONNECTED
    assert b"authorization: basic" in heard[0].lower()


@pytest.mark.parametrize(
    "lines",
    [
        ("Content-Type: application/json",),
        ("Content-Type: text/event-stream",),
        ("Content-Type: application/json", "Content-Encoding: gzip"),
    ],
)
async def test_an_answer_without_an_end_is_given_up(
    project: Path, monkeypatch: pytest.MonkeyPatch, lines: tuple[str, ...]
) -> None:
    monkeypatch.setattr(http, "MAX_MESSAGE", 200_000)
    sent = 0

    async def speak(_request: bytes, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(head("200 OK", *lines))
        while sent < 50_000_000:
            writer.write(b"x" * 10_000)
            await writer.drain()
            sent += 10_000

    async with speaking(speak) as url, rigged({"k": {"httpUrl": url}}, project) as rig:
        assert rig.server("k").state is ServerState.DISCONNECTED
        assert sent < 20_000_000


async def test_one_that_drips_its_answer_does_not_hold_up_the_others(
    project: Path, streamable: str
) -> None:
    async def speak(_request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(head("200 OK", "Content-Type: text/event-stream"))
        while True:
            writer.write(b":\n")
            await writer.drain()
            await asyncio.sleep(0.02)

    async with speaking(speak) as url:
        entries = {
            "drips": {"httpUrl": url, "timeout": 400},
            "k": {"httpUrl": f"{streamable}/mcp"},
        }
        async with rigged(entries, project) as rig:
            assert (await called(rig, "echo", {"text": "x"})).display == "echo: x"
            await rig.until(lambda: rig.server("drips").state is ServerState.DISCONNECTED)


async def test_a_server_that_does_not_let_go_is_left(project: Path) -> None:
    async with raw(project, {"tools": [tool("fine")], "holds on": True}, "json") as rig:
        assert (await called(rig, "fine")).display == "ran"


async def test_list_changed_is_heard_over_http(streamable: str, project: Path) -> None:
    async with rigged({"k": {"httpUrl": f"{streamable}/mcp"}}, project) as rig:
        await called(rig, "grow")
        await rig.until(lambda: rig.registry.find("grown") is not None)
        assert (await called(rig, "grown")).display == "grown"


async def test_a_server_that_was_restarted_is_connected_to_again(project: Path) -> None:
    with ExitStack() as first, reserved_port() as port:
        url = first.enter_context(served("streamable-http", port))
        async with rigged({"k": {"httpUrl": f"{url}/mcp"}}, project) as rig:
            assert (await called(rig, "echo", {"text": "x"})).error is None
            first.close()
            gone = await called(rig, "echo", {"text": "x"})
            assert gone.error is not None
            with served("streamable-http", port):
                answers = [(await called(rig, "echo", {"text": "y"})).display for _ in range(3)]
                assert answers[-1] == "echo: y"


async def test_nobody_listening_is_said_without_what_is_secret(project: Path) -> None:
    with reserved_port() as port:
        url = f"http://user:s3cret@127.0.0.1:{port}/mcp?token=abc"
        async with rigged({"k": {"httpUrl": url}}, project) as rig:
            (warning,) = rig.warnings
            assert "s3cret" not in warning
            with pytest.raises(McpError):
                await rig.server("k").call_tool("echo", {})
