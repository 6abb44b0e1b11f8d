import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.config.jsonc import strip_comments
from alhena.config.jsonc_edit import JsonEditError, with_value

PATH = ("hooksConfig", "disabled")

WITH_COMMENTS = """\
{
  // the look
  "theme": "dark", /* or light */
  "hooksConfig": {
    "enabled": true, // yes
    "disabled": ["a"],
  },
  "url": "http://x//y",
}
"""


def test_everything_but_the_value_stays_as_it_was():
    changed = with_value(WITH_COMMENTS, PATH, ["a", "b"])
    assert changed == WITH_COMMENTS.replace('["a"]', '["a", "b"]')


def test_what_is_missing_is_made_at_the_beginning():
    changed = with_value('{\n  // first\n  "a": 1\n}\n', PATH, ["x"])
    assert changed == (
        '{\n  "hooksConfig": {\n    "disabled": [\n      "x"\n    ]\n  },\n  // first\n  "a": 1\n}\n'
    )
    inner = with_value('{"hooksConfig": {"enabled": false}}', PATH, [])
    assert json.loads(inner) == {"hooksConfig": {"disabled": [], "enabled": False}}


@pytest.mark.parametrize("text", ["", "  \n", "{}", "{\n}\n", "{ /* nothing */ }"])
def test_an_empty_document_gets_it_too(text: str):
    changed = with_value(text, PATH, ["x"])
    assert json.loads(strip_comments(changed)) == {"hooksConfig": {"disabled": ["x"]}}
    assert ("nothing" in text) == ("nothing" in changed)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "is no valid JSON"),
        ("[]", "holds something else than an object as the document"),
        ('{"hooksConfig": 1}', "holds something else than an object as hooksConfig"),
        (
            '{"hooksConfig": {"disabled": ["a" /* why */]}}',
            "has a comment in hooksConfig.disabled, which would be lost",
        ),
        ("[" * 100_000, "is no valid JSON"),
    ],
)
def test_what_cannot_be_changed_without_loss_is_left_alone(text: str, why: str):
    with pytest.raises(JsonEditError, match=why):
        with_value(text, PATH, [])


def test_of_a_key_that_stands_there_twice_the_one_that_counts_is_changed():
    changed = with_value('{"a": 1, "a": 2}', ("a",), 3)
    assert changed == '{"a": 1, "a": 3}'


def test_a_byte_order_mark_stays():
    changed = with_value('\ufeff{"a": 1}', ("a",), 2)
    assert changed == '\ufeff{"a": 2}'


KEYS = st.text(max_size=4)
OBJECTS = st.recursive(
    st.dictionaries(KEYS, st.none() | st.integers() | st.text(max_size=5), max_size=3),
    lambda inner: st.dictionaries(KEYS, inner | st.lists(st.integers()), max_size=3),
    max_leaves=6,
)


@given(
    OBJECTS,
    st.lists(KEYS, min_size=1, max_size=3),
    st.lists(st.text(max_size=4)),
    st.none() | st.integers(0, 4),
)
def test_any_object_holds_the_value_afterwards_and_otherwise_what_it_held(
    value: dict[str, object], path: list[str], new: list[str], indent: int | None
):
    expected = json.loads(json.dumps(value))
    place = expected
    for key in path[:-1]:
        if not isinstance(place.setdefault(key, {}), dict):
            return
        place = place[key]
    place[path[-1]] = new
    text = json.dumps(value, indent=indent)
    assert json.loads(with_value(text, tuple(path), new)) == expected
