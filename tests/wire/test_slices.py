"""Parts of a conversation that are conversations themselves."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alhena.wire.conformance.check import check_request
from alhena.wire.conformance.history import slice_history, split_point
from alhena.wire.content import Content, Part, text_content
from alhena.wire.encode import EncodedContent
from tests.wire.histories import call, histories, model, request_of, response, user

HI = user(Part(text="hi"))
LEAD = text_content("user", "[what came before was left out]")
STEP = [model(call(id="1")), user(response(id="1"))]


@settings(max_examples=40)
@given(
    histories(min_steps=1),
    st.integers(-12, 12),
    st.none() | st.integers(-12, 12),
    st.sampled_from([None, LEAD]),
)
def test_a_slice_of_a_sound_history_keeps_every_rule(
    contents: list[Content], start: int, stop: int | None, lead: Content | None
) -> None:
    taken = slice_history(contents, start, stop, lead=lead)
    if not taken:
        return
    if taken[-1].role == "model":
        taken = (*taken, HI)  # the prompt that is to be answered
    assert check_request(request_of(list(taken)), needs_signatures=True) == ()


@given(histories(), st.integers(0, 12), st.booleans())
def test_no_cut_comes_between_a_call_and_its_response(
    contents: list[Content], at: int, steps: bool
) -> None:
    index = split_point(contents, at, steps=steps)
    assert min(at, len(contents)) <= index <= len(contents)
    if 0 < index < len(contents):
        assert not any(part.function_call for part in contents[index - 1].parts)
        assert not any(part.function_response for part in contents[index].parts)


def test_without_a_lead_a_slice_starts_at_a_prompt() -> None:
    contents = [HI, *STEP, *STEP, text_content("model", "a"), HI, *STEP]
    assert slice_history(contents, 1) == tuple(contents[6:])
    assert slice_history(contents, -2) == ()
    assert slice_history(contents, 0, 2) == (HI,)


def test_a_lead_stands_before_a_slice_that_starts_at_a_step() -> None:
    contents = [HI, *STEP, *STEP]
    assert slice_history(contents, 2, lead=LEAD) == (LEAD, *STEP)
    assert slice_history(contents, 0, lead=LEAD) == tuple(contents)
    assert slice_history(contents, 4, lead=LEAD) == ()


@pytest.mark.parametrize("start", [0, 3])
def test_encoded_contents_keep_their_bytes(start: int) -> None:
    entries = [EncodedContent(content) for content in [HI, *STEP, HI, *STEP]]
    taken = slice_history(entries, start)
    assert all(any(entry is one for one in entries) for entry in taken)
    assert len(taken) == 6 - start
