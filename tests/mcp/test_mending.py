"""Long texts that are nearly JSON, slice by slice."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alhena.mcp import message_guard as mending
from alhena.mcp.message_guard import LONG, LONGEST, readable, understood

PIECES = (
    *("\\ud83d", "\\ude00", "\\u00e4", "\\\\", '\\"', "\\n", "NaN", "-Infinity", "Infinity"),
    *("a", "ä", "😀", "u", "d83d", "1", "[", "]", ",", ":", "-", " ", "N", "\udcff"),
)
texts = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
words = st.sampled_from(["NaN", "-Infinity", "Infinity", "-1", "true", "null", '"NaN"'])


@settings(max_examples=300)
@given(st.tuples(texts, texts, texts), st.lists(words, min_size=1), st.integers(0, 30))
def test_a_long_text_says_what_a_short_one_would(
    strings: tuple[str, str, str], constants: list[str], size: int
) -> None:
    first, key, last = strings
    document = f'{{"a":"{first}","n":[{",".join(constants)}],"{key}":["{last}",Infinity]}}'
    filler = "x" * (mending.SLICE - size - 7)
    data = f'{{"f":"{filler}","d":{document}}}'.encode("utf-8", "surrogateescape")
    short = document.encode("utf-8", "surrogateescape")
    assert len(short) < LONG < len(data)
    assert understood(data, whole=False)[0] == {"f": filler, "d": understood(short)[0]}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (b"NaN", None),
        (rb'"a\ud800b"', "a\ufffdb"),
        (rb'"\ud83d\ude00"', "😀"),
        (b'"a\xffb"', "a\ufffdb"),
        (rb'"\\ud800 NaN"', r"\ud800 NaN"),
    ],
)
def test_a_long_answer_that_is_nearly_json_is_read(written: bytes, read: Any) -> None:
    for beside in (b"x" * LONG, rb"\\" * LONG):
        result = b'{"t":%b,"b":"%b"}' % (written, beside)
        data = b'{"jsonrpc":"2.0","id":7,"result":%b}' % result
        assert json.loads(readable(data))["result"]["t"] == read


def test_what_gets_too_long_by_it_is_no_answer() -> None:
    data = b'{"jsonrpc":"2.0","id":7,"result":{"t":"%b"}}' % (b"\xff" * (LONGEST // 2))
    assert "error" in msgspec.json.decode(readable(data))
