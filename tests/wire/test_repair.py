"""Repairs: what breaks rules comes to keep them, what keeps them stays as it is."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from alhena.wire.conformance.check import check_request
from alhena.wire.conformance.content_repair import UNKNOWN_OUTCOME
from alhena.wire.conformance.repair import GO_ON, LEFT_OUT, REPAIRED, repair
from alhena.wire.content import Blob, Content, FunctionCall, FunctionResponse, Part, text_content
from alhena.wire.errors import Severity
from tests.support.each import for_each
from tests.wire.conformance_cases import CASES, HI
from tests.wire.histories import call, histories, model, request_of, response, user


def broken(contents: tuple[Content, ...], **options: bool) -> list[str]:
    found = check_request(request_of(list(contents)), **options)
    return [item.rule for item in found if item.level == Severity.ERROR]


def repair_contents(
    *contents: Content, **options: bool
) -> tuple[list[Content], list[tuple[str, str]]]:
    made = repair(contents, **options)
    return list(made.contents), [(item.rule, item.path) for item in made.repairs]


@given(histories(), st.booleans())
def test_a_conversation_that_keeps_the_rules_stays_the_same(
    contents: list[Content], open_end: bool
) -> None:
    made = repair(contents, needs_signatures=True, open_end=open_end)
    assert made.repairs == ()
    assert all(one is other for one, other in zip(made.contents, contents, strict=True))


PIECES = st.sampled_from(
    [
        HI,
        user(),
        user(Part(text="")),
        user(Part()),
        user(Part(text="a", thought_signature="QUJD")),
        user(response(id="1")),
        user(response("replace"), response(id="2"), Part(text="b")),
        user(Part(text="b"), response()),
        user(call(id="1")),
        user(call(id="1"), response(id="1")),
        model(),
        model(Part(text="a"), Part(text="", thought_signature="QUJD")),
        model(Part(text="hm", thought=True, thought_signature="QUJD"), call(id="1")),
        model(call(id="1"), call(id="1"), call("replace", id="1-2")),
        model(call(), call("replace", thought_signature="skip_thought_signature_validator")),
        model(Part(text="a", function_call=FunctionCall(name="read_file"))),
        model(Part(function_call=FunctionCall(name="read_file", will_continue=True))),
        model(response()),
        Content(role="assistant", parts=(Part(text="a"),)),
        Content(role=None, parts=(call(),)),
        Content(role="function", parts=(response(),)),
        user(response(), Part(inline_data=Blob(mime_type="application/zip", data="AAAA"))),
    ]
)
OPTIONS = {"needs_signatures": st.booleans(), "takes_signatures": st.booleans()}


@settings(max_examples=50)
@given(st.lists(PIECES, min_size=1, max_size=9), st.fixed_dictionaries(OPTIONS))
def test_whatever_is_repaired_keeps_the_rules_and_needs_no_second_repair(
    contents: list[Content], options: dict[str, bool]
) -> None:
    options["takes_signatures"] |= options["needs_signatures"]
    made = repair(contents, **options)
    if made.contents:
        assert broken(made.contents, **options) == []
    again = repair(made.contents, **options)
    assert again.repairs == ()
    assert again.contents == made.contents
    said = [part.text for content in contents for part in content.parts if not part.thought]
    kept = [part.text for content in made.contents for part in content.parts]
    assert sorted(filter(None, said)) == sorted(
        text for text in filter(None, kept) if text not in (LEFT_OUT, GO_ON) and text[0] != "["
    )


@settings(max_examples=40)
@given(st.lists(PIECES, min_size=1, max_size=9))
def test_with_an_open_end_a_prompt_or_the_responses_may_follow(contents: list[Content]) -> None:
    made = repair(contents, open_end=True).contents
    if not made:
        return
    last = made[-1]
    calls = [part.function_call for part in last.parts if part.function_call]
    if calls:
        answers = tuple(response(item.name, id=item.id) for item in calls)
        assert broken((*made, user(*answers))) == []
    else:
        assert broken((*made, HI)) == []


@for_each(
    ("rule", "contents"),
    [(rule, contents) for rule, _, contents in CASES if rule in REPAIRED and contents],
)
def test_each_rule_that_can_be_repaired_is(rule: str, contents: list[Content]) -> None:
    made = repair(contents)
    if any(_nameless(content) for content in contents):
        return  # what it called cannot be known
    after = check_request(request_of(list(made.contents)))
    assert rule not in [item.rule for item in after] or rule == "F4"
    assert [item.rule for item in after if item.level == Severity.ERROR] in ([], ["C1"])


def _nameless(content: Content) -> bool:
    return any(part.function_call and not part.function_call.name for part in content.parts)


def test_an_unanswered_call_is_answered_with_an_unknown_outcome() -> None:
    contents, repairs = repair_contents(HI, model(call(id="1"), call("replace", id="2")), HI)
    assert contents[2] == user(
        *(
            Part(
                function_response=FunctionResponse(
                    id=call_id, name=name, response={"error": UNKNOWN_OUTCOME}
                )
            )
            for name, call_id in (("read_file", "1"), ("replace", "2"))
        )
    )
    assert contents[3] == HI
    assert repairs == [("F10", "contents[1]")] * 2


def test_calls_at_an_open_end_are_left_to_be_answered() -> None:
    contents = [HI, model(call(id="1"))]
    assert repair_contents(*contents, open_end=True) == (contents, [])
    assert len(repair_contents(*contents)[0]) == 3


def test_spread_and_disordered_responses_are_joined_in_the_order_of_the_calls() -> None:
    contents, repairs = repair_contents(
        HI,
        model(call(id="1"), call("replace", id="2")),
        user(response("replace", id="2")),
        user(Part(text="beside"), response(id="1")),
    )
    assert contents[2:] == [
        user(response(id="1"), response("replace", id="2"), Part(text="beside"))
    ]
    assert {rule for rule, _ in repairs} == {"F3", "F7"}


def test_a_response_gets_the_name_and_id_of_the_call_it_fits() -> None:
    contents, repairs = repair_contents(HI, model(call(id="1")), user(response("other")))
    assert contents[2] == user(response(id="1"))
    assert repairs == [("F4", "contents[2]")]


def test_ids_that_stand_twice_are_told_apart_in_calls_and_responses() -> None:
    contents, repairs = repair_contents(
        HI,
        model(call(id="1"), call(id="1"), call(id="1-2")),
        user(response(id="1"), response(id="1"), response(id="1-2")),
    )
    assert contents[1:] == [
        model(call(id="1"), call(id="1-3"), call(id="1-2")),
        user(response(id="1"), response(id="1-3"), response(id="1-2")),
    ]
    assert ("F5", "contents[1]") in repairs


def test_responses_without_a_call_go_and_what_stands_beside_them_stays() -> None:
    contents, repairs = repair_contents(HI, user(response(), Part(text="b")), HI)
    assert contents == [user(*HI.parts, Part(text="b"), *HI.parts)]
    assert [rule for rule, _ in repairs] == ["F2", "C6", "C6"]


def test_signatures_go_from_what_becomes_the_users() -> None:
    signed = model(response(thought_signature="QUJD"), Part(text="", thought_signature="QUJD"))
    contents, repairs = repair_contents(HI, model(call()), signed, model(Part(text="a")), HI)
    assert contents == [HI, model(call()), user(response()), model(Part(text="a")), HI]
    assert {rule for rule, _ in repairs} == {"S2", "F2"}


def test_a_prompt_is_not_merged_into_responses() -> None:
    contents = [HI, model(call()), user(response()), HI]
    assert repair_contents(*contents) == (contents, [])


def test_a_thought_goes_and_takes_its_signature_with_it() -> None:
    thought = Part(text="hm", thought=True, thought_signature="QUJD")
    signed = call(thought_signature="REVG")
    for behind in (call(), signed):
        contents, _ = repair_contents(HI, model(thought, behind), user(response()))
        assert contents[1] == model(behind)


def test_a_part_with_several_fields_becomes_several_and_the_call_keeps_the_signature() -> None:
    part = replace(call(thought_signature="QUJD"), text="a")
    contents, _ = repair_contents(HI, model(part), user(response()))
    assert contents[1] == model(Part(text="a"), call(thought_signature="QUJD"))


def test_media_that_no_model_takes_become_a_sentence() -> None:
    blob = Blob(mime_type="application/zip", data="AAAA")
    contents, repairs = repair_contents(HI, model(call()), user(response(), Part(inline_data=blob)))
    assert contents[2].parts[1].text == (
        "[Data of type application/zip was left out: models take no media of this type.]"
    )
    assert repairs == [("F13", "contents[2]")]


def test_the_ends_are_the_users() -> None:
    answer = text_content("model", "a")
    contents, repairs = repair_contents(answer)
    assert contents == [text_content("user", LEFT_OUT), answer, text_content("user", GO_ON)]
    assert repairs == [("C5", "contents[0]")] * 2


def test_only_the_current_turn_is_signed() -> None:
    step: list[Any] = [model(call(), call("replace")), user(response(), response("replace"))]
    contents, repairs = repair_contents(
        HI, *step, text_content("model", "a"), HI, *step, needs_signatures=True
    )
    assert contents[1] == step[0]
    assert contents[5].parts == (
        call(thought_signature="skip_thought_signature_validator"),
        call("replace"),
    )
    assert repairs == [("S4", "contents[5]")]
