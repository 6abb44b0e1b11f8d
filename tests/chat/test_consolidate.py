import pytest
from hypothesis import given
from hypothesis import strategies as st

from alhena.chat.turn import model_content
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
@pytest.mark.parametrize("signature", [None, "BBBB"])
def test_a_thought_takes_its_signature_with_it_and_the_call_keeps_its_own(signature: str | None):
    thought = Part(text="t", thought=True, thought_signature="AAAA")
    call = Part(function_call=CALL, thought_signature=signature)
    assert model_content((thought, call), sign_calls=False) == Content(role="model", parts=(call,))
    content = model_content((thought, call), sign_calls=True)
    signed = Part(function_call=CALL, thought_signature=signature or SIGNATURE_SENTINEL)
    assert content == Content(role="model", parts=(signed,))


@pytest.mark.requirement("CHAT-02")
def test_texts_keep_their_own_signatures_and_get_none_of_a_thought():
    thought = Part(text="t", thought=True, thought_signature="AAAA")
    text = Part(text="b", thought_signature="BBBB")
    end = Part(text="", thought_signature="CCCC")
    content = model_content((thought, Part(text="a"), text, thought, end), sign_calls=False)
    assert content == Content(role="model", parts=(Part(text="a"), text, end))


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
def test_no_text_call_or_signature_of_one_is_ever_lost(parts: list[Part], sign: bool):
    content = model_content(parts, sign_calls=sign)
    kept = content.parts if content else ()
    assert "".join(p.text or "" for p in kept) == "".join(
        p.text or "" for p in parts if not p.thought
    )
    assert sum(p.function_call is not None for p in kept) == sum(
        p.function_call is not None for p in parts
    )
    signatures = [p.thought_signature for p in kept if p.thought_signature]
    given_signatures = [p.thought_signature for p in parts if p.thought_signature and not p.thought]
    assert [s for s in signatures if s != SIGNATURE_SENTINEL] == given_signatures
    assert not any(p.thought for p in kept)
    assert all(p.text != "" or p.thought_signature for p in kept)
