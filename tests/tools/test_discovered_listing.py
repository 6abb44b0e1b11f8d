"""Output of discovery commands, and the tools made from it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.tools.discovered import (
    MAX_PROBLEMS,
    MAX_TOOLS,
    DiscoveredTools,
    arguments,
    read_listing,
)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "parameters", "function_declarations", "type", "items", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


def read(value: Any) -> DiscoveredTools:
    return read_listing(json.dumps(value).encode())


def names(listing: DiscoveredTools) -> list[str]:
    return [tool.name for tool in listing.tools]


@pytest.mark.requirement("TOOLS-07")
def test_declarations_stand_alone_or_in_lists_of_either_spelling():
    listing = read(
        [
            {"name": "a"},
            {"function_declarations": [{"name": "b"}, {"name": "c"}]},
            {"functionDeclarations": [{"name": "d"}]},
        ]
    )
    assert names(listing) == ["a", "b", "c", "d"]
    assert listing.problems == ()
    assert listing.tools[0].registered_name == "discovered_tool_a"
    assert listing.tools[0].parameters == {"type": "object", "properties": {}}


def test_the_gemini_form_becomes_json_schema_and_values_stay_as_they_are():
    listing = read(
        [
            {
                "name": "a",
                "parameters": {
                    "type": "OBJECT",
                    "properties": {
                        "type": {"type": "STRING", "nullable": True},
                        "list": {"type": "ARRAY", "items": {"type": "NUMBER"}},
                        "any": {"anyOf": [{"type": "INTEGER"}, {"type": "BOOLEAN"}]},
                        "value": {"default": {"type": "STRING"}, "enum": [{"type": "OBJECT"}]},
                    },
                },
            }
        ]
    )
    assert listing.tools[0].parameters == {
        "type": "object",
        "properties": {
            "type": {"type": ["string", "null"]},
            "list": {"type": "array", "items": {"type": "number"}},
            "any": {"anyOf": [{"type": "integer"}, {"type": "boolean"}]},
            "value": {"default": {"type": "STRING"}, "enum": [{"type": "OBJECT"}]},
        },
    }


def test_what_is_no_declaration_is_told_and_the_others_are_used():
    listing = read(
        [
            *(3, {}, {"name": ""}, {"name": "a b"}, {"name": "x" * 60}),
            {"name": "p", "parameters": []},
            {"name": "good"},
            {"name": "good", "description": "again"},
            {"functionDeclarations": [None, {"name": "fine"}]},
        ]
    )
    assert names(listing) == ["good", "fine"]
    assert [problem.split(":")[0] for problem in listing.problems] == [
        *(f"item {number}" for number in (1, 2, 3, 4, 5, 6, 8)),
        "item 9.1",
    ]
    assert "'a b' cannot be the name of a tool" in listing.problems[3]
    assert "declared twice" in listing.problems[6]


def test_more_than_can_be_used_is_cut_and_told():
    listing = read([{"name": f"t{number}"} for number in range(MAX_TOOLS + 5)])
    assert len(listing.tools) == MAX_TOOLS
    assert listing.problems == (
        f"item {MAX_TOOLS + 1} and what follows is left out, which is too much",
    )
    listing = read([{"name": "t"}, *[0] * 600])
    assert names(listing) == ["t"]
    assert len(listing.problems) == MAX_PROBLEMS + 1


@pytest.mark.parametrize("printed", [b"", b"{", b"3", b'"x"', b"null", b"\xff\xfe", b"[1] [2]"])
def test_what_is_no_json_array_is_an_error(printed: bytes):
    with pytest.raises(ValueError, match="JSON"):
        read_listing(printed)


def test_a_very_deep_answer_is_an_error_or_read_but_never_a_crash():
    deep = '{"name": "a", "parameters": ' + '{"items": ' * 5_000 + "{}" + "}" * 5_000 + "}"
    problem = ""
    try:
        found = names(read_listing(f"[{deep}]".encode()))
    except ValueError as error:
        found, problem = [], str(error)
    assert found == ["a"] or "JSON" in problem


@given(st.lists(JSON, max_size=4))
def test_any_json_array_is_read(items: list[Any]):
    for tool in read(items).tools:
        assert tool.name


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("a b", ("a", "b")),
        ("'my tool' --x=\"1 2\"", ("my tool", "--x=1 2")),
        ("a; b && c $(d) > e", ("a;", "b", "&&", "c", "$(d)", ">", "e")),
    ],
)
def test_words_are_quoted_as_for_a_shell_and_none_runs_them(command: str, words: tuple[str, ...]):
    assert arguments(command) == words


@pytest.mark.parametrize("command", ["", "  ", "'open", "a\0b"])
def test_a_command_without_words_is_refused(command: str):
    with pytest.raises(ValueError, match=r"empty|quotes|NUL"):
        arguments(command)
