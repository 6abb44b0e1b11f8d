import base64
import json
import os
from typing import Any

import msgspec
import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from alhena.tools.response import (
    cancelled_parts,
    content_length,
    error_parts,
    join_responses,
    response_parts,
)
from alhena.wire.content import (
    Blob,
    Content,
    FileData,
    FunctionCall,
    FunctionResponse,
    Part,
    request_info,
)
from tests.support.each import for_each
from tests.support.media import GIF, JPEG, JPEG_TEXT, PNG_TEXT, pdf, png

PNG = Part(inline_data=Blob(mime_type="image/png", data=PNG_TEXT))


def sent_parts(parts: tuple[Part, ...]) -> list[Any]:
    """The parts as the model gets them; google-genai must read them as its own."""
    raw = msgspec.json.encode(Content(role="user", parts=parts))
    content = types.Content.model_validate(json.loads(raw))
    assert len(content.parts) == len(parts)
    return json.loads(raw)["parts"]


def answer(**response: Any) -> dict[str, Any]:
    return {"functionResponse": {"id": "fc1", "name": "look", "response": response}}


def parts_of(content: Any) -> list[Any]:
    return sent_parts(response_parts("look", "fc1", content))


@pytest.mark.requirement("WIRE-10")
def test_a_call_of_the_model_becomes_a_request_with_its_own_id_name_and_arguments():
    call = FunctionCall(id="fc1", name="read_file", args={"absolute_path": "/a"})
    info = request_info(call, "fc1", "prompt-7")
    assert (info.call_id, info.name, info.args) == ("fc1", "read_file", {"absolute_path": "/a"})
    assert (info.is_client_initiated, info.prompt_id) == (False, "prompt-7")
    assert request_info(FunctionCall(name="ls"), "made", "p").args == {}


@pytest.mark.requirement("WIRE-11")
def test_text_is_the_output_and_there_is_no_metadata():
    assert parts_of("hello") == [answer(output="hello")]
    assert parts_of("") == [answer(output="")]
    assert parts_of(Part(text="hello")) == [answer(output="hello")]
    assert parts_of(("hello",)) == [answer(output="hello")]


@pytest.mark.requirement("WIRE-12")
def test_texts_are_one_output_and_only_media_stand_beside_it():
    media = {"inlineData": {"mimeType": "image/png", "data": PNG_TEXT}}
    done = answer(output="Tool execution succeeded.")
    assert parts_of(("caption", PNG, Part(text="end"))) == [answer(output="caption\nend"), media]
    assert parts_of(("one", Part(text="two"), "")) == [answer(output="one\ntwo")]
    assert parts_of((PNG, PNG)) == [done, media, media]
    assert parts_of((PNG, "")) == [done, media]
    assert parts_of(()) == [done]
    assert parts_of(("", Part(text=""))) == [done]
    remote = Part(file_data=FileData(file_uri="gs://b/a.pdf", mime_type="application/pdf"))
    assert parts_of((remote, "x"))[0] == answer(output="x")


@pytest.mark.requirement("WIRE-13")
def test_a_ready_response_passes_through_under_the_calls_own_id_and_name():
    ready = Part(function_response=FunctionResponse(id="x", name="y", response={"rows": [1, 2]}))
    assert parts_of(ready) == [answer(rows=[1, 2])]


@pytest.mark.requirement("WIRE-13")
def test_embedded_content_of_a_ready_response_becomes_text():
    blocks = [
        {"type": "text", "text": "first"},
        {"text": "second"},
        {"type": "image", "mimeType": "image/png", "data": PNG_TEXT},
        {"inlineData": {"mimeType": "audio/wav", "data": PNG_TEXT}},
        {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}},
        {"type": "resource_link", "uri": "file:///b", "mimeType": "text/plain"},
        "bare",
        None,
        {},
    ]
    ready = Part(function_response=FunctionResponse(response={"content": blocks}))
    (part,) = parts_of(ready)
    assert part["functionResponse"]["response"]["output"].split("\n") == [
        "first",
        "second",
        "[image of type image/png]",
        "[data of type audio/wav]",
        "inside",
        "[resource_link of type text/plain at file:///b]",
        "bare",
        "[data of type unknown]",
    ]


@pytest.mark.requirement("WIRE-14")
def test_a_single_picture_or_file_stands_beside_its_status_line():
    assert parts_of(PNG) == [
        answer(output="Binary content of type image/png was processed."),
        {"inlineData": {"mimeType": "image/png", "data": PNG_TEXT}},
    ]
    remote = Part(file_data=FileData(file_uri="gs://b/a.pdf", mime_type="application/pdf"))
    assert parts_of(remote) == [
        answer(output="Binary content of type application/pdf was processed."),
        {"fileData": {"fileUri": "gs://b/a.pdf", "mimeType": "application/pdf"}},
    ]


