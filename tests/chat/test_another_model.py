"""A conversation that another model takes over (conformance S2 to S5)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.chat.history import INTERRUPTED, History
from alhena.wire.conformance.check import check_request
from alhena.wire.content import (
    MODEL,
    SIGNATURE_SENTINEL,
    USER,
    Content,
    FunctionCall,
    FunctionResponse,
    Part,
    for_another_model,
    text_content,
)
from alhena.wire.errors import Severity
from alhena.wire.request import GenerateContentRequest

SIGNED = "c2ln"


def call(name: str, signature: str | None = None) -> Part:
    made = FunctionCall(id=f"id-{name}", name=name, args={})
    return Part(function_call=made, thought_signature=signature)


def test_signatures_go_and_everything_else_stays():
    content = Content(
        role=MODEL, parts=(Part(text="see", thought_signature=SIGNED), call("a", SIGNED), call("b"))
    )
    told = for_another_model(content, sign_calls=False)
    assert told == Content(role=MODEL, parts=(Part(text="see"), call("a"), call("b")))


def test_a_model_that_wants_signatures_gets_the_sentinel_on_the_first_call_alone():
    content = Content(role=MODEL, parts=(Part(text="see"), call("a", SIGNED), call("b", SIGNED)))
    told = for_another_model(content, sign_calls=True)
    assert told.parts == (Part(text="see"), call("a", SIGNATURE_SENTINEL), call("b"))


def test_what_held_only_a_signature_goes_but_no_content_is_left_empty():
    alone = Part(text="", thought_signature=SIGNED)
    told = for_another_model(Content(role=MODEL, parts=(alone, Part(text="x"))), sign_calls=True)
    assert told.parts == (Part(text="x"),)
    told = for_another_model(Content(role=MODEL, parts=(alone,)), sign_calls=True)
    assert told == text_content(MODEL, INTERRUPTED)


def test_contents_that_stay_the_same_keep_their_bytes():
    history = History((text_content(USER, "a"), text_content(MODEL, "b")))
    before = history.contents
    history.restate(lambda content: for_another_model(content, sign_calls=True))
    assert all(old is new for old, new in zip(before, history.contents, strict=True))


signatures = st.none() | st.just(SIGNED)
spoken = st.builds(
    lambda text, signature: Part(
        text=text or ("" if signature else "x"), thought_signature=signature
    ),
    st.text(max_size=3),
    signatures,
)


@st.composite
def histories(draw: st.DrawFn) -> tuple[Content, ...]:
    """Prompts, answers and steps of calls with their results; what comes last is the user's."""
    contents: list[Content] = [text_content(USER, "go")]
    for step in range(draw(st.integers(0, 5))):
        words = tuple(draw(st.lists(spoken, max_size=2)))
        calls = [call(f"f{step}{n}", draw(signatures)) for n in range(draw(st.integers(0, 3)))]
        if not calls:
            contents += [Content(role=MODEL, parts=words or (Part(text="."),))]
            contents += [text_content(USER, "more")]
            continue
        contents.append(Content(role=MODEL, parts=(*words, *calls)))
        results = tuple(
            Part(
                function_response=FunctionResponse(
                    id=made.function_call.id, name=made.function_call.name, response={"output": "x"}
                )
            )
            for made in calls
            if made.function_call is not None
        )
        contents.append(Content(role=USER, parts=results))
    return tuple(contents)


@pytest.mark.requirement("WIRE-18")
@given(histories(), st.booleans())
def test_any_history_can_be_handed_to_any_model(contents: tuple[Content, ...], signs: bool):
    history = History(contents)
    length = len(history)
    history.restate(lambda content: for_another_model(content, sign_calls=signs))
    assert len(history) == length
    request = GenerateContentRequest(model="m", contents=history.contents)
    found = check_request(request, needs_signatures=signs)
    assert not [item for item in found if item.level is Severity.ERROR]
    left = {part.thought_signature for entry in history.contents for part in entry.content.parts}
    assert left <= {None, SIGNATURE_SENTINEL if signs else None}
