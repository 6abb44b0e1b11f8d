"""Connecting where a name has several addresses."""

import asyncio
import gc
import socket
from asyncio import StreamReader, StreamWriter

import pytest

from alhena.models.dial import open_channel
from tests.models.asking import api, chunks, event, listening, read_request, response, texts


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


async def test_when_no_address_answers_the_first_failure_is_told():
    async with listening(greet) as port:
        pass
    with pytest.raises(ConnectionRefusedError):
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
