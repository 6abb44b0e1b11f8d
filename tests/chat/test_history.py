import pytest

from alhena.chat.history import INTERRUPTED, History, curate
from alhena.wire.content import Content, FunctionCall, FunctionResponse, Part, text_content

USER = text_content("user", "hi")
ANSWER = text_content("model", "hello")
CALL = Content(role="model", parts=(Part(function_call=FunctionCall(id="1", name="f")),))
RESPONSE = Content(
    role="user",
    parts=(Part(function_response=FunctionResponse(id="1", name="f", response={"output": "x"})),),
)


def contents(history: History) -> list[Content]:
    return [entry.content for entry in history.contents]


@pytest.mark.requirement("CHAT-03")
def test_invalid_model_turns_of_a_given_history_are_dropped_with_their_run():
    empty = Content(role="model")
    hollow = Content(role="model", parts=(Part(text="a"), Part()))
    assert curate((USER, empty)) == (USER,)
    assert curate((USER, ANSWER, hollow, USER)) == (USER, USER)
    assert curate((USER, ANSWER, USER, ANSWER)) == (USER, ANSWER, USER, ANSWER)


@pytest.mark.requirement("CHAT-03")
def test_responses_go_with_the_dropped_calls_they_answer():
    hollow = Content(role="model", parts=(*CALL.parts, Part(text="")))
    assert curate((USER, hollow, RESPONSE, ANSWER)) == (USER, ANSWER)


@pytest.mark.requirement("CHAT-03", "CHAT-02")
def test_a_signed_empty_text_is_valid():
    signed = Content(role="model", parts=(Part(text="", thought_signature="AAAA"),))
    assert curate((USER, signed)) == (USER, signed)


@pytest.mark.requirement("WIRE-06")
@pytest.mark.requirement("CHAT-03")
def test_automatic_calls_that_repeat_what_is_known_are_stored_once():
    history = History([USER])
    extra_call = Content(role="model", parts=(Part(function_call=FunctionCall(id="9", name="s")),))
    extra_response = Content(
        role="user", parts=(Part(function_response=FunctionResponse(id="9", name="s")),)
    )
    turn = Content(role="model", parts=(Part(text="so"), *CALL.parts))
    history.add_automatic_calls((USER, extra_call, extra_response, CALL), turn)
    history.add_model(turn)
    assert contents(history) == [USER, extra_call, extra_response, turn]
    history.add_automatic_calls((USER, extra_call, extra_response), None)
    assert len(history) == 4


def test_a_prompt_behind_unanswered_results_is_kept_apart_from_them():
    history = History([USER, CALL])
    history.add_user(RESPONSE.parts)
    history.add_user((Part(text="next"),))
    assert contents(history) == [
        USER,
        CALL,
        RESPONSE,
        text_content("model", INTERRUPTED),
        text_content("user", "next"),
    ]


def test_what_is_appended_is_encoded_once():
    history = History()
    history.add_user((Part(text="hi"),))
    first = history.contents[0]
    history.add_model(ANSWER)
    assert history.contents[0] is first
    assert bytes(first.raw) == b'{"parts":[{"text":"hi"}],"role":"user"}'


def test_a_prompt_behind_unanswered_calls_gets_them_answered_first():
    history = History([USER, CALL])
    history.add_user((Part(text="next"),))
    answer = contents(history)[2].parts[0].function_response
    assert answer is not None
    assert (answer.id, answer.name) == ("1", "f")
    assert "unknown" in answer.response["error"]
    assert contents(history)[3] == text_content("model", INTERRUPTED)
    assert contents(history)[4].parts == (Part(text="next"),)


@pytest.mark.requirement("CHAT-03")
def test_a_given_history_that_breaks_rules_is_repaired_and_sound_contents_are_kept():
    other = Content(role="model", parts=(Part(function_call=FunctionCall(id="2", name="g")),))
    made = contents(History([ANSWER, USER, CALL, USER, ANSWER, RESPONSE, other]))
    assert [content.role for content in made] == [
        *("user", "model", "user", "model", "user", "user", "model")
    ]
    assert (made[1], made[2], made[3], made[5]) == (ANSWER, USER, CALL, USER)
    answer = made[4].parts[0].function_response
    assert answer is not None
    assert "unknown" in answer.response["error"]
    assert made[6].parts == (*ANSWER.parts, *other.parts)  # the stray response between them is gone
    assert contents(History(made)) == made
