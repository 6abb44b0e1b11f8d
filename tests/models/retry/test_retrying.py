"""A generator that sends again, against a service on loopback."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from alhena.errors import NetworkError, NoServerError, ServerFaultError, StreamCutError
from alhena.events import RetryEvent
from alhena.models.errors import CredentialsError, DailyQuotaError
from alhena.models.retry import RetryingGenerator, RetryPolicy
from tests.models.asking import (
    api,
    asked,
    chunks,
    contents,
    event,
    listening,
    read_request,
    response,
    texts,
)
from tests.support.ports import reserved_port
from tests.support.server import Reply, ScriptedServer, json_reply, sse, text

UNAVAILABLE = json_reply({"error": {"code": 503, "message": "later"}}, status=503)


class Waits:
    """Recorded waits and notices."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.told: list[RetryEvent] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def retrying(url: str, waits: Waits, **policy: Any) -> RetryingGenerator:
    return RetryingGenerator(
        api(url), RetryPolicy(**policy), sleep=waits, chance=lambda: 0, tell=waits.told.append
    )


def quota_error(*details: Any, **options: Any) -> Reply:
    error = {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "slow", "details": details}
    return json_reply({"error": error}, status=429, **options)


async def test_an_answer_comes_after_failures_and_each_wait_is_told(server: ScriptedServer):
    server.reply(UNAVAILABLE, quota_error(), sse(text("at last")))
    waits = Waits()
    generator = retrying(server.url, waits)
    assert texts(await chunks(generator)) == ["at last"]
    await generator.aclose()
    assert waits.seconds == [5, 10]
    assert [event.attempt for event in waits.told] == [2, 3]
    assert [event.error_type for event in waits.told] == ["server_error", "quota"]
    assert waits.told[0].delay_s == 5
    assert waits.told[0].max_attempts == 10
    assert "later" in waits.told[0].reason
    assert server.requests[0].body == server.requests[2].body


@pytest.mark.requirement("WIRE-18")
async def test_no_request_follows_before_the_service_wants_one(server: ScriptedServer):
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "12s"}
    server.reply(
        quota_error(info),
        quota_error(headers={"retry-after": "31"}),
        quota_error(info, headers={"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}),
        sse(text("ok")),
    )
    waits = Waits()
    generator = retrying(server.url, waits)
    await chunks(generator)
    await generator.aclose()
    assert waits.seconds == [12, 31, 20]


async def test_whole_answers_counts_and_vectors_are_asked_for_again_too(server: ScriptedServer):
    waits = Waits()
    generator = retrying(server.url, waits)
    server.reply(UNAVAILABLE, json_reply(text("whole")))
    assert texts([await generator.generate(asked())]) == ["whole"]
    server.reply(UNAVAILABLE, json_reply({"totalTokens": 7}))
    assert await generator.count_tokens(contents("x"), model="m") == 7
    server.reply(UNAVAILABLE, json_reply({"embeddings": [{"values": [1]}]}))
    vectors = await generator.embed(contents("x"), model="m")
    assert vectors.embeddings[0].values == (1,)
    await generator.aclose()
    assert waits.seconds == [5, 5, 5]
    assert [event.model for event in waits.told] == ["gemini-2.5-pro", "m", "m"]


async def test_a_stream_that_has_begun_is_not_begun_again_from_here(server: ScriptedServer):
    server.reply(sse(text("half", None), cut=True))
    waits = Waits()
    generator = retrying(server.url, waits)
    stream = generator.stream(asked())
    assert texts([await anext(stream)]) == ["half"]
    with pytest.raises(StreamCutError):
        await anext(stream)
    await generator.aclose()
    assert not waits.seconds
    assert len(server.requests) == 1


async def test_attempts_end_with_the_last_error_which_says_how_many_there_were(
    server: ScriptedServer,
):
    server.reply(*[UNAVAILABLE] * 3)
    waits = Waits()
    generator = retrying(server.url, waits, max_attempts=3)
    with pytest.raises(ServerFaultError, match="Tried 3 times"):
        await generator.generate(asked())
    await generator.aclose()
    assert len(server.requests) == 3


@pytest.mark.requirement("WIRE-18")
@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (
            quota_error(
                {
                    "@type": "type.googleapis.com/google.rpc.QuotaFailure",
                    "violations": [{"quotaId": "RequestsPerDay"}],
                },
                headers={"retry-after": "5"},
            ),
            DailyQuotaError,
        ),
        (json_reply({"error": {"code": 401, "message": "no"}}, status=401), CredentialsError),
    ],
)
async def test_what_no_wait_helps_fails_at_once(
    server: ScriptedServer, reply: Reply, expected: type[Exception]
):
    server.reply(reply)
    waits = Waits()
    generator = retrying(server.url, waits)
    with pytest.raises(expected):
        await chunks(generator)
    await generator.aclose()
    assert len(server.requests) == 1
    assert not waits.told


async def test_a_service_that_goes_away_is_tried_as_often_as_one_that_fails():
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(response(event("there")))
        await writer.drain()
        await reader.read()

    waits = Waits()
    async with listening(answer) as port:
        generator = retrying(f"http://127.0.0.1:{port}", waits, max_attempts=4)
        assert texts(await chunks(generator)) == ["there"]
    with pytest.raises(NetworkError, match="Tried 4 times"):
        await chunks(generator)
    await generator.aclose()
    assert waits.seconds == [5, 10, 20]


async def test_a_service_of_this_machine_that_was_never_there_is_tried_once():
    waits = Waits()
    with reserved_port() as port:
        generator = retrying(f"http://127.0.0.1:{port}", waits, max_attempts=4)
        with pytest.raises(NoServerError, match=f":{port}.*nothing listens"):
            await chunks(generator)
    await generator.aclose()
    assert not waits.told
    assert not waits.seconds


async def test_a_wait_that_is_cancelled_ends_at_once(server: ScriptedServer):
    begun = asyncio.Event()

    async def forever(_seconds: float) -> None:
        begun.set()
        await asyncio.Event().wait()

    generator = RetryingGenerator(api(server.url), sleep=forever)
    calls: list[Callable[[], Awaitable[Any]]] = [
        lambda: generator.generate(asked()),
        lambda: chunks(generator),
    ]
    for call in calls:
        server.reply(UNAVAILABLE)
        task = asyncio.ensure_future(call())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        begun.clear()
    await generator.aclose()
    assert len(server.requests) == 2
