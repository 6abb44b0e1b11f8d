import math
import sys
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.tools.contract import ToolErrorType, ToolFailure
from alhena.tools.params import (
    BUILT_IN,
    changes,
    convert_spellings,
    normalise,
    plainly_valid,
    prepare,
    read_declaration,
    validate,
    with_aliases,
)
from tests.support.each import for_each

READ = {
    "type": "object",
    "properties": {
        "absolute_path": {"type": "string"},
        "offset": {"type": "integer", "minimum": 0},
        "limit": {"type": "integer", "minimum": 1},
    },
    "required": ["absolute_path"],
}


def test_parameters_are_shown_under_every_accepted_name():
    assert with_aliases("read_file", {"absolute_path": "a", "offset": 4, "limit": 2}, READ) == {
        "absolute_path": "a",
        "file_path": "a",
        "offset": 4,
        "limit": 2,
        "start_line": 5,
        "end_line": 6,
    }
    assert with_aliases("read_file", {"absolute_path": "a"}, READ) == {
        "absolute_path": "a",
        "file_path": "a",
    }
    assert with_aliases("nobodys", {"a": 1}) == {"a": 1}
    own = {"properties": {"dir_path": {}}}
    assert with_aliases("glob", {"dir_path": "a"}, own) == {"dir_path": "a"}
    assert changes("glob", {"dir_path": "a"}, {"dir_path": "b"}, own) == {"dir_path": "b"}


@for_each(
    ("given_back", "changed"),
    [
        ({}, {}),
        ({"file_path": "b"}, {"absolute_path": "b"}),
        ({"file_path": "a", "absolute_path": "a", "start_line": 5}, {}),
        ({"file_path": "b", "absolute_path": "a"}, {"absolute_path": "b"}),
        ({"file_path": "b", "absolute_path": "c"}, {"absolute_path": "c"}),
        ({"start_line": 6}, {"offset": 5, "limit": 1}),
        ({"end_line": 9}, {"offset": 4, "limit": 5}),
        ({"limit": 3}, {"limit": 3}),
        ({"limit": True}, {"limit": True}),
        ({"more": None}, {"more": None}),
        ({"start_line": 7}, {"start_line": 7, "end_line": 6}),
    ],
)
def test_only_what_is_different_is_a_change_and_it_has_the_declared_name(given_back, changed):
    told = with_aliases("read_file", {"absolute_path": "a", "offset": 4, "limit": 2}, READ)
    assert changes("read_file", told, given_back, READ) == changed


@pytest.mark.parametrize(
    ("tool", "given_name", "declared"),
    [
        ("read_file", "file_path", "absolute_path"),
        ("write_file", "absolute_path", "file_path"),
        ("replace", "absolute_path", "file_path"),
        ("list_directory", "dir_path", "path"),
        ("glob", "dir_path", "path"),
        ("search_file_content", "dir_path", "path"),
        ("search_file_content", "directory", "path"),
        ("search_file_content", "include_pattern", "include"),
        ("run_shell_command", "dir_path", "directory"),
    ],
)
def test_accepted_names_become_declared_ones_and_declared_ones_win(tool, given_name, declared):
    assert normalise(tool, {given_name: "a"}) == {declared: "a"}
    assert normalise(tool, {given_name: "a", declared: "b"}) == {declared: "b"}
    assert normalise(tool, {declared: "b", given_name: "a"}) == {declared: "b"}


def test_no_name_is_guessed():
    assert normalise("read_file", {"filepath": "a"}) == {"filepath": "a"}
    assert normalise("my_tool", {"file_path": "a"}) == {"file_path": "a"}


def test_the_given_parameters_are_left_as_they_were():
    params = {"file_path": "a", "start_line": 2, "offset": "3"}
    prepare("read_file", READ, params)
    assert params == {"file_path": "a", "start_line": 2, "offset": "3"}


