import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.chat.consolidate import model_content
from alhena.wire.content import SIGNATURE_SENTINEL, Blob, Content, FunctionCall, Part

CALL = FunctionCall(id="1", name="f")


@pytest.mark.requirement("CHAT-02")
def test_thoughts_are_left_out_and_neighbouring_texts_become_one():
    parts = (
        Part(text="**Plan** look", thought=True),
        Part(text="I will "),
        Part(text="read."),
        Part(function_call=CALL),
    )
    assert model_content(parts, sign_calls=False) == Content(
        role="model", parts=(Part(text="I will read."), Part(function_call=CALL))
    )


@pytest.mark.requirement("CHAT-02")
def test_a_signature_on_a_thought_moves_to_the_unsigned_call_behind_it():
    parts = (Part(text="t", thought=True, thought_signature="AAAA"), Part(function_call=CALL))
    content = model_content(parts, sign_calls=True)
    assert content == Content(
        role="model", parts=(Part(function_call=CALL, thought_signature="AAAA"),)
    )


@pytest.mark.requirement("CHAT-02")
def test_a_signature_without_a_call_survives_on_an_empty_text_part():
    signed = Part(text="b", thought_signature="BBBB")
    parts = (Part(text="t", thought=True, thought_signature="AAAA"), Part(text="a"), signed)
    content = model_content(parts, sign_calls=False)
    assert content == Content(
        role="model", parts=(Part(text="", thought_signature="AAAA"), Part(text="a"), signed)
    )


def test_signed_texts_are_never_merged():
    parts = (
        Part(text="a", thought_signature="AAAA"),
        Part(text="b"),
        Part(text="", thought_signature="BBBB"),
    )
    assert model_content(parts, sign_calls=False) == Content(role="model", parts=parts)


def test_only_the_first_unsigned_call_of_a_step_gets_the_sentinel():
    second = FunctionCall(id="2", name="g")
    content = model_content(
        (Part(text="x"), Part(function_call=CALL), Part(function_call=second)), sign_calls=True
    )
    assert content is not None
    assert [part.thought_signature for part in content.parts] == [None, SIGNATURE_SENTINEL, None]
    signed = Part(function_call=CALL, thought_signature="AAAA")
    content = model_content((signed, Part(function_call=second)), sign_calls=True)
    assert content == Content(role="model", parts=(signed, Part(function_call=second)))


def test_a_turn_of_nothing_but_thoughts_and_empty_parts_leaves_no_content():
    parts = (Part(text="t", thought=True), Part(text=""), Part())
    assert model_content(parts, sign_calls=True) is None


part = st.one_of(
    st.builds(
        Part,
        text=st.text(max_size=3),
        thought=st.sampled_from([None, True]),
        thought_signature=st.sampled_from([None, "AAAA", "BBBB"]),
    ),
    st.builds(
        Part,
        function_call=st.just(CALL),
        thought_signature=st.sampled_from([None, "CCCC"]),
    ),
    st.just(Part(inline_data=Blob(mime_type="image/png", data="AA=="))),
    st.just(Part()),
)


@given(st.lists(part, max_size=8), st.booleans())
def test_no_text_call_or_signature_is_ever_lost(parts: list[Part], sign: bool):
    content = model_content(parts, sign_calls=sign)
    kept = content.parts if content else ()
    assert "".join(p.text or "" for p in kept) == "".join(
        p.text or "" for p in parts if not p.thought
    )
    assert sum(p.function_call is not None for p in kept) == sum(
        p.function_call is not None for p in parts
    )
    signatures = [p.thought_signature for p in kept if p.thought_signature]
    given_signatures = [
        p.thought_signature
        for p in parts
        if p.thought_signature and p != Part(thought_signature="x")
    ]
    assert [s for s in signatures if s != SIGNATURE_SENTINEL] == given_signatures
    assert not any(p.thought for p in kept)
    assert all(p.text != "" or p.thought_signature for p in kept)
