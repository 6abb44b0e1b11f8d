"""Messages that are long, or all structure: what becomes of them on their way to the SDK."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from alhena.mcp.message_guard import LONG, MANY, MOST, NO_ANSWER
from alhena.mcp.screen import BURST, CROWDED_OUT, HEAVY, MANIFOLD, RATE, Intake, Screen
from tests.mcp.bad_http import EVENTS, JSON, Asked, Bad, Speak, Write, listening, whole
from tests.mcp.kit import called, odd, rigged, tool
from tests.mcp.test_screen import message

NESTED = [[1, 2, {"a": "b"}]] * MANY
TEXT = {"type": "text", "text": "hello, [world]"}


def answer(result: Any, number: Any = 7) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode()


async def result_of(data: bytes) -> Any:
    value: Any = await Intake().value(data)
    assert (value["jsonrpc"], value["id"]) == ("2.0", 7)
    return value.get("result", value.get("error"))


async def test_structured_content_stays_the_text_it_is() -> None:
    result = {"content": [TEXT], "structuredContent": {"rows": NESTED}, "more": NESTED}
    found = await result_of(answer(result))
    assert found["content"] == [TEXT]
    assert isinstance(found["structuredContent"], msgspec.Raw)
    assert msgspec.json.decode(found["structuredContent"]) == {"rows": NESTED}
    assert "more" not in found


async def test_lists_with_many_entries_are_read_a_few_at_a_time() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    blocks = [TEXT | {"number": each} for each in range(MANY)]
    found = await result_of(answer({"content": blocks, "isError": False, "nextCursor": "c"}))
    beside.cancel()
    assert found == {"content": blocks, "isError": False, "nextCursor": "c"}
    assert turns > 1


async def test_an_entry_is_mended_cut_or_left_out_by_itself() -> None:
    deep: Any = 1
    for _ in range(300):
        deep = [deep]
    entries = [TEXT, {"type": "text", "text": "a\ud800"}, {"d": deep}, {"rows": NESTED}, TEXT]
    found = (await result_of(answer({"tools": entries})))["tools"]
    assert found[0] == found[4] == TEXT
    assert found[1]["text"] == "a\ufffd"
    assert "1" not in json.dumps(found[2])
    assert found[3] is None


@pytest.mark.parametrize("result", [NESTED, {"content": [[]] * (MOST + 1)}, None])
async def test_what_is_no_answer_is_an_error_for_whoever_waits(result: Any) -> None:
    data = answer(result)[:-1] + b', "more": ' + json.dumps(NESTED).encode() + b"}"
    error = await result_of(data)
    assert error["code"] == -32700
    assert error["message"] in (NO_ANSWER, "its answer has a list of more than 300,000 values")
    broken = data.removesuffix(b"}").replace(b'"more"', b"more")
    assert (await result_of(broken))["message"] == NO_ANSWER


async def test_constants_that_json_does_not_have_cost_a_long_result_nothing() -> None:
    data = answer({"structuredContent": {"rows": NESTED, "mean": float("nan"), "text": "NaN"}})
    content = msgspec.json.decode((await result_of(data))["structuredContent"])
    assert content == {"rows": NESTED, "mean": None, "text": "NaN"}


async def test_of_an_error_code_and_message_are_kept() -> None:
    error = {"code": 5, "message": "cold", "data": NESTED}
    data = json.dumps({"jsonrpc": "2.0", "id": 7, "error": error}).encode()
    assert await result_of(data) == {"code": 5, "message": "cold"}


async def test_of_what_nobody_asked_for_hardly_anything_is_kept() -> None:
    asked = {"jsonrpc": "2.0", "id": "s1", "method": "ping"}
    data = json.dumps(asked | {"params": {"rows": NESTED}}).encode()
    assert await Intake().value(data) == asked
    told: dict[str, Any] = {"jsonrpc": "2.0", "method": "notifications/x", "params": NESTED}
    found: Any = await Intake().value(json.dumps(told).encode())
    assert found["method"] == "notifications/message"
    assert (
        found["params"]["data"] == "notifications/x with more than 10,000 values is not looked at"
    )
    for nothing in (b"[" * LONG, b"[" + b"{}," * MANY + b"1]", answer(NESTED, None)):
        with pytest.raises(ValueError, match=r"no JSON|answers nothing"):
            await Intake().value(nothing)


@pytest.mark.parametrize(
    ("params", "weight"),
    [
        ({"data": "x" * (10 * HEAVY)}, 10),
        ({"data": [1] * (20 * MANIFOLD)}, 20),
        ({"data": NESTED}, MANY // MANIFOLD),
    ],
)
async def test_what_is_heavy_counts_for_many(params: dict[str, Any], weight: int) -> None:
    intake = Intake()
    some = Screen(lambda _error: None, lambda: None, lambda _rate: None, lambda: 0.0, intake)
    params["level"] = "info"
    for fields in ({"method": "notifications/message", "params": params}, {"result": params}):
        waited = some.pause_s()
        for _ in range(2 + BURST // weight):
            number = {} if "method" in fields else {"id": 99}
            data = json.dumps({"jsonrpc": "2.0", **number, **fields}).encode()
            value: Any = await intake.value(data)
            some.received(message(**{key: value[key] for key in value if key != "jsonrpc"}))
        assert some.pause_s() > waited + weight / RATE


async def test_an_answer_to_a_request_of_ours_is_as_heavy_as_it_likes() -> None:
    intake = Intake()
    some = Screen(lambda _error: None, lambda: None, lambda _rate: None, lambda: 0.0, intake)
    for number in range(50):
        some.sent(message(id=number, method="tools/call").message)
        value: Any = await intake.value(answer({"content": [TEXT] * 3000}, number))
        some.received(message(id=number, result=value["result"]))
    assert some.pause_s() == 0


async def test_a_long_result_goes_around_a_reader_and_is_found_again() -> None:
    intake = Intake()
    for result in ({"content": [{"text": "x" * LONG}]}, {"content": [TEXT], "more": NESTED}):
        text = await intake.text(answer(result))
        assert len(text) < 1_000
        stands: Any = msgspec.json.decode(text)["result"]
        found = intake.real(stands)
        assert found is not None
        assert found["content"] == result["content"]
        assert intake.real(stands) is None
        assert intake.real(result) is result
    short = answer({"content": [TEXT]})
    assert await intake.text(short) == short
    for nothing in (b"no JSON", b"{" * LONG * 2):
        assert len(await intake.text(nothing)) < LONG


@pytest.mark.parametrize(
    ("pad", "size"), [("x", 1), ("é", 4), ("\ud83d", 4)], ids=["plain", "wide", "escaped"]
)
async def test_results_that_nobody_fetches_take_so_much_memory(pad: str, size: int) -> None:
    result = {"content": [TEXT | {"text": pad + "x" * LONG}]}
    data = json.dumps({"id": 7, "result": result}, ensure_ascii=pad > "\u1000").encode()
    intake = Intake(3 * size * len(data))
    marked: list[Any] = [msgspec.json.decode(await intake.text(data)) for _ in range(5)]
    found = [intake.real(each["result"]) for each in marked]
    assert [each is not None for each in found] == [False, False, True, True, True]
    last: Any = msgspec.json.decode(await intake.text(data))
    assert intake.real(last["result"]) == found[-1]


def awaiting(intake: Intake, method: str) -> Screen:
    """Where an answer to a request 7 of ours is waited for."""
    some = Screen(lambda _error: None, lambda: None, lambda _rate: None, lambda: 0.0, intake)
    some.sent(message(id=7, method=method).message)
    return some


async def received(some: Screen, intake: Intake, result: dict[str, Any]) -> Any:
    """What goes on of a long answer behind a reader."""
    value: Any = msgspec.json.decode(await intake.text(answer(result)))
    item: Any = some.received(message(id=7, result=value["result"]))
    return item.message


@pytest.mark.parametrize(
    ("method", "kind"),
    [("initialize", "complete"), ("server/discover", "complete"), ("tools/call", "incomplete")],
)
async def test_a_long_result_that_the_session_reads_itself_goes_on_whole(
    method: str, kind: str
) -> None:
    intake = Intake()
    result = {"instructions": "i" * LONG, "resultType": kind}
    went = await received(awaiting(intake, method), intake, result)
    assert went.result == result


async def test_of_a_long_result_that_nobody_waits_for_nothing_stays() -> None:
    intake = Intake()
    some = awaiting(intake, "tools/call")
    cancelled = message(method="notifications/cancelled", params={"requestId": 7}).message
    some.sent(cancelled)
    went = await received(some, intake, {"content": [TEXT | {"text": "x" * LONG}]})
    assert intake.real(went.result) is None
    some = awaiting(intake, "tools/call")
    went = await received(some, intake, {"content": [TEXT | {"text": "x" * LONG}]})
    some.sent(cancelled)
    assert some.take(went.result["_meta"]) == {}


async def test_a_result_that_made_room_for_others_is_an_error_for_whoever_waits() -> None:
    intake = Intake(LONG)
    some = awaiting(intake, "tools/call")
    first: Any = msgspec.json.decode(await intake.text(answer({"content": ["x" * LONG]})))
    await intake.text(answer({"content": ["y" * LONG]}))
    item: Any = some.received(message(id=7, result=first["result"]))
    assert item.message.id == 7
    assert item.message.error.message == CROWDED_OUT


def as_body(data: bytes) -> Speak:
    return whole(data, JSON)


def as_event(data: bytes) -> Speak:
    return whole(b"id: 1\r\ndata: " + data + b"\r\n\r\n", EVENTS)


def as_lines(data: bytes) -> Speak:
    lines = data.replace(b", ", b",\n").split(b"\n")
    return whole(b"".join(b"data: " + line + b"\n" for line in lines) + b"\n", EVENTS)


@pytest.mark.parametrize("written", [as_body, as_event, as_lines])
@pytest.mark.parametrize("rows", [NESTED, [], ["x" * LONG]], ids=["nested", "short", "long"])
async def test_a_result_over_http_is_what_the_server_gave(
    project: Path, written: Callable[[bytes], Speak], rows: list[Any]
) -> None:
    async def speak(asked: Asked, write: Write) -> None:
        result = {"structuredContent": {"rows": rows, "mean": float("nan")}}
        await written(answer(result, asked.message["id"]))(asked, write)

    async with (
        listening(Bad(tools_call=speak)) as bad,
        rigged({"bad": {"httpUrl": bad.url}}, project) as rig,
    ):
        result = await called(rig, "poke")
        assert result.error is None
        assert json.loads(str(result.llm_content)) == {"rows": rows, "mean": None}
        assert json.loads(str(result.display)) == {"rows": rows, "mean": None}


async def test_a_result_of_a_program_is_what_it_gave(project: Path) -> None:
    result = {"structuredContent": {"rows": NESTED}}
    script = {"tools": [tool("rows")], "does": {"rows": {"do": "result", "result": result}}}
    async with rigged({"odd": odd(project, script)}, project) as rig:
        found = await called(rig, "rows")
        assert json.loads(str(found.llm_content)) == {"rows": NESTED}


async def test_a_server_with_many_tools_has_them(project: Path) -> None:
    names = [f"tool_{number}" for number in range(1_200)]
    fields = {f"field_{each}": {"type": "string", "description": "x"} for each in range(5)}
    script = {"tools": [tool(name, **fields) for name in names]}
    async with rigged({"odd": odd(project, script)}, project) as rig:
        listed = [each.name for each in rig.server().offer.tools]
        assert listed == names
        assert rig.server().offer.tools[-1].schema["properties"] == fields
