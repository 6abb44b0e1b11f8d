"""Messages of servers as a strict reader takes them: functions of values."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_types import jsonrpc_message_adapter

from alhena.mcp.message_guard import LENIENT, LONG, NO_ANSWER, readable

ERROR = {"code": -32700, "message": NO_ANSWER}
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@settings(max_examples=50)
@given(st.integers(0, 10**9) | st.text(min_size=1), st.dictionaries(st.text(), values))
def test_a_message_in_order_stays_as_it_is(number: int | str, result: dict[str, Any]) -> None:
    for message in (
        {"jsonrpc": "2.0", "id": number, "result": result},
        {"jsonrpc": "2.0", "id": number, "error": {"code": 1, "message": "m", "data": result}},
        {"jsonrpc": "2.0", "id": number, "method": "roots/list"},
        {"jsonrpc": "2.0", "method": "notifications/x", "params": result},
    ):
        data = json.dumps(message).encode()
        assert readable(data) is data


@settings(max_examples=50)
@given(
    st.binary() | st.text().map(str.encode) | values.map(lambda value: json.dumps(value).encode())
)
def test_whatever_comes_nothing_is_raised_and_what_is_no_answer_is_left(data: bytes) -> None:
    for whole in (True, False):
        mended = readable(data, whole=whole)
        if mended == data:
            continue
        read = msgspec.json.decode(mended)
        if whole and "error" in read:
            jsonrpc_message_adapter.validate_json(mended, by_name=False)


@pytest.mark.parametrize(
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
        '"result": {"d":' + '{"d":' * 50_000 + "1" + "}" * 50_001,
    ],
)
def test_an_answer_that_is_none_is_an_error_for_whoever_waits(rest: str) -> None:
    data = f'{{"jsonrpc": "2.0", "id": 7, {rest}}}'.encode()
    assert msgspec.json.decode(readable(data)) == {"jsonrpc": "2.0", "id": 7, "error": ERROR}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (rb'{"n":NaN,"m":-Infinity}', {"n": None, "m": None}),
        (rb'{"t":"a\ud800b"}', {"t": "a\ufffdb"}),
        (rb'{"t":"\ud83d\ude00"}', {"t": "😀"}),
        (b'{"t":"a\xffb"}', {"t": "a\ufffdb"}),
    ],
)
def test_what_is_nearly_json_is_read(written: bytes, read: dict[str, Any]) -> None:
    data = b'{"jsonrpc":"2.0","id":7,"result":' + written + b"}"
    for whole in (True, False):
        mended = readable(data, whole=whole)
        assert json.loads(mended)["result"] == read
        jsonrpc_message_adapter.validate_json(mended, by_name=False)


@pytest.mark.parametrize("long", [0, LONG, LENIENT])
def test_a_number_beyond_all_is_nothing_however_long_the_rest(long: int) -> None:
    said = "x" * long + "é"
    data = f'{{"id":7,"result":{{"n":[1e400,-1e999,1e3],"t":"{said} 1e400"}}}}'.encode()
    value = json.loads(readable(data))
    if len(data) <= LENIENT:
        assert value["result"] == {"n": [None, None, 1000.0], "t": f"{said} 1e400"}
    else:
        assert value["error"] == ERROR


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc": "2.0", "id": 7, "result": {',
        b'{"id": 7}',
        b'"id": 7, "result": [',
        b"]}}",
        b"",
    ],
)
def test_a_line_of_several_is_left_as_it_is(line: bytes) -> None:
    assert readable(line, whole=False) == line


def test_an_id_that_stands_in_a_request_answers_nothing() -> None:
    for data in (b'{"id": 7, "method": "x", "params": {', b'{"id": 7, "no answer": [', b"id 7"):
        assert readable(data) == data