@pytest.mark.parametrize(
    ("lines", "window"),
    [
        ({"start_line": 1, "end_line": 1}, {"offset": 0, "limit": 1}),
        ({"start_line": 5, "end_line": 9}, {"offset": 4, "limit": 5}),
        ({"start_line": 5}, {"offset": 4}),
        ({"end_line": 9}, {"limit": 9}),
        ({"start_line": 5.0, "end_line": 9.0}, {"offset": 4, "limit": 5}),
        ({"offset": 2, "start_line": 9}, {"offset": 2}),
        ({"offset": 2, "end_line": 9}, {"offset": 2, "limit": 7}),
        ({"start_line": 3, "end_line": 9, "limit": 1}, {"offset": 2, "limit": 1}),
    ],
)
def test_a_range_of_lines_becomes_offset_and_limit(lines, window):
    assert prepare("read_file", READ, {"absolute_path": "a", **lines}) == {
        "absolute_path": "a",
        **window,
    }


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ({"start_line": 5, "end_line": 4}, "start_line cannot be greater than end_line"),
        ({"start_line": 0}, "params/start_line must be >= 1, got integer 0"),
        ({"end_line": "x"}, 'params/end_line must be integer, got string "x"'),
        ({"start_line": True}, "params/start_line must be integer, got boolean true"),
        ({"start_line": 1.5}, "params/start_line must be integer, got number 1.5"),
        ({"offset": "x", "end_line": 3}, 'params/offset must be integer, got string "x"'),
    ],
)
def test_a_range_that_makes_no_sense_is_named_as_it_was_given(lines, message):
    failure = prepare("read_file", READ, {"absolute_path": "a", **lines})
    assert failure == ToolFailure(message, ToolErrorType.INVALID_TOOL_PARAMS)


@pytest.mark.requirement("TOOLS-05")
def test_a_missing_parameter_is_named_with_what_else_it_may_be_called():
    failure = prepare("read_file", READ, {"path": "a"})
    assert isinstance(failure, ToolFailure)
    assert failure.type is ToolErrorType.INVALID_TOOL_PARAMS
    assert failure.message == (
        "params must have required property 'absolute_path' (also accepted: 'file_path'), "
        "got 'path'"
    )
    assert validate({"type": "object", "required": ["x"]}, {}).message == (
        "params must have required property 'x', got nothing"
    )


@for_each(
    ("node", "value", "message"),
    [
        ({"type": "string"}, 1, "must be string, got integer 1"),
        ({"type": ["string", "null"]}, [1], "must be null or string, got array of 1 items"),
        ({"type": "integer", "minimum": 1}, 0, "must be >= 1, got integer 0"),
        ({"type": "integer", "maximum": 1}, 2, "must be <= 1, got integer 2"),
        ({"exclusiveMinimum": 1}, 1, "must be > 1, got integer 1"),
        ({"type": "array", "minItems": 1}, [], "must NOT have fewer than 1 items"),
        ({"type": "string", "minLength": 1}, "", "must NOT have fewer than 1 characters, got str"),
        ({"pattern": "^a"}, "b", "must match pattern '^a', got string \"b\""),
        ({"enum": ["a", 2]}, "b", 'must be equal to one of the allowed values: "a", 2, got str'),
        ({"const": 3}, 4, "must be equal to 3, got integer 4"),
        (
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
            {},
            "must be string or null, got object with 0 properties",
        ),
        ({"items": {"type": "string"}}, ["a", 1], "/1 must be string, got integer 1"),
        (
            {"type": "object", "properties": {"a": {}}, "additionalProperties": False},
            {"b": 1},
            "must NOT have additional properties: 'b'",
        ),
        (
            {"type": "object", "additionalProperties": False},
            {"b": 1},
            "must NOT have further members, got integer 1",
        ),
        ({"not": {}}, "x", "is not allowed"),
        ({"type": "string"}, "x" * 10 + "\ud800", None),
    ],
)
def test_what_is_wrong_is_said_with_path_expectation_and_value(node, value, message):
    failure = validate({"type": "object", "properties": {"x": node}}, {"x": value})
    if message is None:
        assert failure is None
    else:
        assert failure is not None
        assert failure.message.startswith("params/x")
        assert message in failure.message


def test_a_long_value_is_shown_by_its_beginning():
    failure = validate({"properties": {"x": {"type": "integer"}}}, {"x": "y" * 10**6})
    assert failure is not None
    assert len(failure.message) < 200


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nope"},
        {"$ref": "#/nowhere"},
        {"$ref": "http://127.0.0.1:9/remote.json"},
        {"properties": {"x": {"pattern": "("}}},
        {"properties": []},
    ],
)
def test_a_schema_that_is_itself_wrong_is_a_failure_of_the_call(schema):
    failure = validate(schema, {"x": "a"})
    assert failure is not None
    assert failure.message.startswith("the tool's parameter schema cannot be used: ")
    assert "\n" not in failure.message


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def cyclic() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


