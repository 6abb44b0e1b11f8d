import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.policy.model import stable_json

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(codec=None), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)


def test_keys_are_sorted_at_every_level_and_nothing_is_padded() -> None:
    args = {"b": [1, {"z": None, "a": "ä/"}], "a": True}
    assert stable_json(args) == '{"a":true,"b":[1,{"a":"ä/","z":null}]}'


@given(st.dictionaries(st.text(max_size=4), VALUES, max_size=4))
def test_the_text_reads_back_as_the_same_arguments_in_any_order(args: dict[str, Any]) -> None:
    text = stable_json(args)
    assert json.loads(text) == args
    assert stable_json(dict(reversed(args.items()))) == text


def test_a_lone_surrogate_is_escaped() -> None:
    text = stable_json({"command": "ls \ud800 é"})
    assert text == '{"command":"ls \\ud800 é"}'
    text.encode("utf-8")


def test_arguments_without_a_json_form_are_refused() -> None:
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    with pytest.raises(ValueError, match="no JSON form"):
        stable_json({"a": nested})
    with pytest.raises(ValueError, match="no JSON form"):
        stable_json({"a": object()})
