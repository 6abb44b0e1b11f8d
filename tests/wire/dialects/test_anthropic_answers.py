"""Answers and streams of Anthropic's service, and of servers that speak nearly as it does."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alhena.wire.content import FunctionCall, Part
from alhena.wire.dialects import anthropic
from alhena.wire.dialects.conversation import ServiceNames, ToolNameMap
from alhena.wire.dialects.fields import DialectError
from alhena.wire.response import CUT_CALL, NO_REASON, GenerateContentResponse
from tests.wire.dialects.conversations import ids

START = {
    "type": "message_start",
    "message": {"id": "m", "model": "x", "usage": {"input_tokens": 5}},
}
NAMES = ServiceNames(["issues.list", "f", "g"])


def begin(index: int | None, **block: Any) -> dict[str, Any]:
    event = {"type": "content_block_start", "content_block": block}
    return event if index is None else {**event, "index": index}


def piece(index: int | None, text: str) -> dict[str, Any]:
    delta = {"type": "input_json_delta", "partial_json": text}
    event = {"type": "content_block_delta", "delta": delta}
    return event if index is None else {**event, "index": index}


def words(index: int, text: str) -> list[dict[str, Any]]:
    delta = {"type": "content_block_delta", "index": index}
    return [
        begin(index, type="text", text=""),
        {**delta, "delta": {"type": "text_delta", "text": text}},
        stop(index),
    ]


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def end(reason: str | None, **usage: Any) -> list[dict[str, Any]]:
    return [
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage},
        {"type": "message_stop"},
    ]


def use(index: int | None, name: str, call_id: str = "t", **more: Any) -> dict[str, Any]:
    return begin(index, type="tool_use", id=call_id, name=name, **({"input": {}} | more))


def read(*events: dict[str, Any], names: ToolNameMap = NAMES) -> list[GenerateContentResponse]:
    reader = anthropic.EventReader(names, ids())
    chunks = [chunk for event in (START, *events) for chunk in reader.feed(event)]
    return chunks + reader.finish()


def parts_of(chunks: list[GenerateContentResponse]) -> list[Any]:
    """The parts: texts as they are, calls as (id, name, args)."""
    told: list[Any] = []
    for part in (part for chunk in chunks for part in chunk.parts):
        call = part.function_call
        told.append(part.text if call is None else (call.id, call.name, call.args))
    return told


def calls_of(chunks: list[GenerateContentResponse]) -> list[tuple[str, Any]]:
    calls = [part.function_call for chunk in chunks for part in chunk.parts]
    return [(call.name, call.args) for call in calls if call is not None]


def end_of_answer(chunks: list[GenerateContentResponse]) -> tuple[str | None, str | None]:
    [candidate] = chunks[-1].candidates
    return candidate.finish_reason, candidate.finish_message


@pytest.mark.parametrize("first", ['{"a": "lo', None])
@pytest.mark.parametrize("closed", [True, False])
def test_a_call_that_the_limit_cut_off_is_left_out_and_named(
    first: str | None, closed: bool
) -> None:
    half = [piece(1, first)] if first else []
    stops = [stop(1)] if closed else []
    chunks = read(*words(0, "now"), use(1, "f"), *half, *stops, *end("max_tokens"))
    assert parts_of(chunks) == ["now"]
    assert end_of_answer(chunks) == ("MAX_TOKENS", f"{CUT_CALL}f")
    whole = anthropic.read_response(
        {
            "content": [
                {"type": "text", "text": "now"},
                {"type": "tool_use", "id": "t", "name": "f", "input": first or {}},
            ],
            "stop_reason": "max_tokens",
        },
        NAMES,
        ids(),
    )
    assert parts_of([whole]) == ["now"]
    assert end_of_answer([whole]) == ("MAX_TOKENS", f"{CUT_CALL}f")


def test_a_call_before_the_limit_is_carried_out() -> None:
    chunks = read(
        *(use(0, "f"), piece(0, '{"a":1}'), stop(0)),
        *(use(1, "g", "u"), piece(1, '{"b'), stop(1)),
        *end("max_tokens"),
    )
    assert parts_of(chunks) == [("t", "f", {"a": 1})]
    assert end_of_answer(chunks) == ("MAX_TOKENS", f"{CUT_CALL}g")
    only = read(use(0, "f"), stop(0), *words(1, "and"), *end("max_tokens"))
    assert parts_of(only) == [("t", "f", {}), "and"]
    assert end_of_answer(only) == ("MAX_TOKENS", None)


def test_a_call_that_cannot_be_read_is_malformed() -> None:
    chunks = read(use(0, "f"), piece(0, '{"a": "lo'), stop(0), *end("tool_use"))
    assert parts_of(chunks) == []
    assert end_of_answer(chunks)[0] == "MALFORMED_FUNCTION_CALL"
    nameless = {
        "content": [{"type": "tool_use", "id": "t", "input": {}}],
        "stop_reason": "tool_use",
    }
    assert (
        anthropic.read_response(nameless, NAMES, ids()).finish_reason == "MALFORMED_FUNCTION_CALL"
    )


def test_a_call_needs_no_end_of_its_block() -> None:
    chunks = read(use(0, "f"), piece(0, '{"a":1}'), use(1, "g", "u"), *end("tool_use"))
    assert parts_of(chunks) == [("t", "f", {"a": 1}), ("u", "g", {})]
    assert end_of_answer(chunks) == ("STOP", None)


def test_blocks_may_come_side_by_side_or_without_a_number() -> None:
    mixed = read(
        *(use(0, "f"), use(1, "g", "u"), piece(1, '{"b"'), piece(0, '{"a"')),
        *(piece(0, ":1}"), piece(1, ":2}"), stop(0), stop(1), *end("tool_use")),
    )
    assert parts_of(mixed) == [("t", "f", {"a": 1}), ("u", "g", {"b": 2})]
    bare = read(use(None, "f"), piece(None, '{"a":1}'), use(None, "g", "u"), *end("tool_use"))
    assert parts_of(bare) == [("t", "f", {"a": 1}), ("u", "g", {})]


def test_calls_come_back_under_our_names() -> None:
    theirs = NAMES.original("issues.list")
    assert "." not in theirs
    chunks = read(use(0, theirs), stop(0), *end("tool_use"))
    assert parts_of(chunks) == [("t", "issues.list", {})]


@pytest.mark.parametrize("given", [{"input": {"a": 1}}, {"input": ""}, {"input": '{"a":1}'}])
def test_arguments_may_stand_in_the_block_itself(given: dict[str, Any]) -> None:
    pieces = [piece(0, '{"a":1}')] if not given["input"] else [piece(0, "")]
    chunks = read(use(0, "f", **given), *pieces, stop(0), *end("tool_use"))
    assert parts_of(chunks) == [("t", "f", {"a": 1})]


def test_thinking_may_stand_whole_at_the_beginning_of_its_block() -> None:
    chunks = read(
        begin(0, type="thinking", thinking="hm", signature="abc"),
        *(stop(0), *words(1, "hi"), *end("end_turn")),
    )
    parts = [part for chunk in chunks for part in chunk.parts]
    assert [(part.text, part.thought) for part in parts[:2]] == [("hm", True), ("", True)]
    assert parts[1].thought_signature == "foreign:abc"
    assert parts[2] == Part(text="hi")


@pytest.mark.parametrize("odd", [{}, {"type": None}, {"type": "news"}, {"type": 3}])
def test_events_that_say_nothing_change_nothing(odd: dict[str, Any]) -> None:
    chunks = read(odd, *words(0, "hi"), odd, *end("end_turn", output_tokens=2))
    assert parts_of(chunks) == ["hi"]
    assert end_of_answer(chunks) == ("STOP", None)


@pytest.mark.parametrize("usage", [None, [], {"input_tokens": 1.5, "output_tokens": "x"}, "many"])
def test_an_answer_is_not_given_up_for_its_token_counts(usage: Any) -> None:
    delta = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}
    assert parts_of(read(*words(0, "hi"), delta)) == ["hi"]
    body = {"content": [{"type": "text", "text": "hi"}], "stop_reason": "end_turn", "usage": usage}
    assert parts_of([anthropic.read_response(body, NAMES, ids())]) == ["hi"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"content": None},
        {"content": "hi"},
        {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]},
        {"type": "completion", "content": []},
    ],
)
def test_what_is_no_message_is_no_answer(body: dict[str, Any]) -> None:
    with pytest.raises(DialectError):
        anthropic.read_response(body, NAMES, ids())


def test_an_answer_without_a_reason_for_its_end_has_one_if_it_holds_something() -> None:
    text = {"content": [{"type": "text", "text": "hi"}]}
    assert anthropic.read_response(text, NAMES, ids()).finish_reason == "STOP"
    assert anthropic.read_response({"content": []}, NAMES, ids()).finish_reason is None
    assert end_of_answer(read(*words(0, "hi"))) == ("STOP", NO_REASON)
    assert end_of_answer(read(*words(0, "hi"), use(1, "f"), piece(1, '{"a":1}'), stop(1))) == (
        None,
        None,
    )
    assert end_of_answer(read(use(0, "f"), stop(0))) == (None, None)
    assert end_of_answer(read()) == (None, None)
    empty = {"content": [], "stop_reason": "end_turn"}
    assert anthropic.read_response(empty, NAMES, ids()).finish_reason == "STOP"


def test_a_call_of_which_only_the_name_came_before_a_bare_end_is_left_out() -> None:
    assert calls_of(read(use(0, "f"), stop(0))) == [("f", {})]  # its block has an end
    for events in ([use(0, "f")], [*words(0, "hi"), use(1, "f")]):
        assert calls_of(read(*events)) == []
        assert end_of_answer(read(*events)) == (None, None)
    begun = [use(0, "f"), piece(0, '{"a":1}'), stop(0), use(1, "g")]
    assert calls_of(read(*begun)) == [("f", {"a": 1})]


def test_a_call_that_cannot_be_read_before_words_was_not_cut_off_by_the_output_limit() -> None:
    broken = [use(0, "f"), piece(0, '{"a": '), stop(0)]
    assert (
        end_of_answer(read(*broken, *words(1, "hi"), *end("max_tokens")))[0]
        == "MALFORMED_FUNCTION_CALL"
    )
    assert end_of_answer(read(*broken, *end("max_tokens")))[0] == "MAX_TOKENS"
    use_block = {"type": "tool_use", "id": "t", "name": "f", "input": '{"a": '}
    said = {"type": "text", "text": "hi"}
    for content, reason in (
        ([use_block, said], "MALFORMED_FUNCTION_CALL"),
        ([use_block], "MAX_TOKENS"),
    ):
        body = {"content": content, "stop_reason": "max_tokens"}
        assert anthropic.read_response(body, NAMES, ids()).finish_reason == reason


def test_a_number_too_long_to_be_read_is_a_call_that_cannot_be() -> None:
    long = '{"a": %s}' % ("1" * 5000)
    for text in (long, "{}" + long):
        answer = read(use(0, "f"), piece(0, text), stop(0), *end("tool_use"))
        assert end_of_answer(answer)[0] == "MALFORMED_FUNCTION_CALL"


cuts = st.lists(st.integers(0, 60), max_size=4)


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(3)), cuts, st.booleans())
def test_calls_side_by_side_are_whole_however_their_pieces_come(
    order: list[int], at: list[int], stops: bool
) -> None:
    args: list[dict[str, Any]] = [{}, {"a": "x" * 20}, {"b": [1, 2], "c": "é😀"}]
    texts = ["{}", '{"a": "' + "x" * 20 + '"}', '{"b": [1, 2], "c": "é😀"}']
    events = [use(index, "f", f"c{index}") for index in range(3)]
    marks = sorted({0, 60, *at})
    for low, high in pairwise(marks):
        events += [piece(index, texts[index][low:high]) for index in order]
    events += [stop(index) for index in order] if stops else []
    calls = [part.function_call for c in read(*events, *end("tool_use")) for part in c.parts]
    wanted = [FunctionCall(id=f"c{index}", name="f", args=args[index]) for index in range(3)]
    assert sorted(calls, key=str) == sorted(wanted, key=str)
