"""How a task goes on with what arrives on a connection."""

import asyncio
import contextvars
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from alhena.models.channel import Channel
from tests.models.asking import api, asked, chunks, event, listening, read_request, texts
from tests.support.certificates import certificate

IDLE = 60.0
PLACE = contextvars.ContextVar("PLACE", default="nowhere")


def arrive(channel: Channel, data: bytes) -> None:
    """As the event loop hands over what it has read."""
    channel.get_buffer(-1)[: len(data)] = data
    channel.buffer_updated(len(data))


async def in_a_callback(work: Callable[[], None]) -> None:
    """Does `work` where no task is running, as the event loop calls protocols."""
    done = asyncio.get_running_loop().create_future()

    def called() -> None:
        work()
        done.set_result(None)

    asyncio.get_running_loop().call_soon(called)
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


async def test_what_arrives_is_read_before_the_event_loop_goes_on():
    channel = Channel()
    task, read = await reading(channel)
    seen: list[list[bytes]] = []

    def work() -> None:
        for piece in (b"one", b"two"):
            arrive(channel, piece)
            seen.append(list(read))

    await in_a_callback(work)
    assert seen == [[b"one"], [b"one", b"two"]]
    channel.eof_received()
    await task


async def test_what_arrives_while_another_task_runs_is_read_behind_it():
    channel = Channel()
    task, read = await reading(channel)
    arrive(channel, b"one")
    arrive(channel, b"two")
    assert read == []
    await asyncio.sleep(0)
    assert read == [b"onetwo"]
    channel.eof_received()
    await task


async def test_a_task_goes_on_in_its_own_context():
    channel = Channel()

    async def read() -> str:
        PLACE.set("reader")
        await channel.read(IDLE)
        return PLACE.get()

    task = asyncio.create_task(read())
    await asyncio.sleep(0)
    await in_a_callback(lambda: arrive(channel, b"x"))
    assert await task == "reader"
    assert PLACE.get() == "nowhere"


async def test_a_task_that_goes_on_is_the_running_one():
    channel = Channel()

    async def read() -> "asyncio.Task[Any] | None":
        async with asyncio.timeout(IDLE):
            await channel.read(IDLE)
        return asyncio.current_task()

    task = asyncio.create_task(read())
    await asyncio.sleep(0)
    after: list[asyncio.Task[Any] | None] = []

    def work() -> None:
        arrive(channel, b"x")
        after.append(asyncio.current_task())

    await in_a_callback(work)
    assert await task is task
    assert after == [None]


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


async def test_a_reader_that_is_cancelled_behind_what_arrives_has_read_it():
    channel = Channel()
    task, read = await reading(channel)

    def work() -> None:
        arrive(channel, b"one")
        task.cancel()

    await in_a_callback(work)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert read == [b"one"]


async def test_a_reader_that_is_cancelled_before_it_runs_again_is_cancelled():
    troubles: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, trouble: troubles.append(trouble))
    channel = Channel()
    task, read = await reading(channel)
    channel.eof_received()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)
    assert read == []
    assert troubles == []


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


@pytest.mark.parametrize("secure", [False, True])
async def test_an_answer_may_be_left_with_any_chunk_of_it(tmp_path: Path, *, secure: bool):
    public, context = certificate(tmp_path) if secure else (tmp_path, None)

    async def answer(reader: StreamReader, writer: StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        for number in range(5):
            said = event(f"{number}", "STOP" if number == 4 else None)
            writer.write(b"%x\r\n%b\r\n" % (len(said), said))
            await writer.drain()
            await asyncio.sleep(0)
        writer.write(b"0\r\n\r\n")
        await reader.read()

    troubles: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, trouble: troubles.append(trouble))
    async with listening(answer, context) as port:
        url = f"https://localhost:{port}" if secure else f"http://127.0.0.1:{port}"
        generator = api(url, SSL_CERT_FILE=str(public)) if secure else api(url)
        for count in range(1, 5):
            stream = generator.stream(asked())
            said = [texts([await anext(stream)])[0] for _ in range(count)]
            await stream.aclose()
            assert said == [f"{number}" for number in range(count)]
        assert texts(await chunks(generator)) == ["0", "1", "2", "3", "4"]
        await generator.aclose()
    assert troubles == []
