"""JSON on the command line: what is wrong with it is said, and where."""

import json
import os

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.errors import InputError
from alhena.frontends.shared.streams import parse_json
from tests.support.command import alhena
from tests.support.each import for_each


@for_each(
    ("text", "said"),
    [
        ('{"a": "\udcff"}', "position 7: surrogates not allowed"),
        ("", "truncated"),
        ('{"a": 1', "truncated"),
        ("{'a': 1}", "object keys must be strings (byte 1)"),
        ('{"a": NaN}', "byte"),
        ('{"a": 1e999}', "out of range"),
        ('{"a":' * 100_000, "nested too deeply"),
    ],
)
def test_what_is_wrong_with_a_json_text_is_said(text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_json(text)
    assert said in caught.value.message
    assert "\n" not in caught.value.message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON.filter(lambda value: "\\ud" not in json.dumps(value, ensure_ascii=False)))
def test_any_json_is_read_as_it_was_written(value: object) -> None:
    assert parse_json(json.dumps(value)) == value
    assert parse_json(json.dumps(value, ensure_ascii=False)) == value


@given(st.text(alphabet='{}[]",:\\ud8cdD01aNn-e.\n ', max_size=30))
def test_any_other_text_is_an_error_with_a_reason(text: str) -> None:
    try:
        expected = msgspec.json.decode(text)
    except msgspec.DecodeError:
        with pytest.raises(InputError) as caught:
            parse_json(text)
        assert caught.value.message
    else:
        assert parse_json(text) == expected


def test_a_call_with_a_byte_that_is_no_utf_8_is_told_so() -> None:
    args = os.fsdecode(b'{"path": "\xff"}')
    ran = alhena("tools", "call", "list_directory", args, "--json")
    assert ran.code == 2
    assert "the parameters are not JSON: 'utf-8' codec can't encode" in ran.err
    ran = alhena("policy", "explain", "--tool", "list_directory", "--args", args)
    assert ran.code == 2
    assert "surrogates not allowed" in ran.err
