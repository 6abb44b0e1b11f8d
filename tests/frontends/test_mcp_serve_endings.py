"""The end of `alhena mcp serve`, for every behaviour of its client, and its records of calls."""

import asyncio
import fcntl
import json
import signal
import struct
import subprocess
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.command import ALHENA
from tests.support.patience import PATIENCE_S

FULL = 60_000
"""Bytes in a pipe that has no room for another list of tools."""


def say(server: "subprocess.Popen[bytes]", *messages: dict[str, Any]) -> None:
    assert server.stdin is not None
    for message in messages:
        server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    server.stdin.flush()


@contextmanager
def greeted() -> "Iterator[subprocess.Popen[bytes]]":
    """A server that has answered its first message."""
    with subprocess.Popen(
        [ALHENA, "mcp", "serve", "--approval-mode", "yolo", "--skip-trust"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as server:
        params = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "raw", "version": "1"},
        }
        say(server, {"id": 0, "method": "initialize", "params": params})
        assert server.stdout is not None
        assert b"alhena" in server.stdout.readline()
        say(server, {"method": "notifications/initialized"})
        try:
            yield server
        finally:
            server.kill()


def waiting(server: "subprocess.Popen[bytes]") -> int:
    """The bytes that the client has not read."""
    assert server.stdout is not None
    found = fcntl.ioctl(server.stdout.fileno(), termios.FIONREAD, b"\0" * 4)
    return struct.unpack("i", found)[0]


def lists(count: int) -> list[dict[str, Any]]:
    return [{"id": number, "method": "tools/list"} for number in range(1, count + 1)]


@pytest.mark.parametrize("number", [signal.SIGHUP, None])
async def test_it_ends_although_its_client_does_not_read(number: signal.Signals | None) -> None:
    with greeted() as server:
        say(server, *lists(20))
        while waiting(server) < FULL:
            await asyncio.sleep(0.01)
        if number is not None:
            server.send_signal(number)
        elif server.stdin is not None:
            server.stdin.close()
        code = await asyncio.to_thread(server.wait, PATIENCE_S)
        assert server.stderr is not None
        assert (code, server.stderr.read()) == (0, b"")


async def test_calls_that_nobody_hears_of_are_no_lines_on_standard_error() -> None:
    params = {"name": "run_shell_command", "arguments": {"command": "sleep 60"}}
    calls = [{"id": 100 + each, "method": "tools/call", "params": params} for each in range(5)]
    with greeted() as server:
        say(server, *calls, *lists(20))
        while waiting(server) < FULL:
            await asyncio.sleep(0.01)
        server.send_signal(signal.SIGTERM)
        code = await asyncio.to_thread(server.wait, PATIENCE_S)
        assert server.stderr is not None
        assert (code, server.stderr.read()) == (0, b"")


async def test_a_client_that_reads_late_is_told_all_of_it() -> None:
    with greeted() as server:
        say(server, *lists(20))
        while waiting(server) < FULL:
            await asyncio.sleep(0.01)
        assert server.stdout is not None
        answers = [json.loads(server.stdout.readline()) for _ in range(20)]
        assert {each["id"] for each in answers} == set(range(1, 21))
        assert all(len(each["result"]["tools"]) > 5 for each in answers)


async def test_it_ends_quietly_when_nobody_will_read_any_more() -> None:
    with greeted() as server:
        assert server.stdout is not None
        assert server.stderr is not None
        server.stdout.close()
        say(server, *lists(1))
        assert await asyncio.to_thread(server.wait, PATIENCE_S) == 0
        assert server.stderr.read() == b""
