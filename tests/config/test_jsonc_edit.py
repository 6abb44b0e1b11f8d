import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.config.jsonc import (
    JsonEditError,
    key_lines,
    strip_comments,
    with_value,
    without_value,
)

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
        ("[]", "contains something else than an object as the document"),
        ('{"hooksConfig": 1}', "contains something else than an object as hooksConfig"),
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


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=4),
    ).filter(lambda value: isinstance(value, dict))
)
def test_every_key_outside_of_lists_has_a_line(document: dict[str, Any]) -> None:
    def paths(value: Any, above: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
        if not isinstance(value, dict):
            return set()
        inner = [paths(each, (*above, name)) for name, each in value.items()]
        return {(*above, name) for name in value}.union(*inner)

    flat = key_lines(json.dumps(document))
    assert set(flat) == paths(document)
    assert set(flat.values()) <= {1}
    lines = key_lines(json.dumps(document, indent=1, ensure_ascii=False))
    assert set(lines) == paths(document)


SERVERS = """\
{
  // mine
  "mcpServers": {
    "a": {"command": "x"}, // the first
    // the second
    "b": {
      "command": "y" // why
    }, "c": 1, /* all */
  },
}
"""


@pytest.mark.parametrize(
    ("name", "was", "is_now"),
    [
        ("a", '"a": {"command": "x"}, // the first', " // the first"),
        ("b", '"b": {\n      "command": "y" // why\n    }, "c"', ' "c"'),
        ("c", '}, "c": 1, /*', "},   /*"),
        ("none", "", ""),
    ],
)
def test_a_member_goes_and_the_comments_of_the_others_stay(name: str, was: str, is_now: str):
    changed = without_value(SERVERS, ("mcpServers", name))
    squeezed = " ".join(SERVERS.replace(was, is_now).split())
    assert " ".join(changed.split()) == squeezed
    left = json.loads(strip_comments(changed))["mcpServers"]
    assert set(left) == {"a", "b", "c"} - {name}


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('{"a": 1}', "{}"),
        ('{"a": 1,}', "{}"),
        ('{"b": 2, "a": 1}', '{"b": 2 }'),
        ('{"a": 1, "a": 2, "b": 3}', '{ "b": 3}'),
        ('{\n  "b": 2,\n  "a": 1\n}\n', '{\n  "b": 2\n}\n'),
        ('{\n  "a": 1,\n  "b": 2\n}\n', '{\n  "b": 2\n}\n'),
        ('{\n  "b": 2,\n  "a": 1,\n}\n', '{\n  "b": 2,\n}\n'),
        ('{"x": ","}', '{"x": ","}'),
        ('{"a" /* , */ : 1 /* , */, "b": 2}', '{ /* , */ "b": 2}'),
    ],
)
def test_what_is_left_is_as_it_was(text: str, left: str):
    assert " ".join(without_value(text, ("a",)).split()) == " ".join(left.split())


@pytest.mark.parametrize("text", ["{", "[]", "7", "[" * 100_000, ""])
def test_nothing_is_taken_from_what_is_no_object(text: str):
    with pytest.raises(JsonEditError):
        without_value(text, ("a",))


@given(document=OBJECTS, path=st.lists(KEYS, min_size=1, max_size=3), pretty=st.booleans())
def test_taking_away_leaves_everything_else(document: Any, path: list[str], pretty: bool):
    text = json.dumps(document, indent=2 if pretty else None)
    expected = json.loads(text)
    inner: Any = expected
    for key in path[:-1]:
        inner = inner.get(key) if isinstance(inner, dict) else None
    if isinstance(inner, dict):
        inner.pop(path[-1], None)
    assert json.loads(without_value(text, tuple(path))) == expected


def test_each_value_has_the_line_it_stands_in_and_a_repeated_key_that_of_the_last():
    text = """{"a": 1, // "b": 1
  "b": {"c": [{"x": 1, "y": "x"}, [{"z": {"k": 1}}]], "d": 1},
  "a": {"q": "a: b", "r": 2},
  "\\u0062e": 3, "e": {"a": {}, "b": []},
  "f": "a" }"""
    assert key_lines(text) == {
        ("a",): 3,
        ("b",): 2,
        ("b", "c"): 2,
        ("b", "d"): 2,
        ("a", "q"): 3,
        ("a", "r"): 3,
        ("be",): 4,
        ("e",): 4,
        ("e", "a"): 4,
        ("e", "b"): 4,
        ("f",): 5,
    }
