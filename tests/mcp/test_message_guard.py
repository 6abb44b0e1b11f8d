"""Messages of servers as the SDK can read them: functions of values, and calls over HTTP."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_types import jsonrpc_message_adapter

from alhena.mcp.connection import MAX_ENTRIES
from alhena.mcp.message_guard import MAX_CONTAINERS, NO_ANSWER, TOO_MANY, readable, understood
from tests.mcp.bad_http import EVENTS, JSON, Asked, Bad, Speak, Write, answered, listening, whole
from tests.mcp.kit import called, odd, rigged, tool
from tests.support.each import for_each

ERROR = {"code": -32700, "message": NO_ANSWER}
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@settings(max_examples=20)
@given(st.integers(0, 10**9) | st.text(min_size=1), st.dictionaries(st.text(), values))
def test_a_valid_message_is_unchanged(number: int | str, result: dict[str, Any]) -> None:
    for message in (
        {"jsonrpc": "2.0", "id": number, "result": result},
        {"jsonrpc": "2.0", "id": number, "error": {"code": 1, "message": "m", "data": result}},
        {"jsonrpc": "2.0", "id": number, "method": "roots/list"},
        {"jsonrpc": "2.0", "method": "notifications/x", "params": result},
    ):
        data = json.dumps(message).encode()
        value, text = understood(data)
        assert text is data
        assert value == message


@settings(max_examples=20)
@given(
    st.binary() | st.text().map(str.encode) | values.map(lambda value: json.dumps(value).encode())
)
def test_no_bytes_raise_and_a_refusal_is_a_message(data: bytes) -> None:
    found = readable(data)
    if found != data and "error" in msgspec.json.decode(found):
        jsonrpc_message_adapter.validate_json(found, by_name=False)


@for_each(
    "rest",
    [
        '"result": []',
        '"result": "text"',
        '"result": null',
        '"error": "text"',
        '"error": {"code": "a", "message": "m"}',
        '"error": {"code": 1}',
        '"error": null',
        '"result": {"a": ',
        '"result": {"d":' + '{"d":' * 250 + "1" + "}" * 251,
        '"result": {"d":' + '{"d":' * 50_000 + "1" + "}" * 50_001,
    ],
)
def test_an_invalid_answer_is_an_error_for_its_caller(rest: str) -> None:
    data = f'{{"jsonrpc": "2.0", "id": 7, {rest}}}'.encode()
    assert understood(data)[0] == {"jsonrpc": "2.0", "id": 7, "error": ERROR}
    assert msgspec.json.decode(readable(data)) == {"jsonrpc": "2.0", "id": 7, "error": ERROR}


@for_each("beside", ["x", "x" * 200_000])
@for_each(
    ("written", "read"),
    [
        (rb'{"n":NaN,"m":-Infinity}', {"n": None, "m": None}),
        (rb'{"t":"a\ud800b"}', {"t": "a\ufffdb"}),
        (rb'{"t":"\ud83d\ude00 \ud83d"}', {"t": "😀 \ufffd"}),
        (rb'{"t":"\\ud800 NaN \ud800"}', {"t": r"\ud800 NaN " + "\ufffd"}),
        (b'{"t":"a\xffb"}', {"t": "a\ufffdb"}),
    ],
)
def test_what_is_nearly_json_is_repaired(written: bytes, read: Any, beside: str) -> None:
    data = b'{"jsonrpc":"2.0","id":7,"result":{"r":%b,"b":"%b"}}' % (written, beside.encode())
    value, text = understood(data)
    assert value == json.loads(text)
    assert json.loads(text)["result"] == {"r": read, "b": beside}
    jsonrpc_message_adapter.validate_json(text, by_name=False)


def test_a_message_of_too_many_values_is_refused() -> None:
    data = b'{"jsonrpc":"2.0","id":7,"result":{"x":[%b1]}}' % (b"[]," * MAX_CONTAINERS)
    assert msgspec.json.decode(readable(data))["error"]["message"] == TOO_MANY


def test_the_id_of_a_request_is_not_answered() -> None:
    for data in (b'{"id": 7, "method": "x", "params": {', b'{"id": 7, "no answer": [', b"id 7"):
        assert understood(data) == (None, data)


def as_body(data: bytes) -> Speak:
    return whole(data, JSON)


def as_event(data: bytes) -> Speak:
    return whole(b"id: 1\r\ndata: " + data + b"\r\n\r\n", EVENTS)


def as_lines(data: bytes) -> Speak:
    lines = data.replace(b", ", b",\n").split(b"\n")
    return whole(b"".join(b"data: " + line + b"\n" for line in lines) + b"\n", EVENTS)


@pytest.mark.parametrize("written", [as_body, as_event, as_lines])
@pytest.mark.parametrize("rows", [[[1, {"a": "b"}]] * 10_000, [], ["x" * 100_000]])
async def test_a_result_over_http_is_what_the_server_gave(
    project: Path, written: Callable[[bytes], Speak], rows: list[Any]
) -> None:
    async def speak(asked: Asked, write: Write) -> None:
        result = {"structuredContent": {"rows": rows, "mean": float("nan")}}
        answer = {"jsonrpc": "2.0", "id": asked.message["id"], "result": result}
        await written(json.dumps(answer).encode())(asked, write)

    async with (
        listening(Bad(tools_call=speak)) as bad,
        rigged({"bad": {"httpUrl": bad.url}}, project) as rig,
    ):
        result = await called(rig, "poke")
        assert result.error is None
        assert json.loads(str(result.llm_content)) == {"rows": rows, "mean": None}
        assert json.loads(str(result.display)) == {"rows": rows, "mean": None}


async def test_a_server_with_many_large_tools_has_them(project: Path) -> None:
    fields = {f"field_{each}": {"type": "string", "description": "x"} for each in range(20)}
    script = {"tools": [tool(f"tool_{each}", **fields) for each in range(MAX_ENTRIES)]}
    async with rigged({"odd": odd(project, script)}, project) as rig:
        assert len(rig.server().offer.tools) == MAX_ENTRIES
        assert rig.server().offer.problems == ()


async def test_a_long_handshake_over_http_is_read(project: Path) -> None:
    handshake: dict[str, Any] = {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "bad", "version": "1"},
        "instructions": "i" * 70_000,
    }
    async with (
        listening(Bad(initialize=answered(handshake))) as bad,
        rigged({"bad": {"httpUrl": bad.url}}, project) as rig,
    ):
        assert rig.server("bad").offer.instructions == handshake["instructions"]
        assert (await called(rig, "poke")).display == "poked"
