import msgspec
import pytest

from alhena.chat.turn import AnswerCollector, InvalidResponseError, thought_event
from alhena.errors import StreamCutError
from alhena.events import ContentEvent, Event, ThoughtEvent, ToolCallRequestEvent
from alhena.wire.content import CallIds
from alhena.wire.response import GenerateContentResponse
from tests.support.server import call, chunk


def collect_chunks(*chunks: dict) -> tuple[AnswerCollector, list[Event]]:
    events: list[Event] = []
    turn = AnswerCollector("p#1", CallIds("token"), events.append)
    for item in chunks:
        turn.feed(msgspec.convert(item, GenerateContentResponse))
    turn.announce_calls()
    return turn, events


@pytest.mark.requirement("CHAT-01", "WIRE-10", "WIRE-08")
def test_chunks_become_thought_content_and_call_events_in_order():
    turn, events = collect_chunks(
        chunk({"text": "**Look** around first", "thought": True}),
        chunk(
            {"text": "I'll "}, {"text": "read"}, call("read_file", {"absolute_path": "a"}, id="7")
        ),
        chunk(finish="STOP", usage={"promptTokenCount": 3, "thoughtsTokenCount": 2}),
    )
    assert events == [
        ThoughtEvent(subject="Look", description="around first"),
        ContentEvent(text="I'll "),
        ContentEvent(text="read"),
        ToolCallRequestEvent(
            call_id="7", name="read_file", args={"absolute_path": "a"}, prompt_id="p#1"
        ),
    ]
    info = turn.calls[0]
    assert (info.call_id, info.name, info.args) == ("7", "read_file", {"absolute_path": "a"})
    assert (info.is_client_initiated, info.prompt_id) == (False, "p#1")
    assert (turn.text, turn.finish_reason) == ("I'll read", "STOP")
    assert (turn.usage.prompt_token_count, turn.usage.thoughts_token_count) == (3, 2)


@pytest.mark.requirement("WIRE-10")
def test_calls_without_an_id_get_one_and_no_two_of_a_turn_share_one():
    turn, _ = collect_chunks(
        chunk(call("a", {}), call("a", {})), chunk(call("b", {}, id="x"), call("b", {}, id="x"))
    )
    ids = [info.call_id for info in turn.calls]
    assert len(set(ids)) == 4
    assert ids[2] == "x"
    assert [part.function_call.id for part in turn.parts if part.function_call] == ids


def test_a_call_without_arguments_or_name_can_be_scheduled():
    turn, _ = collect_chunks(
        {"candidates": [{"content": {"parts": [{"functionCall": {"args": None}}]}}]}
    )
    assert (turn.calls[0].name, turn.calls[0].args) == ("generic_tool", {})


@pytest.mark.requirement("CHAT-01")
@pytest.mark.parametrize(
    ("chunks", "reason"),
    [
        ([chunk(finish="STOP")], "empty_response"),
        ([{"promptFeedback": {"blockReason": "OTHER"}}], "prompt_blocked"),
        ([chunk({"text": "x", "thought": True}, finish="STOP")], "empty_response"),
        ([chunk(finish="SAFETY")], "blocked"),
        ([chunk({"text": "half"}, finish="MALFORMED_FUNCTION_CALL")], "malformed_function_call"),
        ([{"promptFeedback": {"blockReason": "SAFETY"}}], "prompt_blocked"),
        ([chunk(finish="MAX_TOKENS")], "empty_response"),
        ([chunk(finish="SOMETHING_NEW")], "blocked"),
    ],
)
def test_an_unusable_answer_is_an_error_with_its_reason(chunks: list[dict], reason: str):
    turn, _ = collect_chunks(*chunks)
    with pytest.raises(InvalidResponseError) as caught:
        turn.check(answers_tools=False)
    assert caught.value.reason == reason


@pytest.mark.requirement("WIRE-18")
def test_an_answer_without_a_finish_reason_counts_as_cut_even_with_calls():
    turn, _ = collect_chunks(chunk({"text": "half of"}))
    with pytest.raises(StreamCutError):
        turn.check(answers_tools=False, reason_needed=False)
    turn, _ = collect_chunks(chunk(call("a", {})))
    with pytest.raises(StreamCutError):
        turn.check(answers_tools=False)
    turn.check(answers_tools=False, reason_needed=False)


def test_a_chunk_with_calls_that_is_sent_twice_is_taken_once():
    twice = chunk({"text": "now"}, call("a", {"x": 1}))
    turn, events = collect_chunks(twice, twice, chunk(call("a", {"x": 1})), chunk(finish="STOP"))
    assert [info.args for info in turn.calls] == [{"x": 1}, {"x": 1}]
    assert turn.text == "now"
    assert [type(event) for event in events].count(ContentEvent) == 1


def test_texts_that_repeat_are_no_chunk_sent_twice():
    turn, _ = collect_chunks(chunk({"text": "ha"}), chunk({"text": "ha"}), chunk(finish="STOP"))
    assert turn.text == "haha"


def test_a_call_that_comes_in_pieces_is_malformed_and_never_run():
    first = call("write_file", {}, id="1")
    first["functionCall"] |= {"willContinue": True}
    piece = {"functionCall": {"partialArgs": [{"jsonPath": "$.a", "stringValue": "x"}]}}
    for chunks in ([chunk(first)], [chunk(piece)], [chunk(first), chunk(piece)]):
        turn, _ = collect_chunks(*chunks, chunk(finish="STOP"))
        with pytest.raises(InvalidResponseError) as caught:
            turn.check(answers_tools=False)
        assert caught.value.reason == "malformed_function_call"


def test_text_cut_by_the_token_limit_and_silence_after_tools_are_answers():
    turn, _ = collect_chunks(chunk({"text": "long"}, finish="MAX_TOKENS"))
    turn.check(answers_tools=False)
    turn, _ = collect_chunks(chunk(finish="STOP"))
    turn.check(answers_tools=True)


@pytest.mark.parametrize(
    ("text", "subject", "description"),
    [
        ("**A b**\n\nrest", "A b", "rest"),
        ("before **S** after", "S", "before  after"),
        ("no subject", "", "no subject"),
        ("**open", "", "**open"),
    ],
)
def test_a_thought_has_a_subject_when_it_is_set_in_bold(text, subject, description):
    assert thought_event(text) == ThoughtEvent(subject=subject, description=description)


@pytest.mark.requirement("SCHED-08")
def test_calls_carry_the_trace_id_of_their_response():
    first = {**chunk(call("glob", {"pattern": "*"}, id="c1")), "responseId": "t-1"}
    turn, _ = collect_chunks(first, chunk(call("glob", {"pattern": "a"}, id="c2"), finish="STOP"))
    assert [each.trace_id for each in turn.calls] == ["t-1", "t-1"]
