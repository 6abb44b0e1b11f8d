"""`alhena mcp serve` with standard streams that lead to no client, or not all the way."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alhena.errors import AlhenaError
from alhena.frontends.shared.pipes import MAX_LINE, Incoming
from tests.support.command import ALHENA, Ran, alhena_process
from tests.support.patience import PATIENCE_S

GREETING = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "raw", "version": "1"},
    },
}
HELLO = json.dumps(GREETING) + "\n"
"""First message of a client."""


def served(redirected: str, said: str = "") -> Ran:
    """The server with these redirections of a shell; what is said comes on a pipe that stays open
    until the server has ended."""
    with subprocess.Popen(
        ["sh", "-c", f'exec "$0" mcp serve {redirected}', ALHENA],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stderr is not None
        try:
            server.stdin.write(said)
            server.stdin.flush()
            code = server.wait(PATIENCE_S)
        finally:
            server.kill()
        return Ran(code, server.stdout.read(), server.stderr.read())


@pytest.mark.parametrize(
    ("redirected", "told"),
    [
        ("</dev/null", "is no pipe"),
        ("<&-", "is closed"),
        ("<requests", "is no pipe"),
        ("0>made", "is no pipe"),
        ("</dev/zero", "is no pipe"),
        ("<&- >&-", "is closed"),
    ],
)
def test_without_a_client_on_standard_input_it_says_so(project: Path, redirected: str, told: str):
    (project / "requests").write_text(HELLO, encoding="utf-8")
    ran = served(redirected)
    assert (ran.code, ran.out) == (42, "")
    start = f"alhena: there is no MCP client: standard input {told}"
    assert ran.err.startswith(start), ran.err
    assert "`docker run` passes them with -i" in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(
    ("redirected", "told"),
    [
        (">&-", "standard output is closed."),
        ("1</dev/null", "cannot write to the client: Bad file descriptor."),
        pytest.param(
            ">/dev/full",
            "cannot write to the client: No space left on device.",
            marks=pytest.mark.skipif(sys.platform != "linux", reason="it has no such device"),
        ),
    ],
)
def test_without_a_way_to_answer_it_says_so(redirected: str, told: str):
    ran = served(redirected, HELLO)
    err = f"alhena: {told} Check where standard output goes.\n"
    assert (ran.code, ran.out, ran.err) == (1, "", err)


def test_a_pipe_that_cannot_be_read_is_said():
    ran = served("0>&1")
    err = "alhena: cannot read what the client sends: Bad file descriptor.\n"
    assert (ran.code, ran.out, ran.err) == (42, "", err)


def test_a_client_that_goes_without_a_word_is_no_error():
    ran = alhena_process("mcp", "serve")
    assert (ran.code, ran.out, ran.err) == (0, "", "")


async def test_a_socket_that_is_reset_ends_it_quietly():
    ours, its = socket.socketpair()
    with (
        ours,
        its,
        subprocess.Popen(
            [ALHENA, "mcp", "serve"],
            stdin=its.fileno(),
            stdout=its.fileno(),
            stderr=subprocess.PIPE,
        ) as server,
    ):
        try:
            its.close()
            ours.sendall(HELLO.encode())
            # It has answered when there is something to read; unread, that makes the end a reset.
            await asyncio.to_thread(ours.recv, 1, socket.MSG_PEEK)
            ours.close()
            code = await asyncio.to_thread(server.wait, PATIENCE_S)
        finally:
            server.kill()
        assert server.stderr is not None
        assert (code, server.stderr.read()) == (0, b"")


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
async def test_a_closed_standard_error_is_not_the_number_of_another_file():
    with subprocess.Popen(
        ["sh", "-c", 'exec "$0" mcp serve 2>&-', ALHENA],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            server.stdin.write(HELLO.encode())
            server.stdin.flush()
            await asyncio.to_thread(server.stdout.readline)
            found = [os.readlink(f"/proc/{server.pid}/fd/{number}") for number in range(3)]
            assert found == [os.devnull] * 3
            server.stdin.close()
            assert await asyncio.to_thread(server.wait, PATIENCE_S) == 0
        finally:
            server.kill()


async def test_the_streams_are_left_as_they_were():
    reading, writing = os.pipe()
    told, telling = os.pipe()
    with (
        open(writing, "wb", buffering=0) as says,
        open(told, "rb", buffering=0) as hears,
        subprocess.Popen([ALHENA, "mcp", "serve"], stdin=reading, stdout=telling) as server,
    ):
        try:
            says.write(HELLO.encode())
            await asyncio.to_thread(hears.read, 1)
            assert not os.get_blocking(reading)
            server.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(server.wait, PATIENCE_S) == 0
            assert os.get_blocking(reading)
            assert os.get_blocking(telling)
        finally:
            server.kill()
            os.close(reading)
            os.close(telling)


async def _read(pieces: list[bytes]) -> tuple[list[str], list[AlhenaError | None]]:
    """The messages in these pieces, and what is told of their end."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    ended: list[AlhenaError | None] = []
    messages = Incoming(reading, ended.append)

    async def write() -> None:
        for piece in pieces:
            rest = memoryview(piece)
            while rest and not ended:
                try:
                    rest = rest[os.write(writing, rest) :]
                except BlockingIOError:
                    await asyncio.sleep(0)
            await asyncio.sleep(0)
        os.close(writing)

    said = asyncio.create_task(write())
    try:
        found = [each async for each in messages]
        await said
        return found, ended
    finally:
        messages.close()


@settings(deadline=None, max_examples=20)
@given(st.lists(st.sampled_from([b"\n", b"{", b"\xc3\xa9", b"\xff", b"\r\n", b"x" * 70_000])))
def test_messages_are_the_same_however_they_are_cut(pieces: list[bytes]):
    found, ended = asyncio.run(_read(pieces))
    whole = b"".join(pieces)
    lines = whole.split(b"\n")
    expected = [each + b"\n" for each in lines[:-1]] + [each for each in lines[-1:] if each]
    assert found == [each.decode("utf-8", "replace") for each in expected]
    assert ended == [None]


def test_a_message_without_an_end_is_not_kept(capfd: pytest.CaptureFixture[str]):
    found, ended = asyncio.run(_read([b"{}\n", *[b"x" * (1 << 20)] * ((MAX_LINE >> 20) + 2)]))
    assert (found, ended) == (["{}\n"], [None])
    told = "alhena: warning: the client sent a message of more than 32 MB; it is not read on\n"
    assert capfd.readouterr().err == told
