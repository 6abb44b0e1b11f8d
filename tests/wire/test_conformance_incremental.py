"""The check that goes on from where it ended says what a full check says."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alhena.wire.conformance.check import RequestChecker, RequestGate, check_request
from alhena.wire.conformance.history import SIGNATURE_STAND_INS
from alhena.wire.content import Content, FunctionCall, FunctionResponse, Part
from alhena.wire.encode import EncodedContent
from alhena.wire.errors import ConformanceError
from alhena.wire.request import GenerateContentConfig, GenerateContentRequest
from tests.wire.histories import CONFIG, call, histories, model, response, user

STAND_IN = SIGNATURE_STAND_INS[0]
HI = user(Part(text="hi"))
ANYTHING = st.sampled_from(
    [
        HI,
        user(),
        model(Part(text="a")),
        model(call(id="1")),
        model(call(), call("replace")),
        model(call("gone", thought_signature="QUJD")),
        user(response(id="1")),
        user(response(), response("replace")),
        user(response("gone"), Part(text="x")),
        user(response(), call()),
        model(Part(text="t", thought=True)),
        model(call(thought_signature="QUJD"), call("replace", thought_signature="QUJD")),
        model(call(thought_signature="QUJD"), call("replace", thought_signature=STAND_IN)),
        model(call("", thought_signature="QUJD")),
        model(
            Part(
                function_call=FunctionCall(name="read_file", will_continue=True),
                thought_signature="QUJD",
            )
        ),
        model(Part(text="", thought_signature="QUJD")),
        model(Part(thought_signature="QUJD", thought=True)),
        user(Part(text="x", thought_signature="QUJD")),
    ]
)
"""Signatures are base64: the check of a conversation does not look at their form (S3)."""

CONFIGS = [CONFIG, GenerateContentConfig()]


@settings(max_examples=40)
@given(st.data(), st.booleans(), st.booleans())
def test_it_finds_the_same_at_every_step(data: st.DataObject, needs: bool, takes: bool) -> None:
    checker = RequestChecker()
    entries: list[EncodedContent] = []
    for _ in range(data.draw(st.integers(1, 6))):
        kept = data.draw(st.integers(0, len(entries)) | st.just(len(entries)))
        del entries[kept:]
        more = data.draw(st.lists(ANYTHING, max_size=4) | histories())
        entries += [EncodedContent(content) for content in more]
        request = GenerateContentRequest(
            model="m", contents=tuple(entries), config=data.draw(st.sampled_from(CONFIGS))
        )
        found = checker.check(request, needs_signatures=needs, takes_signatures=takes)
        assert found == check_request(request, needs_signatures=needs, takes_signatures=takes)


class Counted(EncodedContent):
    """A content that counts how often it is looked at."""

    looked = 0

    def __getattribute__(self, name: str) -> object:
        if name == "content":
            Counted.looked += 1
        return super().__getattribute__(name)


def test_what_was_looked_at_is_not_looked_at_again() -> None:
    gate = RequestGate()
    entries = tuple(Counted(content) for content in [HI, model(Part(text="a"))] * 500)
    gate_of = [(*entries, Counted(HI)), (*entries, Counted(HI), Counted(model(call())))]
    first = GenerateContentRequest(model="m", contents=gate_of[0], config=CONFIG)
    gate.admit(first)
    assert Counted.looked >= 1001
    Counted.looked = 0
    again = GenerateContentRequest(model="m", contents=gate_of[0], config=CONFIG)
    gate.admit(again)
    assert Counted.looked == 0
    entries = (*gate_of[0], Counted(model(Part(text="a"))), Counted(HI))
    Counted.looked = 0
    gate.admit(GenerateContentRequest(model="m", contents=entries, config=CONFIG))
    assert Counted.looked == 2


def admit_contents(*contents: Content, **options: bool) -> tuple[list[Content], list[str]]:
    gate = RequestGate()
    entries = tuple(map(EncodedContent, contents))
    request = GenerateContentRequest(model="m", contents=entries, config=CONFIG)
    sent, repairs = gate.admit(request, **options)
    assert request.contents == entries
    return [entry.content for entry in sent.contents], [item.rule for item in repairs]


def test_a_request_that_keeps_the_rules_passes_as_it_is() -> None:
    request = GenerateContentRequest(model="m", contents=(EncodedContent(HI),), config=CONFIG)
    assert RequestGate().admit(request) == (request, ())
    assert RequestGate().admit(request)[0] is request


def test_what_can_be_repaired_is_repaired_before_it_is_sent() -> None:
    sent, rules = admit_contents(
        HI, model(call(id="1"), call("replace", id="2")), user(response(id="1"))
    )
    assert rules == ["F10"]
    answer = sent[2].parts[1].function_response
    assert answer is not None
    assert (answer.id, answer.name) == ("2", "replace")
    assert "unknown" in answer.response["error"]
    assert admit_contents(HI, HI)[1] == ["C6"]


def test_what_only_warns_and_has_no_repair_is_left_alone() -> None:
    contents = [HI, model(call("gone")), user(response("gone"))]
    assert admit_contents(*contents) == (contents, [])


def test_an_unsigned_call_gets_the_stand_in_where_signatures_are_wanted() -> None:
    contents = (HI, model(call()), user(response()))
    sent, rules = admit_contents(*contents, needs_signatures=True)
    assert rules == ["S4"]
    assert sent[1].parts[0].thought_signature == "skip_thought_signature_validator"
    assert admit_contents(*contents)[1] == []


def test_a_model_that_takes_no_signatures_gets_none() -> None:
    signed = model(call(thought_signature="QUJD"))
    sent, rules = admit_contents(HI, signed, user(response()), takes_signatures=False)
    assert rules == ["S6"]
    assert sent[1] == model(call())


def test_what_cannot_be_repaired_is_not_sent() -> None:
    with pytest.raises(ConformanceError):
        admit_contents()
    with pytest.raises(ConformanceError, match="F4"):
        admit_contents(HI, model(call("")), user(response("")))


@pytest.mark.parametrize("odd", [None, ["output"], "output", 7])
def test_a_response_of_another_shape_is_found_and_nothing_else_happens(odd: Any) -> None:
    shaped = Part(function_response=FunctionResponse(name="read_file", response=odd))
    entries = tuple(map(EncodedContent, (HI, model(call()), user(shaped))))
    found = RequestChecker().check(
        GenerateContentRequest(model="m", contents=entries, config=CONFIG)
    )
    assert [(item.rule, item.path) for item in found] == [
        ("F8", "contents[2].parts[0].functionResponse.response")
    ]