@for_each(
    "hostile",
    [
        deep(100_000),
        cyclic(),
        {1: 2},
        object(),
        {"x": {1, 2}},
        10**5000,
        -(10**5000),
        "x" * 10**7,
        ["y"] * 10**5,
        {str(n): n for n in range(10**5)},
        math.nan,
        math.inf,
    ],
)
@for_each("node", [{"type": "integer"}, {"type": "array"}, {}, None])
def test_hostile_arguments_never_crash(hostile, node):
    schema = {"type": "object", "properties": {"x": node} if node is not None else {}}
    result = prepare("read_file", schema, {"x": hostile})
    assert isinstance(result, dict | ToolFailure)
    if isinstance(result, ToolFailure):
        assert len(result.message) < 1000


def test_a_lone_surrogate_is_named_where_the_parameters_are_wrong_anyway():
    failure = validate({"properties": {"x": {"type": "integer"}}}, {"x": "\ud800"})
    assert failure is not None
    assert (
        failure.message == "params must be plain JSON: a string contains half of a surrogate pair"
    )


def test_what_no_json_can_carry_is_refused_even_where_the_schema_says_nothing():
    for value in (deep(100_000), cyclic(), object(), [10**5000]):
        failure = prepare("read_file", READ, {"absolute_path": "a", "extra": value})
        assert isinstance(failure, ToolFailure)


def test_other_spellings_of_booleans_and_integers_are_converted_where_the_schema_wants_them():
    schema = {
        "type": "object",
        "properties": {
            "flag": {"type": "boolean"},
            "maybe": {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
            "count": {"type": "integer"},
            "text": {"type": "string"},
            "both": {"type": ["boolean", "string"]},
            "number": {"type": "number"},
            "options": {"type": "object", "properties": {"deep": {"type": "boolean"}}},
            "list": {"type": "array", "items": {"type": "integer"}},
        },
    }
    params = {
        "flag": "true",
        "maybe": "false",
        "count": 3.0,
        "text": "true",
        "both": "true",
        "number": 3.0,
        "options": {"deep": "false", "other": "true"},
        "list": [1.0, 2],
        "unknown": "true",
    }
    result = prepare("some_tool", schema, params)
    assert result == {
        **params,
        "flag": True,
        "maybe": False,
        "count": 3,
        "options": {"deep": False, "other": "true"},
        "list": [1, 2],
    }
    assert type(result["count"]) is int
    assert type(result["number"]) is float


PLAN: dict[str, Any] = {
    "type": "object",
    "properties": {
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "flag": {"type": "boolean"},
        "names": {"type": "array", "items": {"type": "string"}},
        "rows": {
            "type": "array",
            "items": {"type": "object", "properties": {"n": {"type": "integer"}}},
        },
        "options": {"type": "object", "properties": {"deep": {"type": "boolean"}}},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "listed": {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]},
        "text": {"type": "string"},
        "either": {"type": ["string", "array"]},
        "anything": {},
    },
    "required": ["text"],
}


@for_each(
    ("given", "taken"),
    [
        ({"count": "1"}, {"count": 1}),
        ({"count": "-12"}, {"count": -12}),
        ({"count": "3.0"}, {"count": 3}),
        ({"ratio": "0.5"}, {"ratio": 0.5}),
        ({"ratio": "2"}, {"ratio": 2}),
        ({"flag": "True"}, {"flag": True}),
        ({"names": '["a", "b"]'}, {"names": ["a", "b"]}),
        ({"rows": '[{"n": "1"}]'}, {"rows": [{"n": 1}]}),
        ({"rows": [{"n": "1"}, {"n": None}]}, {"rows": [{"n": 1}, {}]}),
        ({"options": '{"deep": "true"}'}, {"options": {"deep": True}}),
        ({"options": {"deep": None}}, {"options": {}}),
        ({"maybe": "4"}, {"maybe": 4}),
        ({"maybe": None}, {"maybe": None}),
        ({"maybe": "null"}, {"maybe": None}),
        ({"listed": "[1, 2]"}, {"listed": [1, 2]}),
        ({"count": None, "names": None, "flag": "null"}, {}),
        ({"text": "1"}, {"text": "1"}),
        ({"either": "[1]"}, {"either": "[1]"}),
        ({"anything": None}, {"anything": None}),
        ({"anything": "1"}, {"anything": "1"}),
    ],
)
def test_arguments_are_taken_where_only_one_reading_is_possible(
    given: dict[str, Any], taken: dict[str, Any]
):
    assert prepare("some_tool", PLAN, {"text": "x", **given}) == {"text": "x", **taken}


