"""Calls and answers of servers that speak OpenAI's dialect each in a way of its own."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.wire.content import Part
from alhena.wire.dialects import openai
from alhena.wire.dialects.conversation import ToolNameMap
from alhena.wire.dialects.fields import DialectError, answered_arguments
from alhena.wire.response import NO_REASON, GenerateContentResponse
from tests.support.each import for_each
from tests.wire.dialects.conversations import ids

TOOLS = ("f", "g", "get")
Called = tuple[str, dict[str, Any]]


def piece(index: Any, call_id: Any, name: str | None, arguments: Any) -> dict[str, Any]:
    """An element of `tool_calls`; what is None is left out."""
    function = {k: v for k, v in {"name": name, "arguments": arguments}.items() if v is not None}
    holder = {"index": index, "id": call_id}
    return {**{k: v for k, v in holder.items() if v is not None}, "function": function}


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"id": "c", "choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def read(*chunks: dict[str, Any]) -> list[GenerateContentResponse]:
    reader = openai.EventReader(ToolNameMap(TOOLS), ids())
    return [one for chunk in chunks for one in reader.feed(chunk)] + reader.finish()


def parts_of(answer: list[GenerateContentResponse]) -> list[Part]:
    return [part for one in answer for part in one.parts]


def collect_calls(*chunks: list[dict[str, Any]]) -> list[Called]:
    """The calls of a stream that has these elements in its chunks, each with an id of its own."""
    answer = read(*(delta(tool_calls=one) for one in chunks), delta("tool_calls"))
    assert answer[-1].finish_reason == "STOP", answer[-1]
    found = [part.function_call for part in parts_of(answer) if part.function_call is not None]
    assert all(call.id for call in found)
    assert len({call.id for call in found}) == len(found)
    return [(call.name, call.args or {}) for call in found]


F, G = ("f", {"a": 1}), ("g", {"b": 2})
STREAMS: dict[str, tuple[list[list[dict[str, Any]]], list[Called]]] = {
    "one chunk, one index, no ids": (
        [[piece(0, "", "f", '{"a":1}'), piece(0, "", "g", '{"b":2}')]],
        [F, G],
    ),
    "one chunk, one index, the same tool twice": (
        [[piece(0, None, "f", '{"a":1}'), piece(0, None, "f", '{"b":2}')]],
        [F, ("f", {"b": 2})],
    ),
    "one chunk, one index, no arguments": (
        [[piece(0, None, "f", ""), piece(0, None, "f", "")]],
        [("f", {}), ("f", {})],
    ),
    "one index, no ids, whole arguments": (
        [[piece(0, None, "f", '{"a":1}')], [piece(0, None, "g", '{"b":2}')]],
        [F, G],
    ),
    "one index and one id for all": (
        [[piece(0, "call", "f", '{"a":1}')], [piece(0, "call", "g", '{"b":2}')]],
        [F, G],
    ),
    "one index and one id, in pieces": (
        [
            [piece(0, "call", "f", '{"a"')],
            [piece(0, None, None, ":1}")],
            [piece(0, "call", "g", '{"b"')],
            [piece(0, None, None, ":2}")],
        ],
        [F, G],
    ),
    "one index, a tool without arguments first": (
        [[piece(0, None, "get", "")], [piece(0, None, "g", '{"b":2}')]],
        [("get", {}), G],
    ),
    "no indexes and no ids": ([[piece(None, None, "f", {"a": 1})]] * 2, [F, F]),
    "no indexes, pieces by id": (
        [
            [piece(None, "1", "f", '{"a"'), piece(None, "2", "g", '{"b"')],
            [piece(None, "1", None, ":1}"), piece(None, "2", None, ":2}")],
        ],
        [F, G],
    ),
    "the name in each piece": ([[piece(0, "x", "f", '{"a"')], [piece(0, "x", "f", ":1}")]], [F]),
    "the name in each piece, no index": (
        [[piece(None, None, "f", '{"a"')], [piece(None, None, "f", ":1}")]],
        [F],
    ),
    "the name and a new id in each piece": (
        [[piece(0, "x", "f", '{"a"')], [piece(0, "y", "f", ":1}")]],
        [F],
    ),
    "a new id in each piece": ([[piece(0, "x", "f", "")], [piece(0, "y", "", '{"a":1}')]], [F]),
    "the name once more at the end": (
        [[piece(0, "x", "f", '{"a":1}')], [piece(0, "x", "f", "")]],
        [F],
    ),
    "the id before the name": (
        [[piece(0, "x", None, None)], [piece(0, None, "f", '{"a":1}')]],
        [F],
    ),
    "text for an index": ([[piece("0", "x", "f", '{"a":1}')]], [F]),
    "a number for an id": ([[piece(0, 7, "f", '{"a":1}')]], [F]),
    "null": ([[piece(0, "x", "f", "null")]], [("f", {})]),
    "in a string once more": ([[piece(0, "x", "f", json.dumps('{"a":1}'))]], [F]),
    "nothing before the real ones": (
        [[piece(0, "x", "f", "{}")], [piece(0, None, None, '{"a":1}')]],
        [F],
    ),
    "nothing before the real ones, under the name": (
        [[piece(0, "x", "f", "{}")], [piece(0, "x", "f", '{"a":1}')]],
        [F],
    ),
    "twice the same": ([[piece(0, "x", "f", '{"a":1}')]] * 2, [F]),
    "pieces in turns": (
        [
            [piece(0, "x", "f", '{"a"'), piece(1, "y", "g", '{"b"')],
            [piece(1, None, None, ":2}"), piece(0, None, None, ":1}")],
        ],
        [F, G],
    ),
}


@pytest.mark.requirement("NATIVE-01")
@for_each("form", STREAMS)
def test_no_call_is_lost_however_a_server_marks_its_pieces(form: str) -> None:
    chunks, expected = STREAMS[form]
    assert collect_calls(*chunks) == expected


arguments = st.dictionaries(
    st.text(max_size=3), st.one_of(st.integers(-9, 9), st.text(max_size=9)), max_size=2
)


@pytest.mark.requirement("NATIVE-01")
@given(
    st.lists(st.tuples(st.sampled_from(TOOLS), arguments), min_size=1, max_size=4),
    st.data(),
)
def test_calls_cut_at_any_place_are_whole_again(calls: list[Called], data: st.DataObject) -> None:
    has_ids, has_indexes = data.draw(st.booleans()), data.draw(st.booleans())
    chunks: list[list[dict[str, Any]]] = []
    for at, (name, args) in enumerate(calls):
        text = json.dumps(args)
        cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=3)))
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        for number, each in enumerate(pieces):
            first = number == 0
            call_id = f"call_{at}" if has_ids and first else None
            index = at if has_indexes else None
            chunks.append([piece(index, call_id, name if first else None, each)])
    assert collect_calls(*chunks) == calls


def test_calls_in_the_form_before_tool_calls_are_read() -> None:
    answer = read(
        delta(function_call={"name": "f", "arguments": ""}),
        delta(function_call={"arguments": '{"a"'}),
        delta("function_call", function_call={"arguments": ":1}"}),
    )
    (part,) = parts_of(answer)
    assert part.function_call is not None
    assert (part.function_call.name, part.function_call.args) == F
    message = {"function_call": {"name": "f", "arguments": '{"a":1}'}}
    body = {"choices": [{"message": message, "finish_reason": "function_call"}]}
    (part,) = openai.read_response(body, ToolNameMap(), ids()).parts
    assert part.function_call is not None
    assert (part.function_call.name, part.function_call.args) == F


def test_words_that_come_as_an_array_are_read_thoughts_apart() -> None:
    content = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}, {"type": "odd"}]},
        {"type": "text", "text": "hi"},
        {"type": "reference", "reference_ids": [1]},
    ]
    expected = [("hm", True), ("hi", None)]
    streamed = parts_of(read(delta("stop", content=content)))
    assert [(part.text, part.thought) for part in streamed] == expected
    body = {"choices": [{"message": {"content": content}, "finish_reason": "stop"}]}
    whole = openai.read_response(body, ToolNameMap(), ids()).parts
    assert [(part.text, part.thought) for part in whole] == expected


def test_the_signature_of_words_is_read_whole_and_streamed() -> None:
    said = {"content": "hi", "extra_content": {"google": {"thought_signature": "c2ln"}}}
    body = {"choices": [{"message": said, "finish_reason": "stop"}]}
    for parts in (
        parts_of(read(delta("stop", **said))),
        openai.read_response(body, ToolNameMap(), ids()).parts,
    ):
        assert [(part.text, part.thought_signature) for part in parts] == [
            ("hi", None),
            ("", "c2ln"),
        ]


@pytest.mark.parametrize(
    "odd",
    [
        {"usage": []},
        {"usage": {"prompt_tokens": 1.5, "completion_tokens": "2"}},
        {"usage": {"prompt_tokens": -1, "completion_tokens": 1e400, "total_tokens": None}},
        {"usage": {"prompt_tokens": {}, "completion_tokens_details": []}},
        {"usage": "none"},
        {"id": 123, "model": ["m"]},
    ],
)
def test_an_answer_is_not_given_up_for_a_field_of_no_importance(odd: dict[str, Any]) -> None:
    answer = read(delta(content="hi"), delta("stop") | odd)
    assert [part.text for part in parts_of(answer)] == ["hi"]
    assert answer[-1].finish_reason == "STOP"
    message = {"content": "hi", "reasoning": {"text": "x"}, "extra_content": 1}
    body = {"choices": [{"message": message, "finish_reason": "stop"}], **odd}
    whole = openai.read_response(body, ToolNameMap(), ids())
    assert [part.text for part in whole.parts] == ["hi"]
    if "prompt_tokens" in str(odd) and "1.5" in str(odd):
        for usage in (answer[-1].usage_metadata, whole.usage_metadata):
            assert usage is not None
            assert (usage.prompt_token_count, usage.total_token_count) == (1, 3)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"choices": []},
        {"choices": None},
        {"choices": [{}]},
        {"choices": [{"message": None, "finish_reason": "stop"}]},
        {"choices": [{"message": {"content": "x"}, "finish_reason": "error"}]},
        {"type": "message", "content": [{"type": "text", "text": "hi"}], "stop_reason": "end_turn"},
    ],
)
def test_a_body_that_is_no_answer_is_none(body: dict[str, Any]) -> None:
    with pytest.raises(DialectError):
        openai.read_response(body, ToolNameMap(), ids())


def test_words_without_a_finish_reason_are_whole_when_their_end_came_and_calls_may_not_be() -> None:
    last = read(delta(content="hi"))[-1].candidates[0]
    assert (last.finish_reason, last.finish_message) == ("STOP", NO_REASON)
    for said in ({}, {"content": "hi"}):
        last = read(delta(**said, tool_calls=[piece(0, "x", "f", "{}")]))[-1]
        assert [part.function_call.name for part in last.parts if part.function_call] == ["f"]
        assert last.finish_reason is None
    assert read()[-1].finish_reason is None
    assert read(delta(reasoning_content="hm"))[-1].finish_reason is None
    body: dict[str, Any] = {"choices": [{"message": {"content": "hi"}}]}
    assert openai.read_response(body, ToolNameMap(), ids()).finish_reason == "STOP"
    body = {"choices": [{"message": {"content": None}}]}
    assert openai.read_response(body, ToolNameMap(), ids()).finish_reason is None


@pytest.mark.parametrize("arguments", ["", None])
def test_a_call_of_which_only_the_name_came_before_a_bare_end_is_left_out(arguments: Any) -> None:
    whole, begun = piece(0, "x", "f", '{"a":1}'), piece(1, "y", "g", arguments)
    answer = read(delta(content="hi"), delta(tool_calls=[begun]))[-1]
    assert (answer.parts, answer.finish_reason) == ((), None)
    answer = read(delta(tool_calls=[whole]), delta(tool_calls=[begun]))[-1]
    assert [part.function_call.name for part in answer.parts if part.function_call] == ["f"]
    assert answer.finish_reason is None
    broken = piece(0, "x", "f", '{"a": ')
    answer = read(delta(tool_calls=[broken]), delta(tool_calls=[begun]))[-1]
    assert answer.finish_reason == "MALFORMED_FUNCTION_CALL"
    answer = read(delta(tool_calls=[begun]), delta("tool_calls"))[-1]
    assert [part.function_call.args for part in answer.parts if part.function_call] == [{}]


@pytest.mark.parametrize("arguments", ['{"a": "lo', "", None])
def test_a_call_that_the_output_limit_cut_off_is_left_out_and_named(arguments: str | None) -> None:
    whole, cut = piece(0, "x", "f", '{"a":1}'), piece(1, "y", "g", arguments)
    answer = read(delta(tool_calls=[whole]), delta(tool_calls=[cut]), delta("length"))
    body = {"choices": [{"message": {"tool_calls": [whole, cut]}, "finish_reason": "length"}]}
    for last in (answer[-1], openai.read_response(body, ToolNameMap(), ids())):
        assert [part.function_call.name for part in last.parts if part.function_call] == ["f"]
        assert last.finish_reason == "MAX_TOKENS"
        assert (last.candidates[0].finish_message or "").endswith("a call to g")


def test_calls_that_are_whole_at_the_output_limit_are_kept() -> None:
    answer = read(delta(tool_calls=[piece(0, "x", "f", '{"a":1}')]), delta("length"))
    assert len(answer[-1].parts) == 1
    assert answer[-1].finish_reason == "MAX_TOKENS"
    assert answer[-1].candidates[0].finish_message is None


@for_each(
    ("text", "args"),
    [
        (" ", {}),
        ("null", {}),
        ('"{\\"a\\": 1}"', {"a": 1}),
        ('{} {"a": 1}', {"a": 1}),
        ('{"a": 1}{"a": 1}', {"a": 1}),
        ('{"a": 1}{"a": 2}', None),
        ('{"a": 1}{}', None),
        ('{"a": NaN}', None),
        ("{}" * 9, None),
        ('{} {"a": 1} x', None),
        ('"words"', None),
        ("[1]", None),
        ("7", None),
        ('{"a": ', None),
        ("[" * 100_000, None),
        ("{}" + '{"a":' * 100_000, None),
    ],
)
def test_arguments_of_an_answer_are_an_object_however_they_are_wrapped(
    text: str, args: dict[str, Any] | None
) -> None:
    assert answered_arguments(text) == args


keys = st.sampled_from(
    ["index", "id", "function", "name", "arguments", "content", "tool_calls", "type", "text"]
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=6,
)
elements = st.fixed_dictionaries(
    {},
    optional={
        "index": st.sampled_from([0, 0, 1, "0"]) | anything,
        "id": st.sampled_from(["", "a", "b"]) | anything,
        "function": st.fixed_dictionaries(
            {},
            optional={
                "name": st.sampled_from([*TOOLS, "get_"]) | anything,
                "arguments": st.sampled_from(["", '{"a"', ":1}", "{}", '{"a":1}']) | anything,
            },
        ),
    },
)


@given(
    st.lists(
        st.lists(elements, max_size=3).map(lambda one: delta(tool_calls=one))
        | st.builds(lambda value: delta(content=value), anything)
        | st.builds(lambda value: delta() | {"usage": value, "id": value}, anything),
        max_size=4,
    )
)
def test_any_stream_is_read_or_refused_as_what_the_dialect_does_not_allow(chunks: Any) -> None:
    try:
        answer = read(*chunks)
    except DialectError:
        return
    calls = [part.function_call for part in parts_of(answer) if part.function_call is not None]
    assert len({call.id for call in calls}) == len(calls)
    assert all(call.id and call.name and isinstance(call.args, dict) for call in calls)
