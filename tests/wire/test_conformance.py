"""The rules of a conversation: what keeps them passes, what breaks one is caught by its name."""

import json
from importlib import import_module
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alhena.wire.conformance import RULES
from alhena.wire.conformance.check import check_request, require_conformance
from alhena.wire.conformance.json_body import check_json
from alhena.wire.content import (
    DATA_FIELDS,
    Content,
    FunctionCall,
    FunctionResponse,
    Part,
    text_content,
)
from alhena.wire.encode import encode_request
from alhena.wire.errors import ConformanceError, Severity
from alhena.wire.request import GenerateContentConfig
from tests.support.each import for_each
from tests.wire.conformance_cases import CASES, HI
from tests.wire.histories import (
    call,
    histories,
    model,
    request_of,
    response,
    user,
)
from tests.wire.test_conformance_schemas import SCHEMA_CASES
from tests.wire.test_conformance_settings import CONFIG_CASES


def broken(contents: list[Content], **options: Any) -> dict[str, str]:
    """The first path at which each rule is broken."""
    found: dict[str, str] = {}
    for item in check_request(request_of(contents), **options):
        found.setdefault(item.rule, item.path)
    return found


@given(histories())
def test_every_conversation_made_by_the_rules_passes(contents: list[Content]) -> None:
    request = request_of(contents)
    assert check_request(request, needs_signatures=True) == ()
    assert require_conformance(request) == ()
    body = json.loads(encode_request(request))
    assert check_json(body, needs_signatures=True) == ()
    assert check_json({"model": "m", "project": "p", "request": body}) == ()


@settings(max_examples=20)
@given(histories(min_steps=1), st.data())
def test_a_dropped_response_is_caught(contents: list[Content], data: st.DataObject) -> None:
    places = [
        (index, position)
        for index, content in enumerate(contents)
        for position, part in enumerate(content.parts)
        if part.function_response
    ]
    index, position = data.draw(st.sampled_from(places))
    parts = contents[index].parts
    contents[index] = user(*parts[:position], *parts[position + 1 :])
    found = broken(contents)
    assert "F1" in found
    assert "F10" in found


@settings(max_examples=20)
@given(histories(min_steps=1), st.data())
def test_a_doubled_response_is_caught(contents: list[Content], data: st.DataObject) -> None:
    indexes = [i for i, item in enumerate(contents) if item.parts[0].function_response]
    index = data.draw(st.sampled_from(indexes))
    parts = contents[index].parts
    contents[index] = user(parts[0], *parts)
    found = broken(contents)
    assert found["F1"] == f"contents[{index - 1}]"
    first = parts[0].function_response
    assert first is not None
    assert ("F5" in found) == bool(first.id)


@settings(max_examples=20)
@given(histories(min_steps=1), st.data())
def test_a_removed_content_is_caught(contents: list[Content], data: st.DataObject) -> None:
    steps = [
        i
        for i, item in enumerate(contents)
        if any(part.function_call or part.function_response for part in item.parts)
    ]
    del contents[data.draw(st.sampled_from(steps))]
    assert {"F1", "F2"} & broken(contents).keys()


@settings(max_examples=20)
@given(histories(min_steps=1), st.data())
def test_swapped_contents_are_caught(contents: list[Content], data: st.DataObject) -> None:
    indexes = [i for i, item in enumerate(contents) if item.parts[0].function_response]
    index = data.draw(st.sampled_from(indexes))
    contents[index - 1], contents[index] = contents[index], contents[index - 1]
    assert {"F1", "F2"} <= broken(contents).keys()


@settings(max_examples=20)
@given(histories(), st.data())
def test_an_emptied_content_is_caught(contents: list[Content], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(contents) - 1))
    contents[index] = msgspec.structs.replace(contents[index], parts=())
    assert broken(contents)["C2"] == f"contents[{index}]"


@settings(max_examples=20)
@given(
    histories(), st.data(), st.sampled_from(["system", "assistant", "tool", "function", "", None])
)
def test_a_foreign_role_is_caught(
    contents: list[Content], data: st.DataObject, role: str | None
) -> None:
    index = data.draw(st.integers(0, len(contents) - 1))
    contents[index] = msgspec.structs.replace(contents[index], role=role)
    assert broken(contents)["C1"] == f"contents[{index}]"


@settings(max_examples=20)
@given(histories(min_steps=1), st.data())
def test_a_changed_name_or_id_of_a_response_is_caught(
    contents: list[Content], data: st.DataObject
) -> None:
    indexes = [i for i, item in enumerate(contents) if item.parts[0].function_response]
    index = data.draw(st.sampled_from(indexes))
    parts = contents[index].parts
    old = parts[0].function_response
    assert old is not None
    field, rules = data.draw(st.sampled_from([("name", {"F4", "F6"}), ("id", {"F6"})]))
    changed = msgspec.structs.replace(old, **{field: "unknown"})
    contents[index] = user(Part(function_response=changed), *parts[1:])
    assert rules & broken(contents).keys()


