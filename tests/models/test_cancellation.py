"""A request may be cancelled at any step; nothing leaks and the next request works."""

import asyncio
import gc
from asyncio import StreamReader, StreamWriter

import pytest

from alhena.models.generator import ContentGenerator
from tests.models.asking import (
    api,
    chunks,
    event,
    listening,
    read_request,
    response,
    texts,
)

STEPS = range(0, 60, 3)


async def answer(reader: StreamReader, writer: StreamWriter) -> None:
    whole = response(event("one", None) + event("two"))
    while True:
        await read_request(reader)
        for at in range(0, len(whole), 40):
            writer.write(whole[at : at + 40])
            await asyncio.sleep(0)


async def stopped_after(generator: ContentGenerator, steps: int) -> bool:
    """True if a request was cancelled `steps` rounds of the event loop after its start."""
    task = asyncio.create_task(chunks(generator))
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    return task.cancelled()


# asyncio forgets a socket whose connection is cancelled as it is made; Python then closes it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("fresh", [True, False])
async def test_a_request_cancelled_at_any_step_leaves_a_working_generator(fresh: bool):
    async with listening(answer) as port:
        cancelled = 0
        kept = api(f"http://127.0.0.1:{port}")
        for steps in STEPS:
            generator = api(f"http://127.0.0.1:{port}") if fresh else kept
            cancelled += await stopped_after(generator, steps)
            assert texts(await chunks(generator)) == ["one", "two"]
            if fresh:
                await generator.aclose()
        await kept.aclose()
        assert cancelled > 3
        gc.collect()


async def test_a_request_through_a_proxy_cancelled_at_any_step_leaves_a_working_generator():
    async with listening(answer) as port:
        cancelled = 0
        generator = api("http://gemini.example", HTTP_PROXY=f"http://127.0.0.1:{port}")
        for steps in STEPS:
            cancelled += await stopped_after(generator, steps)
            assert texts(await chunks(generator)) == ["one", "two"]
        await generator.aclose()
        assert cancelled > 3
        gc.collect()


async def test_a_generator_closed_while_it_connects_closes_that_connection_too():
    async with listening(answer) as port:
        generator = api(f"http://127.0.0.1:{port}")
        task = asyncio.create_task(chunks(generator))
        await asyncio.sleep(0)
        await generator.aclose()
        assert texts(await task) == ["one", "two"]
        gc.collect()
