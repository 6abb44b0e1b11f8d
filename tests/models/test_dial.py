"""Connecting where a name has several addresses."""

import asyncio
import gc
import os
import socket
from asyncio import StreamReader, StreamWriter
from contextlib import suppress

import pytest

from alhena.models.dial import open_channel
from alhena.system.web.fetch import system_connector
from tests.models.asking import api, chunks, event, listening, read_request, response, texts
from tests.support.ports import reserved_port


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
        fetched = await system_connector("127.0.0.1", port)
        assert texts(await chunks(generator)) == ["hello"]
        ends = connected_to(port)
        for end in ends:
            with end:
                assert end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert len(ends) == 2
        fetched.close()
        await generator.aclose()


async def test_when_no_address_answers_the_first_failure_is_told():
    with reserved_port() as port, pytest.raises(ConnectionRefusedError):
        await open_channel("localhost", port, None, 5)


async def test_an_unknown_name_is_a_lookup_failure():
    with pytest.raises(socket.gaierror):
        await open_channel("no-such-host.invalid", 80, None, 5)


async def test_a_cancelled_connection_leaves_no_socket_behind():
    async with listening(greet) as port:
        for host in ("127.0.0.1", "localhost"):
            for steps in range(12):
                task = asyncio.create_task(open_channel(host, port, None, 5))
                for _ in range(steps):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
                if not task.cancelled():
                    await task.result().aclose()
        gc.collect()