@pytest.mark.requirement("WIRE-14")
@for_each(
    ("mime", "data", "kept_as"),
    [
        ("image/png", png(), "image/png"),
        ("IMAGE/PNG; q=1", png(), "image/png"),
        ("image/jpg", JPEG, "image/jpeg"),
        ("audio/x-wav", b"RIFF\x04\0\0\0WAVE", "audio/wav"),
        ("text/markdown", b"# words", "text/markdown"),
        ("application/pdf", pdf(), "application/pdf"),
        ("image/gif", GIF, None),
        ("image/svg+xml", b"<svg/>", None),
        ("application/zip", b"PK\3\4", None),
        ("", b"\0", None),
    ],
)
def test_media_that_the_api_takes_are_sent_and_others_are_words(mime, data, kept_as):
    data = base64.b64encode(data).decode()
    alone = parts_of(Part(inline_data=Blob(mime_type=mime, data=data)))
    mixed = parts_of(("x", Part(inline_data=Blob(mime_type=mime, data=data))))
    if kept_as is None:
        assert len(alone) == 1
        assert "was left out" in alone[0]["functionResponse"]["response"]["output"]
        assert mixed[0]["functionResponse"]["response"]["output"].startswith("x\nBinary content")
        assert len(mixed) == 1
    else:
        assert alone[1]["inlineData"]["mimeType"] == kept_as
        assert mixed[1]["inlineData"]["mimeType"] == kept_as


def test_what_is_no_result_is_never_sent_as_one():
    """A second functionResponse or a functionCall in a result would break the pairing (F1)."""
    call = Part(function_call=FunctionCall(name="rm"))
    ready = Part(function_response=FunctionResponse(name="y", response={"output": "words"}))
    signed = Part(text="t", thought=True, thought_signature="c2ln")
    assert parts_of(call) == [answer(output="Tool execution succeeded.")]
    assert parts_of((call, ready, signed, Part(), "", Part(text=""))) == [
        answer(output="words\nt"),
    ]


def test_failures_and_cancellations_are_errors():
    assert sent_parts(error_parts("look", "fc1", "no such file")) == [answer(error="no such file")]
    assert sent_parts(cancelled_parts("look", "fc1", "User said so")) == [
        answer(error="[Operation Cancelled] Reason: User said so")
    ]
    assert sent_parts(cancelled_parts("look", "fc1", "Stop", PNG)) == [
        answer(
            output="Binary content of type image/png was processed.",
            error="[Operation Cancelled] Reason: Stop",
        ),
        {"inlineData": {"mimeType": "image/png", "data": PNG_TEXT}},
    ]


def test_lone_surrogates_never_reach_the_wire():
    name = os.fsdecode(b"caf\xe9")
    for content in (name, Part(text=name), (name, Part(text=name))):
        assert "\\udc" not in json.dumps(parts_of(content))
    assert sent_parts(error_parts("look", "fc1", name)) == [answer(error="caf\ufffd")]


@pytest.mark.parametrize("value", [object(), {"a": {1, object()}}, "\ud800"])
def test_a_ready_response_without_a_json_form_is_an_error(value):
    (part,) = parts_of(Part(function_response=FunctionResponse(response={"x": value})))
    (error,) = part["functionResponse"]["response"].values()
    assert error.startswith("The tool's response has no JSON form: ")


def test_a_cyclic_ready_response_is_an_error():
    knot: dict[str, Any] = {}
    knot["self"] = knot
    (part,) = parts_of(Part(function_response=FunctionResponse(response=knot)))
    assert set(part["functionResponse"]["response"]) == {"error"}


@pytest.mark.requirement("WIRE-15")
def test_responses_come_first_in_call_order_and_media_after_them_in_call_order():
    jpeg = Part(inline_data=Blob(mime_type="image/jpeg", data=JPEG_TEXT))
    joined = join_responses(
        [
            response_parts("look", "1", PNG),
            response_parts("read", "2", "text"),
            response_parts("look", "3", ("note", jpeg)),
            error_parts("gone", "4", "no"),
        ]
    )
    raw = sent_parts(joined)
    assert [part["functionResponse"]["id"] for part in raw[:4]] == ["1", "2", "3", "4"]
    assert raw[2]["functionResponse"]["response"] == {"output": "note"}
    assert raw[4:] == [
        {"text": "[media of the result of look, call 1]"},
        {"inlineData": {"mimeType": "image/png", "data": PNG_TEXT}},
        {"text": "[media of the result of look, call 3]"},
        {"inlineData": {"mimeType": "image/jpeg", "data": JPEG_TEXT}},
    ]


@pytest.mark.requirement("WIRE-12", "WIRE-15")
def test_media_of_an_only_call_and_other_texts_need_no_line_that_names_it():
    (first, second) = response_parts("look", "1", ("a", PNG))
    assert join_responses([(first, second)]) == (first, second)
    memory = Part(text="--- Newly Discovered Project Context ---")
    (other,) = response_parts("read", "2", "text")
    assert join_responses([(other, memory), (first, second)]) == (
        *(other, first, memory),
        *(Part(text="[media of the result of look, call 1]"), second),
    )


def test_the_length_counts_text_and_base64():
    assert content_length(response_parts("look", "1", "four")) == 4
    assert content_length(response_parts("look", "1", ("four", PNG))) == 4 + len(PNG_TEXT)


any_part = st.builds(
    Part,
    text=st.none() | st.text(max_size=3),
    inline_data=st.none() | st.builds(Blob, mime_type=st.text(max_size=9), data=st.just("QUJD")),
    function_response=st.none()
    | st.builds(FunctionResponse, response=st.dictionaries(st.text(max_size=3), st.floats())),
    function_call=st.none() | st.builds(FunctionCall, name=st.just("f")),
)


@given(st.text() | any_part | st.lists(st.text(max_size=3) | any_part, max_size=4).map(tuple))
def test_every_content_gives_one_response_first_and_only_sendable_parts(content):
    first, *rest = parts_of(content)
    assert first["functionResponse"]["id"] == "fc1"
    for part in rest:
        assert set(part) in ({"text"}, {"inlineData"}, {"fileData"})
        assert part != {"text": ""}
