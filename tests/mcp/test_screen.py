"""Results are kept aside, and a server is not owed more answers than it reads."""

import asyncio
from typing import Any

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from alhena.mcp.screen import (
    BURST,
    MAX_OWED,
    PROGRESS_BURST,
    PROGRESS_RATE,
    RATE,
    Pace,
    Screen,
    ScreenedReader,
    WatchedWriter,
)
from tests.support.patience import PATIENCE_S


def message(**fields: Any) -> SessionMessage:
    return SessionMessage(
        jsonrpc_message_adapter.validate_python({"jsonrpc": "2.0", **fields}, by_name=False)
    )


def screen() -> Screen:
    return Screen(lambda _error: None, lambda: None, lambda _rate: None)


def result_of(item: SessionMessage | Exception | None) -> dict[str, Any]:
    assert isinstance(item, SessionMessage)
    result: dict[str, Any] = getattr(item.message, "result", {})
    return result


@pytest.mark.parametrize("number", [7, "7"])
def test_a_result_is_found_again_by_the_mark_in_the_empty_one(number: int | str) -> None:
    some = screen()
    some.sent(message(id=7, method="tools/list").message)
    real = {"tools": [{"name": 5}], "nextCursor": "x"}
    empty = result_of(some.received(message(id=number, result=real)))
    assert empty["tools"] == []
    assert some.take(empty["_meta"]) == real
    assert some.take(empty["_meta"]) == {}
    assert some.take(None) == {}


def test_what_nobody_asked_for_or_waits_for_is_not_kept() -> None:
    some = screen()
    odd = {"content": "odd"}
    assert result_of(some.received(message(id=1, result=odd))) == odd
    some.sent(message(id=2, method="tools/call", params={}).message)
    cancelled = message(method="notifications/cancelled", params={"requestId": 2})
    some.sent(cancelled.message)
    assert result_of(some.received(message(id=2, result=odd))) == odd
    some.sent(message(id=3, method="initialize").message)
    assert result_of(some.received(message(id=3, result=odd))) == odd


async def test_nothing_more_is_read_while_too_many_answers_are_owed() -> None:
    some = screen()
    for number in range(MAX_OWED):
        await some.room()
        some.received(message(id=f"s{number}", method="ping"))
    waiting = asyncio.create_task(some.room())
    await asyncio.sleep(0)
    assert not waiting.done()
    some.sent(message(id="s0", result={}).message)
    await waiting
    some.received(message(id="again", method="ping"))
    waiting = asyncio.create_task(some.room())
    await asyncio.sleep(0)
    assert not waiting.done()
    some.received(message(method="notifications/cancelled", params={"requestId": "again"}))
    await waiting


def test_one_that_tells_without_end_is_read_at_a_bounded_rate() -> None:
    now, told = 0.0, 0

    def tell() -> None:
        nonlocal told
        told += 1

    pace = Pace(tell, lambda: now)
    for _ in range(BURST):
        pace.came()
        assert pace.wait_s() == 0
    assert told == 0
    for _ in range(3 * int(RATE)):  # it has the next one ready at once, ever again
        pace.came()
        now += pace.wait_s()
    assert now == pytest.approx(3)
    assert told == 1
    now += BURST / RATE  # a quiet time
    pace.came()
    assert pace.wait_s() == 0


UNASKED = {
    "a result": {"id": 99, "result": {}},
    "an error": {"id": 99, "error": {"code": 1, "message": "x"}},
    "an error to nobody": {"id": None, "error": {"code": 1, "message": "x"}},
    "a ping": {"id": "p", "method": "ping"},
    "a notification": {"method": "notifications/message", "params": {"level": "info", "data": 1}},
    "progress of nothing": {
        "method": "notifications/progress",
        "params": {"progressToken": 99, "progress": 1},
    },
}


@pytest.mark.parametrize("told", UNASKED)
async def test_whatever_nobody_asked_for_is_paced(told: str) -> None:
    rates: list[float] = []
    some = Screen(lambda _error: None, lambda: None, rates.append, lambda: 0.0)
    item = message(**UNASKED[told])
    for _ in range(BURST):
        assert some.received(item) is item
        some.sent(message(id="p", result={}).message)
    assert some.pause_s() == 0
    some.received(item)
    assert some.pause_s() == pytest.approx(1 / RATE)
    assert rates == [RATE]


def test_answers_to_our_requests_are_never_paced() -> None:
    some = Screen(lambda _error: None, lambda: None, lambda _rate: None, lambda: 0.0)
    for number in range(2 * BURST):
        some.sent(message(id=number, method="ping").message)
        some.received(message(id=number if number % 2 else str(number), result={}))
    assert some.pause_s() == 0
    # one that is answered twice has its second answer for nothing
    for number in range(BURST + 1):
        some.received(message(id=number, result={}))
    assert some.pause_s() > 0


@pytest.mark.parametrize("token", [7, "7"])
def test_progress_of_a_call_holds_up_nothing_and_is_dropped_beyond_a_rate(token: int | str) -> None:
    rates: list[float] = []
    some = Screen(lambda _error: None, lambda: None, rates.append, lambda: 0.0)
    some.sent(message(id=7, method="tools/call", params={}).message)
    params = {"progressToken": token, "progress": 1}
    progress = message(method="notifications/progress", params=params)
    found = [some.received(progress) for _ in range(PROGRESS_BURST)]
    assert found[:BURST] == [progress] * BURST
    assert not any(found[BURST + 1 :])
    assert some.pause_s() == 0
    some.received(progress)
    assert some.pause_s() == pytest.approx(1 / PROGRESS_RATE)
    assert rates == [PROGRESS_RATE]


async def test_a_reader_goes_on_behind_what_is_dropped() -> None:
    some = Screen(lambda _error: None, lambda: None, lambda _rate: None, lambda: 0.0)
    some.sent(message(id=7, method="tools/call", params={}).message)
    params = {"progressToken": 7, "progress": 1}
    progress = message(method="notifications/progress", params=params)
    to_session, from_child = anyio.create_memory_object_stream[SessionMessage | Exception](9_000)
    async with to_session, ScreenedReader(from_child, some) as reader:
        for _ in range(4 * BURST):
            to_session.send_nowait(progress)
        to_session.send_nowait(message(id=7, result={"content": []}))
        for _ in range(4 * BURST):
            to_session.send_nowait(progress)
        to_session.close()
        got = [await reader.receive() for _ in range(BURST + 1)]
        assert progress in got[:BURST]
        while got[-1] is progress:
            got.append(await reader.receive())
        assert "_meta" in result_of(got[-1])


async def test_who_gives_up_does_not_wait_for_one_that_reads_nothing() -> None:
    to_child, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    async with to_child, from_session, asyncio.timeout(PATIENCE_S):
        writer = WatchedWriter(to_child, screen())
        await writer.send(message(method="notifications/cancelled", params={"requestId": 1}))
        asking = asyncio.create_task(writer.send(message(id=1, method="ping")))
        got = await from_session.receive()
        await asking
    assert getattr(got.message, "method", "") == "ping"