@settings(max_examples=20)
@given(histories(min_steps=1), st.data())
def test_a_missing_signature_in_the_current_turn_is_caught_where_it_is_wanted(
    contents: list[Content], data: st.DataObject
) -> None:
    prompt = max(
        i
        for i, item in enumerate(contents)
        if item.role == "user" and not item.parts[0].function_response
    )
    steps = [i for i, item in enumerate(contents) if any(part.function_call for part in item.parts)]
    index = data.draw(st.sampled_from(steps))
    parts = tuple(
        msgspec.structs.replace(part, thought_signature=None) for part in contents[index].parts
    )
    contents[index] = model(*parts)
    assert ("S1" in broken(contents, needs_signatures=True)) == (index > prompt)
    assert "S1" not in broken(contents)


@for_each(("rule", "path", "contents"), CASES)
def test_a_broken_rule_is_named_with_its_path(
    rule: str, path: str, contents: list[Content]
) -> None:
    assert broken(contents).get(rule) == path
    body = json.loads(encode_request(request_of(contents)))
    assert next(item.path for item in check_json(body) if item.rule == rule) == path
    enveloped = (item.path for item in check_json({"request": body}) if item.rule == rule)
    assert next(enveloped) == f"request.{path}"


def test_the_data_fields_are_the_first_of_a_part() -> None:
    assert Part.__struct_fields__[: len(DATA_FIELDS)] == DATA_FIELDS


def test_values_that_are_no_objects_break_f8() -> None:
    args: Any = "{}"
    contents = [
        HI,
        model(Part(function_call=FunctionCall(name="read_file", args=args))),
        user(Part(function_response=FunctionResponse(name="read_file", response=args))),
    ]
    found = check_request(request_of(contents))
    assert [item.path for item in found if item.rule == "F8"] == [
        "contents[1].parts[0].functionCall.args",
        "contents[2].parts[0].functionResponse.response",
    ]


def test_tool_results_and_the_next_prompt_may_stand_side_by_side() -> None:
    assert broken([HI, model(call()), user(response()), HI]) == {}


def test_a_call_that_was_renamed_is_told_from_one_that_was_not_answered() -> None:
    contents = [HI, model(call("a"), call("b")), user(response("a"), response("c"))]
    found = check_request(request_of(contents, GenerateContentConfig()))
    assert [item.rule for item in found] == ["F4"]
    assert found[0].message == 'the response is named "c", its call "b".'


def test_a_model_that_takes_no_signatures_is_sent_none() -> None:
    signed = [HI, model(Part(text="a", thought_signature="QUJD")), HI]
    assert broken(signed, takes_signatures=False) == {"S6": "contents[1].parts[0].thoughtSignature"}
    assert broken(signed) == {}
    body = json.loads(encode_request(request_of(signed)))
    assert [item.rule for item in check_json(body, takes_signatures=False)] == ["S6"]


def test_the_modules_that_keep_the_rest_of_the_rules_are_there() -> None:
    for entry in RULES.values():
        if entry.kept_by:
            import_module(f"alhena.{entry.kept_by}")


def test_documented_stand_ins_for_signatures_pass() -> None:
    for stand_in in ("skip_thought_signature_validator", "context_engineering_is_the_way_to_go"):
        contents = [HI, model(call(thought_signature=stand_in)), user(response())]
        assert broken(contents, needs_signatures=True) == {}


def test_a_signature_from_the_service_stops_no_request_whatever_its_form() -> None:
    contents = [HI, model(call(thought_signature="sig-1")), user(response())]
    warned = require_conformance(request_of(contents), needs_signatures=True)
    assert [(item.rule, item.level) for item in warned] == [("S3", Severity.WARNING)]
    body = json.loads(encode_request(request_of(contents)))
    assert [(item.rule, item.level) for item in check_json(body)] == [("S3", Severity.ERROR)]


def test_a_call_of_an_undeclared_function_is_a_warning_once_and_stops_nothing() -> None:
    contents = [HI, *[model(call("gone")), user(response("gone"))] * 2]
    request = request_of(contents)
    assert [(item.rule, item.level) for item in require_conformance(request)] == [
        ("F4", Severity.WARNING)
    ]
    assert check_request(request_of(contents, GenerateContentConfig())) == ()


def test_an_error_stops_a_request_and_a_warning_does_not() -> None:
    warned = require_conformance(request_of([HI, HI]))
    assert [item.rule for item in warned] == ["C6"]
    with pytest.raises(ConformanceError) as caught:
        require_conformance(request_of([HI, HI, text_content("model")]))
    assert [item.rule for item in caught.value.violations] == ["C2", "C5"]
    assert "rule C2 at contents[2]" in caught.value.message


def test_every_rule_of_the_table_has_a_case_that_breaks_it() -> None:
    shown = {rule for rule, _, _ in [*CASES, *CONFIG_CASES]}
    shown |= {rule for rule, _, _ in SCHEMA_CASES} | {"C2", "C4", "F8", "S1", "S6", "T10", "T12"}
    shown |= {"T15"}
    elsewhere = {rule for rule, entry in RULES.items() if entry.kept_by}
    assert shown == RULES.keys() - elsewhere
    assert elsewhere == {"F11", "T11", "T14"}


def test_a_rule_is_reported_at_the_level_of_the_table() -> None:
    for rule, _, contents in CASES:
        body = json.loads(encode_request(request_of(contents)))
        levels = {item.level for item in check_json(body) if item.rule == rule}
        assert RULES[rule].level in levels or rule == "F4"
