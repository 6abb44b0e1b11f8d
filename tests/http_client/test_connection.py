"""Reuse of connections, and malformed responses."""

import asyncio
import ssl
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable, Iterator

import pytest

from alhena.errors import NetworkError
from alhena.http import MOST_INTERIM, Timeouts
from alhena.http.addresses import parse_endpoint
from alhena.http.client import KEEP_ALIVE, Transport
from alhena.http.connect import Channel, open_channel
from alhena.models.retry import RetryClass, manner_of
from alhena.wire.encode import RequestBody, request_body
from tests.models.asking import (
    api,
    chunks,
    event,
    listening,
    read_request,
    response,
    texts,
)
from tests.models.test_request_bodies import request

EARLY = b'{"error": {"code": %d, "message": "not this", "status": "X"}}'
CHUNKED = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"


def chunked_response(body: bytes, headers: bytes = b"") -> bytes:
    return CHUNKED + headers + b"\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


Framed = Callable[[bytes], bytes]


def whole(body: bytes) -> bytes:
    return response(body)


@pytest.mark.parametrize("framed", [whole, chunked_response])
@pytest.mark.parametrize("pieces", [1, 2])
async def test_what_comes_behind_an_answer_is_never_the_answer_to_another_request(
    framed: Framed, pieces: int
):
    connections = 0

    async def answer(reader: StreamReader, writer: StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await read_request(reader)
        first, stale = framed(event(f"first {connections}")), framed(event("stale"))
        if pieces == 1:
            writer.write(first + stale)
        else:
            writer.write(first)
            await writer.drain()
            writer.write(stale)
        while True:
            await read_request(reader)
            writer.write(framed(event("of an old connection")))

    async with listening(answer) as port:
        generator = api(f"http://127.0.0.1:{port}")
        said = [texts(await chunks(generator)) for _ in range(3)]
        await generator.aclose()
    assert said == [["first 1"], ["first 2"], ["first 3"]]


@pytest.mark.parametrize("framed", [whole, chunked_response])
async def test_a_byte_that_an_idle_connection_gets_unasked_ends_it(framed: Framed):
    connections = 0
    go_on = asyncio.Event()

    async def answer(reader: StreamReader, writer: StreamWriter) -> None:
        nonlocal connections
        connections += 1
        mine = connections
        await read_request(reader)
        writer.write(framed(event(f"first {mine}")))
        await writer.drain()
        await go_on.wait()
        if mine == 1:
            writer.write(framed(event("stale")))
            await writer.drain()
        await reader.read()

    async with listening(answer) as port:
        generator = api(f"http://127.0.0.1:{port}")
        assert texts(await chunks(generator)) == ["first 1"]
        go_on.set()
        await _until_it_has_come(port)  # the second connection
        assert texts(await chunks(generator)) == ["first 3"]
        await generator.aclose()


async def _until_it_has_come(port: int) -> None:
    """A round trip on another connection, behind which what was sent before is there."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST / HTTP/1.1\r\n\r\n")
    await reader.readuntil(b"\r\n\r\n")
    writer.close()


@pytest.mark.parametrize("headers", [b"connection: close\r\n", b"Connection: foo, Close\r\n"])
async def test_a_connection_whose_answer_closes_it_is_not_used_again(headers: bytes):
    connections = 0

    async def answer(reader: StreamReader, writer: StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while True:
            await read_request(reader)
            writer.write(chunked_response(event(str(connections)), headers))

    async with listening(answer) as port:
        generator = api(f"http://127.0.0.1:{port}")
        said = [texts(await chunks(generator)) for _ in range(2)]
        await generator.aclose()
    assert said == [["1"], ["2"]]


class Counted(RequestBody):
    """A body that counts how many of its pieces were asked for."""

    taken = 0

    def __iter__(self) -> Iterator[bytes]:
        for piece in super().__iter__():
            self.taken += 1
            yield piece


MANY = request(*[100_000] * 201)
"""40 MB, in about as many pieces as contents."""


async def test_a_refusal_ends_the_sending_of_a_body():
    async def answer(reader: StreamReader, writer: StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(response(EARLY % 413, status="413 Content Too Large"))
        await writer.drain()
        await reader.read()

    body = Counted(b"[", MANY.contents, b"]")
    async with listening(answer) as port:
        endpoint = parse_endpoint(f"http://127.0.0.1:{port}", "url")
        transport = Transport(endpoint, Timeouts(idle=5), {})
        got = await transport.send("POST", "/", [("host", "x")], body)
        assert got.status == 413
        await got.aclose()
        await transport.aclose()
    assert 0 < body.taken < 100


@pytest.mark.parametrize("early", ["interim", "half a head", "head", "all"])
async def test_a_service_that_answers_early_and_accepts_gets_the_whole_body(early: str):
    sizes: list[int] = []
    said = response(event("ok"))
    at = {"interim": 0, "half a head": 20, "head": said.index(b"\r\n\r\n") + 4, "all": len(said)}

    async def answer(reader: StreamReader, writer: StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(said[: at[early]] or b"HTTP/1.1 100 Continue\r\n\r\n")
        await writer.drain()
        if early != "all":  # the other end may hang up as soon as it has its answer
            length = next(line for line in head.lower().split(b"\r\n") if b"content-length" in line)
            sizes.append(len(await reader.readexactly(int(length.split(b":")[1]))))
        writer.write(said[at[early] :])
        await writer.drain()
        await reader.read()

    async with listening(answer) as port:
        generator = api(f"http://127.0.0.1:{port}", timeouts=Timeouts(idle=2))
        assert texts(await chunks(generator, MANY)) == ["ok"]
        await generator.aclose()
    assert sizes == ([] if early == "all" else [len(request_body(MANY))])


async def test_a_connection_whose_accepted_request_has_not_left_is_not_used_again():
    connections = 0

    async def answer(reader: StreamReader, writer: StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(response(event(str(connections))))  # and reads nothing more
        await writer.drain()
        await asyncio.Event().wait()

    async with listening(answer) as port:
        generator = api(f"http://127.0.0.1:{port}", timeouts=Timeouts(idle=2))
        assert texts(await chunks(generator, MANY)) == ["1"]
        assert texts(await chunks(generator)) == ["2"]
        await generator.aclose()


UNREADABLE = {
    b"H": "in the middle of the head",
    b"HTTP/1.1 200 OK\r\ncontent-ty": "in the middle of the head",
    b"HTTP/1.1 103 Early Hints\r\n\r\n": "after an interim answer",
    b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 20": "in the middle of the head",
    b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\r\n": "another protocol",
    b"HTTP/2 200\r\n\r\n": "HTTP/2",
    b"\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x80\x00\x04\x00": "HTTP/2",
    b"\x15\x03\x01\x00\x02\x02\x46": "in TLS to a request without it",
    b"SSH-2.0-OpenSSH_9.6\r\n": "does not answer in HTTP",
    b"<html>hello</html>": "does not answer in HTTP",
    b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n": "malformed",
    b"HTTP/1.1 200 OK\r\nx: " + b"y" * 200_000: "longer than 128 KiB",
    b"HTTP/1.1 102 Processing\r\n\r\n" * (MOST_INTERIM + 1): "interim answers (1xx) and no other",
}


@pytest.mark.parametrize("sent", UNREADABLE, ids=UNREADABLE.values())
async def test_what_is_no_answer_is_told_in_words_of_its_own(sent: bytes):
    async def answer(reader: StreamReader, writer: StreamWriter) -> None:
        await read_request(reader)
        writer.write(sent)
        await writer.drain()

    async with listening(answer) as port:
        generator = api(f"http://127.0.0.1:{port}")
        with pytest.raises(NetworkError) as caught:
            await chunks(generator)
        await generator.aclose()
    said = str(caught.value)
    assert UNREADABLE[sent] in said
    assert "GOOGLE_GEMINI_BASE_URL" in said
    assert not any(word in said for word in ("h11", "event", "state", "role=", "peer", "_SWITCH"))
    assert manner_of(caught.value) is RetryClass.BROKEN  # few attempts


async def test_as_many_interim_answers_as_are_taken_are_passed_over():
    async def answer(reader: StreamReader, writer: StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 102 Processing\r\n\r\n" * MOST_INTERIM)
        await writer.drain()
        writer.write(response(event("at last")))

    async with listening(answer) as port:
        generator = api(f"http://127.0.0.1:{port}")
        assert texts(await chunks(generator)) == ["at last"]
        await generator.aclose()


class Clocked(Transport):
    """A transport on a clock of its own."""

    seconds = 0.0

    def now(self) -> float:
        return self.seconds


async def test_a_connection_that_was_idle_for_long_is_not_trusted():
    connections = 0

    async def answer(reader: StreamReader, writer: StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while True:
            await read_request(reader)
            writer.write(response(b"ok"))

    async with listening(answer) as port:
        endpoint = parse_endpoint(f"http://127.0.0.1:{port}", "url")
        transport = Clocked(endpoint, Timeouts(), {})
        made: list[int] = []
        for pause in (0, KEEP_ALIVE - 1, KEEP_ALIVE - 1, KEEP_ALIVE + 1):
            transport.seconds += pause
            got = await transport.send("GET", "/", [("host", "x")])
            while await got.read():
                pass
            await got.aclose()
            made.append(connections)
        await transport.aclose()
    assert made == [1, 1, 1, 2]


async def test_tls_is_not_begun_behind_bytes_that_came_without_it():
    async def answer(_reader: StreamReader, writer: StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await writer.drain()
        await asyncio.Event().wait()

    async with listening(answer) as port:
        channel: Channel = await open_channel("127.0.0.1", port, None, 5)
        while not channel.arrived:
            await asyncio.sleep(0)
        with pytest.raises(ConnectionAbortedError):
            await channel.secure(ssl.create_default_context(), "localhost")
        await channel.aclose()
