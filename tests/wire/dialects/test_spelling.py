"""Gemini's bodies in the spellings that the API takes beside its own."""

from typing import Any

import pytest
from hypothesis import given

from alhena.wire.content import SIGNATURE_SENTINEL
from alhena.wire.dialects import anthropic, gemini
from alhena.wire.dialects.fields import DialectError
from alhena.wire.dialects.gemini import normalise_body
from tests.wire.dialects import conversations

CALL = {"name": "a_tool", "args": {"snake_key": {"inner_key": 1}}}
SCHEMA = {"type": "OBJECT", "properties": {"the_city": {"type": "ARRAY", "min_items": 1}}}


def test_names_in_snake_case_are_those_of_the_api():
    body = {
        "contents": [{"role": "user", "parts": [{"file_data": {"file_uri": "gs://a_b"}}]}],
        "system_instruction": {"parts": [{"text": "be_brief"}]},
        "generation_config": {"top_k": 3, "stop_sequences": ["a_b"]},
        "tools": [{"function_declarations": [{"name": "a_tool", "parameters": SCHEMA}]}],
    }
    request = gemini.read_request(body, "m")
    assert request.contents[0].parts[0].file_data.file_uri == "gs://a_b"
    assert request.config.system_instruction.parts[0].text == "be_brief"
    assert request.config.generation_config.top_k == 3
    assert request.config.generation_config.stop_sequences == ("a_b",)
    declared = request.config.tools[0].function_declarations[0]
    assert declared.name == "a_tool"
    assert declared.parameters["properties"] == {"the_city": {"type": "ARRAY", "minItems": 1}}


def test_what_belongs_to_somebody_else_stays_as_it_is():
    answer = {"name": "a_tool", "response": {"some_key": {"inner_key": 1}}}
    parts = [{"function_call": CALL}, {"function_response": answer}]
    plain = normalise_body({"contents": [{"parts": parts}], "labels": {"my_label": "x"}})
    assert plain["contents"][0]["parts"] == [{"functionCall": CALL}, {"functionResponse": answer}]
    assert plain["labels"] == {"my_label": "x"}


@pytest.mark.requirement("NATIVE-06")
@pytest.mark.parametrize(
    ("given_text", "kept"),
    [
        ("__79", "//79"),
        ("-_8", "+/8="),
        ("AAAA", "AAAA"),
        ("AAA", "AAA="),
        ("aGk", "aGk="),
        ("a+", "a+=="),
        ("aGkhI", "aGkhI"),
        ("not base64 !!", "not base64 !!"),
        (SIGNATURE_SENTINEL, SIGNATURE_SENTINEL),
    ],
)
def test_bytes_of_the_other_alphabet_are_those_of_the_standard_one(given_text: str, kept: str):
    assert normalise_body({"thought_signature": given_text}) == {"thoughtSignature": kept}
    blob = {"inline_data": {"mime_type": "image/png", "data": given_text}}
    assert normalise_body(blob)["inlineData"]["data"] == kept


def test_a_field_that_is_said_in_both_spellings_is_refused_and_not_lost():
    body: dict[str, Any] = {"contents": [], "cached_content": "a", "cachedContent": "b"}
    with pytest.raises(DialectError, match="cached_content"):
        gemini.read_request(body, "m")


@given(conversations.anthropic_conversations())
def test_a_body_in_the_apis_own_spelling_stays_as_it_is(body: dict[str, Any]):
    plain = gemini.write_request(anthropic.read_request(body))
    assert normalise_body(plain) == plain
