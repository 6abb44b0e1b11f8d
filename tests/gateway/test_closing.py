"""The end of the gateway: answers under way come to theirs, or end with the reason."""

import asyncio
import json
from typing import Any

import pytest
from msgspec.structs import replace

from alhena.gateway.access_log import AccessLog
from alhena.gateway.body import Closing
from alhena.gateway.faults import FaultKind, GatewayRefusalError, refusal_error
from tests.gateway.kit import LIMITS, gateway
from tests.gateway.sources import HeldGenerator
from tests.gateway.test_streams import (
    ALL,
    ANTHROPIC,
    GOOGLE,
    OPENAI,
    RESPONSES,
    closed,
    raw_request,
)

QUICK = replace(LIMITS, stop_s=0.05)
GOOGLE_ARRAY = (GOOGLE[0].replace("?alt=sse", ""), GOOGLE[1])


def late() -> GatewayRefusalError:
    return refusal_error(FaultKind.TIMEOUT, "late")


@pytest.mark.parametrize(("path", "body"), [ANTHROPIC, OPENAI, RESPONSES, GOOGLE, GOOGLE_ARRAY])
async def test_a_stream_that_has_begun_ends_with_the_reason_in_its_dialect(path: str, body: Any):
    generator = HeldGenerator()
    async with gateway(generator, limits=QUICK) as running:
        reader, writer = await raw_request(running.port, path, body)
        start = await reader.readuntil(b"xxxx")
    rest = await reader.read()
    await closed(writer)
    assert generator.running == 0
    assert b"the gateway stops" in rest
    assert rest.endswith(b"\r\n0\r\n\r\n")
    if (path, body) == GOOGLE_ARRAY:
        told = (start + rest).partition(b"\r\n\r\n")[2].split(b"\r\n")
        whole = json.loads(b"".join(line for line in told if line[:1] in (b"[", b",", b"]", b"{")))
        assert whole[-1]["error"]["status"] == "UNAVAILABLE"
    entry = (await running.logged())[0]
    assert (entry["status"], entry["outcome"]) == (200, "stopping")
    assert not [line for line in running.lines if "traceback" in line]


@ALL
async def test_an_answer_that_has_not_begun_is_an_error_with_a_status(path: str, body: Any):
    generator = HeldGenerator(chunks=0)
    async with gateway(generator, limits=QUICK) as running:
        reader, writer = await raw_request(running.port, path, body)
        await generator.asked.wait()
    answer = await reader.read()
    await closed(writer)
    assert b" 503 " in answer.partition(b"\r\n")[0]
    assert b"\r\nretry-after: 1\r\n" in answer
    assert b"the gateway stops" in answer
    assert running.lines[0]["status"] == 503


async def test_a_body_that_has_not_come_is_an_error_in_the_dialect_and_in_the_log():
    async with gateway(HeldGenerator(), limits=QUICK) as running:
        reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
        head = b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99\r\n"
        writer.write(head + b"expect: 100-continue\r\n\r\n{")
        assert b" 100 " in await reader.readline()  # it is being read
    answer = await reader.read()
    await closed(writer)
    assert b" 503 " in answer
    assert b"the gateway stops" in answer
    assert (running.lines[0]["status"], running.lines[0]["outcome"]) == (503, "stopping")


async def test_a_client_that_takes_nothing_does_not_hold_up_the_end_and_the_log_says_it():
    generator = HeldGenerator(400, 100_000)
    async with gateway(generator, limits=QUICK) as running:
        _, writer = await raw_request(running.port, *OPENAI, limit=1024)
        held = -1
        while generator.given != held:
            held = generator.given
            for _ in range(2000):
                await asyncio.sleep(0)
    assert generator.running == 0
    assert running.lines[0]["outcome"] == "stopping"
    await closed(writer)


async def test_a_request_that_is_cut_off_before_its_answer_is_logged_with_a_status():
    lines: list[str] = []
    begun = asyncio.Event()

    async def app(*_: Any) -> None:
        begun.set()
        await asyncio.Event().wait()

    log: Any = AccessLog(app, lines.append)
    scope = {"type": "http", "method": "POST", "path": "/v1/messages"}
    task = asyncio.ensure_future(log(scope, None, None))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    entry = json.loads(lines[0])
    assert (entry["status"], entry["outcome"]) == (503, "stopping")


async def test_what_waits_and_what_would_wait_ends_when_the_gateway_closes():
    closing = Closing()
    asyncio.get_running_loop().call_soon(closing.close)
    for _ in range(2):
        with pytest.raises(GatewayRefusalError) as caught:
            async with closing.limit_time(60, late):
                await asyncio.Event().wait()
        assert caught.value.fault.kind is FaultKind.STOPPING


async def test_what_takes_too_long_fails_for_that_reason_and_is_not_ended_again():
    closing = Closing()

    async def closed_on_its_way_out() -> None:
        async with closing.limit_time(0, late):
            try:
                await asyncio.Event().wait()
            finally:
                closing.close()

    with pytest.raises(GatewayRefusalError) as caught:
        await closed_on_its_way_out()
    assert caught.value.fault.kind is FaultKind.STOPPING
    with pytest.raises(GatewayRefusalError, match="late"):
        async with Closing().limit_time(0, late):
            await asyncio.Event().wait()


async def test_an_error_inside_is_told_as_it_is():
    with pytest.raises(ValueError, match="mine"):
        async with Closing().limit_time(60, late):
            raise ValueError("mine")
