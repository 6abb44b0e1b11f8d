"""Connections: making them, waiting on them, losing them."""

import asyncio
import os
import socket
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable
from contextlib import suppress

import pytest

from alhena.http.connect import Channel, open_channel
from tests.models.asking import api, chunks, event, listening, read_request, response, texts
from tests.support.ports import reserved_port

IDLE = 60.0


def arrive(channel: Channel, data: bytes) -> None:
    """As the event loop hands over what it has read."""
    channel.get_buffer(-1)[: len(data)] = data
    channel.buffer_updated(len(data))


async def in_a_callback(work: Callable[[], None]) -> None:
    """Does `work` where no task is running, as the event loop calls protocols."""
    done = asyncio.get_running_loop().create_future()

    def note_call() -> None:
        work()
        done.set_result(None)

    asyncio.get_running_loop().call_soon(note_call)
    await done


async def reading(channel: Channel) -> "tuple[asyncio.Task[None], list[bytes]]":
    """A task that reads from `channel` and waits, and what it has read so far."""
    read: list[bytes] = []

    async def read_on() -> None:
        while data := await channel.read(IDLE):
            read.append(data)

    task = asyncio.create_task(read_on())
    await asyncio.sleep(0)
    return task, read


@pytest.mark.parametrize("message", [None, "enough"])
async def test_a_reader_that_is_cancelled_leaves_what_arrives_to_the_next(message: str | None):
    channel = Channel()
    task, read = await reading(channel)

    def work() -> None:
        task.cancel(message)
        arrive(channel, b"one")

    await in_a_callback(work)
    with pytest.raises(asyncio.CancelledError, match=message):
        await task
    assert read == []
    assert await channel.read(IDLE) == b"one"


async def test_a_reader_has_the_time_that_it_was_given():
    channel = Channel()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await channel.read(IDLE)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(channel.read(IDLE), 0.001)
    with pytest.raises(TimeoutError):
        await channel.read(0)


async def test_a_reader_hears_why_a_connection_broke():
    channel = Channel()
    task, _ = await reading(channel)
    await in_a_callback(lambda: channel.connection_lost(ConnectionResetError("gone")))
    with pytest.raises(ConnectionResetError, match="gone"):
        await task


def has_ipv6_loopback() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


async def greet(reader: StreamReader, writer: StreamWriter) -> None:
    await read_request(reader)
    writer.write(response(event("hello")))


async def test_a_name_is_looked_up_and_the_address_that_answers_is_used():
    # "localhost" may have an IPv6 address as well, on which nothing listens.
    async with listening(greet) as port:
        generator = api(f"http://localhost:{port}")
        assert texts(await chunks(generator)) == ["hello"]
        await generator.aclose()


@pytest.mark.skipif(not has_ipv6_loopback(), reason="no IPv6 here")
async def test_an_ipv6_address_is_connected_to():
    async with listening(greet, host="::1") as port:
        generator = api(f"http://[::1]:{port}")
        assert texts(await chunks(generator)) == ["hello"]
        await generator.aclose()


def connected_to(port: int) -> list[socket.socket]:
    """This process's own ends of its connections to a loopback port."""
    found: list[socket.socket] = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            end = socket.socket(fileno=os.dup(int(name)))
            try:
                peer = end.getpeername()
            except OSError:
                peer = ()
            if peer[1:2] == (port,):
                found.append(end)
            else:
                end.close()
    return found


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="no /proc here")
async def test_the_end_of_a_request_never_waits_for_an_answer_to_its_beginning():
    async with listening(greet) as port:
        generator = api(f"http://127.0.0.1:{port}")
        assert texts(await chunks(generator)) == ["hello"]
        ends = connected_to(port)
        for end in ends:
            with end:
                assert end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert len(ends) == 1
        await generator.aclose()


async def test_when_no_address_answers_the_first_failure_is_told():
    with reserved_port() as port, pytest.raises(ConnectionRefusedError):
        await open_channel("localhost", port, None, 5)


async def test_an_unknown_name_is_a_lookup_failure():
    with pytest.raises(socket.gaierror):
        await open_channel("no-such-host.invalid", 80, None, 5)