@for_each(
    ("given", "message"),
    [
        ({"count": "1.5"}, 'must be integer, got string "1.5"'),
        ({"count": "one"}, 'must be integer, got string "one"'),
        ({"count": "true"}, 'must be integer, got string "true"'),
        ({"flag": "1"}, 'must be boolean, got string "1"'),
        ({"names": "a, b"}, 'must be array, got string "a, b"'),
        ({"names": "README.md"}, 'must be array, got string "README.md"'),
        ({"names": "['a']"}, "must be array"),
        ({"rows": "x"}, "must be array"),
        ({"options": "[1]"}, "must be object"),
        ({"text": None}, "must be string, got null"),
    ],
)
def test_arguments_with_several_readings_are_refused(given: dict[str, Any], message: str):
    failure = prepare("some_tool", PLAN, {"text": "x", **given})
    assert isinstance(failure, ToolFailure)
    assert message in failure.message


def test_null_under_one_name_does_not_hide_the_value_under_another():
    assert prepare(
        "read_file", READ, {"absolute_path": None, "file_path": "a", "offset": None}
    ) == {"absolute_path": "a"}


WRITE = read_declaration(BUILT_IN, "write_file").parameters


def test_an_object_as_content_of_a_json_file_is_its_text():
    for path in ("package.json", "a/B.JSON", "n.ipynb"):
        given = {"file_path": path, "content": {"name": "ü", "list": [1, {}]}}
        text = '{\n  "name": "ü",\n  "list": [\n    1,\n    {}\n  ]\n}\n'
        assert prepare("write_file", WRITE, given) == {"file_path": path, "content": text}
    given = {"absolute_path": "a.json", "content": [1]}
    assert prepare("write_file", WRITE, given) == {"file_path": "a.json", "content": "[\n  1\n]\n"}
    for refused in ({"file_path": "a.py", "content": {}}, {"file_path": "a.json", "content": 1}):
        assert isinstance(prepare("write_file", WRITE, refused), ToolFailure)


def test_extras_that_a_tool_takes_undeclared_are_checked_like_the_rest():
    schema = {"type": "object", "properties": {"file_path": {"type": "string"}}}
    good = prepare("replace", schema, {"file_path": "a", "allow_multiple": "true"})
    assert good == {"file_path": "a", "allow_multiple": True}
    bad = prepare("replace", schema, {"file_path": "a", "allow_multiple": "many"})
    assert isinstance(bad, ToolFailure)
    assert bad.message == 'params/allow_multiple must be boolean, got string "many"'


@pytest.mark.parametrize("value", [3.5, 1e300, math.inf, -math.inf, math.nan, "TRUE", "3.5", "3 4"])
def test_nothing_else_is_converted(value):
    assert convert_spellings({"type": "integer"}, value) is value or value == int(value)


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=6,
)
leaves = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "enum": ["a", ""]},
        {"type": "string", "minLength": 1, "maxLength": 2, "description": "d"},
        {"type": "string", "pattern": "^a"},
        {"type": "integer"},
        {"type": "integer", "minimum": 0, "maximum": 5},
        {"type": "number", "minimum": 0.5},
        {"type": "number", "exclusiveMinimum": 0},
        {"type": "boolean"},
        {"type": ["string", "null"]},
        {"type": "object"},
        {"type": "array"},
        {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        {"enum": [1, True, "a"]},
        {},
    ]
)
schemas = st.recursive(
    leaves,
    lambda inner: (
        st.builds(
            lambda items, least: {"type": "array", "items": items, "minItems": least},
            inner,
            st.integers(0, 2),
        )
        | st.builds(
            lambda properties, required, more: {
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": more,
            },
            st.dictionaries(st.sampled_from("abc"), inner),
            st.lists(st.sampled_from("abc"), unique=True),
            st.booleans(),
        )
    ),
    max_leaves=4,
)


@given(schemas, values)
def test_what_is_plainly_valid_is_valid(schema, value):
    if plainly_valid(schema, value):
        assert jsonschema_rs.validator_for(schema).is_valid(value)


def test_the_everyday_call_is_seen_to_be_right_without_the_validator():
    assert plainly_valid(READ, {"absolute_path": "a", "offset": 0, "limit": 5})
    assert plainly_valid(READ, {"absolute_path": "a", "unknown": "extra"})
    assert not plainly_valid(READ, {"absolute_path": "a", "unknown": []})
    assert not plainly_valid(READ, {"absolute_path": "a", "offset": True})


def test_the_recursion_limit_is_not_what_bounds_a_schema():
    schema: dict[str, Any] = {"type": "string"}
    value: Any = "x"
    for _ in range(sys.getrecursionlimit()):
        schema = {"type": "array", "items": schema}
        value = [value]
    assert isinstance(validate(schema, value), ToolFailure)
